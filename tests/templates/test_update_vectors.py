"""Vectors in the template update: drawn texts beside NumPy in all layouts, places, refusals."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import tikgen
from comparing import compared
from tikgen.errors import ParameterError

LAYOUTS = ("first", "last", "separate")
MODES: dict[str, dict[str, Any]] = {
    "periodic": {"mode": "wrap"},
    "clamp": {"mode": "edge"},
    "zero": {"mode": "constant"},
    "reflect": {"mode": "reflect"},
}
D2Q9 = {
    "w": [4 / 9, *[1 / 9] * 4, *[1 / 36] * 4],
    "cx": [0, 1, 0, -1, 0, 1, -1, -1, 1],
    "cy": [0, 0, 1, 0, -1, 1, 1, -1, -1],
    "opposite": [0, 3, 4, 1, 2, 7, 8, 5, 6],
}


def labels_of(count: int) -> list[Any]:
    return list("xyz"[:count]) if count <= 3 else list(range(count))


def launched(kernel: tikgen.Kernel, vectors: dict[str, int], **given: Any) -> dict[str, Any]:
    """Return what a launch writes, vectors with their components first, as ``given`` has them."""
    layout = kernel.problem.layout
    arguments: dict[str, Any] = {}
    written = {}
    for name, value in given.items():
        count = vectors.get(name.removesuffix("_next"), 0)
        if not count:
            arguments[name] = np.copy(value) if np.ndim(value) else value
        elif layout == "separate":
            parts = zip(labels_of(count), value, strict=True)
            arguments |= {f"{name}_{label}": part.copy() for label, part in parts}
        else:
            arguments[name] = np.copy(
                value if layout == "first" else np.moveaxis(value, 0, -1), "C"
            )
    values = {name: arguments[name] for name in kernel.signature.names}
    before = {n: np.copy(v) if np.ndim(v) else v for n, v in values.items()}
    kernel(**values)
    for name, found, wanted, limit in compared(kernel, before, values):
        assert (np.abs(found - wanted) <= limit).all(), name
    for name in given:
        count = vectors.get(name.removesuffix("_next"), 0)
        if count and layout == "separate":
            written[name] = np.stack([arguments[f"{name}_{label}"] for label in labels_of(count)])
        else:
            found = arguments[name]
            written[name] = np.moveaxis(found, -1, 0) if count and layout == "last" else found
    return written


# Drawn texts. A term is a factor, a vector, which component of it, and an offset.

NUMBER = st.integers(-3, 3)
COMPONENT = st.sampled_from(("q", "turn.q", "last"))
TERM = st.tuples(NUMBER, st.sampled_from("fg"), COMPONENT, st.tuples(*[st.integers(-2, 2)] * 3))


@st.composite
def problems(draw: st.DrawFn, most: int = 9) -> dict[str, Any]:
    counts = [count for count in (2, 3, 4, 9) if count <= most]
    count, dim = draw(st.sampled_from(counts)), draw(st.integers(1, 3))
    longest = {1: (1, 2, 67, 1100), 2: (1, 2, 5, 41), 3: (1, 3, 34)}[dim]
    small = {1: (), 2: (1, 3, 7), 3: (1, 2, 3)}[dim]
    shape = tuple(draw(st.sampled_from(small)) for _ in range(dim - 1))
    return {
        "count": count,
        "turn": draw(st.permutations(range(count))),
        "weights": draw(st.lists(NUMBER, min_size=count, max_size=count)),
        "terms": draw(st.lists(TERM, min_size=1, max_size=3)),
        "total": draw(TERM),
        "rule": draw(st.sampled_from(sorted(MODES))),
        "shape": (*shape, draw(st.sampled_from(longest))),
        "dtype": draw(st.sampled_from(("f32", "i32", "f64"))),
        "loop": draw(st.sampled_from((None, "points", 8, 16))),
        "seed": draw(st.integers(0, 2**32 - 1)),
    }


def text_of(drawn: dict[str, Any], dim: int) -> str:
    def term(one: tuple[Any, ...]) -> str:
        factor, vector, component, offset = one
        component = str(drawn["count"] - 1) if component == "last" else component
        return f"{factor}*{vector}.{component}{list(offset[:dim])}"

    return f"""
        s = sum({term(drawn["total"])} for q in {drawn["count"]})
        each q in f:
            r = {" + ".join(map(term, drawn["terms"]))} + f.q - g.turn.q
            f'.q = r + weights.q*s
        m = s  # an array of its own
    """


def expected(drawn: dict[str, Any], f: np.ndarray, g: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    def term(one: tuple[Any, ...], q: int) -> np.ndarray:
        factor, vector, component, offset = one
        count, shape = drawn["count"], f.shape[1:]
        number = {"q": q, "turn.q": drawn["turn"][q], "last": count - 1}[component]
        wide = np.pad({"f": f, "g": g}[vector][number], 2, **MODES[drawn["rule"]])
        steps = zip(offset, shape, strict=False)
        return factor * wide[tuple(slice(2 + step, 2 + step + n) for step, n in steps)]

    numbers = range(drawn["count"])
    total = sum(term(drawn["total"], q) for q in numbers)
    parts = [sum(term(one, q) for one in drawn["terms"]) for q in numbers]
    own = [f[q] - g[drawn["turn"][q]] + drawn["weights"][q] * total for q in numbers]
    return np.stack([parts[q] + own[q] for q in numbers]), total


DRAWN = {
    "deadline": None,
    "phases": (Phase.explicit, Phase.reuse, Phase.generate),  # To shrink takes minutes.
    "suppress_health_check": [HealthCheck.function_scoped_fixture],
}


@settings(max_examples=1, **DRAWN)
@given(drawn=problems(most=3))
def test_drawn_texts_are_what_numpy_says_in_all_layouts(
    drawn: dict[str, Any], ti_arch: str
) -> None:
    compare(drawn, ti_arch)


@pytest.mark.slow
@settings(max_examples=40, **DRAWN)
@given(drawn=problems())
def test_many_drawn_texts(drawn: dict[str, Any], ti_arch: str) -> None:
    compare(drawn, ti_arch)


def compare(drawn: dict[str, Any], ti_arch: str) -> None:
    rng = np.random.default_rng(drawn["seed"])
    shape, dtype = drawn["shape"], np.dtype(tikgen.DType.parse(drawn["dtype"]).numpy)
    # Whole numbers, so that every sum is exact, in whatever order.
    f, g = rng.integers(-9, 9, (2, drawn["count"], *shape)).astype(dtype)
    loop = drawn["loop"] if ti_arch == "cpu" else None
    params: dict[str, Any] = {}
    if loop == "points":
        params["schedule"] = {"loop": "points"}
    elif loop:
        params["schedule"] = {"loop": "function", "row_buffer": loop}
    vectors = dict.fromkeys("fg", drawn["count"])
    wanted, total = expected(drawn, f, g)
    for layout in LAYOUTS:
        kernel = tikgen.update(
            text_of(drawn, len(shape)),
            dim=len(shape),
            dtype=drawn["dtype"],
            vectors=vectors,
            constants={"turn": drawn["turn"], "weights": drawn["weights"]},
            boundary=drawn["rule"],
            layout=layout,
            **params,
        )
        after = np.full_like(f, 77)
        found = launched(kernel, vectors, f=f, g=g, f_next=after, m=after[0])
        np.testing.assert_array_equal(found["f_next"], wanted)
        np.testing.assert_array_equal(found["m"], total)


# What else vectors do.

LATTICE = """
    each q in f: g.q = f.q[-cx.q, -cy.q]
    rho = sum(g.q for q in f)
    each q in f: f'.q = g.opposite.q + w.q*rho
