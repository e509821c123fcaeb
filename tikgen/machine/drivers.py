"""The drivers of GPUs, reached without Taichi: CUDA's library, and an instance of Vulkan."""

from __future__ import annotations

import contextlib
import ctypes
import sys
from collections.abc import Iterator

_CUDA = {"win32": ("nvcuda.dll",)}
_VULKAN = {
    "win32": ("vulkan-1.dll",),
    "darwin": ("libvulkan.1.dylib", "libvulkan.dylib", "libMoltenVK.dylib"),
}
# VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO
_INSTANCE_CREATE_INFO = 1


class NoDriver(OSError):
    """A driver is not there, or does not start; says which and why."""


class _InstanceCreateInfo(ctypes.Structure):
    """Is VkInstanceCreateInfo: its type, and nothing asked for."""

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
    """Return the library of the CUDA driver, started.

    Raises:
        NoDriver: if there is none, or it does not start.
    """
    driver = _opened(_CUDA.get(sys.platform, ("libcuda.so.1",)), "CUDA driver")
    if code := driver.cuInit(0):
        raise NoDriver(f"CUDA cannot be started on this machine (error {code})")
    return driver


def vulkan() -> tuple[ctypes.CDLL, ctypes.c_void_p]:
    """Return the library of Vulkan's loader, and a new instance.

    Raises:
        NoDriver: if there is none, or it does not start.
    """
    driver = _opened(_VULKAN.get(sys.platform, ("libvulkan.so.1",)), "Vulkan loader")
    instance = ctypes.c_void_p()
    info = _InstanceCreateInfo(type=_INSTANCE_CREATE_INFO)
    if code := driver.vkCreateInstance(ctypes.byref(info), None, ctypes.byref(instance)):
        raise NoDriver(f"Vulkan cannot be started on this machine (error {code})")
    return driver, instance


@contextlib.contextmanager
def vulkan_for_now() -> Iterator[tuple[ctypes.CDLL, ctypes.c_void_p]]:
    """Give what :func:`vulkan` returns, and destroy the instance in the end."""
    driver, instance = vulkan()
    try:
        yield driver, instance
    finally:
        driver.vkDestroyInstance(instance, None)


def _opened(names: tuple[str, ...], what: str) -> ctypes.CDLL:
    for name in names:
        with contextlib.suppress(OSError):
            return ctypes.CDLL(name)
    raise NoDriver(f"this machine has no {what} ({names[0]})")
