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
        memory = _Pages(values.nbytes)
        self._inside = behind_or_before(memory.size // values.itemsize, values.size, fence)
        self._before = np.full(memory.size // values.itemsize, guard(dtype, number, is_low))
        self._before[self._inside] = values.ravel()
        self._all = torch.as_tensor(memory.of(dtype), device=f"cuda:{DEVICE}")
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
        size: how many bytes there must be room for.
    """

    def __init__(self, size: int) -> None:
        enter()
        d = driver()
        made = d.CUmemAllocationProp()
        made.type = d.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
        made.location.type = d.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
        made.location.id = DEVICE
        least = d.CUmemAllocationGranularity_flags.CU_MEM_ALLOC_GRANULARITY_MINIMUM
        (page,) = _done("cuMemGetAllocationGranularity", made, least)
        self.size = max(-(-size // page), 1) * page
        (start,) = _done("cuMemAddressReserve", page + self.size + page, 0, 0, 0)
        (handle,) = _done("cuMemCreate", self.size, made, 0)
        self._address = int(start) + page
        _done("cuMemMap", self._address, self.size, 0, handle, 0)
        access = d.CUmemAccessDesc()
        access.location = made.location
        access.flags = d.CUmemAccess_flags.CU_MEM_ACCESS_FLAGS_PROT_READWRITE
        _done("cuMemSetAccess", self._address, self.size, [access], 1)
        weakref.finalize(self, _free, int(start), page, self.size, handle).atexit = False

    def of(self, dtype: DType) -> _Pages:
        """Return itself, as an array of a dtype that torch takes."""
        self.__cuda_array_interface__: dict[str, Any] = {
            "shape": (self.size // (dtype.bits // 8),),
            "typestr": np.dtype(dtype.numpy).str,
            "data": (self._address, False),
            "version": 3,
        }
        return self


def _free(start: int, page: int, size: int, handle: Any) -> None:
    cuda_driver.wait_for_all()
    _done("cuMemUnmap", start + page, size)
    _done("cuMemRelease", handle)
    _done("cuMemAddressFree", start, page + size + page)


def _done(name: str, *arguments: Any) -> tuple[Any, ...]:
    return check(getattr(driver(), name)(*arguments), name)
