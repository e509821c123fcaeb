"""What drivers tell about the devices of this machine: names, memory, limits."""

from __future__ import annotations

import ctypes
import enum
import os
from dataclasses import dataclass
from pathlib import Path

from tikgen.machine import drivers
from tikgen.machine.devices import arch_named, cpu_name, cuda_name, problem_with

_MOST_DEVICES = 16


class DeviceType(enum.Enum):
    """A kind of device; its value is the arch that ``ti.init`` takes."""

    CPU = "cpu"
    CUDA = "cuda"
    VULKAN = "vulkan"


@dataclass(frozen=True)
class DeviceProperties:
    """What is known of a device; what is not known is None.

    Attributes:
        device_id: its place in :attr:`Accelerator.devices`.
        device_type: its kind.
        name: as its driver has it.
        number: its number among the devices of its kind; Taichi uses number 0.
        total_memory: in bytes.
        compute_capability: of CUDA.
        multiprocessor_count: processors of a CUDA device, threads of a CPU.
        max_threads_per_block: of a CUDA device.
        warp_size: of a CUDA device.
        is_available: whether its driver, or with ``verify=True`` a kernel, showed that it works.
    """

    device_id: int
    device_type: DeviceType
    name: str
    number: int = 0
    total_memory: int | None = None
    compute_capability: tuple[int, int] | None = None
    multiprocessor_count: int | None = None
    max_threads_per_block: int | None = None
    warp_size: int | None = None
    is_available: bool = True

    @property
    def arch(self) -> str:
        """Return the arch that ``ti.init`` takes."""
        return self.device_type.value

    @property
    def compute_capability_str(self) -> str:
        """Return the compute capability as text, such as ``9.0``, or ``N/A``."""
        return ".".join(map(str, self.compute_capability or ())) or "N/A"

    @property
    def total_memory_gb(self) -> float | None:
        """Return the memory in GiB."""
        return None if self.total_memory is None else self.total_memory / 1024**3


def found_devices() -> tuple[list[DeviceProperties], dict[str, str]]:
    """Return the devices that drivers offer, and why an arch has none.

    CUDA comes first, then the processor, then Vulkan, which may be the processor once more.
    """
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


def memory_of_processor() -> dict[str, int]:
    """Return the bytes of this machine's memory: total and, where the system tells, available."""
    facts = {}
    info = Path("/proc/meminfo")
    for line in info.read_text().splitlines() if info.exists() else ():
        name, _, value = line.partition(":")
        if name in ("MemTotal", "MemAvailable"):
            facts[name] = int(value.split()[0]) * 1024
    return facts


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
_MAX_THREADS_PER_BLOCK, _WARP_SIZE, _MULTIPROCESSORS, _MAJOR, _MINOR = 1, 10, 16, 75, 76


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
        max_threads_per_block=attribute(_MAX_THREADS_PER_BLOCK),
        warp_size=attribute(_WARP_SIZE),
    )


def free_cuda_memory() -> int | None:
    """Return the free bytes of the CUDA device that this thread uses, None where it uses none."""
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    try:
        failed = drivers.cuda().cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total))
    except (OSError, AttributeError):
        return None
    return None if failed else free.value


class _VulkanHeap(ctypes.Structure):
    """Is VkMemoryHeap."""

    _fields_ = (("size", ctypes.c_uint64), ("flags", ctypes.c_uint32))


class _VulkanMemory(ctypes.Structure):
    """Is VkPhysicalDeviceMemoryProperties."""

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
