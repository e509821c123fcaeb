/*
 * The heat equation in a cube with cold walls, 100 explicit steps by a graph of the bundle "heat",
 * compared with what NumPy made of the same start.
 *
 * Usage: heat_c [x64 | vulkan | cuda], in the folder that export.py wrote
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "heat.h"

#ifndef HEAT_BUNDLE_DIR /* CMake knows it. */
#define HEAT_BUNDLE_DIR "heat"
#endif

enum { N = 34, COUNT = N * N * N, STEPS = 100 };

static const float RATIO = 0.15f; /* alpha * dt / h^2 */
static const double TOLERANCE = 1e-5;

static float start[COUNT], result[COUNT], expected[COUNT];

static int read_field(const char *path, float *field) {
  FILE *file = fopen(path, "rb");
  size_t count = file != NULL ? fread(field, sizeof *field, COUNT, file) : 0;
  if (file != NULL) {
    fclose(file);
  }
  if (count != COUNT) {
    fprintf(stderr, "%s is missing or too short; run export.py\n", path);
  }
  return count == COUNT;
}

/* Computes the result from the start. */
static int solve(heat_bundle *bundle) {
  const int64_t shape[] = {N, N, N};
  int step, status;
  heat_array *u = heat_array_new(bundle, TI_DATA_TYPE_F32, 3, shape);
  heat_array *v = heat_array_new(bundle, TI_DATA_TYPE_F32, 3, shape);
  if (u == NULL || v == NULL) {
    return HEAT_OUT_OF_MEMORY;
  }
  status = heat_array_upload(u, start);
  for (step = 0; step < STEPS && status == HEAT_OK; step += 2) {
    status = heat_two_steps(bundle, u, v, RATIO); /* u to v, and v to u */
  }
  return status ? status : heat_array_download(u, result);
}

int main(int argc, char **argv) {
  const char *name = argc > 1 ? argv[1] : "x64";
  TiArch arch = strcmp(name, "vulkan") == 0 ? TI_ARCH_VULKAN
                : strcmp(name, "cuda") == 0 ? TI_ARCH_CUDA
                                            : TI_ARCH_X64;
  double error = 0;
  int i, status;
  heat_bundle *bundle;
  if (!read_field("start.f32", start) || !read_field("expected.f32", expected)) {
    return EXIT_FAILURE;
  }
  bundle = heat_open(HEAT_BUNDLE_DIR, arch, 0);
  if (bundle == NULL) {
    fprintf(stderr, "%s\n", heat_error(NULL));
    return EXIT_FAILURE;
  }
  status = solve(bundle);
  if (status != HEAT_OK) {
    fprintf(stderr, "%s\n", heat_error(bundle));
  }
  heat_close(bundle); /* frees its arrays as well */
  if (status != HEAT_OK) {
    return EXIT_FAILURE;
  }
  for (i = 0; i < COUNT; i++) {
    error = fmax(error, fabs((double)result[i] - expected[i]));
  }
  printf("%s: %d steps of %d^3 points, largest error against NumPy %.1e\n", name, (int)STEPS,
         (int)N, error);
  return error < TOLERANCE ? EXIT_SUCCESS : EXIT_FAILURE;
}
