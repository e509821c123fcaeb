"""Reductions in the template update: sums and extremes of the same pass, beside NumPy."""

from __future__ import annotations

import math
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tikgen
from comparing import compared
from some_cases import examples
from tikgen.errors import ParameterError

TEXTS = (
    "u' = u + a*lap(u); err = sum((u' - u)**2); m = max(abs(u'))",
    "s = sum(u*v); lo = min(u - v); hi = max(u - v)",
    "u = u + v; rr = sum(u*u)",
    "q = v{back}*u; t = sum(q); h = min(q)",
    "r = u - 3*v; n = sum(r > 0)",
)
SHAPES = {
    1: ((1,), (2,), (7,), (31,), (33,), (1031,), (5000,), (20011,)),
    2: ((1, 1), (2, 3), (3, 70), (70, 2), (17, 131), (257, 33)),
    3: ((1, 1, 1), (2, 5, 3), (5, 7, 67), (33, 6, 9), (2, 2, 300)),
}


def filled(kernel: tikgen.Kernel, arrays: dict[str, Any], shape: tuple[int, ...]) -> dict[str, Any]:
    """Return copies of arguments, those that are only written filled with a number."""
    values = {}
    for argument in kernel.signature.arguments:
        extent = (1,) if getattr(argument, "shape", None) == (1,) else shape
        poison = np.full(extent, 77, argument.dtype.numpy)
        values[argument.name] = np.copy(arrays.get(argument.name, poison))
    return {name: value if value.ndim else value.item() for name, value in values.items()}


def launched(
    kernel: tikgen.Kernel, arrays: dict[str, Any], shape: tuple[int, ...]
) -> dict[str, np.ndarray]:
    """Return what a launch writes, compared with the reference and with a second launch."""
    before, values, again = (filled(kernel, arrays, shape) for _ in range(3))
    kernel(**values)
    kernel(**again)
    outputs = {}
    for name, found, wanted, limit in compared(kernel, before, values):
        with np.errstate(invalid="ignore"):
            right = (np.abs(found - wanted) <= limit) | (found == wanted)
        assert (right | (np.isnan(found) & np.isnan(wanted))).all(), name
        assert values[name].tobytes() == again[name].tobytes()
        outputs[name] = values[name]
    return outputs


@st.composite
def cases(draw: st.DrawFn, arch: str) -> tuple[tikgen.Kernel, tuple[int, ...]]:
    dim = draw(st.integers(1, 3))
    dtype = draw(st.sampled_from(("f32", "f32", "f64", "i32", "i64")))
    text = draw(st.sampled_from(TEXTS)).replace("{back}", str([-1] + [0] * (dim - 1)))
    schedule: dict[str, Any] = {"loop": "points"}
    if arch != "cpu":
        schedule["block_dim"] = draw(st.sampled_from((0, 64, 256)))
    elif draw(st.booleans()):
        strips = {"chunk": 1024} if dim == 1 else {"rows": draw(st.sampled_from((1, 2, 8)))}
        schedule = {"loop": "function", "row_buffer": draw(st.sampled_from((8, 32))), **strips}
    kernel = tikgen.update(
        text,
        dim=dim,
        dtype=dtype,
        scalars="a" if "a*" in text else "",
        boundary=draw(st.sampled_from(("interior", "periodic", "clamp"))),
        schedule=schedule,
    )
    return kernel, draw(st.sampled_from(SHAPES[dim]))


@settings(max_examples=examples(5, 2), suppress_health_check=list(HealthCheck))
@given(st.data())
def test_reductions_agree_with_numpy(ti_arch: str, data: st.DataObject) -> None:
    kernel, shape = data.draw(cases(ti_arch))
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    dtype = kernel.problem.dtype
    u, v = (
        rng.uniform(-1, 1, shape) if dtype.is_float else rng.integers(-(2**30), 2**30, shape)
        for _ in range(2)
    )
    arrays = {"u": u.astype(dtype.numpy), "v": v.astype(dtype.numpy)}
    launched(kernel, arrays | {"a": dtype.numpy.type(2)}, shape)


def test_a_sum_and_extremes_by_hand(ti_arch: str, rng: np.random.Generator) -> None:
    kernel = tikgen.update("u' = 2*u; err = sum((u' - u)**2); top = max(u'); low = min(u')", dim=2)
    assert kernel.signature.names == ("u", "u_next", "err", "top", "low")
    u = rng.uniform(-1, 1, (67, 130)).astype(np.float32)
    found = launched(kernel, {"u": u}, u.shape)
    np.testing.assert_allclose(found["err"], [np.sum(u.astype(np.float64) ** 2)], rtol=1e-6)
    assert found["top"] == 2 * u.max()
    assert found["low"] == 2 * u.min()


@pytest.mark.parametrize("dtype", ["f32", "i64"])
@pytest.mark.parametrize("shape", [(1,), (9, 2, 9)], ids=str)
def test_of_no_points(shape: tuple[int, ...], dtype: str, ti_arch: str) -> None:
    kernel = tikgen.update(
        "s = sum(lap(u)); h = max(lap(u)); n = min(lap(u))", dim=len(shape), dtype=dtype
    )
    found = launched(kernel, {"u": np.ones(shape, kernel.problem.dtype.numpy)}, shape)
    assert found["s"] == 0
    assert found["h"] == kernel.problem.dtype.lowest
    assert found["n"] == kernel.problem.dtype.highest


