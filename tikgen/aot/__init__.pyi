from .bundle import Bundle
from .exporting import export
from .module import Module
from .recordings.recorded_graph import export_recording
from .recordings.recording import record
from .running.device_array import DeviceArray
from .running.loading import load
from .running.runtime import Runtime

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
