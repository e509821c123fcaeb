"""The drivers of GPUs without Taichi: CUDA's library and Vulkan's loader, through ctypes."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import sys
from collections.abc import Iterator

_CUDA = {"win32": ("nvcuda.dll",)}
_VULKAN = {
    "win32": ("vulkan-1.dll",),
    "darwin": ("libvulkan.1.dylib", "libvulkan.dylib", "libMoltenVK.dylib"),
}
# VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO
_INSTANCE_CREATE_INFO = 1
_DISCRETE_GPU = 2
_MOST_DEVICES = 16


class NoDriver(OSError):
    """A driver is missing or does not start; the message names it."""


class _InstanceCreateInfo(ctypes.Structure):
    """VkInstanceCreateInfo, without layers and extensions."""

    _fields_ = (
        ("type", ctypes.c_uint32),
        ("next", ctypes.c_void_p),
        ("flags", ctypes.c_uint32),
        ("application", ctypes.c_void_p),
        ("layer_count", ctypes.c_uint32),
        ("layers", ctypes.c_void_p),
        ("extension_count", ctypes.c_uint32),
        ("extensions", ctypes.c_void_p),
    )


def cuda() -> ctypes.CDLL:
    """Return the library of the CUDA driver, started, or raise NoDriver."""
    driver = _opened(_CUDA.get(sys.platform, ("libcuda.so.1",)), "CUDA driver")
    if code := driver.cuInit(0):
        raise NoDriver(f"CUDA cannot be started on this machine (error {code})")
    return driver


def vulkan() -> tuple[ctypes.CDLL, ctypes.c_void_p]:
    """Return the library of Vulkan's loader and a new instance, or raise NoDriver."""
    driver = _opened(_VULKAN.get(sys.platform, ("libvulkan.so.1",)), "Vulkan loader")
    instance = ctypes.c_void_p()
    info = _InstanceCreateInfo(type=_INSTANCE_CREATE_INFO)
    if code := driver.vkCreateInstance(ctypes.byref(info), None, ctypes.byref(instance)):
        raise NoDriver(f"Vulkan cannot be started on this machine (error {code})")
    return driver, instance


@contextlib.contextmanager
def vulkan_devices() -> Iterator[tuple[ctypes.CDLL, list[ctypes.c_void_p]]]:
    """Yield the library of Vulkan's loader and the handles of its devices, for a while."""
    driver, instance = vulkan()
    try:
        count = ctypes.c_uint32(_MOST_DEVICES)
        handles = (ctypes.c_void_p * _MOST_DEVICES)()
        driver.vkEnumeratePhysicalDevices(instance, ctypes.byref(count), handles)
        yield driver, [ctypes.c_void_p(handle) for handle in handles[: count.value]]
    finally:
        driver.vkDestroyInstance(instance, None)


class VulkanProperties(ctypes.Structure):
    """The head of VkPhysicalDeviceProperties, with room for the rest."""

    _fields_ = (
        ("versions_and_ids", ctypes.c_uint32 * 4),
        ("type", ctypes.c_uint32),
        ("name", ctypes.c_char * 256),
        ("rest", ctypes.c_uint8 * 2048),
    )

    @property
    def is_discrete(self) -> bool:
        """Return whether the device is a GPU with memory of its own."""
        return bool(self.type == _DISCRETE_GPU)


def vulkan_properties(driver: ctypes.CDLL, device: ctypes.c_void_p) -> VulkanProperties:
    """Return what Vulkan reports of a device."""
    properties = VulkanProperties()
    driver.vkGetPhysicalDeviceProperties(device, ctypes.byref(properties))
    return properties


def current_cuda_context() -> int:
    """Return the CUDA context that is current in this thread, 0 if there is none."""
    context = ctypes.c_void_p(0)
    _started_cuda().cuCtxGetCurrent(ctypes.byref(context))
    return context.value or 0


def use_cuda_context(context: int) -> None:
    """Make a CUDA context current in this thread."""
    _started_cuda().cuCtxSetCurrent(ctypes.c_void_p(context))


@functools.cache
def _started_cuda() -> ctypes.CDLL:
    return cuda()


def _opened(names: tuple[str, ...], what: str) -> ctypes.CDLL:
    for name in names:
        with contextlib.suppress(OSError):
            return ctypes.CDLL(name)
    raise NoDriver(f"this machine has no {what} ({names[0]})")
