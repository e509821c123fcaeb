from .text_loader import Loader as Loader
from .text_loader import MetaKernelLoader as MetaKernelLoader
from .versions import Version as Version
from .watching import Watcher as Watcher
from .watching import watch as watch

__all__ = ["Loader", "MetaKernelLoader", "Version", "Watcher", "watch"]
