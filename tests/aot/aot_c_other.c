/* A second source file with the same header: nothing is defined twice. */
#include "box.h"

int wait_elsewhere(box_bundle *bundle);

int wait_elsewhere(box_bundle *bundle) { return box_wait(bundle); }
