"""Names the device behind an arch, without starting Taichi: what tuning records are kept for."""

from __future__ import annotations

import ctypes
import functools
import os
import platform
import re
from pathlib import Path

from tikgen.machine import drivers

UNKNOWN = "unknown device"

_DISCRETE_GPU = 2
_MOST_DEVICES = 16


@functools.cache
def device_name(arch: str) -> str:
    """Return the name of the device that Taichi uses on ``arch``, or ``"unknown device"``."""
    try:
        if arch == "cpu":
            return f"{cpu_name()}, {os.cpu_count()} threads"
        if arch == "cuda":
            return _cuda_name()
        if arch == "vulkan":
            return _vulkan_name()
    except (OSError, AttributeError):  # There is no such driver, or an older one.
        pass
    return UNKNOWN


def ends_loops(arch: str) -> bool:
    """Tell whether the device of ``arch`` ends long loops in silence; see ``loop_steps``."""
    return arch == "vulkan" and "llvmpipe" in device_name(arch)


def cpu_name() -> str:
    """Return the name of the processor."""
    info = Path("/proc/cpuinfo")
    text = info.read_text(errors="replace") if info.exists() else ""
    match = re.search(r"^model name\s*: (.*)$", text, flags=re.MULTILINE)
    return str(match[1]).strip() if match else platform.processor() or platform.machine()


def _cuda_name() -> str:
    driver = drivers.cuda()
    device, name = ctypes.c_int(), ctypes.create_string_buffer(256)
    if driver.cuDeviceGet(ctypes.byref(device), 0):
        return UNKNOWN
    if driver.cuDeviceGetName(name, len(name), device):
        return UNKNOWN
    return name.value.decode(errors="replace")


class _DeviceProperties(ctypes.Structure):
    """Is the head of VkPhysicalDeviceProperties, with room for its rest."""

    _fields_ = (
        ("api_version", ctypes.c_uint32),
        ("driver_version", ctypes.c_uint32),
        ("vendor", ctypes.c_uint32),
        ("device", ctypes.c_uint32),
        ("type", ctypes.c_uint32),
        ("name", ctypes.c_char * 256),
        ("rest", ctypes.c_uint8 * 2048),
    )


def _vulkan_name() -> str:
    """Return the discrete GPU's name if there is one, else that of the first device."""
    with drivers.vulkan_for_now() as (driver, instance):
        count = ctypes.c_uint32(_MOST_DEVICES)
        devices = (ctypes.c_void_p * _MOST_DEVICES)()
        driver.vkEnumeratePhysicalDevices(instance, ctypes.byref(count), devices)
        found = []
        for device in devices[: count.value]:
            properties = _DeviceProperties()
            driver.vkGetPhysicalDeviceProperties(ctypes.c_void_p(device), ctypes.byref(properties))
            found.append((properties.type != _DISCRETE_GPU, properties.name))
    # Sorted by kind alone: among devices of one kind the first counts.
    best = min(found, key=lambda entry: entry[0], default=None)
    return best[1].decode(errors="replace") if best else UNKNOWN
