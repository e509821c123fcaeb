"""The template update beside NumPy: boundaries, staggered grids, types, schedules, refusals."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tikgen
from comparing import compared
from spread import spread
from tikgen.errors import ArgumentError, ParameterError
from tikgen.verification.equation_texts import text_of

GRAY_SCOTT = """
    r  = u*v**2                              # the reaction
    u' = u + dt*(Du*lap(u) - r + F*(1 - u))
    v' = v + dt*(Dv*lap(v) + r - (F + k)*v)
"""
PADDED: dict[Any, dict[str, Any]] = {
    "periodic": {"mode": "wrap"},
    "clamp": {"mode": "edge"},
    "zero": {"mode": "constant"},
    "reflect": {"mode": "reflect"},
    "antireflect": {"mode": "reflect", "reflect_type": "odd"},
    "symmetric": {"mode": "symmetric"},
    tikgen.dirichlet(2.5): {"mode": "constant", "constant_values": 2.5},
}


def launched(kernel: tikgen.Kernel, **given: Any) -> list[np.ndarray]:
    """Return what a launch writes, after a comparison with the kernel's reference."""
    shape = next(value.shape for value in given.values() if isinstance(value, np.ndarray))
    values = {}
    for argument in kernel.signature.arguments:
        name = argument.name
        poison = np.full(shape, 77, argument.dtype.numpy)
        value = given.get(name, poison)
        values[name] = value.copy() if isinstance(value, np.ndarray) else value
    before = {n: np.copy(v) if np.ndim(v) else v for n, v in values.items()}
    kernel(**values)
    outputs = []
    for name, found, wanted, limit in compared(kernel, before, values):
        assert (np.abs(found - wanted) <= limit).all(), name
        outputs.append(values[name])
    return outputs


def laplacian(x: np.ndarray, pad: dict[str, Any]) -> np.ndarray:
    wide = np.pad(x.astype(np.float64), 1, **pad)
    inner = (slice(1, -1),) * x.ndim
    total = -2 * x.ndim * wide[inner]
    for axis in range(x.ndim):
        for step in (-1, 1):
            total += np.roll(wide, step, axis)[inner]
    return total


def test_gray_scott_is_one_kernel(ti_arch: str, rng: np.random.Generator) -> None:
    kernel = tikgen.update(GRAY_SCOTT, dim=2, boundary="periodic", scalars="dt Du Dv F k")
    assert kernel.signature.names == ("u", "v", "dt", "Du", "F", "Dv", "k", "u_next", "v_next")
    u, v = rng.random((2, 37, 70)).astype(np.float32)
    numbers = {"dt": 0.9, "Du": 0.2, "Dv": 0.1, "F": 0.03, "k": 0.06}
    u_next, v_next = launched(kernel, u=u, v=v, **numbers)
    reaction = u * v**2
    wrap = {"mode": "wrap"}
    np.testing.assert_allclose(
        u_next, u + 0.9 * (0.2 * laplacian(u, wrap) - reaction + 0.03 * (1 - u)), atol=1e-5
    )
    np.testing.assert_allclose(
        v_next, v + 0.9 * (0.1 * laplacian(v, wrap) + reaction - 0.09 * v), atol=1e-5
    )


@spread("rule, shape", [*PADDED], [(3000,), (5, 67), (3, 4, 40)])
def test_what_lies_outside(
    rule: Any, shape: tuple[int, ...], ti_arch: str, rng: np.random.Generator
) -> None:
    kernel = tikgen.update("u' = lap(u)", dim=len(shape), boundary=rule)
    u = rng.uniform(-1, 1, shape).astype(np.float32)
    np.testing.assert_allclose(launched(kernel, u=u)[0], laplacian(u, PADDED[rule]), atol=1e-5)


@spread("rule, shape", [*PADDED, tikgen.neumann(0.5)], [(1, 1), (2, 1), (1, 3), (2, 40), (40, 2)])
def test_grids_smaller_than_the_stencil(
    rule: Any, shape: tuple[int, int], ti_arch: str, rng: np.random.Generator
) -> None:
    kernel = tikgen.update("u' = u + lap(u) + u[3, -2]", dim=2, order=4, boundary=rule)
    launched(kernel, u=rng.uniform(-1, 1, shape).astype(np.float32))


