"""The devices of this machine on which kernels run, and the one that Taichi uses."""

from __future__ import annotations

import ctypes
import dataclasses
import enum
import functools
import os
import sys
from dataclasses import dataclass

from tikgen.buffers.errors import BackendNotAvailableError
from tikgen.machine import drivers
from tikgen.machine.devices import (
    arch_named,
    cpu_name,
    cuda_name,
    memory_of_processor,
    problem_with,
)

_MOST_DEVICES = 16


class DeviceType(enum.Enum):
    """A kind of device; its value is the name of the arch in ``ti.init``."""

    CPU = "cpu"
    CUDA = "cuda"
    VULKAN = "vulkan"


@dataclass(frozen=True)
class DeviceProperties:
    """The properties of a device; unknown ones are None.

    Attributes:
        device_id: its index in :attr:`Accelerator.devices`.
        device_type: its kind.
        name: from its driver.
        number: its number among the devices of its kind; Taichi uses number 0.
        total_memory: in bytes.
        compute_capability: of CUDA.
        multiprocessor_count: processors of a CUDA device, threads of a CPU.
    """

    device_id: int
    device_type: DeviceType
    name: str
    number: int = 0
    total_memory: int | None = None
    compute_capability: tuple[int, int] | None = None
    multiprocessor_count: int | None = None

    @property
    def arch(self) -> str:
        """Return the name of its arch in ``ti.init``."""
        return self.device_type.value


def found_devices() -> tuple[list[DeviceProperties], dict[str, str]]:
    """Return the devices by CUDA, cpu, Vulkan, and the reasons why an arch has none."""
    devices: list[DeviceProperties] = []
    problems: dict[str, str] = {}
    makers = {DeviceType.CUDA: _cuda_device, DeviceType.CPU: _cpu, DeviceType.VULKAN: _vulkan}
    for kind, make in makers.items():
        for number in range(_MOST_DEVICES):
            if problem := problem_with(arch_named(kind.value), number):
                if number == 0:
                    problems[kind.value] = problem
                break
            devices.append(make(len(devices), number))
    return devices, problems


def _cpu(device_id: int, number: int) -> DeviceProperties:
    return DeviceProperties(
        device_id,
        DeviceType.CPU,
        cpu_name(),
        number,
        total_memory=memory_of_processor().get("MemTotal"),
        multiprocessor_count=os.cpu_count(),
    )


# CUdevice_attribute.
_MULTIPROCESSORS, _MAJOR, _MINOR = 16, 75, 76


def _cuda_device(device_id: int, number: int) -> DeviceProperties:
    driver = drivers.cuda()
    device, memory = ctypes.c_int(), ctypes.c_size_t()
    driver.cuDeviceGet(ctypes.byref(device), number)
    has_memory = driver.cuDeviceTotalMem_v2(ctypes.byref(memory), device) == 0

    def attribute(key: int) -> int | None:
        value = ctypes.c_int()
        failed = driver.cuDeviceGetAttribute(ctypes.byref(value), key, device)
        return None if failed else value.value

    major, minor = attribute(_MAJOR), attribute(_MINOR)
    return DeviceProperties(
        device_id,
        DeviceType.CUDA,
        cuda_name(number),
        number,
        total_memory=memory.value if has_memory else None,
        compute_capability=None if major is None or minor is None else (major, minor),
        multiprocessor_count=attribute(_MULTIPROCESSORS),
    )


def free_cuda_memory() -> int | None:
    """Return the free bytes of the CUDA device of this thread, None if it has none."""
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    try:
        failed = drivers.cuda().cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total))
    except (OSError, AttributeError):
        return None
    return None if failed else free.value


class _VulkanHeap(ctypes.Structure):
    """The struct VkMemoryHeap."""

    _fields_ = (("size", ctypes.c_uint64), ("flags", ctypes.c_uint32))


class _VulkanMemory(ctypes.Structure):
    """The struct VkPhysicalDeviceMemoryProperties."""

    _fields_ = (
        ("type_count", ctypes.c_uint32),
        ("types", ctypes.c_uint32 * 2 * 32),
        ("heap_count", ctypes.c_uint32),
        ("heaps", _VulkanHeap * 16),
    )


_DEVICE_LOCAL = 1


def _vulkan(device_id: int, number: int) -> DeviceProperties:
    memory = _VulkanMemory()
    with drivers.vulkan_devices() as (driver, handles):
        properties = drivers.vulkan_properties(driver, handles[number])
        driver.vkGetPhysicalDeviceMemoryProperties(handles[number], ctypes.byref(memory))
    heaps = memory.heaps[: memory.heap_count]
    return DeviceProperties(
        device_id,
        DeviceType.VULKAN,
        properties.name.decode(errors="replace"),
        number,
        total_memory=sum(heap.size for heap in heaps if heap.flags & _DEVICE_LOCAL),
    )


class Accelerator:
    """Lists the devices on which kernels can run, without Taichi.

    Args:
        verify: whether to run a kernel on each arch, in a child process, and list only those where
            its result was right. This takes seconds. Otherwise the drivers are trusted.

    Attributes:
        devices: those of CUDA, the processor, those of Vulkan.
        problems: by arch, why it does not work here.
    """

    def __init__(self, *, verify: bool = False) -> None:
        devices, self.problems = found_devices()
        if verify:
            devices = self._verified(devices)
        self.devices = [dataclasses.replace(d, device_id=i) for i, d in enumerate(devices)]

    def _verified(self, devices: list[DeviceProperties]) -> list[DeviceProperties]:
        from tikgen.machine.doctor import examine

        archs = tuple(dict.fromkeys(device.arch for device in devices))
        for report in examine(archs).archs:
            if not report.works:
                self.problems[report.name] = report.message
        return [device for device in devices if device.arch not in self.problems]

    @property
    def archs(self) -> tuple[str, ...]:
        """Return the archs that work here, by the names of ``ti.init``."""
        return tuple(dict.fromkeys(device.arch for device in self.devices))

    @property
    def cuda_available(self) -> bool:
        """Return whether there is a CUDA device."""
        return "cuda" in self.archs

    @property
    def current_device(self) -> DeviceProperties:
        """Return the device that Taichi uses; before ``ti.init``, the first one.

        Raises:
            BackendNotAvailableError: if it is not listed.
        """
        arch = _current_arch()
        for device in self.devices:
            if arch in (None, device.arch):
                return device
        reason = self.problems.get(arch or "", "its devices are not known to tikgen")
        raise BackendNotAvailableError(arch or "a device", reason)

    def synchronize(self) -> None:
        """Wait until the device has finished."""
        if _current_arch() is not None:
            from tikgen.taichi import runtime

            runtime.sync()

    def get_memory_info(self) -> dict[str, int | None]:
        """Return ``total``, ``free`` and ``used`` bytes of the current device; None if unknown."""
        device = self.current_device
        total, free = device.total_memory, None
        if device.device_type is DeviceType.CPU:
            free = memory_of_processor().get("MemAvailable")
        elif device.device_type is DeviceType.CUDA:
            free = free_cuda_memory()
        used = None if free is None or total is None else total - free
        return {"total": total, "free": free, "used": used}

    def __repr__(self) -> str:
        listed = ", ".join(f"{device.arch}: {device.name}" for device in self.devices)
        return f"Accelerator({listed})"


@functools.cache
def get_accelerator() -> Accelerator:
    """Return the shared accelerator."""
    return Accelerator()


def _current_arch() -> str | None:
    """Return the arch of ``ti.init``, None before it, without importing Taichi."""
    if "taichi" not in sys.modules:
        return None
    from tikgen.taichi import runtime

    return runtime.current_arch()
