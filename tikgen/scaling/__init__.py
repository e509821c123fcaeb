"""How long a step of a program takes on any number of ranks, from what was measured on a few."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