def test_the_halo_of_an_interior_is_left_alone(ti_arch: str, rng: np.random.Generator) -> None:
    for shape in ((9, 70), (2, 2), (3, 1), (5, 4)):
        u = rng.uniform(-1, 1, shape).astype(np.float32)
        kernel = tikgen.update("u' = u + lap(u); q = u[1, 0]", dim=2)
        for found in launched(kernel, u=u):
            halo = np.ones(shape, bool)
            halo[1:-1, 1:-1] = False
            assert (found[halo] == 77).all()


def test_each_side_of_each_field_has_its_rule(ti_arch: str, rng: np.random.Generator) -> None:
    boundary = {
        "u": {"x": "periodic", "y-": tikgen.dirichlet("a"), "y+": tikgen.neumann(2)},
        "v": {"x-": "clamp", "x+": "reflect", "y": "zero"},
    }
    text = "u' = lap(u) + v[-1, 0] + v[2, 0]; v' = v[0, 1] + u[1, 1] + u[-1, -1]"
    kernel = tikgen.update(text, dim=2, spacing=0.5, boundary=boundary, scalars="a")
    u, v = rng.uniform(-1, 1, (2, 6, 41)).astype(np.float32)
    u_next, v_next = launched(kernel, u=u, v=v, a=3.0)
    # The last column of u: outside lies its mirror image, and twice the slope times the spacing.
    right = u[:, -2] + 2 * 2 * 0.5
    around = np.roll(u, 1, 0)[:, -1] + np.roll(u, -1, 0)[:, -1] + u[:, -2] + right - 4 * u[:, -1]
    outside = v[[0, 0, 1, 2, 3, 4], -1] + v[[2, 3, 4, 5, 4, 3], -1]
    np.testing.assert_allclose(u_next[:, -1], 4 * around + outside, atol=1e-4)
    np.testing.assert_allclose(v_next[:, 0], v[:, 1] + np.roll(u, -1, 0)[:, 1] + 3.0, atol=1e-5)


def test_a_flux_keeps_a_slope(ti_arch: str) -> None:
    slopes = {"x-": tikgen.neumann(-3), "x+": tikgen.neumann(3)}
    kernel = tikgen.update("u' = lap(u)", dim=1, order=6, spacing=0.25, boundary=slopes)
    u = (3 * 0.25 * np.arange(50)).astype(np.float32)
    np.testing.assert_allclose(launched(kernel, u=u)[0], 0, atol=2e-3)


def test_heat_decays_as_it_should(ti_arch: str) -> None:
    n, step = 48, 2 * np.pi / 48
    kernel = tikgen.update(
        "u' = u + dt*lap(u)", 2, "dt", order=4, spacing=step, boundary="periodic", dtype="f64"
    )
    x = step * np.arange(n)
    u = np.sin(x)[:, None] * np.cos(2 * x)[None, :]
    start, dt = u.copy(), 1e-4
    after = np.empty_like(u)
    for _ in range(50):
        kernel(u=u, dt=dt, u_next=after)
        u, after = after, u
    np.testing.assert_allclose(u, start * np.exp(-5 * 50 * dt), atol=2e-4)


