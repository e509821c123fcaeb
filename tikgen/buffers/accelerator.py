"""The devices of this machine on which kernels work, and which of them Taichi uses."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import importlib
import sys
from typing import Any

from tikgen.buffers.devices import (
    DeviceProperties,
    DeviceType,
    found_devices,
    free_cuda_memory,
    memory_of_processor,
)
from tikgen.buffers.errors import BackendNotAvailableError, InvalidConfigurationError


class Accelerator:
    """Lists the devices on which kernels can run; neither needs nor starts Taichi.

    Args:
        verify: runs a kernel on each arch, in a process of its own, and lists those alone where
            it was right. That takes seconds. Else the word of the drivers counts.
    """

    def __init__(self, *, verify: bool = False) -> None:
        devices, self._problems = found_devices()
        if verify:
            devices = self._verified(devices)
        self._devices = [
            dataclasses.replace(device, device_id=i) for i, device in enumerate(devices)
        ]
        self._chosen = 0

    def _verified(self, devices: list[DeviceProperties]) -> list[DeviceProperties]:
        from tikgen.machine.doctor import examine

        archs = tuple(dict.fromkeys(device.arch for device in devices))
        for report in examine(archs).archs:
            if not report.works:
                self._problems[report.name] = report.message
        return [device for device in devices if device.arch not in self._problems]

    @property
    def devices(self) -> list[DeviceProperties]:
        """Return the devices: those of CUDA, the processor, those of Vulkan."""
        return self._devices.copy()

    @property
    def archs(self) -> tuple[str, ...]:
        """Return the archs that work here, as ``ti.init`` takes them."""
        return tuple(dict.fromkeys(device.arch for device in self._devices))

    @property
    def problems(self) -> dict[str, str]:
        """Return by arch why it does not work here."""
        return dict(self._problems)

    @property
    def device_count(self) -> int:
        """Return the number of devices."""
        return len(self._devices)

    @property
    def cuda_available(self) -> bool:
        """Tell whether there is a device of CUDA."""
        return "cuda" in self.archs

    @property
    def vulkan_available(self) -> bool:
        """Tell whether there is a device of Vulkan."""
        return "vulkan" in self.archs

    @property
    def current_device(self) -> DeviceProperties:
        """Return the device that Taichi uses or, before ``ti.init``, the one that was set.

        Raises:
            BackendNotAvailableError: if Taichi runs on an arch that is not listed, or none is.
        """
        arch = _current_arch()
        for device in self._devices[self._chosen :] + self._devices:
            if arch in (None, device.arch):
                return device
        reason = self._problems.get(arch or "", "its devices are not known to tikgen")
        raise BackendNotAvailableError(arch or "a device", reason)

    def get_device(self, device_id: int) -> DeviceProperties:
        """Return a device by its place in the list.

        Raises:
            InvalidConfigurationError: if there is no such device.
        """
        if type(device_id) is not int or not 0 <= device_id < len(self._devices):
            problem = f"devices have the numbers 0 to {len(self._devices) - 1}"
            raise InvalidConfigurationError("device_id", device_id, problem)
        return self._devices[device_id]

    def set_device(self, device_id: int) -> None:
        """Name the device to use; pass ``current_device.arch`` to ``ti.init``.

        Raises:
            InvalidConfigurationError: if there is no such device, Taichi runs on another one
                already, or Taichi never uses it, because it takes the first of each arch.
        """
        device, arch = self.get_device(device_id), _current_arch()
        if device.number:
            problem = f"Taichi uses the first {device.arch} device; hide those before it"
            if device.device_type is DeviceType.CUDA:
                problem += f", with CUDA_VISIBLE_DEVICES={device.number}"
            raise InvalidConfigurationError("device_id", device_id, problem)
        if arch not in (None, device.arch):
            problem = f"Taichi runs on {arch}; call ti.init(arch=ti.{device.arch}) first"
            raise InvalidConfigurationError("device_id", device_id, problem)
        self._chosen = device_id

    def synchronize(self) -> None:
        """Wait until the device has done what it was told."""
        if _current_arch() is not None:
            from tikgen.taichi import runtime

            runtime.sync()

    def get_memory_info(self) -> dict[str, int | None]:
        """Return the bytes of the current device: total, free and used; None where unknown."""
        device = self.current_device
        total, free = device.total_memory, None
        if device.device_type is DeviceType.CPU:
            free = memory_of_processor().get("MemAvailable")
        elif device.device_type is DeviceType.CUDA:
            free = free_cuda_memory() or _free_by_nvml(device.name)
        used = None if free is None or total is None else total - free
        return {"total": total, "free": free, "used": used}

    def __repr__(self) -> str:
        listed = ", ".join(f"{device.arch}: {device.name}" for device in self._devices)
        return f"Accelerator({listed})"


@functools.cache
def get_accelerator() -> Accelerator:
    """Return an accelerator that is shared by all who ask."""
    return Accelerator()


def cuda_available() -> bool:
    """Tell whether there is a device of CUDA."""
    return get_accelerator().cuda_available


def _current_arch() -> str | None:
    """Return the arch of ``ti.init``, None where it was not called; does not import Taichi."""
    if "taichi" not in sys.modules:
        return None
    from tikgen.taichi import runtime

    return runtime.current_arch()


def _free_by_nvml(name: str) -> int | None:
    """Return the free memory of the only GPU of that name, where nvidia-ml-py is installed."""
    with contextlib.suppress(Exception):  # It is optional, and raises errors of its own.
        pynvml: Any = importlib.import_module("pynvml")
        pynvml.nvmlInit()
        try:
            handles = map(pynvml.nvmlDeviceGetHandleByIndex, range(pynvml.nvmlDeviceGetCount()))
            named = [h for h in handles if pynvml.nvmlDeviceGetName(h) in (name, name.encode())]
            if len(named) == 1:
                return int(pynvml.nvmlDeviceGetMemoryInfo(named[0]).free)
        finally:
            pynvml.nvmlShutdown()
    return None
