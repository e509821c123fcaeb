from .bundle import Bundle
from .device_array import DeviceArray
from .exporting import export
from .loading import load
from .module import Module
from .recorded_graph import export_recording
from .recording import record
from .runtime import Runtime

__all__ = [
    "Bundle",
    "DeviceArray",
    "Module",
    "Runtime",
    "export",
    "export_recording",
    "load",
    "record",
]
