"""Absorbing layers of an update: their damping, the waves that come back, what is refused."""

from __future__ import annotations

import itertools
import re
from typing import Any

import numpy as np
import pytest

import tikgen
from test_template_update import launched
from tikgen.errors import ParameterError
from tikgen.pipeline.builder import resolve
from tikgen.template.layers import any_of, layer_errors, with_layers


def factor(shape: tuple[int, ...], layers: dict[str, tuple[int, float]], half: str) -> np.ndarray:
    """Return the damping of layers, point by point; ``half`` names axes of fields on faces."""
    found = np.ones(shape)
    for index in itertools.product(*map(range, shape)):
        for side, (width, strength) in layers.items():
            axis = "xyz".index(side[0])
            place = index[axis] + (0 if side[0] in half else 0.5)
            inside = width - (place if side[1] == "-" else shape[axis] - place)
            found[index] *= 1 - strength * (max(inside, 0) / width) ** 2
    return found


@pytest.mark.parametrize(
    ("loop", "shapes"),
    [
        ("function", [(1,), (7,), (1100,)]),
        ("function", [(4, 70), (30, 3)]),
        ("points", [(4, 70), (30, 3)]),
        ("points", [(3, 9, 40), (1, 2, 3)]),
    ],
    ids=str,
)
def test_layers_damp_what_is_new(
    loop: str, shapes: list[tuple[int, ...]], ti_arch: str, rng: np.random.Generator
) -> None:
    if ti_arch != "cpu" and loop == "function":
        pytest.skip("real functions belong to cpu")
    dim = len(shapes[0])
    layers = {"x-": (5, 0.5), "x+": (3, 0.25), "y-": (2, 1.0), "z+": (9, 0.1)}
    layers = {side: layer for side, layer in layers.items() if "xyz".index(side[0]) < dim}
    sides = {side: tikgen.absorbing(*layer, beyond="clamp") for side, layer in layers.items()}
    sides = dict.fromkeys("xyz"[:dim], "clamp") | sides
    params = {"dim": dim, "at": {"v": "face x"}, "schedule": {"loop": loop}}
    text = "u' = u + lap(u)/8; v' = v - lap(v)/8; w = w + u; q = 2*u'"
    last = {"x+": tikgen.absorbing(4, 0.5, order=2)}
    boundary = {"u": sides, "v": sides, "w": last}
    kernel = tikgen.update(text, boundary=boundary, mask="solid", **params)
    plain = tikgen.update(text, boundary="clamp", **params)
    for shape in shapes:
        u, v, w = rng.uniform(-1, 1, (3, *shape)).astype(np.float32)
        q = np.zeros(shape, np.float32)
        solid = rng.choice(np.uint8([0, 0, 0, 1]), shape)
        found = launched(kernel, u=u, v=v, w=w, q=q, solid=solid)
        new_w, new_u, new_v, new_q = launched(plain, u=u, v=v, w=w)
        expected = [
            w + (new_w - w) * factor(shape, {"x+": (4, 0.5)}, ""),
            new_u * factor(shape, layers, ""),
            new_v * factor(shape, layers, "x"),
            new_q,
        ]
        for value, before, after in zip(found, (w, u, v, q), expected, strict=True):
            np.testing.assert_allclose(value, np.where(solid, before, after), atol=1e-6)


@pytest.mark.parametrize("dim", [1, pytest.param(3, marks=pytest.mark.slow)])
def test_all_of_it_without_taichi(dim: int, ti_arch: str, rng: np.random.Generator) -> None:
    if ti_arch != "cpu":
        pytest.skip("the engine belongs to cpu")
    inflow = tikgen.dirichlet("inflow")
    sides = {"x-": tikgen.absorbing(5, 0.4, beyond=inflow), "x+": tikgen.neumann("pull", at="wall")}
    sides |= dict.fromkeys("yz"[: dim - 1], "antisymmetric")
    kernel = tikgen.update(
        f"u' = u + lap(u)/8; v = v + u{[-2] * dim}; q = u*v",
        dim,
        boundary={"u": sides, "v": tikgen.absorbing(3, 0.5, order=2)},
        mask="solid",
        types={"pull": "f16", "inflow": "f64"},
        engine="direct-cpu",
    )
    for shape in [(1,), (2100,)] if dim == 1 else [(3, 4, 41), (2, 1, 3)]:
        u, v, q = rng.uniform(-1, 1, (3, *shape)).astype(np.float32)
        solid = rng.choice(np.uint8([0, 0, 0, 9]), shape)
        face = rng.uniform(-1, 1, shape[1:] or (1,))
        launched(kernel, u=u, v=v, q=q, solid=solid, inflow=face, pull=face.astype(np.float16))
    assert kernel.engine == "direct-cpu"


