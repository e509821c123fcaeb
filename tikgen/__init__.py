"""tikgen turns Jinja2 templates into verified, tuned, cached Taichi kernels.

What this package offers stands in ``__init__.pyi``; each name is imported when it is first used.
"""

import sys

# ``python -m tikgen`` puts the working directory in front of what is imported, as if whoever left
# a file there had been asked. This is the first line of tikgen that runs.
if sys.argv[:1] == ["-m"] and not getattr(sys.flags, "safe_path", sys.flags.isolated):
    _run = sys.orig_argv[-len(sys.argv)].removeprefix("-m")
    if _run.partition(".")[0] == __name__:
        del sys.path[0]

import lazy_loader

from tikgen import registry
from tikgen.taichi import import_hook

# Marks what Taichi makes from now on, so that stale arrays are known; see there.
import_hook.follow()

# What kernels can do that takes more than the pipeline; each is imported when it is first used.
registry.register(
    kernel_html="tikgen.lifecycle.kernel_card:of_kernel",
    kernel_ir="tikgen.lifecycle.ir:ir_of",
    kernel_lifecycle="tikgen.lifecycle.trace:of_kernel",
    tune="tikgen.tuning.run:tune",
)

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
