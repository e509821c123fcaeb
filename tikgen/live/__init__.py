"""Hot reload: modules whose text may be replaced while their kernels run."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
