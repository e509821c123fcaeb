"""What lies outside of the fields of an update, compared with a plain evaluation point by point."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import tikgen
from test_template_update import launched
from tikgen.errors import ArgumentError, ParameterError
from tikgen.verification.equation_texts import fields_in, fitted_boundary, orders_of

SHAPES = {
    1: ((1,), (2,), (131,), (1031,)),
    2: ((1, 1), (2, 37), (37, 2), (5, 67)),
    3: ((1, 1, 2), (2, 3, 5), (3, 2, 41), (4, 1, 35)),
}
RULES = ("clamp", "reflect", "antireflect", "symmetric", "antisymmetric", "wall", "free_surface")
# On the upper side of values that lie on walls.
UNKNOWN = ("symmetric", "free_surface")


def drawn_rule(rng: np.random.Generator, letter: str) -> Any:
    """Return one rule; a number is a literal, the scalar a, or values over the face."""
    number = [0.5, -2.0, "a", f"on_{letter}"][rng.integers(4)]
    own = [tikgen.dirichlet, tikgen.neumann][rng.integers(2)]
    choices = [own(number), own(number, at="wall")] if rng.random() < 0.5 else RULES
    return choices[rng.integers(len(choices))]


def drawn_sides(rng: np.random.Generator, dim: int, faces: str = "") -> dict[str, Any]:
    """Return rules for each side; ``faces`` names axes on whose walls values lie."""
    sides = {}
    for letter in "xyz"[:dim]:
        if rng.random() < 0.2:
            sides[letter] = "periodic"
            continue
        low, high = drawn_rule(rng, letter), drawn_rule(rng, letter)
        if letter in faces and (high in UNKNOWN or high[0] == "wall_flux"):
            high = "antisymmetric"
        sides |= {f"{letter}-": low, f"{letter}+": high}
    return sides


def of(rule: Any, numbers: dict[str, Any], face: tuple[int, ...]) -> tuple[str, Any]:
    """Return the kind of a rule and its number at an element of a face."""
    kind, number = rule if isinstance(rule, tuple) else (rule, 0.0)
    number = numbers.get(number, number) if isinstance(number, str) else number
    return kind, number[face] if isinstance(number, np.ndarray) else number


def inside(place: int, extent: int, rule: Any, is_face: bool, high: Any) -> int:
    """Return the index of what stands in for a place outside.

    It is the extent itself for the upper wall, on which values of faces lie, if the rule ``high``
    says what is on it.
    """
    kind = rule[0] if isinstance(rule, tuple) else rule
    if kind == "periodic":
        return place % extent
    about_wall = kind in ("symmetric", "antisymmetric", "wall", "free_surface") or "wall" in kind
    if not about_wall and kind not in ("reflect", "antireflect", "flux"):
        return min(max(place, 0), extent - 1)
    if is_face:
        kind = high[0] if isinstance(high, tuple) else high
        last = extent if kind in ("antisymmetric", "wall", "wall_value") else extent - 1
    elif about_wall:
        last = extent - 0.5
    else:
        last = extent - 1
    first = -0.5 if about_wall and not is_face else 0
    while not first <= place <= last:
        if first == last:
            return 0
        place = round(2 * (first if place < first else last) - place)
    return place


def value_at(
    u: np.ndarray, index: tuple[int, ...], sides: Any, numbers: Any, step: float, faces: str = ""
) -> float:
    """Return the value at an index that may lie outside; the last axis goes first."""

    def along(axis: int, index: tuple[int, ...]) -> float:
        if axis < 0:
            return float(u[index])
        place, extent, letter = index[axis], u.shape[axis], "xyz"[axis]
        if 0 <= place < extent:
            return along(axis - 1, index)

        def at(other: int) -> float:
            if other == extent:
                return float(on_wall)
            return along(axis - 1, (*index[:axis], other, *index[axis + 1 :]))

        rule, high = rule_on(axis, place), rule_on(axis, extent)
        is_face = letter in faces
        image = inside(place, extent, rule, is_face, high)
        others = [a for a in range(u.ndim) if a != axis]
        places = [
            index[a] if 0 <= index[a] < u.shape[a]
            else min(u.shape[a] - 1, inside(
                index[a], u.shape[a], rule_on(a, index[a]), "xyz"[a] in faces,
                rule_on(a, u.shape[a]),
            ))
            for a in others
        ]  # fmt: skip
        kind, number = of(rule, numbers, tuple(places) or (0,))
        on_wall = of(high, numbers, tuple(places) or (0,))[1]
        out = -place if place < 0 else place - extent + 1
        if kind == "wall":
            kind = "antisymmetric" if is_face else "symmetric"
        elif kind == "free_surface":
            kind = "symmetric" if is_face else "antisymmetric"
        match kind:
            case "zero" | "value":
                return number
            case "flux":
                return at(image) + number * 2 * step * out
            case "wall_flux":
                return at(image) + number * step * (2 * out if is_face else 2 * out - 1)
            case "antireflect":
                return 2 * at(0 if place < 0 else extent - 1) - at(image)
            case "antisymmetric" | "wall_value":
                is_on_wall = is_face and image == extent and place > 0
                return number if is_on_wall else 2 * number - at(image)
        return at(image)

    def rule_on(axis: int, place: int) -> Any:
        letter = "xyz"[axis]
        return sides.get(letter, sides.get(letter + ("-" if place < 0 else "+")))

    return along(u.ndim - 1, index)


def around(u: np.ndarray, offset: tuple[int, ...], *rules: Any) -> np.ndarray:
    """Return the values at an offset from every point."""
    found = np.empty(u.shape)
    for index in itertools.product(*map(range, u.shape)):
        place = tuple(i + step for i, step in zip(index, offset, strict=True))
        found[index] = value_at(u, place, *rules)
    return found


@pytest.mark.parametrize("dim", [1, 2, 3])
@pytest.mark.parametrize("draw", [0, 1, *(pytest.param(n, marks=pytest.mark.slow) for n in (2, 3))])
def test_every_value_outside_is_that_of_its_rule(
    dim: int, draw: int, ti_arch: str, rng: np.random.Generator
) -> None:
    rng = np.random.default_rng([draw, dim])
    faces = {"u": "", "v": "xz"[:dim]}
    sides = {name: drawn_sides(rng, dim, faces[name]) for name in faces}
    one, other = rng.integers(-3, 4, (2, dim)).tolist()
    text = f"q = a*u{one} + 2*u{other}; w = v{other} - a*v{[-1] * dim}"
    dtype = [np.float32, np.float64][draw % 2]
    loops: list[Any] = [{}, {"schedule": {"loop": "points"}}] if ti_arch == "cpu" else [{}]
    kernel = tikgen.update(
        text,
        dim,
        scalars="a",
        spacing=0.5,
        dtype=dtype,
        boundary=sides,
        at={"v": "edge y" if dim == 3 else "face x"},
        **loops[draw % len(loops)],
    )
    for shape in SHAPES[dim]:
        u, v = rng.uniform(-1, 1, (2, *shape)).astype(dtype)
        numbers: dict[str, Any] = {"a": 3.0}
        for axis, letter in enumerate("xyz"[:dim]):
            if f"on_{letter}" in kernel.signature.names:
                face = shape[:axis] + shape[axis + 1 :] or (1,)
                numbers[f"on_{letter}"] = rng.uniform(-1, 1, face).astype(dtype)
        q, w = launched(kernel, u=u, v=v, **numbers)
        of_u, of_v = ((sides[name], numbers, 0.5, faces[name]) for name in ("u", "v"))
        expected = 3 * around(u, one, *of_u) + 2 * around(u, other, *of_u)
        np.testing.assert_allclose(q, expected, atol=1e-3, err_msg=str(shape))
        expected = around(v, other, *of_v) - 3 * around(v, [-1] * dim, *of_v)
        np.testing.assert_allclose(w, expected, atol=1e-3, err_msg=str(shape))


@pytest.mark.parametrize("ends", ["clamp", "periodic", ("interior", "clamp"), ("zero", "interior")])
@pytest.mark.parametrize("text", ["u' = u + lap(u) + u[0, 1, 2]", "u' = v; v = v + lap(u)"])
def test_rows_at_faces_of_a_box_are_those_of_points(
    text: str, ends: Any, ti_arch: str, rng: np.random.Generator
) -> None:
    if ti_arch != "cpu":
        pytest.skip("real functions belong to cpu")
    along = {"z": ends} if isinstance(ends, str) else {"z-": ends[0], "z+": ends[1]}
    faces = {"x-": tikgen.dirichlet(2.0), "x+": "antireflect", "y-": tikgen.neumann("on_y")}
    options: dict[str, Any] = {"dim": 3, "boundary": {**faces, "y+": "antisymmetric", **along}}
    rows, points = (
        tikgen.update(text, schedule={"loop": loop}, **options) for loop in ("function", "points")
    )
    for shape in ((1, 2, 3), (4, 3, 2), (3, 4, 38), (5, 4, 71)):
        u, v = rng.integers(-9, 9, (2, *shape)).astype(np.float32)
        on_y = rng.integers(-9, 9, (shape[0], shape[2])).astype(np.float32)
        found = []
        for kernel in (rows, points):
            held = {"u": u, "v": v.copy(), "u_next": np.full(shape, 77, np.float32), "on_y": on_y}
            held = {name: held[name] for name in kernel.signature.names}
            kernel(**held)
            found.append(held)
        for name, value in found[0].items():
            np.testing.assert_array_equal(value, found[1][name], err_msg=f"{name} of {shape}")


@pytest.mark.parametrize("loop", ["points", "function"])
def test_a_rule_that_nothing_needs_costs_nothing(loop: str) -> None:
    # The equations reach as far into u, whose outermost points are not computed.
    text = "u' = lap(u)*dx(w)*lap(w)"
    outside = {"x": tikgen.dirichlet("over"), "y-": "reflect", "y+": "interior"}
    needless, plain = (
        tikgen.render("update", arch="cpu", equations=text, schedule={"loop": loop}, boundary=rules)
        for rules in ({"u": "interior", "w": outside}, "interior")
    )
    lines = [
        line for line in needless.text.replace("over, ", "").splitlines() if "over:" not in line
    ]
    code = [line for line in lines if not line.startswith("#")]
    assert code == [line for line in plain.text.splitlines() if not line.startswith("#")]


def test_a_grid_of_one_point_whose_size_is_known(ti_arch: str) -> None:
    for rule in ("symmetric", "wall"):
        kernel = tikgen.update(
            "w = 2*u[-1, 0] + u[0, 1]; q = v[-2, 0] - v[0, -1]",
            dim=2,
            shape=(1, 1),
            boundary={"u": rule, "v": "antisymmetric"},
            at={"v": "face x"},
        )
        u = np.full((1, 1), 3, np.float32)
        w, q = launched(kernel, u=u, v=u)
        assert (w, q) == (9, 0)


@pytest.mark.parametrize("rule", ["reflect", "wall", ("flux", 0.5)])
def test_one_column_whose_size_is_known(rule: Any, ti_arch: str, rng: np.random.Generator) -> None:
    # The loop over columns has one turn: Taichi computes all that depends on the column alone.
    text = "u' = u[0, -1] + 2*u[0, 1] + 3*u[0, -2] + 5*u[0, 2] - 7*u[-1, 0]"
    options: dict[str, Any] = {"dim": 2, "boundary": rule, "loop": "points"}
    u = rng.integers(-9, 9, (6, 8)).astype(np.float32)
    (whole,) = launched(tikgen.update(text, **options), u=u)
    for at, held in ((0, slice(0, 3)), (7, slice(5, 8)), (3, slice(1, 6))):
        low, high = at - held.start, held.stop - 1 - at
        kernel = tikgen.update(
            text,
            shape=(6, high + low + 1),
            part=((0, 0, 0, 6), (low, high, held.start, 8)),
            **options,
        )
        found = np.full((6, high + low + 1), 77, np.float32)
        kernel(u=np.ascontiguousarray(u[:, held]), u_next=found)
        np.testing.assert_array_equal(found[:, low], whole[:, at])


@pytest.mark.parametrize("totals", ["", "; t = sum(abs(u' - v))"])
@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize(
    ("shape", "read"),
    [
        *[((8,), "u[-5] + u[5]"), ((8,), "u[-9]"), ((8,), "u[9]")],
        *[((5, 8), "dyy(u)"), ((8, 5), "dyy(u)"), ((3, 4, 8), "dzz(u)")],
    ],
)
def test_a_grid_of_ghost_points_alone_is_left_alone(
    shape: tuple[int, ...], read: str, known: bool, totals: str, ti_arch: str
) -> None:
    kernel = tikgen.update(
        f"v = v + 1; u' = v - ({read}){totals}",
        dim=len(shape),
        order=10,
        boundary="interior",
        **({"shape": shape} if known else {}),
        **({"loop": "function", "row_buffer": 8} if ti_arch == "cpu" else {}),
    )
    # In the middle of larger arrays, so that what is written before and behind them shows.
    size, around = int(np.prod(shape)), 64
    held = {name: np.full(size + 2 * around, 77, np.float32) for name in ("u", "v", "u_next")}
    if totals:
        held["t"] = np.full(1 + 2 * around, 77, np.float32)
    views = {
        name: array[around:-around].reshape(shape if name != "t" else 1)
        for name, array in held.items()
    }
    kernel(**views)
    for name, array in held.items():
        expected = np.full(array.size, 77, np.float32)
        if name == "t":
            expected[around] = 0
        np.testing.assert_array_equal(array, expected, err_msg=name)


def test_values_over_a_face(ti_arch: str, rng: np.random.Generator) -> None:
    sides = {"x-": tikgen.dirichlet("inflow"), "x+": tikgen.neumann("pull"), "y": "periodic"}
    kernel = tikgen.update(
        "u' = u[-1, 1] + s*u[1, -1]",
        dim=2,
        scalars="s",
        boundary=sides,
        types={"inflow": "f16"},
        constants={"pull": 0.25},
    )
    assert kernel.signature.names == ("u", "s", "inflow", "u_next")
    assert {type(name) for name in kernel.signature.names} == {str}  # As bundles need it.
    u = rng.uniform(-1, 1, (6, 41)).astype(np.float32)
    inflow = rng.uniform(-1, 1, 41).astype(np.float16)
    (found,) = launched(kernel, u=u, s=2.0, inflow=inflow)
    low = np.vstack([inflow, u[:-1]])
    high = np.vstack([u[1:], u[-2] + 0.5])
    expected = np.roll(low, -1, 1) + 2 * np.roll(high, 1, 1)
    np.testing.assert_allclose(found, expected, atol=1e-6)
    other = {"u": u, "s": 2.0, "u_next": u.copy()}
    with pytest.raises(ArgumentError, match=r"'inflow' takes shape \(n1,\) where .*n1 = 41; got"):
        kernel(**other, inflow=np.zeros(6, np.float16))
    with pytest.raises(ArgumentError, match="'inflow' takes 1 axis"):
        kernel(**other, inflow=np.zeros((1, 41), np.float16))
    with pytest.raises(ArgumentError, match="'inflow' takes dtype f16"):
        kernel(**other, inflow=np.zeros(41, np.float32))
    with pytest.raises(ArgumentError, match="inflow"):
        kernel(**other)


def test_heat_in_a_channel_is_kept_or_lost_through_its_walls(ti_arch: str) -> None:
    n = 64
    cosine, sine = (
        f(np.pi * (np.arange(n) + 0.5) / n).astype(np.float32) for f in (np.cos, np.sin)
    )
    for rule, wave in (("symmetric", cosine), ("antisymmetric", sine)):
        kernel = tikgen.update("u' = lap(u)", 1, boundary=rule)
        eigenvalue = 2 * np.cos(np.pi / n) - 2
        np.testing.assert_allclose(launched(kernel, u=wave)[0], eigenvalue * wave, atol=1e-6)
    warm = tikgen.update("u' = u + lap(u)/4", 1, boundary=tikgen.dirichlet(2, at="wall"))
    still = np.full(n, 2, np.float32)
    assert (launched(warm, u=still)[0] == 2).all()


@pytest.mark.parametrize("rule", ["wall", "free_surface"])
def test_sound_between_walls_keeps_its_energy(rule: str, ti_arch: str) -> None:
    # Standing waves of the discrete equations on a staggered grid, at the lower side; above
    # lies a rigid wall, whose rule holds for both fields.
    n, steps = 48, 400
    first = tikgen.update("ux' = ux - 0.5*dx(p)", 1, at={"ux": "face x"}, dtype="f64",
                          boundary={"x-": rule, "x+": "wall"})  # fmt: skip
    second = tikgen.update("p' = p - 0.5*dx(ux)", 1, at={"ux": "face x"}, dtype="f64",
                           boundary={"x-": rule, "x+": "wall"})  # fmt: skip
    wave = np.pi * (1 if rule == "wall" else 0.5) / n
    phase = (n - 0.5 - np.arange(n)) * wave
    p, ux = np.cos(phase), np.zeros(n)
    start, p_next, ux_next = p.copy(), p.copy(), ux.copy()
    turn = 2 * np.arcsin(0.5 * np.sin(wave / 2))
    ux = 0.5 * np.sin((n - np.arange(n)) * wave) * np.sin(wave / 2)
    for _ in range(steps):
        first(p=p, ux=ux, ux_next=ux_next)
        ux, ux_next = ux_next, ux
        second(p=p, ux=ux, p_next=p_next)
        p, p_next = p_next, p
    assert abs(p @ start) > 0.1
    np.testing.assert_allclose(p, np.cos(steps * turn) * start, atol=1e-9)


@pytest.mark.parametrize(
    ("params", "problem"),
    [
        ({"boundary": "symmetric"}, "ux, which lies on face x, symmetric about the wall x+"),
        ({"boundary": {"x-": "wall", "x+": "free_surface"}}, "be at x-, or take 'clamp' or"),
        ({"boundary": "symmetrical"}, "Did you mean 'symmetric'"),
        ({"boundary": ("value", "ux")}, "takes ux, which is an array of the equations; values"),
        ({"boundary": ("value", "t"), "equations": "t = 2*p; p' = t"}, "'t', a name that the eq"),
        ({"types": {"g": "f16"}, "boundary": ("value", "gg")}, "names g, which is no array. Did"),
        ({"dim": 2, "boundary": ("value", "g")}, "no scalar, on the axes x and y; an array has"),
        ({"mask": "p"}, "is p, which the equations write; they may only read a mask"),
        ({"mask": "b", "scalars": "b", "boundary": ("value", "b")}, "is b, which has a meaning"),
        ({"mask": "update"}, "is 'update', which the kernel has"),
        ({"mask": "m", "types": {"m": "f32"}}, "makes the mask m f32; it takes integers of 8 to"),
        ({"mask": "m", "types": {"p_next": "f64"}}, "cannot be kept exactly where all is computed"),
        ({"dtype": "i32", "boundary": ("wall_flux", 1)}, "has a flux, which needs a float"),
    ],
    ids=str,
)
def test_what_does_not_fit_is_refused(params: dict[str, Any], problem: str) -> None:
    given = {"equations": "p' = p - dx(ux)", "dim": 1, "at": {"ux": "face x"}, **params}
    if "dtype" in params:
        given["equations"] = "p' = p - p[1]"
        given["at"] = None
    with pytest.raises(ParameterError) as caught:
        tikgen.render("update", arch="cpu", **given)
    assert problem in str(caught.value)


def test_drawn_boundaries_are_cut_to_the_equations() -> None:
    layer = ("absorbing", 3, 0.1, 1, ("value", "over"))
    text = "u' = lap(u) + lap(w); v = v + 1; q = u"
    orders = orders_of(text)
    assert orders == {"u": 1, "v": 2}

    def fitted(boundary: Any, is_float: bool = True) -> Any:
        return fitted_boundary(boundary, fields_in(text), 1, is_float, orders)

    sides = {"x-": layer, "x+": "zero", "y": "clamp"}
    assert fitted({"u": sides, "w": sides, "v": layer}) == {
        "u": {"x-": ("absorbing", 3, 0.1, 1, ("value", "over_x")), "x+": "zero"},
        "w": {"x-": ("value", "over_x"), "x+": "zero"},
        "v": ("absorbing", 3, 0.1, 2, ("value", "over_x")),
    }
    rule = ("wall_flux", 0.5)
    assert fitted(dict.fromkeys("uvw", rule), is_float=False) == dict.fromkeys("uvw", "clamp")
    assert fitted(sides) == {"x-": ("absorbing", 3, 0.1, 1, ("value", "over_x")), "x+": "zero"}


def test_a_rule_is_at_a_place_that_there_is() -> None:
    for make in (tikgen.dirichlet, tikgen.neumann):
        with pytest.raises(ValueError, match="'wall'; got 'walls'"):
            make(0, at="walls")


@pytest.mark.parametrize("loop", ["function", "points"])
def test_rows_beside_fields_with_rules_of_their_own(
    loop: str, ti_arch: str, rng: np.random.Generator
) -> None:
    """Three fields and more meet their neighbours at the same offset, each by its own rules."""
    if ti_arch != "cpu" and loop == "function":
        pytest.skip("real functions belong to cpu")
    modes = {"clamp": "edge", "reflect": "reflect", "symmetric": "symmetric"}
    for _ in range(2):
        # Along z all rules are the same, so that rows are runs of elements.
        rules = {f: rng.choice(list(modes), 2).tolist() for f in "abcdf"}
        offset, last = rng.integers(-2, 3, 2), rng.integers(-2, 3, 5)
        offset[0] = offset[0] or 2
        text = "r = " + " + ".join(
            f"{n + 1}*{f}[{offset[0]}, {offset[1]}, {last[n]}]" for n, f in enumerate("abcdf")
        )
        kernel = tikgen.update(
            text,
            dim=3,
            dtype="f64",
            boundary={f: {"x": x, "y": y, "z": "clamp"} for f, (x, y) in rules.items()},
            schedule={"loop": loop, "row_buffer": 8} if loop == "function" else {"loop": loop},
        )
        shape = (int(rng.integers(3, 12)), int(rng.integers(3, 12)), int(rng.integers(3, 70)))
        given = {f: rng.uniform(-1, 1, shape) for f in "abcdf"}
        expected = np.zeros(shape)
        for n, (f, (x, y)) in enumerate(rules.items()):
            around = given[f]
            for axis, mode in enumerate((modes[x], modes[y], "edge")):
                width = [(2, 2) if a == axis else (0, 0) for a in range(3)]
                around = np.pad(around, width, mode)
            places = [2 + step for step in (*offset, last[n])]
            cut = tuple(slice(p, p + extent) for p, extent in zip(places, shape, strict=True))
            expected += (n + 1) * around[cut]
        (found,) = launched(kernel, **given)
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("step", [-1, -3])
def test_a_periodic_field_beside_one_with_ghost_points(
    step: int, ti_arch: str, rng: np.random.Generator
) -> None:
    beside = {"x": "clamp", "y-": "clamp", "y+": "interior"}
    for shape in ((17, 2), (2, 2), (5, 9)):  # Of two columns one is computed, in one turn.
        kernel = tikgen.update(
            f"q = u[0, {step}] + 0*w[0, 1]",
            2,
            boundary={"u": "periodic", "w": beside},
            shape=shape,
            schedule={"loop": "points"},
        )
        u, w = rng.uniform(1, 2, (2, *shape)).astype(np.float32)
        q = np.full(shape, 7, np.float32)
        kernel(u=u, w=w, q=q)
        np.testing.assert_array_equal(q[:, :-1], np.roll(u, -step, axis=1)[:, :-1])
        np.testing.assert_array_equal(q[:, -1], 7)
