"""What the threads of a warp add to the same element is added up first."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tikgen
from conftest import ARCH
from tikgen.dtypes import DType
from tikgen.engines import direct_cuda, ptx_sums, ptx_text

on_cuda = pytest.mark.skipif(ARCH != "cuda", reason="the engine is for cuda")
PTX = (Path(__file__).parent / "ptx" / "sums-0.ptx").read_text()
KINDS = [(DType.f32, 2), (DType.f32, 1)]
TEXT = """
import taichi as ti


@ti.kernel
def add(
    x: ti.types.ndarray(dtype=ti.{dtype}, ndim=1), y: ti.types.ndarray(dtype=ti.{dtype}, ndim=1)
):
    for i in x:
        {body}
"""
BODIES: dict[str, Any] = {
    "y[0] += x[i]": lambda x: [x.sum(), 0, 0],
    "y[1] += x[i] * x[i]\n        y[0] -= x[i]": lambda x: [-x.sum(), (x * x).sum(), 0],
    "ti.atomic_max(y[2], x[i])": lambda x: [0, 0, max(0, x.max())],
    "ti.atomic_min(y[1], x[i]); y[2] += 1": lambda x: [0, min(0, x.min()), x.size],
    "y[i // 1000 % 3] += x[i]": lambda x: [
        x[np.arange(x.size) // 1000 % 3 == which].sum() for which in range(3)
    ],
    "y[i % 3] -= x[i]": lambda x: [-x[which::3].sum() for which in range(3)],
    "if x[i] > 7:\n            y[0] += i % 5": lambda x: [
        ((np.arange(x.size) % 5) * (x > 7)).sum(),
        0,
        0,
    ],
}


@on_cuda
@pytest.mark.usefixtures("ti_arch")
@pytest.mark.parametrize("engine", ["direct-cuda", "taichi"])
@pytest.mark.parametrize("body", BODIES)
@settings(max_examples=8)
@given(
    count=st.integers(1, 1_000) | st.integers(1, 3_000_000),
    dtype=st.sampled_from(("i32", "i64", "f32", "f64")),
    seed=st.integers(0, 2**32 - 1),
)
def test_sums_are_those_of_numpy(body: str, engine: str, count: int, dtype: str, seed: int) -> None:
    kind = np.dtype({"i": "int", "f": "float"}[dtype[0]] + dtype[1:])
    x = np.random.default_rng(seed).integers(-9, 9, count).astype(kind)
    y = np.zeros(3, kind)
    tikgen.from_string(TEXT.format(dtype=dtype, body=body)).with_engine(engine)(x, y)
    np.testing.assert_array_equal(y, BODIES[body](x.astype(np.int64)))


def summed(text: str, exact: bool = False) -> str | None:
    """Return the text of a kernel's last task with sums of warps, or None if it has none."""
    _, tasks = ptx_text.translated(text, direct_cuda.behind(KINDS))
    made = ptx_sums.by_warps(tasks[-1], exact)
    return None if made is tasks[-1] else made.text


def test_a_warp_adds_once() -> None:
    text = summed(PTX)
    assert text is not None
    assert text.count("shfl.sync.down") == 2 * 5 and text.count("red.add.f32") == 2
    assert text.count("atom.add.f32") == 2


@pytest.mark.parametrize(
    "replaced",
    [
        # What was there before is used; no whole warps.
        ("mul.ftz.f32 \t%f2, %f1, %f1", "mul.ftz.f32 \t%f2, %f3, %f4"),
        (".maxntid 128", ".maxntid 100"),
    ],
)
def test_other_tasks_stay(replaced: tuple[str, str]) -> None:
    assert replaced[0] in PTX
    assert summed(PTX.replace(*replaced)) is None


def test_sums_of_floats_are_not_exact() -> None:
    assert summed(PTX, exact=True) is None
    assert summed(PTX.replace("atom.add.f32", "atom.add.u32"), exact=True) is not None


def test_devices_whose_threads_go_together_have_what_is_written() -> None:
    old = PTX.replace(".target sm_86", ".target sm_61")
    assert "shfl" in direct_cuda.machine_code(PTX, KINDS).decode()
    assert "shfl" not in direct_cuda.machine_code(old, KINDS).decode()


def test_nvidia_reads_what_is_written(tmp_path: Path) -> None:
    if shutil.which("ptxas") is None:
        pytest.skip("ptxas is not there")
    doubles = PTX.replace("%f", "%fd").replace(".ftz", "").replace(".f32", ".f64")
    for number in (PTX, doubles):
        path = tmp_path / "kernel.ptx"
        path.write_text(json.loads(direct_cuda.machine_code(number, KINDS))["ptx"])
        command = ["ptxas", "-arch=sm_86", "-o", str(tmp_path / "kernel.cubin"), str(path)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
