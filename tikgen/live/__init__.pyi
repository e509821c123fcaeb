from .loader import Loader
from .meta_kernel_loader import MetaKernelLoader
from .versions import Version
from .watching import Watcher, watch

__all__ = ["Loader", "MetaKernelLoader", "Version", "Watcher", "watch"]
