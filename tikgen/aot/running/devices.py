"""Which archs work on this machine, as the drivers tell, before anything can crash."""

from __future__ import annotations

import ctypes
import functools
import platform
import sys

from tikgen.aot.manifest import ARCHS, HOST_ARCHS

_HOSTS = {"x86_64": "x64", "amd64": "x64", "aarch64": "arm64", "arm64": "arm64"}
_VULKAN = {
    "win32": ("vulkan-1.dll",),
    "darwin": ("libvulkan.1.dylib", "libvulkan.dylib", "libMoltenVK.dylib"),
}
_CUDA = {"win32": ("nvcuda.dll",)}
# VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO
_INSTANCE_CREATE_INFO = 1


class _InstanceCreateInfo(ctypes.Structure):
    _fields_ = (
        ("type", ctypes.c_int32),
        ("next", ctypes.c_void_p),
        ("flags", ctypes.c_uint32),
        ("application", ctypes.c_void_p),
        ("layer_count", ctypes.c_uint32),
        ("layers", ctypes.c_void_p),
        ("extension_count", ctypes.c_uint32),
        ("extensions", ctypes.c_void_p),
    )


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


class _NoDevices(Exception):
    """Says why no device can be counted."""


def _counted(count: object, name: str, device: int) -> str:
    try:
        found = count()  # type: ignore[operator]
    except _NoDevices as error:
        return str(error)
    if found == 0:
        return f"{name} finds no device on this machine"
    if device >= found:
        return f"{name} finds {found} on this machine, and no device number {device}"
    return ""


def _driver(names: tuple[str, ...], what: str) -> ctypes.CDLL:
    for name in names:
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    raise _NoDevices(f"this machine has no {what} ({names[0]})")


def _count_vulkan() -> int:
    driver = _driver(_VULKAN.get(sys.platform, ("libvulkan.so.1",)), "Vulkan loader")
    instance = ctypes.c_void_p()
    info = _InstanceCreateInfo(type=_INSTANCE_CREATE_INFO)
    code = driver.vkCreateInstance(ctypes.byref(info), None, ctypes.byref(instance))
    if code != 0:
        raise _NoDevices(f"Vulkan cannot be started on this machine (error {code})")
    count = ctypes.c_uint32(0)
    code = driver.vkEnumeratePhysicalDevices(instance, ctypes.byref(count), None)
    driver.vkDestroyInstance(instance, None)
    return count.value if code == 0 else 0


def cuda_driver() -> ctypes.CDLL:
    """Return the library of the CUDA driver, on a machine where CUDA works."""
    return _driver(_CUDA.get(sys.platform, ("libcuda.so.1",)), "CUDA driver")


def _count_cuda() -> int:
    driver = cuda_driver()
    code = driver.cuInit(0)
    if code != 0:
        raise _NoDevices(f"CUDA cannot be started on this machine (error {code})")
    count = ctypes.c_int(0)
    code = driver.cuDeviceGetCount(ctypes.byref(count))
    return count.value if code == 0 else 0
