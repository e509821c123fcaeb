"""Tasks in their new form compute what Taichi's PTX computes as Taichi launches it."""

from __future__ import annotations

import ctypes
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fake_cuda import PRIMARY, FakeDriver, install
from ptx_in_c import library
from tikgen.dtypes import DType
from tikgen.engines import argument_struct, cuda_streams, direct_cuda

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="there is no gcc")
FOLDER = Path(__file__).parent / "ptx"
F32, F64 = DType.f32, DType.f64
_ENTRY = re.compile(r"\.entry (\w+)\([^)]*\)\s*\.maxntid (\d+)")
# Those without barriers: name, dtype and axes of each argument, shapes of input and output.
WORKS: list[tuple[str, list[Any], list[tuple[int, ...]]]] = [
    ("map-0", [(F32, None), (F32, 1), (F32, 1), (F32, 1)], [(1,), (1000,), (8193,), (30_011,)]),
    ("map-4", [(F32, 1)] * 3, [(1000,)]),
    ("stencil-0", [(F32, 3)] * 2, [(3, 3, 3), (37, 41, 53), (66, 5, 131)]),
    ("stencil-1", [(F32, 3)] * 2, [(64, 64, 64)]),
    ("stencil-2", [(F64, 2)] * 2, [(30, 7), (5, 300)]),
    ("loop-0", [(F32, 3)] * 2, [(1, 1, 1), (2, 3, 1031), (41, 37, 53)]),
]


class RunningDriver(FakeDriver):
    """A driver that runs what is launched."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder = folder

    def cuModuleLoadData(self, text: bytes) -> Any:  # noqa: N802
        self._library = library(text.decode().rstrip("\0"), self._folder)
        return 0, text

    def cuLaunchKernel(self, function: str, *more: Any) -> Any:  # noqa: N802
        assert self.current == PRIMARY
        place = ctypes.c_void_p.from_address(more[8]).value
        getattr(self._library, function)(ctypes.c_void_p(place), more[3], more[0])
        return (0,)


def launch_as_taichi(text: str, kinds: list[Any], values: list[Any], folder: Path) -> None:
    """Launch all tasks with the struct, the runtime and the grid that Taichi would give them."""
    packer = argument_struct.packer(kinds)
    fields: list[Any] = []
    for value in values:
        is_array = isinstance(value, np.ndarray)
        fields += [*value.shape, value.ctypes.data] if is_array else [value]
    arguments = ctypes.create_string_buffer(packer.size)
    packer.pack_into(arguments, 0, *fields)
    runtime, temporaries = (ctypes.create_string_buffer(1 << 16) for _ in range(2))
    ctypes.c_uint64.from_buffer(runtime, 32872).value = ctypes.addressof(temporaries)
    passed = (ctypes.c_uint64 * 4)(ctypes.addressof(arguments), ctypes.addressof(runtime), 0, 0)
    made = library(text.replace("\0", ""), folder)
    for name, block in _ENTRY.findall(text):
        blocks = 1 if name.endswith("serial") else 7
        getattr(made, name)(ctypes.byref(passed), int(block), blocks)


@pytest.mark.some
@pytest.mark.parametrize(("name", "kinds", "shapes"), WORKS)
def test_results_have_the_same_bits(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    name: str,
    kinds: list[Any],
    shapes: list[tuple[int, ...]],
    rng: np.random.Generator,
) -> None:
    install(monkeypatch, RunningDriver(tmp_path))
    monkeypatch.setattr(cuda_streams, "_look_for_torch", lambda: 0)
    text = (FOLDER / f"{name}.ptx").read_text()
    code = direct_cuda.load(direct_cuda.machine_code(text, kinds), kinds)
    for shape in shapes:
        values = [
            2.5 if ndim is None else rng.random(shape).astype(dtype.numpy) for dtype, ndim in kinds
        ]
        copies = [v.copy() if isinstance(v, np.ndarray) else v for v in values]
        launch_as_taichi(text, kinds, values, tmp_path)
        before = copies[-1].copy()
        launcher = code.launcher()
        launcher.set_all(copies)
        launcher.launch()
        np.testing.assert_array_equal(copies[-1], values[-1])
        assert (copies[-1] != before).any()
        if name == "map-0":
            np.testing.assert_allclose(copies[-1], 2.5 * values[1] + values[2], rtol=1e-6)