@pytest.mark.parametrize("special", [math.nan, math.inf, -math.inf])
def test_nan_and_infinity_propagate(special: float, ti_arch: str, rng: np.random.Generator) -> None:
    kernel = tikgen.update("s = sum(u); h = max(u); n = min(u)", dim=1)
    u = rng.uniform(-1, 1, 300).astype(np.float32)
    u[123] = special
    found = launched(kernel, {"u": u}, u.shape)
    np.testing.assert_array_equal(found["s"], [special])
    np.testing.assert_array_equal(found["h"], [u.max()])
    np.testing.assert_array_equal(found["n"], [u.min()])


def test_a_long_sum_is_accurate(ti_arch: str) -> None:
    # One after the other, ones of f32 add up to 2**24 at most.
    size = 2**24 + 5000 if ti_arch == "cpu" else 2**20
    kernel = tikgen.update("s = sum(u)", dim=1)
    s = np.zeros(1, np.float32)
    kernel(u=np.ones(size, np.float32), s=s)
    np.testing.assert_allclose(s, size, rtol=1e-6)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            "err = sum(u); u' = u/err",
            "'err' is a reduction, known only after the pass; read it in another kernel\n"
            "    err = sum(u); u' = u/err\n"
            "                         ^",
        ),
        ("u' = u/sum(u)", "is known only after the pass; give it a line of its own"),
        ("u' = u + max(u)", 'as in "total = max(...)"\n    u\' = u + max(u)\n             ^'),
        ("u' = sum(u)", "assign it to a name without a prime\n    u' = sum(u)\n    ^"),
        ("u' = u; s = sum(u, u)", "sum() over all points takes one expression"),
        ("s = sum(*u)", "takes one expression"),
        ("s = sum(u); s = sum(v)", "'s' is assigned twice, and is a reduction"),
        ("s = u; s = sum(s)", "'s' is assigned twice"),
        ("s = sum(s)", "'s' is a reduction, known only after the pass"),
        ("u' = u; s = sum(u'[1, 0])", "the neighbours of u' are not known yet"),
        ("s = sum(u'); u' = u", "u' is read before it is assigned"),
        ("s = sum(2)", "read and write no array"),
    ],
)
def test_what_a_reduction_cannot_be(text: str, problem: str) -> None:
    with pytest.raises(ParameterError) as caught:
        tikgen.render("update", equations=text, dim=2, arch="cpu")
    assert problem in str(caught.value)


def test_the_direct_engine_agrees_with_numpy(ti_arch: str, rng: np.random.Generator) -> None:
    pytest.importorskip("llvmlite", reason="llvmlite is an extra: pip install tikgen[fast]")
    if ti_arch != "cpu":
        pytest.skip("the engine is for cpu")
    text = "u' = u + 0.1*lap(u); err = sum((u' - u)**2); top = max(abs(u'))"
    for shape in ((3, 40), (130, 67)):
        u = rng.uniform(-1, 1, shape).astype(np.float32)
        kernel = tikgen.update(text, dim=2, boundary="clamp", engine="direct-cpu")
        launched(kernel, {"u": u}, shape)
        assert kernel.engine == "direct-cpu"


BITS = """
import sys

import numpy as np
import taichi as ti

import tikgen

ti.init(arch=ti.cpu, log_level=ti.ERROR, cpu_max_num_threads=int(sys.argv[1]))
u = np.random.default_rng(5).uniform(-1, 1, (700, 300)).astype(np.float32)
s, t = np.zeros((2, 1), np.float32)
for loop in ("function", "points"):
    schedule = {"loop": loop} | ({"iterations": 8} if loop == "function" else {})
    tikgen.update("s = sum(u); t = sum(u*u)", dim=2, schedule=schedule)(u=u, s=s, t=t)
    print(s.tobytes().hex(), t.tobytes().hex())
tikgen.elementwise("u = 2*u; s = sum(u)", dim=2, loop="flat", unroll=1, chunk=256)(u=u, s=s)
print(s.tobytes().hex())
"""


@pytest.mark.once
def test_every_number_of_threads_gives_the_same_bits() -> None:
    jobs = [
        subprocess.Popen([sys.executable, "-c", BITS, str(n)], stdout=subprocess.PIPE, text=True)
        for n in (1, 3)
    ]
    one, *others = [job.communicate()[0].splitlines()[-3:] for job in jobs]
    assert len(one) == 3
    assert len(set(" ".join(one).split())) > 3  # So the order shows in the bits.
    assert others == [one]


@pytest.mark.once
@pytest.mark.parametrize("template", ["update", "map"])
def test_an_ejected_file_knows_the_reference_and_the_tolerance(
    template: str, tmp_path: Path
) -> None:
    text = {"update": "equations", "map": "expr"}[template]
    source = tikgen.render(
        template, **{text: "y = 2*u; s = sum(u*u); m = max(u)"}, dim=1, arch="cpu",
        **{"outputs": "y"} if template == "update" else {},
    )  # fmt: skip
    path = tmp_path / "mine.py"
    path.write_text(tikgen.pipeline.eject.eject_text(source, "cpu"))
    mine = runpy.run_path(str(path))
    u = np.float32([1, 2, 3])
    given = {"u": u, "y": u, "s": u[:1], "m": u[:1]}
    y, s, m = mine["reference"](mine["p"], *given.values())
    assert (*y, *s, *m) == (2, 4, 6, 14, 3)
    allowed = mine["tolerance"](mine["p"], given, {"y": y, "s": s, "m": m})
    assert 0 < allowed["s"][0] < 1e-2


def test_blocks_belong_to_gpus(ti_arch: str) -> None:
    if ti_arch != "cpu":
        pytest.skip("a refusal on cpu")
    with pytest.raises(ParameterError, match="block_dim"):
        tikgen.update("s = sum(u)", dim=1, schedule={"loop": "points", "block_dim": 64})
