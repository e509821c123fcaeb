"""Load, memory, temperature and power of NVIDIA GPUs, read from NVML."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from tikgen.ring.errors import BackendNotAvailableError
from tikgen.units import counted


@dataclass(frozen=True)
class GPUInfo:
    """The state of one GPU; a figure that it does not report is None.

    Attributes:
        index: its number.
        name: its name.
        uuid: its unique id.
        memory_total: bytes in all.
        memory_used: bytes in use, by any process.
        memory_free: bytes left.
        utilization_gpu: share of recent time in which a kernel ran, from 0 to 1.
        utilization_memory: share of recent time in which its memory was used, from 0 to 1.
        temperature: in degrees Celsius.
        power_usage: in watts.
        power_limit: in watts.
    """

    index: int
    name: str = "N/A"
    uuid: str = ""
    memory_total: int = 0
    memory_used: int = 0
    memory_free: int = 0
    utilization_gpu: float | None = None
    utilization_memory: float | None = None
    temperature: float | None = None
    power_usage: float | None = None
    power_limit: float | None = None


class GPUMonitor:
    """Reads the state of GPUs from NVML.

    Without the package ``nvidia-ml-py``, a driver or a GPU, nothing is raised: ``is_available`` is
    False, and ``problem`` names what is missing.

    Attributes:
        problem: why no GPU can be read, or the last error; empty if there was none.
    """

    def __init__(self) -> None:
        self.problem = ""
        self._nvml: ModuleType | None = None
        self._handles: list[Any] = []
        try:
            nvml = importlib.import_module("pynvml")
        except ImportError:
            self.problem = "nvidia-ml-py is not installed: pip install nvidia-ml-py"
            return
        try:
            nvml.nvmlInit()
        except Exception as error:  # An error of NVML must not stop the actors.
            self.problem = f"NVML cannot be used: {error}"
            return
        self._nvml = nvml
        try:
            count = nvml.nvmlDeviceGetCount()
            self._handles = [nvml.nvmlDeviceGetHandleByIndex(i) for i in range(count)]
        except Exception as error:
            self.problem = f"NVML cannot list GPUs: {error}"
        if not self._handles:
            self.problem = self.problem or "NVML finds no GPU"
            self.shutdown()

    @property
    def is_available(self) -> bool:
        """Return whether a GPU can be read."""
        return bool(self._handles)

    @property
    def device_count(self) -> int:
        """Return the number of GPUs that can be read."""
        return len(self._handles)

    def get_gpu_info(self, device_index: int = 0) -> GPUInfo:
        """Return the state of a GPU; without any GPU, an empty record.

        Raises:
            BackendNotAvailableError: if there are GPUs, but not this one.
        """
        if not self._handles:
            return GPUInfo(device_index)
        if not 0 <= device_index < len(self._handles):
            raise BackendNotAvailableError(
                f"GPU {device_index!r}", f"there are {len(self._handles)}, counted from 0"
            )
        nvml, handle = self._nvml, self._handles[device_index]
        assert nvml is not None
        memory = self._read(lambda: nvml.nvmlDeviceGetMemoryInfo(handle))
        load = self._read(lambda: nvml.nvmlDeviceGetUtilizationRates(handle))
        heat = nvml.NVML_TEMPERATURE_GPU
        milliwatts = self._read(lambda: nvml.nvmlDeviceGetPowerUsage(handle))
        most_milliwatts = self._read(lambda: nvml.nvmlDeviceGetPowerManagementLimit(handle))
        degrees = self._read(lambda: nvml.nvmlDeviceGetTemperature(handle, heat))
        return GPUInfo(
            index=device_index,
            name=_text(self._read(lambda: nvml.nvmlDeviceGetName(handle))) or "N/A",
            uuid=_text(self._read(lambda: nvml.nvmlDeviceGetUUID(handle))),
            memory_total=int(memory.total) if memory else 0,
            memory_used=int(memory.used) if memory else 0,
            memory_free=int(memory.free) if memory else 0,
            utilization_gpu=load.gpu / 100 if load else None,
            utilization_memory=load.memory / 100 if load else None,
            temperature=None if degrees is None else float(degrees),
            power_usage=None if milliwatts is None else milliwatts / 1000,
            power_limit=None if most_milliwatts is None else most_milliwatts / 1000,
        )

    def get_all_gpu_info(self) -> list[GPUInfo]:
        """Return the state of each GPU."""
        return [self.get_gpu_info(index) for index in range(self.device_count)]

    def get_memory_info(self, device_index: int = 0) -> dict[str, int]:
        """Return the bytes ``used``, ``free`` and ``total`` of a GPU; see :meth:`get_gpu_info`."""
        info = self.get_gpu_info(device_index)
        return {"used": info.memory_used, "free": info.memory_free, "total": info.memory_total}

    def shutdown(self) -> None:
        """Close NVML; no GPU can be read after that."""
        nvml, self._nvml, self._handles = self._nvml, None, []
        if nvml is not None:
            with contextlib.suppress(Exception):
                nvml.nvmlShutdown()
            self.problem = self.problem or "the monitor was shut down"

    def _read(self, question: Callable[[], Any]) -> Any:
        """Return the answer, None for a figure that the GPU does not report."""
        try:
            return question()
        except Exception as error:
            self.problem = str(error)
            return None

    def __enter__(self) -> GPUMonitor:
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()

    def __repr__(self) -> str:
        found = counted(self.device_count, "GPU") if self._handles else self.problem
        return f"<GPUMonitor: {found}>"


def _text(answer: str | bytes | None) -> str:
    return answer.decode(errors="replace") if isinstance(answer, bytes) else answer or ""
