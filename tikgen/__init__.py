"""tikgen turns Jinja2 templates into verified, tuned, cached Taichi kernels.

``__init__.pyi`` lists the public names. Each is imported when it is first used.
"""

import sys

# What Python runs: a module with ``-m``, or the console script of this name.
if sys.argv[:1] != ["-m"]:
    _run = "".join(sys.argv[:1]).replace("\\", "/").rpartition("/")[2].removesuffix(".exe")
else:
    _run = sys.orig_argv[-len(sys.argv)].removeprefix("-m")
    # ``python -m tikgen`` puts the working directory at the head of ``sys.path``. Files there must
    # not be imported instead of libraries, so it is removed before the first import.
    if _run.partition(".")[0] == __name__ and not getattr(
        sys.flags, "safe_path", sys.flags.isolated
    ):
        del sys.path[0]
if _run == __name__:  # Ctrl-C may arrive during the imports below.
    from tikgen import ending

    ending.hush()

import lazy_loader

from tikgen import registry
from tikgen.taichi import import_hook

# Applies tikgen's patches to Taichi, now or as soon as it is imported.
import_hook.follow()

# Functions of higher rooms that methods of a kernel call.
registry.register(
    export="tikgen.aot.exporting.export:export",
    kernel_html="tikgen.lifecycle.kernel_card:of_kernel",
    kernel_ir="tikgen.lifecycle.ir:ir_of",
    kernel_ptx="tikgen.lifecycle.ptx:ptx_of",
    kernel_lifecycle="tikgen.lifecycle.trace:of_kernel",
    tune="tikgen.tuning.run:tune",
)

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