def test_a_staggered_grid_has_no_divergence_of_a_curl(
    ti_arch: str, rng: np.random.Generator
) -> None:
    at = {"ex": "edge x", "ey": "edge y", "ez": "edge z", "bx": "face x", "by": "face y"}
    kernel = tikgen.update(
        """bx' = bx - dt*(dy(ez) - dz(ey))
           by' = by - dt*(dz(ex) - dx(ez))
           bz' = bz - dt*(dx(ey) - dy(ex))""",
        dim=3,
        scalars="dt",
        boundary="periodic",
        at={**at, "bz": "face z"},
        dtype="f64",
        order=4,
    )
    shape = (6, 7, 8)
    fields = {n: rng.uniform(-1, 1, shape) for n in ("ex", "ey", "ez")}
    bx, by, bz = launched(
        kernel, **fields, **dict.fromkeys(("bx", "by", "bz"), np.zeros(shape)), dt=0.5
    )
    total = tikgen.update(
        "q = dx(bx) + dy(by) + dz(bz)",
        dim=3,
        boundary="periodic",
        at={"bx": "face x", "by": "face y", "bz": "face z"},
        dtype="f64",
        order=4,
    )
    (divergence,) = launched(total, bx=bx, by=by, bz=bz)
    assert np.abs(bx).max() > 0.5
    # Some fifty sums of numbers up to 10, each rounded.
    np.testing.assert_allclose(divergence, 0, atol=50 * 10 * 2**-52)


def test_arrays_have_types_of_their_own(ti_arch: str, rng: np.random.Generator) -> None:
    types = {"c": "f16", "mask": "u8", "q": "f64"}
    kernel = tikgen.update(
        "u' = where(mask > 0, u + c*lap(u), u); q = u*c", dim=2, boundary="clamp", types=types
    )
    shape = (9, 70)
    u = rng.uniform(-1, 1, shape).astype(np.float32)
    c = rng.uniform(0, 0.2, shape).astype(np.float16)
    mask = rng.integers(0, 2, shape).astype(np.uint8)
    u_next, q = launched(kernel, u=u, c=c, mask=mask)
    assert (u_next[mask == 0] == u[mask == 0]).all()
    assert q.dtype == np.float64


def test_integers_wrap_around_and_indices_count(ti_arch: str, rng: np.random.Generator) -> None:
    # The game of life.
    around = " + ".join(f"u[{a}, {b}]" for a in (-1, 0, 1) for b in (-1, 0, 1) if a or b)
    text = f"n = {around}; u' = where(n == 3 or n == 2 and u == 1, 1, 0); q = 100*i + j"
    kernel = tikgen.update(text, dim=2, boundary="periodic", dtype="i32")
    u = rng.integers(0, 2, (12, 45)).astype(np.int32)
    after, q = launched(kernel, u=u)
    count = sum(np.roll(u, (a, b), (0, 1)) for a in (-1, 0, 1) for b in (-1, 0, 1)) - u
    assert (after == ((count == 3) | ((count == 2) & (u == 1)))).all()
    assert q[3, 41] == 341


def test_a_field_in_place_may_read_neighbours_of_others(
    ti_arch: str, rng: np.random.Generator
) -> None:
    kernel = tikgen.update("h = h - a*(f[1] - f); n = h*2", dim=1, scalars="a", boundary="clamp")
    h, f = rng.uniform(-1, 1, (2, 300)).astype(np.float32)
    moved, twice = launched(kernel, h=h, f=f, a=0.5)
    np.testing.assert_allclose(moved, h - 0.5 * (np.append(f[1:], f[-1]) - f), atol=1e-6)
    assert (twice == 2 * moved).all()


def test_scalars_on_the_device_are_read_where_they_lie(
    ti_arch: str, rng: np.random.Generator
) -> None:
    params = {"dim": 2, "scalars": "a b g", "boundary": tikgen.dirichlet("g")}
    plain = tikgen.update("u' = u + a*lap(u) + b", **params)
    kernel = tikgen.update("u' = u + a*lap(u) + b", **params, on_device="a g")
    u = rng.uniform(-1, 1, (9, 70)).astype(np.float32)
    values = {"a": 0.1, "b": 0.5, "g": 2.0}
    (wanted,) = launched(plain, u=u, **values)
    for name in ("a", "g"):
        values[name] = np.float32([values[name]])
    (found,) = launched(kernel, u=u, **values)
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
    with pytest.raises(tikgen.errors.ArgumentError, match="shape"):
        kernel(u=u, u_next=np.empty_like(u), **values | {"a": np.zeros(2, np.float32)})


