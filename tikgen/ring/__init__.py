"""Ring kernels: actors fed by message queues, on the host, in batches, or staying on the device."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
