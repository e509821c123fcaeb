"""Which archs and devices this machine has: asked of the drivers, without starting Taichi."""

from __future__ import annotations

import ctypes
import functools
import os
import platform
import re
from collections.abc import Callable
from pathlib import Path

from tikgen.machine import drivers

# The archs of ``ti.init`` that tikgen knows.
ARCHS = ("cpu", "cuda", "vulkan")
# Taichi's names for the processors that bundles are compiled for, and what systems call them.
HOST_ARCHS = ("x64", "arm64")
_HOSTS = {"x86_64": "x64", "amd64": "x64", "aarch64": "arm64", "arm64": "arm64"}
UNKNOWN = "unknown device"


def host_arch() -> str:
    """Return the arch of this machine's processor, or the processor's own name."""
    machine = platform.machine().lower()
    return _HOSTS.get(machine, machine)


def arch_named(name: str) -> str:
    """Return the arch of bundles that ``name`` means; ``"cpu"`` is this machine's processor."""
    return host_arch() if name == "cpu" else name


def core_arch(arch: str) -> str:
    """Return the arch of ``ti.init`` that runs what is compiled for an arch of bundles."""
    return "cpu" if arch in HOST_ARCHS else arch


@functools.cache
def problem_with(arch: str, device: int = 0) -> str:
    """Return why an arch does not work on this machine, or nothing if it does.

    Args:
        arch: an arch of bundles.
        device: number of the device.
    """
    if type(device) is not int or device < 0:
        return f"the number of a device is 0 or more; got {device!r}"
    if arch in HOST_ARCHS:
        host = host_arch()
        if arch != host:
            return f"the processor of this machine is of the arch {host}"
        return "" if device == 0 else f"there is one processor, number 0, and no number {device}"
    if arch == "vulkan":
        return _device_problem(_count_vulkan, "Vulkan", device)
    if arch == "cuda":
        return _device_problem(_count_cuda, "CUDA", device)
    return f"there is no such arch; there are vulkan, cuda, {', '.join(HOST_ARCHS)}"


def _device_problem(count: Callable[[], int], name: str, device: int) -> str:
    try:
        found = count()
    except drivers.NoDriver as error:
        return str(error)
    if found == 0:
        return f"{name} finds no device on this machine"
    if device >= found:
        return f"{name} finds {found} on this machine, and no device number {device}"
    return ""


def _count_vulkan() -> int:
    count = ctypes.c_uint32(0)
    # The instance stays: drivers take long to load, and the runtime needs them next.
    driver, instance = drivers.vulkan()
    code = driver.vkEnumeratePhysicalDevices(instance, ctypes.byref(count), None)
    return count.value if code == 0 else 0


def _count_cuda() -> int:
    count = ctypes.c_int(0)
    code = drivers.cuda().cuDeviceGetCount(ctypes.byref(count))
    return count.value if code == 0 else 0


@functools.cache
def device_name(arch: str) -> str:
    """Return the name of the device that Taichi uses on ``arch``, or ``"unknown device"``."""
    try:
        if arch == "cpu":
            return f"{cpu_name()}, {os.cpu_count()} threads"
        if arch == "cuda":
            return cuda_name()
        if arch == "vulkan":
            return _vulkan_name()
    except (OSError, AttributeError):  # The driver is missing, or an older one.
        pass
    return UNKNOWN


def ends_loops(arch: str) -> bool:
    """Return whether the device of ``arch`` ends long loops silently; see ``loop_steps``."""
    return arch == "vulkan" and "llvmpipe" in device_name(arch)


def cpu_name() -> str:
    """Return the name of the processor."""
    return _of_processor("model name") or platform.processor() or platform.machine()


@functools.cache
def vector_bytes() -> int:
    """Return the bytes of the processor's widest vectors: 64 with AVX-512, else 32."""
    flags = _of_processor("flags").split()
    return 64 if {"avx512f", "avx512bw", "avx512vl"} <= {*flags} else 32


def _of_processor(field: str) -> str:
    """Return what Linux says of the first processor in a field, or an empty string."""
    info = Path("/proc/cpuinfo")
    text = info.read_text(errors="replace") if info.exists() else ""
    match = re.search(rf"^{field}\s*:(.*)$", text, flags=re.MULTILINE)
    return match[1].strip() if match else ""


def memory_of_processor() -> dict[str, int]:
    """Return ``MemTotal`` and ``MemAvailable`` of this machine in bytes, if the system has them."""
    facts = {}
    info = Path("/proc/meminfo")
    for line in info.read_text().splitlines() if info.exists() else ():
        name, _, value = line.partition(":")
        if name in ("MemTotal", "MemAvailable"):
            facts[name] = int(value.split()[0]) * 1024
    return facts


def cuda_name(number: int = 0) -> str:
    """Return the name of a CUDA device, or ``"unknown device"``."""
    driver = drivers.cuda()
    device, name = ctypes.c_int(), ctypes.create_string_buffer(256)
    if driver.cuDeviceGet(ctypes.byref(device), number):
        return UNKNOWN
    failed = driver.cuDeviceGetName(name, len(name), device)
    return UNKNOWN if failed else name.value.decode(errors="replace")


def _vulkan_name() -> str:
    """Return the discrete GPU's name if there is one, else that of the first device."""
    with drivers.vulkan_devices() as (driver, handles):
        found = [drivers.vulkan_properties(driver, handle) for handle in handles]
    found.sort(key=lambda device: not device.is_discrete)
    return found[0].name.decode(errors="replace") if found else UNKNOWN
