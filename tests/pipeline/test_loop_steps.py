"""No kernel is silently wrong on Vulkan drivers that end loops early."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tikgen
from tikgen.errors import UnsupportedOnArch
from tikgen.machine import devices as device

SIZES = (65_535, 65_540, 131_080, 300_007)

# Template, parameters, the schedule, and the shape of each argument where the long size is n.
Case = tuple[str, dict[str, Any], dict[str, Any], tuple[Any, ...]]
ROWS = {"loop": "rows", "unroll": 1}
WEIGHTS: dict[int, dict[str, Any]] = {
    1: {"points": {(-1,): 0.5, (1,): 1.0}},
    2: {"points": {(0, -1): 0.5, (1, 1): 1.0}},
}
# One thread for each part, where the default has a block of threads share it.
ALONE = {"team": 1, "grain": 1}
CASES: dict[str, Case] = {
    "map rows": ("map", {"expr": "y = x + 1", "dim": 2}, ROWS, ((2, "n"), (2, "n"))),
    "map rows, in steps": (
        "map",
        {"expr": "y = x + 1", "dim": 2},
        {"loop": "rows", "unroll": 4},
        ((2, "n"), (2, "n")),
    ),
    "map": ("map", {"expr": "y = x + 1"}, {}, (("n",), ("n",))),
    "map of turns": (
        "map",
        {"expr": "y = x + 1"},
        {"loop": "blocks", "unroll": 1, "items": 1, "block_dim": 32, "blocks": 1056},
        (("n",), ("n",)),
    ),
    "stencil rows": ("stencil", {"dim": 2, **WEIGHTS[2]}, ROWS, ((4, "n"), (4, "n"))),
    "stencil rows, buffered": (
        "stencil",
        {"dim": 2, **WEIGHTS[2]},
        {**ROWS, "row_buffer": 32},
        ((4, "n"), (4, "n")),
    ),
    "stencil on the line": ("stencil", {"dim": 1, **WEIGHTS[1]}, ROWS, (("n",), ("n",))),
    "stencil": ("stencil", {"dim": 2, **WEIGHTS[2]}, {}, ((4, "n"), (4, "n"))),
    "stencil down": ("stencil", {"dim": 2, **WEIGHTS[2]}, {}, (("n", 4), ("n", 4))),
    "transpose rows": ("transpose", {}, ROWS, ((2, "n"), ("n", 2))),
    "transpose rows across": ("transpose", {}, ROWS, (("n", 2), (2, "n"))),
    "transpose": ("transpose", {}, {}, ((2, "n"), ("n", 2))),
    "scan of one chunk": (
        "scan",
        {},
        {"chunks": 1, "unroll": 1, **ALONE, "items": 0},
        (("n",), ("n",)),
    ),
    "scan of one chunk, in steps": (
        "scan",
        {},
        {"chunks": 1, "unroll": 4, **ALONE, "items": 0},
        (("n",), ("n",)),
    ),
    "scan of chunks": (
        "scan",
        {},
        {"chunks": 2, "unroll": 1, **ALONE, "items": 0},
        (("n",), ("n",)),
    ),
    "scan of one team": (
        "scan",
        {},
        {"chunks": 1, "items": 4, "team": 64},
        (("n",), ("n",)),
    ),
    "scan": ("scan", {}, {}, (("n",), ("n",))),
    "sum of one chunk": ("reduce", {}, {"chunks": 1, "unroll": 1, **ALONE}, (("n",), (1,))),
    "place in one chunk": (
        "reduce",
        {"op": "argmax"},
        {"chunks": 1, "unroll": 4, **ALONE},
        (("n",), (1,)),
    ),
    "pairwise sum of one chunk": (
        "reduce",
        {"accuracy": "pairwise"},
        {"chunks": 1, "unroll": 1, **ALONE},
        (("n",), (1,)),
    ),
    "pairwise sum of chunks": (
        "reduce",
        {"accuracy": "pairwise"},
        {"chunks": 16384, "unroll": 1, **ALONE},
        (("n",), (1,)),
    ),
    "sum of chunks": ("reduce", {}, {"chunks": 2, "unroll": 1, **ALONE}, (("n",), (1,))),
    "sum of rows": ("reduce", {"dim": 2}, {"chunks": 2, "unroll": 1, **ALONE}, (("n", 2), (1,))),
    "sum of a team": (
        "reduce",
        {},
        {"chunks": 1, "unroll": 1, "team": 64},
        (("n",), (1,)),
    ),
    "sum along rows": (
        "reduce",
        {"dim": 2, "axis": 1},
        {"unroll": 1, **ALONE},
        ((3, "n"), (3,)),
    ),
    "sum down columns": ("reduce", {"dim": 2, "axis": 0}, {"unroll": 1, **ALONE}, (("n", 3), (3,))),
    "place along rows": (
        "reduce",
        {"dim": 2, "axis": 1, "op": "argmin"},
        {"unroll": 2, **ALONE},
        ((3, "n"), (3,)),
    ),
    "sum": ("reduce", {}, {}, (("n",), (1,))),
    "sum down columns, by default": ("reduce", {"dim": 2, "axis": 0}, {}, (("n", 3), (3,))),
    "gemm from arrays": (
        "gemm",
        {},
        {"via": "arrays", "tile_m": 1, "tile_n": 1, "unroll": 1},
        ((2, "n"), ("n", 2), (2, 2), 1.0, 0.0),
    ),
    "gemm": ("gemm", {}, {}, ((2, "n"), ("n", 2), (2, 2), 1.0, 0.0)),
    "gemm of many rows": ("gemm", {}, {}, (("n", 2), (2, 2), ("n", 2), 1.0, 0.0)),
    "histogram of one chunk": (
        "histogram",
        {"bins": 4},
        {"bins_in": "workspace", "chunks": 1, "unroll": 1, "block_dim": 0},
        (("n",), (4,), 0.5, 1.5),
    ),
    "histogram in a block": (
        "histogram",
        {"bins": 4},
        {"bins_in": "shared", "chunks": 1, "unroll": 1, "block_dim": 32},
        (("n",), (4,), 0.5, 1.5),
    ),
    "histogram": ("histogram", {"bins": 4}, {}, (("n",), (4,), 0.5, 1.5)),
}


@pytest.fixture
def limited(ti_arch: str) -> bool:
    return device.ends_loops(ti_arch)


def arguments_of(case: Case, n: int, rng: np.random.Generator) -> list[Any]:
    kernel = tikgen.build(case[0], **case[1], schedule=case[2])
    values: list[Any] = []
    for argument, given in zip(kernel.variant.arguments, case[3], strict=True):
        if isinstance(given, float):
            values.append(given)
            continue
        shape = tuple(n if extent == "n" else extent for extent in given)
        # Sums of positive numbers: what is left out shows.
        values.append(rng.uniform(0.5, 1.5, shape).astype(argument.dtype.numpy))
    return values


def check_right_or_refused(kernel: tikgen.Kernel, values: list[Any]) -> bool:
    """Launch, compare with the reference, and tell whether the launch was refused."""
    names = [argument.name for argument in kernel.variant.arguments]
    inputs = {
        n: v.copy() if isinstance(v, np.ndarray) else v for n, v in zip(names, values, strict=True)
    }
    expected = kernel.reference(*inputs.values())
    try:
        kernel(*values)
    except UnsupportedOnArch as error:
        assert "loop steps" in str(error)
        return True
    place = next(i for i, a in enumerate(kernel.variant.arguments) if getattr(a, "written", False))
    np.testing.assert_allclose(values[place], expected, rtol=1e-3)
    return False


@pytest.mark.parametrize("name", CASES)
def test_long_loops_are_right_or_refused(
    name: str, limited: bool, ti_arch: str, rng: np.random.Generator
) -> None:
    case = CASES[name]
    if case[2] and not limited:
        pytest.skip("this device ends no loops")
    shares = {"team", "blocks", "bins_in"} & case[2].keys()
    if ti_arch == "cpu" and any(case[2][n] not in (0, 1, "workspace") for n in shares):
        pytest.skip("needs a GPU")
    kernel = tikgen.build(case[0], **case[1], schedule=case[2])
    refused = [n for n in SIZES if check_right_or_refused(kernel, arguments_of(case, n, rng))]
    assert limited or not refused


def test_the_limit_is_exact(ti_arch: str, limited: bool, rng: np.random.Generator) -> None:
    if not limited:
        pytest.skip("this device ends no loops")
    for name in ("map rows", "scan of one chunk", "transpose rows across", "gemm from arrays"):
        case = CASES[name]
        kernel = tikgen.build(case[0], **case[1], schedule=case[2])
        assert not check_right_or_refused(kernel, arguments_of(case, 65_535, rng))
        assert check_right_or_refused(kernel, arguments_of(case, 65_538, rng))


def test_the_default_for_a_known_shape_stays_below_the_limit(
    ti_arch: str, rng: np.random.Generator
) -> None:
    kernel = tikgen.build("gemm", shape={"m": 2, "k": 300_007, "n": 2})
    assert not check_right_or_refused(kernel, arguments_of(CASES["gemm"], 300_007, rng))


def test_bound_launches_are_refused_as_well(
    ti_arch: str, limited: bool, rng: np.random.Generator
) -> None:
    if not limited:
        pytest.skip("this device ends no loops")
    kernel = tikgen.build("scan", schedule=CASES["scan of one chunk"][2])
    x = np.ones(70_000, np.float32)
    with pytest.raises(UnsupportedOnArch, match="loop steps"):
        kernel.bind(x, np.zeros_like(x))
    bound = kernel.bind(x[:100].copy(), np.zeros(100, np.float32))
    with pytest.raises(UnsupportedOnArch, match="loop steps"):
        bound.rebind(x=x, out=np.zeros_like(x))


@pytest.mark.parametrize("container", ["numpy", "ndarray"])
@pytest.mark.parametrize("lanes", [1, 4])
def test_long_rows_of_a_sparse_matrix(
    lanes: int, container: str, ti_arch: str, limited: bool, rng: np.random.Generator
) -> None:
    lanes = 1 if ti_arch == "cpu" else lanes
    block = 0 if ti_arch == "cpu" else 64
    schedule = {"lanes": lanes, "unroll": 1, "blocks": 0, "block_dim": block, "combine": "shared"}
    kernel = tikgen.build("spmv", schedule=schedule)
    for longest, fits in ((65_000 * lanes, True), (65_600 * lanes, False)):
        indptr = np.array([0, 2, 2 + longest, longest + 3], np.int32)
        data = rng.uniform(0.5, 1.5, longest + 3).astype(np.float32)
        arrays = [data, np.zeros(longest + 3, np.int32), indptr, np.ones(1, np.float32)]
        y = np.zeros(3, np.float32)
        expected = kernel.reference(*arrays, y, 1.0, 0.0)
        passed = arrays if container == "numpy" else [on_device(array) for array in arrays]
        if fits or not limited:
            kernel(*passed, y, 1.0, 0.0)
            np.testing.assert_allclose(y, expected, rtol=1e-3)
        else:
            with pytest.raises(UnsupportedOnArch, match="loop steps"):
                kernel(*passed, y, 1.0, 0.0)


def on_device(array: np.ndarray) -> Any:
    """Return a device array that holds what a NumPy array holds."""
    import taichi as ti

    made = ti.ndarray(ti.f32 if array.dtype.kind == "f" else ti.i32, array.shape)
    made.from_numpy(array)
    return made
