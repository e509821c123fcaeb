"""tikgen turns Jinja2 templates into verified, tuned, cached Taichi kernels.

What this package offers stands in ``__init__.pyi``; each name is imported when it is first used.
"""

import lazy_loader

# Marks what Taichi makes from now on, so that stale arrays are known; see there.
import tikgen.taichi_bridge  # noqa: F401

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
