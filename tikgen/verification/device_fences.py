"""Memory of a GPU between addresses to which nothing is mapped; see :mod:`fences`.

Reservations come from the virtual memory management of the CUDA driver (CUDA Driver API, section
6.14).
"""

from __future__ import annotations

import importlib
import importlib.util
import weakref
from typing import Any

import numpy as np

from tikgen.dtypes import DType
from tikgen.engines import cuda_driver
from tikgen.engines.cuda_driver import DEVICE, check, driver, enter
from tikgen.template.base import NDArray
from tikgen.verification.data import Fence, behind_or_before, guard, outside


def are_fences_known() -> bool:
    """Tell whether the packages are there that fences on a GPU need."""
    return all(importlib.util.find_spec(name) for name in ("torch", "cuda"))


class FencedOnDevice:
    """A tensor of torch that begins or ends next to addresses that do not exist.

    Any access to them fails with CUDA_ERROR_ILLEGAL_ADDRESS, also one whose value is not used.

    Args:
        values: what it holds.
        dtype: its element type.
        number: a number of its own among the arrays of a launch.
        is_low: whether the poison of integers is low, instead of high.
        fence: on which side memory does not exist.
    """

    def __init__(
        self, values: NDArray, dtype: DType, number: int, is_low: bool, fence: Fence
    ) -> None:
        torch = importlib.import_module("torch")
        self._all = torch.as_tensor(_Pages(values.size, dtype), device=f"cuda:{DEVICE}")
        room = self._all.numel()
        self._inside = behind_or_before(room, values.size, fence)
        self._before = np.full(room, guard(dtype, number, is_low))
        self._before[self._inside] = values.ravel()
        self._all.copy_(torch.from_numpy(self._before))
        self.value = self._all[self._inside].view(values.shape)

    def read(self) -> NDArray:
        """Return a copy of what the array holds."""
        found: NDArray = self.value.cpu().numpy()
        return found

    def writes_outside(self) -> str:
        """Return where memory outside the array was written, or an empty string."""
        return outside(self._all.cpu().numpy(), self._before, self._inside)


class _Pages:
    """Whole pages of the device, freed with the last tensor that shows them.

    Args:
        elements: how many elements there must be room for.
        dtype: their type.
    """

    def __init__(self, elements: int, dtype: DType) -> None:
        enter()
        d = driver()
        made = d.CUmemAllocationProp()
        made.type = d.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
        made.location.type = d.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
        made.location.id = DEVICE
        least = d.CUmemAllocationGranularity_flags.CU_MEM_ALLOC_GRANULARITY_MINIMUM
        (page,) = _done("cuMemGetAllocationGranularity", made, least)
        itemsize = dtype.bits // 8
        size = max(-(-elements * itemsize // page), 1) * page
        (start,) = _done("cuMemAddressReserve", page + size + page, 0, 0, 0)
        (handle,) = _done("cuMemCreate", size, made, 0)
        address = int(start) + page
        _done("cuMemMap", address, size, 0, handle, 0)
        access = d.CUmemAccessDesc()
        access.location = made.location
        access.flags = d.CUmemAccess_flags.CU_MEM_ACCESS_FLAGS_PROT_READWRITE
        _done("cuMemSetAccess", address, size, [access], 1)
        weakref.finalize(self, _free, int(start), page, size, handle).atexit = False
        self.__cuda_array_interface__ = {
            "shape": (size // itemsize,),
            "typestr": np.dtype(dtype.numpy).str,
            "data": (address, False),
            "version": 3,
        }


def _free(start: int, page: int, size: int, handle: Any) -> None:
    cuda_driver.wait_for_all()
    _done("cuMemUnmap", start + page, size)
    _done("cuMemRelease", handle)
    _done("cuMemAddressFree", start, page + size + page)


def _done(name: str, *arguments: Any) -> tuple[Any, ...]:
    return check(getattr(driver(), name)(*arguments), name)
