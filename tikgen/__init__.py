"""tikgen turns Jinja2 templates into verified, tuned, cached Taichi kernels.

What this package offers stands in ``__init__.pyi``; each name is imported when it is first used.
"""

import lazy_loader

from tikgen import taichi_import

# Marks what Taichi makes from now on, so that stale arrays are known; see there.
taichi_import.follow()

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
