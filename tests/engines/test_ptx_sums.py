"""What all threads of a GPU add to one element is added up within blocks."""

from __future__ import annotations

import json
import re
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
FOLDER = Path(__file__).parent / "ptx"
KINDS = {"sums-0": [(DType.f32, 2), (DType.f32, 1)], "maximum-0": [(DType.f32, 1)] * 2}
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
@pytest.mark.arch
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


@pytest.fixture(autouse=True)
def _initialised(request: pytest.FixtureRequest) -> None:
    """Have Taichi initialised for what hypothesis draws."""
    if request.node.get_closest_marker("arch"):
        request.getfixturevalue("ti_arch")


def summed(name: str, exact: bool = False, replaced: tuple[str, str] = ("", "")) -> str | None:
    """Return the text of the task of a kernel that adds up within blocks, or None if none does."""
    text = (FOLDER / f"{name}.ptx").read_text().replace(*replaced)
    _, tasks = ptx_text.translated(text, direct_cuda.behind(KINDS[name]))
    _, addresses = direct_cuda._places(KINDS[name])
    made = ptx_sums.by_blocks(tasks[-1], addresses, exact)
    return None if made is tasks[-1] else made.text


def test_each_element_has_a_sum() -> None:
    text = summed("sums-0")
    assert text is not None
    loop = text[: text.index("All threads of a block come here")]
    assert loop.count("add.f32 \t%tikgen_sum0,") == loop.count("add.f32 \t%tikgen_sum1,") == 1
    assert "atom" not in text
    added = re.findall(r"red\.add\.f32 \t(\S+),", text)
    assert added == ["[%address+0]", "[%address+4]"]


def test_a_maximum_of_floats_is_an_instruction() -> None:
    text = summed("maximum-0", exact=True)
    assert text is not None and text.count("atom.cas") == 1
    assert text.index("atom.cas") > text.index("All threads of a block come here")


@pytest.mark.parametrize(
    "replaced",
    [
        # The sum so far is used; it is added to what is found by an index; another operation.
        ("mul.ftz.f32 \t%f2, %f1, %f1", "mul.ftz.f32 \t%f2, %f1, %f3"),
        ("add.s64 \t%rd16, %rd15, 4", "add.s64 \t%rd16, %rd15, %rd14"),
        ("atom.add.f32 \t%f4, [%rd16]", "atom.max.s32 \t%f4, [%rd14]"),
        # Threads work together, or in no whole warps; the element is read.
        ("ld.f32 \t%f1, [%rd13]", "bar.sync \t0;\n\tld.f32 \t%f1, [%rd13]"),
        (".maxntid 128", ".maxntid 100"),
        ("ld.f32 \t%f1, [%rd13]", "ld.f32 \t%f1, [%rd14]"),
    ],
)
def test_other_tasks_stay(replaced: tuple[str, str]) -> None:
    assert replaced[0] in (FOLDER / "sums-0.ptx").read_text()
    assert summed("sums-0", replaced=replaced) is None


def test_sums_of_floats_are_not_exact() -> None:
    assert summed("sums-0", exact=True) is None


@pytest.mark.parametrize("name", KINDS)
def test_no_more_blocks_are_launched_than_run_at_once(name: str) -> None:
    text = (FOLDER / f"{name}.ptx").read_text()
    read = json.loads(direct_cuda.machine_code(text, KINDS[name]))
    assert read["tasks"][0]["iterations"] > 2**32 and read["tasks"][0]["head"]


@pytest.mark.parametrize("name", KINDS)
def test_nvidia_reads_what_is_written(name: str, tmp_path: Path) -> None:
    if shutil.which("ptxas") is None:
        pytest.skip("ptxas is not there")
    text = (FOLDER / f"{name}.ptx").read_text()
    path = tmp_path / "kernel.ptx"
    path.write_text(json.loads(direct_cuda.machine_code(text, KINDS[name]))["ptx"])
    command = ["ptxas", "-arch=sm_86", "-o", str(tmp_path / "kernel.cubin"), str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