@pytest.mark.parametrize(
    "schedule",
    [
        {"loop": "function", "row_buffer": 8, "rows": 4},
        {"loop": "function", "row_buffer": 128, "rows": 1},
        {"loop": "points"},
    ],
    ids=str,
)
def test_every_schedule_computes_the_same(
    schedule: dict[str, Any], ti_arch: str, rng: np.random.Generator
) -> None:
    if ti_arch != "cpu":
        pytest.skip("other archs have the schedule of the other tests")
    text = "r = dx(u, along=v) + u[-2, 1]; u' = r*v; v' = lap(u*v)"
    kernel = tikgen.update(text, dim=2, boundary="periodic", schedule=schedule)
    for shape in ((7, 300), (130, 3), (1, 1)):
        u, v = rng.uniform(-1, 1, (2, *shape)).astype(np.float32)
        launched(kernel, u=u, v=v)


def test_a_long_line_in_chunks(ti_arch: str, rng: np.random.Generator) -> None:
    if ti_arch != "cpu":
        pytest.skip("chunks belong to cpu")
    for chunk in (1024, 4096):
        schedule = {"loop": "function", "row_buffer": 32, "chunk": chunk}
        kernel = tikgen.update(
            "u' = u[-3] + u[2]", dim=1, boundary={"x-": "zero", "x+": "clamp"}, schedule=schedule
        )
        for size in (1, 2, 1023, 1025, 4097, 9001):
            launched(kernel, u=rng.uniform(-1, 1, size).astype(np.float32))


@pytest.mark.parametrize(
    ("params", "problem"),
    [
        ({"boundary": {"w": "zero"}}, "names w, which is no array"),
        ({"boundary": {"v": "zero"}}, "says nothing about u"),
        ({"boundary": {"x": "zero"}}, "says nothing about the side y- of u"),
        ({"boundary": {"x-": "periodic", "x+": "zero", "y": "zero"}}, "both sides must be"),
        ({"boundary": {"x": "zero", "y": "zero", "z": "zero"}}, "names the side z, and dim is 2"),
        ({"boundary": ("value", "alpha")}, "takes alpha, which is no scalar"),
        ({"boundary": ("value", "e")}, "of one axis. The number e is 2.718281828459045"),
        ({"boundary": "perodic"}, "got 'perodic'. Did you mean 'periodic'"),
        ({"boundary": 3}, "wall, free_surface, tikgen.dirichlet(g), tikgen.neumann(g)"),
        (
            {"boundary": {"u": "zero", "a": "zero"}},
            "names a, which is a number and has no boundary",
        ),
        (
            {"equations": "v' = lap(u)", "boundary": {"u": "zero", "v": "zero"}},
            "names v, which the equations only write: nothing reads its neighbours, so that",
        ),
        (
            {"equations": "r = 2*u; v' = lap(r)", "boundary": {"r": "zero"}},
            "names r, which is computed at each point from other arrays; it has their boundaries",
        ),
        (
            {"scalars": ("a", "b")},
            "names b, which neither the equations nor the boundary read; leave it out",
        ),
        (
            {"equations": "v' = v", "constants": {"b": 1}},
            "'constants' names b, which neither the equations nor the boundary read; leave it out",
        ),
        ({"scalars": ["a", "a"]}, "'scalars' names a twice"),
        ({"equations": "v' = b*v; c = v", "outputs": ("c", "c")}, "'outputs' names c twice"),
        (
            {"equations": "v' = where(b, v, 0)", "types": {"b": "bool"}},
            "f64; truth values are u8, and array.view(np.uint8) has them",
        ),
        (
            {"scalars": ("a", "u_next"), "boundary": ("value", "u_next")},
            "names u_next, which is an",
        ),
        ({"on_device": ("aa",)}, "names aa, which is no scalar. Did you mean 'a'"),
        ({"constants": {"a": 2.0}}, "which is a constant as well"),
        ({"types": {"vv": "f16"}}, "names vv, which is no array"),
        ({"types": {"u": "f64"}, "mask": "m"}, "makes u f64, which cannot be kept exactly"),
        ({"types": {"u_next": "i32"}}, "what is written is f32"),
        ({"at": {"uu": "face x"}}, "names uu, which is no array. Did you mean 'u'?"),
        ({"at": {"v": "face z"}}, "needs more than 2 axes; with dim=2 it is 'centre'"),
        (
            {"at": {"v": "edge z"}},
            "on edge z, which needs more than 2 axes; with dim=2 it is 'corner'",
        ),
        ({"at": {"v": "edge x"}}, "needs more than 2 axes; with dim=2 it is 'face y'"),
        ({"spacing": (1.0, 2.0, 3.0)}, "takes one positive number, or 2"),
        ({"spacing": -1.0}, "takes one positive number"),
        ({"dtype": "i32", "order": 4}, "does not fit"),
        ({"equations": "update' = update"}, "use the name 'update', which the kernel has"),
        ({"equations": "q = 2*u; q = q + v"}, "q is read, and so a temporary; outputs='q' has"),
        ({"equations": "u' = u + lap(u"}, "was never closed"),
        ({"outputs": ("q",)}, "the output 'q' is not assigned"),
    ],
    ids=str,
)
def test_what_does_not_fit_is_refused(params: dict[str, Any], problem: str) -> None:
    given = {"equations": "u' = a*lap(u) + v", "dim": 2, "scalars": ("a",), **params}
    if "equations" in params:
        given["scalars"] = ()
    with pytest.raises(ParameterError) as caught:
        tikgen.render("update", arch="cpu", **given)
    assert problem in str(caught.value)


