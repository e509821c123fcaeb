"""Which archs work on this machine, as the drivers tell, before anything can crash."""

from __future__ import annotations

import ctypes
import functools
import platform

from tikgen.aot.manifest import ARCHS, HOST_ARCHS
from tikgen.machine import drivers

_HOSTS = {"x86_64": "x64", "amd64": "x64", "aarch64": "arm64", "arm64": "arm64"}


def host_arch() -> str:
    """Return the arch of this machine's processor, or the processor's own name."""
    machine = platform.machine().lower()
    return _HOSTS.get(machine, machine)


def arch_named(name: str) -> str:
    """Return the arch of bundles that ``name`` means; ``"cpu"`` is this machine's processor."""
    return host_arch() if name == "cpu" else name


@functools.cache
def problem_with(arch: str, device: int = 0) -> str:
    """Return why an arch does not work on this machine, or nothing where it does.

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
        return _counted(_count_vulkan, "Vulkan", device)
    if arch == "cuda":
        return _counted(_count_cuda, "CUDA", device)
    return f"there is no such arch; there are {', '.join(ARCHS)}"


def _counted(count: object, name: str, device: int) -> str:
    try:
        found = count()  # type: ignore[operator]
    except drivers.NoDriver as error:
        return str(error)
    if found == 0:
        return f"{name} finds no device on this machine"
    if device >= found:
        return f"{name} finds {found} on this machine, and no device number {device}"
    return ""


def _count_vulkan() -> int:
    count = ctypes.c_uint32(0)
    # It stays: drivers take long to load, and the runtime needs them next.
    driver, instance = drivers.vulkan()
    code = driver.vkEnumeratePhysicalDevices(instance, ctypes.byref(count), None)
    return count.value if code == 0 else 0


def _count_cuda() -> int:
    count = ctypes.c_int(0)
    code = drivers.cuda().cuDeviceGetCount(ctypes.byref(count))
    return count.value if code == 0 else 0
