from .bundle import Bundle as Bundle
from .exporting.export import export as export
from .module import Module as Module
from .recording.recorded_graph import export_recording as export_recording
from .recording.recorder import record as record
from .running.bundle_runtime import Runtime as Runtime
from .running.device_array import DeviceArray as DeviceArray
from .running.loading import load as load

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