def test_more_operations_than_compile_in_seconds_are_refused() -> None:
    outputs = ["+".join(f"sin({m}*u+{n})" for m in range(2, 42)) for n in range(14)]
    texts = [f"q{n} = {text}" for n, text in enumerate(outputs)]
    tikgen.render("update", equations="; ".join(texts[:12]), arch="cpu")
    with pytest.raises(ParameterError, match=r"more than 2000, .* split them over two updates"):
        tikgen.render("update", equations="; ".join(texts), arch="cpu")


@pytest.mark.parametrize(
    ("text", "params", "given", "problem"),
    [
        ("u' = u*k", {"dim": 3}, "k", "; k is the index along axis 2: give the array another name"),
        ("u' = u*y", {}, "y", "; y is the coordinate along axis 1: give the array another name"),
        ("u' = u*e", {}, "e", "; e is the number 2.71828"),
        ("u' = u*dt", {}, "dt", "; a number is named at the build, scalars='dt'"),
        (
            "u' = u*dt",
            {"scalars": "dt", "on_device": "dt"},
            "dt",
            "; dt is on_device: pass an array of one f32 element, or leave dt out of on_device",
        ),
    ],
)
def test_what_a_letter_means_is_said(
    ti_arch: str, text: str, params: dict[str, Any], given: str, problem: str
) -> None:
    kernel = tikgen.update(text, **params)
    u = np.zeros((3,) * params.get("dim", 2), np.float32)
    with pytest.raises(ArgumentError) as caught:
        kernel(u=u, u_next=u.copy(), **{given: 0.5})
    assert str(caught.value).partition(problem)[1]


@pytest.mark.parametrize(
    ("text", "params"),
    [("s = sum(u)", {}), ("v' = 2*v", {"vectors": {"v": 2}})],
    ids=["a result", "a vector"],
)
def test_only_what_may_be_one_number_is_told_to_be_a_scalar(
    ti_arch: str, text: str, params: dict[str, Any]
) -> None:
    kernel = tikgen.update(text, **params)
    given = {a.name: np.zeros((2,) * len(a.shape), "f4") for a in kernel.signature.arguments}
    name = text[0]
    with pytest.raises(ArgumentError, match=rf"argument '{name}' takes .* got float$"):
        kernel(**given | {name: 0.5})


def test_a_number_in_every_expression_is_no_scalar() -> None:
    with pytest.raises(ParameterError, match=r"'scalars' names e, which is 2\.71828"):
        tikgen.render("map", expr="y = e*x", scalars="e")