"""


def test_a_lattice_streams(ti_arch: str, rng: np.random.Generator) -> None:
    vectors = {"f": 9, "g": 9}
    lists = {**D2Q9, "w": np.array(D2Q9["w"])}
    kernel = tikgen.update(LATTICE, dim=2, vectors=vectors, constants=lists, boundary="periodic")
    assert kernel.signature.names == ("f", "f_next")
    f = rng.random((9, 5, 67)).astype(np.float32)
    steps = zip(D2Q9["cx"], D2Q9["cy"], strict=True)
    g = np.stack([np.roll(f[q], step, (0, 1)) for q, step in enumerate(steps)])
    wanted = g[D2Q9["opposite"]] + np.array(D2Q9["w"])[:, None, None] * g.sum(0)
    found = launched(kernel, {"f": 9}, f=f, f_next=np.zeros_like(f))
    np.testing.assert_allclose(found["f_next"], wanted, rtol=1e-5)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_whole_vectors(layout: str, ti_arch: str, rng: np.random.Generator) -> None:
    kernel = tikgen.update(
        "E' = E + dt*(curl(B) - J.z*grad(p)); d = div(E) + dot(E, B)",
        dim=3,
        scalars="dt",
        vectors={"E": 3, "B": 3, "J": 3},
        boundary="periodic",
        layout=layout,
        dtype="f64",
    )
    e, b, j = rng.uniform(-1, 1, (3, 3, 4, 5, 6))
    p = rng.uniform(-1, 1, (4, 5, 6))

    def slope(x: np.ndarray, axis: int) -> np.ndarray:
        return (np.roll(x, -1, axis) - np.roll(x, 1, axis)) / 2

    given = {"E": e, "B": b, "J": j, "E_next": np.zeros_like(e), "d": np.zeros_like(p)}
    found = launched(kernel, {"E": 3, "B": 3, "J": 3}, p=p, dt=0.25, **given)
    for axis in range(3):
        one, other = (axis + 1) % 3, (axis + 2) % 3
        curl = slope(b[other], one) - slope(b[one], other)
        wanted = e[axis] + 0.25 * (curl - j[2] * slope(p, axis))
        np.testing.assert_allclose(found["E_next"][axis], wanted, atol=1e-14)
    divergence = sum(slope(e[axis], axis) for axis in range(3))
    np.testing.assert_allclose(found["d"], divergence + (e * b).sum(0), atol=1e-14)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_each_component_has_its_place_and_its_boundary(
    layout: str, ti_arch: str, rng: np.random.Generator
) -> None:
    wall = {"v": {"x": "zero", "y": "clamp"}, "v.x": {"x": "clamp", "y": "zero"}, "p": "clamp"}
    params: dict[str, Any] = {"dim": 2, "boundary": wall, "dtype": "f64"}
    kernel = tikgen.update(
        "v' = v - grad(p); d = div(v)",
        vectors={"v": 2},
        at={"v": "faces"},
        layout=layout,
        **params,
    )
    v, p = rng.uniform(-1, 1, (2, 6, 9)), rng.uniform(-1, 1, (6, 9))
    given = {"v": v, "p": p, "v_next": np.zeros_like(v), "d": np.zeros_like(p)}
    found = launched(kernel, {"v": 2}, **given)
    plain = tikgen.update(
        "vx' = vx - dx(p); vy' = vy - dy(p); d = dx(vx) + dy(vy)",
        at={"vx": "face x", "vy": "face y"},
        **params | {"boundary": {"vx": wall["v.x"], "vy": wall["v"], "p": "clamp"}},
    )
    wanted = launched(plain, {}, vx=v[0], vy=v[1], p=p, vx_next=0 * p, vy_next=0 * p, d=0 * p)
    np.testing.assert_allclose(found["v_next"], [wanted["vx_next"], wanted["vy_next"]], atol=1e-14)
    np.testing.assert_allclose(found["d"], wanted["d"], atol=1e-14)


@pytest.mark.parametrize("layout", ("first", "last"))
def test_components_that_are_not_assigned_keep_their_value(
    layout: str, ti_arch: str, rng: np.random.Generator
) -> None:
    kernel = tikgen.update(
        "f.1 = f.1 + f.0[1] - f.2; g.1 = 2*f.1", dim=1, vectors={"f": 4, "g": 2}, layout=layout,
        boundary="periodic", types={"g": "f64"},
    )  # fmt: skip
    roles = {a.name: a.role for a in kernel.signature.arguments}
    assert roles == {"f": "inout", "g": "out"}
    f = rng.random((4, 70)).astype(np.float32)
    found = launched(kernel, {"f": 4, "g": 2}, f=f, g=np.full((2, 70), 77.0))
    np.testing.assert_array_equal(found["f"][[0, 2, 3]], f[[0, 2, 3]])
    np.testing.assert_allclose(found["f"][1], f[1] + np.roll(f[0], -1) - f[2], rtol=1e-5, atol=1e-6)
    assert (found["g"][0] == 77).all()
    assert found["g"].dtype == np.float64


def test_names_of_components_do_not_clash(ti_arch: str, rng: np.random.Generator) -> None:
    # Fields whose names are those that components would have in the code, an index and a constant.
    text = "i.x = 2*v_x; v'.x = i.x + v_next_x + dot(e, e); v'.y = v.y[-1]*j"
    vectors = {"v": 2, "i": 2, "e": 2}
    kernel = tikgen.update(text, dim=1, vectors=vectors, boundary="clamp", scalars="j")
    v, e, v_x, v_next_x = *rng.random((2, 2, 9)), *rng.random((2, 9))
    given = {"v": v, "e": e, "v_x": v_x, "v_next_x": v_next_x, "v_next": v}
    found = launched(kernel, vectors, **{n: x.astype("f4") for n, x in given.items()}, j=0.5)
    wanted = 2 * v_x + v_next_x + (e * e).sum(0)
    np.testing.assert_allclose(found["v_next"][0], wanted, rtol=1e-5)


@pytest.mark.once
def test_an_ejected_file_checks_itself(tmp_path: Path) -> None:
    boundary = {"f": "periodic", "v": "clamp", "v.y": ("value", "a")}
    kernel = tikgen.render(
        "update", equations=LATTICE + "    v' = v + a*lap(v)", dim=2, scalars=("a",), arch="cpu",
        vectors={"f": 9, "g": 9, "v": 2}, constants=D2Q9, boundary=boundary, layout="last",
    )  # fmt: skip
    path = tmp_path / "mine.py"
    path.write_text(tikgen.pipeline.eject.eject_text(kernel, "cpu"))
    subprocess.run([sys.executable, str(path)], check=True, cwd=tmp_path)


@pytest.mark.parametrize(
    ("params", "problem"),
    [
        ({"vectors": {"f": 33}}, "takes 2 to 32 components; f has 33"),
        ({"vectors": {"f": 1}}, "takes 2 to 32 components; f has 1"),
        ({"vectors": {"f": 3, "w": 3}}, "names w, which is a scalar or a constant"),
        ({"vectors": {"f": 3, "lap": 3}}, "names lap, which is an operator"),
        ({"vectors": {"f": 3, "h": 3}}, "names h, which nothing uses"),
        ({"vectors": {"f": 3, "f_next": 3}}, "the next value of f"),
        ({"vectors": None, "layout": "last", "equations": "u' = u"}, "there are none"),
        ({"equations": "f' = f + g"}, "adds a number to a vector"),
        ({"equations": "f' = f; q = f_next"}, "f_next is the argument that takes f'"),
        ({"at": {"f.3": "face x"}}, "names f.3, which is no array"),
        ({"at": {"f.": "face x"}}, "no name of a field or of a component"),
        ({"boundary": {"f.4": "zero"}}, "names f.4, which is no array"),
        ({"boundary": {"f.y": "zero"}}, "says nothing about f.x"),
        ({"types": {"f.x": "f16"}}, "is not a plain identifier"),
        ({"constants": {"w": []}}, "has the empty list w"),
    ],
    ids=str,
)
def test_what_does_not_fit_is_refused(params: dict[str, Any], problem: str) -> None:
    known = {"equations": "f' = f + lap(f)*w.x", "dim": 1, "vectors": {"f": 3}}
    given = {**known, "constants": {"w": [1, 2]}, "boundary": "clamp", **params}
    with pytest.raises(ParameterError) as caught:
        tikgen.render("update", arch="cpu", **given)
    assert problem in str(caught.value)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_direct_engine_computes_the_same(
    layout: str, ti_arch: str, rng: np.random.Generator
) -> None:
    if ti_arch != "cpu":
        pytest.skip("direct-cpu belongs to cpu")
    pytest.importorskip("llvmlite")
    text = "each q in f: f'.q = 2*f.q[1, -1] - f.q"
    kernel = tikgen.update(
        text, dim=2, vectors={"f": 3}, boundary="periodic", dtype="i32", layout=layout
    ).with_engine("direct-cpu")
    f = rng.integers(-9, 9, (3, 5, 67)).astype(np.int32)
    found = launched(kernel, {"f": 3}, f=f, f_next=np.zeros_like(f))
    np.testing.assert_array_equal(found["f_next"], 2 * np.roll(f, (-1, 1), (1, 2)) - f)
