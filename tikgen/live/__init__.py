"""Code that changes while a program runs: hot reload, watched templates, notebooks."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