def test_a_next_value_has_the_type_of_its_field(ti_arch: str, rng: np.random.Generator) -> None:
    text = "u' = u + c*lap(u); n' = n + 1"
    types = {"u": "f16", "n": "u8"}
    known = {a.name: str(a.dtype) for a in tikgen.update(text, types=types).signature.arguments}
    assert known == {"u": "f16", "c": "f32", "n": "u8", "u_next": "f16", "n_next": "f32"}
    types = {"u": "f16", "u_next": "f32"}
    kernel = tikgen.update("u' = 2*u", types=types)
    assert [str(a.dtype) for a in kernel.signature.arguments] == ["f16", "f32"]
    kernel = tikgen.update("u' = u + 0.1*lap(u)", boundary="periodic", types={"u": "f16"})
    u = rng.uniform(-1, 1, (9, 14)).astype(np.float16)
    u_next = np.full_like(u, 77)
    kernel(u=u, u_next=u_next)
    np.testing.assert_allclose(u_next, kernel.reference(u, u_next), rtol=2e-3, atol=1e-3)


def test_the_next_value_is_no_array_that_is_read(ti_arch: str) -> None:
    kernel = tikgen.update("u' = lap(u)", dim=1, boundary="clamp")
    u = np.zeros(9, np.float32)
    with pytest.raises(tikgen.errors.ArgumentError):
        kernel(u=u, u_next=u)


@pytest.mark.once
def test_an_ejected_file_checks_itself(tmp_path: Path) -> None:
    boundary = {"u": "reflect", "v": {"x": "periodic", "y-": ("value", "a"), "y+": ("flux", 2.0)}}
    kernel = tikgen.render(
        "update", equations="u' = a*lap(u) - v[0, 1]", dim=2, scalars=("a",), boundary=boundary,
        arch="cpu",
    )  # fmt: skip
    path = tmp_path / "mine.py"
    path.write_text(tikgen.pipeline.eject.eject_text(kernel, "cpu"))
    runpy.run_path(str(path))  # Defines everything; its check needs a process of its own.


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("over", "r = u\nv' = w\nwhere inside:\n    v' = a\n"),
        ("between", "r = u\nwhere inside:\n    v' = w\nelsewhere r > 2:\n    v' = a\n"),
        ("alone", "r = u\nwhere inside:\n    v' = w\nelsewhere:\n    v' = a\n"),
        ("own", "r = u\nwhere inside:\n    s = 2*r\n    v' = s + w\nelsewhere:\n    v' = a\n"),
    ],
)
def test_drawn_programs_have_regions(kind: str, expected: str) -> None:
    program = ("u", (("v'", "w"),), (("sum", "u", ""),), (kind, "inside", "a"))
    assert text_of(program, 1, is_float=True) == expected + "t0 = sum(u)"


def test_drawn_programs_have_a_text() -> None:
    program = (
        ("where", "u", ("sqrt", ("derivative", 3, "v")), 0.3),
        (("v", ("upwind", 1, "v", "w")), ("q", ("at", "v", (1, 2, 3)))),
        (("max", ("index", 4), "shift"),),
        None,
    )
    assert text_of(program, 2, is_float=True) == (
        "r = where(u > sqrt(abs(dxx(u))), sqrt(abs(dxx(u))), 0.3); "
        "v = v + dy(u, along=w); q = u[1, 2]; t0 = max(x + 9*u + 9*a)"
    )
    assert text_of(program, 1, is_float=False) == (
        "r = where(u > abs(lap(u) - 3), abs(lap(u) - 3) + 1, 3); v = v + lap(u); q = u[1]; "
        "t0 = max(i + 9*u + 9*a)"
    )


@pytest.mark.parametrize("text", ["u' = u + 1", "u' = v; v' = u"])
def test_a_next_value_needs_an_array_of_its_own(ti_arch: str, text: str) -> None:
    kernel = tikgen.update(text, dim=1)
    named = {a.name: np.zeros(40, np.float32) for a in kernel.signature.arguments}
    named["u_next"] = named["u"]
    with pytest.raises(ArgumentError, match="share memory"):
        kernel(**named)