def pulse(*shape: int) -> np.ndarray:
    """Return a pulse in the middle."""
    places = np.ogrid[tuple(slice(-n / 2 + 0.5, n / 2) for n in shape)]
    return np.exp(-sum(place**2 for place in places) / 50.0).astype(np.float32)


def part_left(steps: list[Any], p: np.ndarray) -> float:
    """Return the part of the squares of a pulse that is left after 400 rounds."""
    program = tikgen.Program(steps)
    before = (p**2).sum()
    program.run(400)
    return float((program["p"] ** 2).sum() / before)


@pytest.mark.parametrize("dim", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_sound_leaves_and_hardly_returns(dim: int, ti_arch: str) -> None:
    left = []
    for rule in (tikgen.absorbing(20), "wall"):
        p, p_next = pulse(*[160] * dim), np.zeros([160] * dim, np.float32)
        flow = {f"v{letter}": np.zeros_like(p) for letter in "xy"[:dim]}
        at = {name: f"face {name[1]}" for name in flow}
        first = "; ".join(f"{name} = {name} - 0.5*d{name[1]}(p)" for name in flow)
        second = "p' = p - 0.5*(" + " + ".join(f"d{name[1]}({name})" for name in flow) + ")"
        push = tikgen.update(first, dim, at=at, boundary=rule).bind(p=p, **flow)
        fill = tikgen.update(second, dim, at=at, boundary=rule).bind(p=p, p_next=p_next, **flow)
        left.append(part_left([push, fill, tikgen.swap((p, p_next))], p))
    absorbed, kept = left
    assert absorbed < 0.01 < 0.3 < kept


@pytest.mark.once
def test_a_wave_of_second_order_leaves_too(ti_arch: str) -> None:
    left = []
    for rule in (tikgen.absorbing(20, order=2), "zero"):
        # Without the longest waves, which no layer of this kind absorbs.
        p = np.diff(pulse(161, 160), axis=0)
        old = p.copy()
        rules = {"p": "zero", "old": rule}
        step = tikgen.update("old = 2*p - old + 0.25*lap(p)", dim=2, boundary=rules)
        left.append(part_left([step.bind(p=p, old=old), tikgen.swap((p, old))], p))
    absorbed, kept = left
    assert absorbed < 0.01 < 0.3 < kept


def test_the_interior_pays_one_comparison_a_buffer() -> None:
    params = {"equations": "u' = u + lap(u)", "dim": 2, "arch": "cpu"}
    inner = []
    for rule in ("zero", tikgen.absorbing(20)):
        text = tikgen.render("update", boundary=rule, **params).text
        inner.append(text[text.index("buffer_u_next = ") : text.rindex(" else:")])
    plain, absorbed = inner
    condition = "if i < 20 or i >= u.shape[0] - 20 or j < 20 or j + 32 > row - 20:"
    indent, block = re.findall(rf"\n( +){re.escape(condition)}\n((?:\1 .*\n)+)", absorbed)[0]
    assert "faded(" in block
    assert plain == absorbed.replace(f"{indent}{condition}\n{block}", "")


@pytest.mark.parametrize(
    ("boundary", "problem"),
    [
        ({"p": tikgen.absorbing(9), "u": "zero"}, "absorbs p, and the equations write no next"),
        (
            ("absorbing", 0, 1.0, 1, "zero"),
            "whose width takes a whole number of points from 1 to 10000; got 0",
        ),
        (
            ("absorbing", 9, 1.5, 1, "zero"),
            "whose strength takes a number above 0 and at most 1; got 1.5",
        ),
        (
            {"u": tikgen.absorbing(9, order=2), "p": "zero"},
            "needs a field that is updated in place",
        ),
        ({"x-": tikgen.absorbing(9), "x+": "periodic"}, "both sides must be"),
        (
            {"u": {"x-": tikgen.absorbing(9), "x+": tikgen.absorbing(9, order=2)}, "p": "zero"},
            "absorbs u with order 1 and 2; one holds for a field",
        ),
        ({"x": tikgen.absorbing(9), "y": "zero"}, "names the side y, and dim is 1"),
        (("absorbing", 9), "takes "),
    ],
    ids=str,
)
def test_what_does_not_fit_is_refused(boundary: Any, problem: str) -> None:
    with pytest.raises(ParameterError) as caught:
        tikgen.render("update", equations="u' = u + p[1] + u[1]", dim=1, boundary=boundary)
    assert problem in str(caught.value)


@pytest.mark.parametrize("given", [(0,), (2.5,), (9, 0.0), (9, 1.5), (9, 0.1, "zero", 3)])
def test_a_layer_has_a_width_and_a_strength(given: tuple[Any, ...]) -> None:
    with pytest.raises(ValueError, match="; got "):
        tikgen.absorbing(*given)


def test_only_fields_of_floats_are_absorbed() -> None:
    for text, dtype, problem in (
        ("u' = u[1]", "i32", "absorbs u, which needs a float dtype; got i32"),
        ("q = u[1]", "f32", "absorbs all fields, and the equations write no next value"),
    ):
        with pytest.raises(ParameterError, match=problem):
            tikgen.render("update", equations=text, dim=1, dtype=dtype,
                          boundary=tikgen.absorbing(3))  # fmt: skip


@pytest.mark.parametrize("width", [2, 4, 5])
def test_rows_look_for_layers_only_where_their_points_may_lie_in_one(
    width: int, ti_arch: str, rng: np.random.Generator
) -> None:
    if ti_arch != "cpu":
        pytest.skip("real functions are for cpu")
    # The ends of a row are 4 points, which are computed one by one.
    kernel = tikgen.update(
        "u' = lap(u)",
        dim=1,
        order=8,
        boundary=tikgen.absorbing(width, 0.5),
        schedule={"loop": "function", "row_buffer": 8},
    )
    # In the definition, at each end, for rows shorter than the buffer, and for runs if need be.
    assert kernel.source.text.count("faded(") == (5 if width < 5 else 7)
    launched(kernel, u=rng.random(60).astype(np.float32))


def test_verification_launches_a_grid_with_room_between_layers() -> None:
    template = tikgen.template.catalogue.find_template("update")
    variant = resolve(
        template, arch="cpu", equations="u' = lap(u)", dim=3, boundary=tikgen.absorbing(20)
    )
    sizes, _ = template.full_sizes(variant.problem, variant.schedule)
    assert all(extent >= 49 for extent in sizes.values())


def test_errors_are_never_negative_where_a_part_reaches_beyond_the_grid() -> None:
    given = {"u": np.linspace(-1, 1, 40)}
    layers: dict[str, Any] = {"u": [(0, True, 2, 1.0, 1), (0, False, 3, 1.0, 1)]}
    args = (layers, {"u": "centre"}, given)
    part = ((5, 20),)
    after = with_layers(given, *args, None, part)
    found = layer_errors({"u": np.full(40, 1e-16)}, given, after, *args, 1e-16, part)
    assert (found["u"] > 0).all()
    assert found["u"][30:].min() > 100 * found["u"][:10].max()


def test_a_condition_that_others_contain_is_left_out() -> None:
    near = any_of(["i < 3 or i >= u.shape[0] - 9", "", "i >= u.shape[0] - 3 or j < 2", "i < 5"])
    assert near == "i < 5 or i >= u.shape[0] - 9 or j < 2"
    assert any_of(["k + 8 > n - 3", "k + 8 > n - 5", "i + 2 < 1"]) == "k + 8 > n - 5 or i + 2 < 1"
    assert any_of(["is_near", "is_near", "i < n"]) == "is_near or i < n"
    assert any_of([]) == ""


def test_rows_near_a_matched_layer_are_told_by_one_number() -> None:
    beyond = {"x-": "zero", "x+": tikgen.absorbing(9, kind="cpml", beyond="zero")}
    source = tikgen.render(
        "update",
        equations="u' = u + a*lap(u)",
        dim=2,
        order=6,
        scalars=("a",),
        boundary=beyond | {"y": "wall"},
        loop="function",
        arch="cpu",
    )
    assert "if i < 3 or i >= u.shape[0] - 9:" in source.text
