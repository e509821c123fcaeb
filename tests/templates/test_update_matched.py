"""Matched layers of an update: an independent CPML, the waves that come back, what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tikgen
from test_template_update import launched
from tikgen.errors import ArgumentError, ParameterError, TemplateError
from tikgen.pipeline.choice import choose
from tikgen.template.catalogue import find_template
from tikgen.verification.strategies import drawn, launches

Arrays = dict[str, Any]
AT = {"p": "centre", "ux": "face x", "uy": "face y"}
SOUND = "ux' = ux - dt*dx(p); uy' = uy - dt*dy(p); p' = p - dt*(dx(ux) + dy(uy))"
WAVE = "old = 2*p - old + c*lap(p)"
LAYER = tikgen.absorbing(5, kind="cpml")
# Rows at the faces of other axes are computed as others are where the text is short.
SHORT, LONG = "u' = u + lap(u)/8; v' = v", "r = lap(u)*v; u' = u + v*r + v**2*lap(u*v) - u**3*v"


class Layer:
    """One axis of an independent CPML, with numbers kept over the whole grid.

    Numbers hold at places that lie ``half`` cells after the lower faces of their cells.
    """

    def __init__(self, n: int, width: int, half: float, axis: int, courant: float) -> None:
        x = np.arange(n) + half
        depth = np.maximum(width - x, width - (n - x)).clip(0, width) / width
        d = 2 * courant * np.log(1e6) / width * depth**3
        a = 0.02 * (1 - depth)
        is_inside = depth > 0
        b = np.where(is_inside, np.exp(-d - a), 0)
        gain = np.where(is_inside, d / np.maximum(d + a, 1e-30) * (b - 1), 0)
        self.b, self.gain = (np.expand_dims(v, 1 - axis) for v in (b, gain))
        self.psi: Any = 0.0

    def __call__(self, slope: np.ndarray) -> np.ndarray:
        """Return what is added to a derivative at this step."""
        self.psi = self.b * self.psi + self.gain * slope
        return np.asarray(self.psi)


def difference(f: np.ndarray, axis: int, is_forward: bool) -> np.ndarray:
    """Return differences of neighbours, of which those outside are 0."""
    pad = [(0, 0), (0, 0)]
    pad[axis] = (0, 1) if is_forward else (1, 0)
    return np.diff(np.pad(f, pad), axis=axis)


def arrays_of(kernel: tikgen.Kernel, shape: tuple[int, ...], rng: Any) -> Arrays:
    """Return random numbers for all arrays of a kernel."""
    extents = {f"n{axis}": n for axis, n in enumerate(shape)}
    found = {}
    for argument in kernel.signature.arguments:
        if isinstance(argument, tikgen.Array):
            own = tuple(extents.get(n, n) for n in argument.shape)  # type: ignore[call-overload]
            found[argument.name] = rng.uniform(-1, 1, own).astype(argument.dtype.numpy)
    return found


def test_sound_is_that_of_an_independent_cpml(ti_arch: str, rng: np.random.Generator) -> None:
    shape, width, dt = (27, 31), 6, 0.5
    rule = tikgen.absorbing(width, kind="cpml")
    kernel = tikgen.update(SOUND, dim=2, scalars="dt", at=AT, boundary=rule)
    p, ux, uy = (rng.normal(size=shape).astype(np.float32) for _ in range(3))
    wanted_p, wanted_ux, wanted_uy = (v.astype(np.float64) for v in (p, ux, uy))
    new = {f"{name}_next": np.zeros_like(p) for name in AT}
    layers = tikgen.matched_layers(kernel, shape, dt)
    now = {"p": p, "ux": ux, "uy": uy}
    pairs = [(now[name], new[f"{name}_next"]) for name in AT]
    program = tikgen.Program([kernel.bind(**now, **new, dt=dt, **layers), tikgen.swap(*pairs)])
    program.run(40)
    on_faces = [Layer(shape[axis], width, 0.0, axis, dt) for axis in (0, 1)]
    in_cells = [Layer(shape[axis], width, 0.5, axis, dt) for axis in (0, 1)]
    for _ in range(40):
        before = wanted_p, wanted_ux, wanted_uy
        slopes = [difference(before[0], axis, is_forward=False) for axis in (0, 1)]
        wanted_ux = before[1] - dt * (slopes[0] + on_faces[0](slopes[0]))
        wanted_uy = before[2] - dt * (slopes[1] + on_faces[1](slopes[1]))
        slopes = [difference(before[1 + axis], axis, is_forward=True) for axis in (0, 1)]
        total = sum(s + layer(s) for s, layer in zip(slopes, in_cells, strict=True))
        wanted_p = before[0] - dt * total
    scale = np.abs(wanted_p).max()
    np.testing.assert_allclose(program["p"], wanted_p, atol=3e-5 * scale)
    np.testing.assert_allclose(program["ux"], wanted_ux, atol=3e-5 * scale)
    np.testing.assert_allclose(program["uy"], wanted_uy, atol=3e-5 * scale)
    kept = program["cpml_dx_ux"][0]
    whole = in_cells[0].psi
    np.testing.assert_allclose(kept[:width], whole[:width], atol=3e-5 * scale)
    np.testing.assert_allclose(kept[width:], whole[-width:], atol=3e-5 * scale)


def test_a_wave_of_second_order_is_that_of_an_independent_cpml(
    ti_arch: str, rng: np.random.Generator
) -> None:
    shape, width, c = (23, 40), 5, 0.2
    kernel = tikgen.update(WAVE, dim=2, scalars="c", boundary=LAYER, spacing=(1.0, 2.0))
    p, old = (rng.normal(size=shape).astype(np.float32) for _ in range(2))
    now, before = p.astype(np.float64), old.astype(np.float64)
    layers = tikgen.matched_layers(kernel, shape, 0.45)
    program = tikgen.Program([kernel.bind(p=p, old=old, c=c, **layers), tikgen.swap((p, old))])
    program.run(40)
    # Slopes below and above each point, and what becomes of their difference.
    numbers = [[Layer(shape[a], width, h, a, 0.45) for h in (0.0, 1.0, 0.5)] for a in (0, 1)]
    for _ in range(40):
        total = np.zeros(shape)
        for axis, step in ((0, 1.0), (1, 2.0)):
            below, above = (
                difference(now, axis, is_forward) / step for is_forward in (False, True)
            )
            low, high, own = numbers[axis]
            second = (above + high(above) - below - low(below)) / step
            total += second + own(second)
        now, before = 2 * now - before + c * total, now
    scale = np.abs(now).max()
    np.testing.assert_allclose(program["p"], now, atol=3e-5 * scale)


@pytest.mark.parametrize(
    ("loop", "shapes"),
    [
        pytest.param("function", [(1,), (7,), (1100,)], marks=pytest.mark.slow),
        pytest.param("function", [(14, 70), (30, 3)], marks=pytest.mark.slow),
        ("points", [(14, 70), (30, 3)]),
        pytest.param("points", [(13, 9, 40), (1, 2, 3)], marks=pytest.mark.slow),
        pytest.param("function", [(13, 9, 40), (1, 2, 3)], marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_all_that_an_update_may_have(
    loop: str, shapes: list[tuple[int, ...]], ti_arch: str, rng: np.random.Generator
) -> None:
    if ti_arch != "cpu" and loop == "function":
        pytest.skip("real functions belong to cpu")
    dim = len(shapes[0])
    last = "xyz"[dim - 1]
    text = f"""
        r = d{last}(u*c) + lap(v)
        where r > 0:
            u' = u + r
        v' = v - d{last}{last}(u)/8
        w = w + {"dxy(u)" if dim > 1 else "dx(u)"}
        m = sum(u' + 4)
    """
    sides = {"x-": tikgen.absorbing(5, kind="cpml"), "x+": tikgen.absorbing(3, 0.5, "clamp")}
    sides |= {
        letter: tikgen.absorbing(4, kind="cpml", beyond=tikgen.neumann("pull"))
        for letter in "yz"[: dim - 1]
    }
    kernel = tikgen.update(
        text,
        dim=dim,
        order=4,
        scalars="pull" if dim > 1 else (),
        boundary={"u": sides, "v": sides, "c": "clamp"},
        mask="solid",
        types={"c": "f16"},
        schedule={"loop": loop},
    )
    for shape in shapes:
        given = arrays_of(kernel, shape, rng)
        given |= {"solid": rng.choice(np.uint8([0, 0, 0, 1]), shape)}
        given |= {"pull": 0.25} if "pull" in kernel.signature.names else {}
        launched(kernel, **given)


@pytest.mark.parametrize(
    ("text", "dim", "order"),
    [
        *[(LONG, 2, 2), (LONG, 2, 8), (SHORT, 2, 2), (SHORT, 3, 2)],
        *(pytest.param(text, 3, 4, marks=pytest.mark.slow) for text in (LONG, SHORT)),
    ],
)
@pytest.mark.parametrize("rule", ["periodic", tikgen.dirichlet(0.5)], ids=str)
def test_layers_of_the_last_axis_alone(
    text: str, dim: int, order: int, rule: Any, ti_arch: str, rng: np.random.Generator
) -> None:
    sides: dict[str, Any] = dict.fromkeys("xyz"[: dim - 1], rule) | {"xyz"[dim - 1]: LAYER}
    own = {"schedule": {"loop": "function"}} if ti_arch == "cpu" else {"items": 2}
    kernel = tikgen.update(
        text,
        **({"dim": dim, "order": order, "boundary": {"u": sides, "v": sides}} | own),
    )
    for shape in [(1, 1, 50), (1, 2, 3), (5, 4, 90)]:
        launched(kernel, **arrays_of(kernel, shape[-dim:], rng))


def test_vectors_and_the_engine_without_taichi(ti_arch: str, rng: np.random.Generator) -> None:
    if ti_arch != "cpu":
        pytest.skip("the engine belongs to cpu")
    kernel = tikgen.update(
        "p' = p - div(v)/4",
        dim=2,
        dtype="f64",
        vectors={"v": 2},
        at={"v": "faces"},
        boundary={"v": {"x": LAYER, "y-": LAYER, "y+": LAYER}},
        engine="direct-cpu",
    )
    assert {"cpml_dx_v_x", "cpml_dy_v_y"} <= {*kernel.signature.names}
    for shape in [(14, 51), (1, 1)]:
        launched(kernel, **arrays_of(kernel, shape, rng))
    assert kernel.engine == "direct-cpu"


def ricker(step: int) -> float:
    """Return the strength of a shot at a step."""
    a = (1.2 * np.pi * (step - 40) / 40) ** 2
    return float((1 - 2 * a) * np.exp(-a))


def recorded(
    shape: tuple[int, int], shot: tuple[int, int], rule: Any, order: int, steps: int
) -> np.ndarray:
    """Return the pressure near a shot and 90 points further along the layer, at each step."""
    rules = {"p": "zero", "old": rule} if rule[0] == "absorbing" else rule
    text = "old = 2*p - old + c*(lap(p) + s*now)"
    kernel = tikgen.update(text, dim=2, order=order, scalars="c now", boundary=rules)
    p, old, s = np.zeros((3, *shape), np.float32)
    s[shot] = 1
    layers = tikgen.matched_layers(kernel, shape, 0.5) if rule[0] == "cpml" else {}
    bound = kernel.bind(p=p, old=old, s=s, c=0.25, now=0, **layers)
    program = tikgen.Program([tikgen.varying(bound, now=ricker), tikgen.swap((p, old))])
    record: list[Any] = []
    i, j = shot
    program.run(steps, every=2, call=lambda run: record.append(run["p"][i, j : j + 91 : 90].copy()))
    return np.array(record, np.float64)


@pytest.mark.once
@pytest.mark.parametrize("order", [2, pytest.param(8, marks=pytest.mark.slow)])
def test_hardly_anything_comes_back(order: int, ti_arch: str) -> None:
    width, steps = 10, 300
    shape, shot = (30 + 2 * width, 110 + 2 * width), (width + 5, width + 10)
    # What the edges of the large grid send back arrives after the end.
    large = recorded((290, 370), (shot[0] + 120, shot[1] + 120), "zero", order, steps)
    decibels = {}
    rules = {"cpml": tikgen.absorbing(width, kind="cpml")}
    if order == 8:  # With what a sponge leaves, which the documentation compares with.
        rules["sponge"] = tikgen.absorbing(width, order=2)
    for kind, rule in rules.items():
        error = recorded(shape, shot, rule, order, steps) - large
        decibels[kind] = 10 * np.log10((error**2).sum(0) / (large**2).sum(0))
    # At the shot waves meet the layer at all angles; 90 points along it they graze it.
    most = {2: (-80, -45), 8: (-45, -30)}[order]
    assert (decibels["cpml"] < most).all(), decibels
    if "sponge" in decibels:
        assert (decibels["cpml"] < decibels["sponge"] - 25).all(), decibels


@pytest.mark.once
@pytest.mark.parametrize("order", [2, pytest.param(8, marks=pytest.mark.slow)])
def test_ten_thousand_steps_stay_calm(order: int, ti_arch: str) -> None:
    shape = (36, 31)
    rule = tikgen.absorbing(5, kind="cpml")
    kernel = tikgen.update(WAVE, dim=2, order=order, scalars="c", boundary=rule)
    i, j = np.ogrid[: shape[0], : shape[1]]
    p = np.exp(-((i - 9) ** 2 + (j - 10) ** 2) / 8.0).astype(np.float32)
    old = p.copy()
    c = 0.45 if order == 2 else 0.3  # Near the limit of stability.
    layers = tikgen.matched_layers(kernel, shape, c**0.5)
    program = tikgen.Program([kernel.bind(p=p, old=old, c=c, **layers), tikgen.swap((p, old))])
    program.run(2_000)
    early = np.abs(program["p"]).max()
    program.run(8_000)
    late = np.abs(program["p"]).max()
    assert late < early < 1e-3, (early, late)


PARTS = {
    "a corner": ((0, 9, 0, 2), (0, 40, 0, 3)),
    "the middle": ((9, 17, 2, 2), (20, 41, 3, 2)),
    "the end": ((17, 23, 4, 0), (41, 70, 2, 0)),
}


@pytest.mark.usefixtures("without_fast_math")
@pytest.mark.parametrize(
    "part", [pytest.param("a corner", marks=pytest.mark.slow), "the middle", "the end"]
)
def test_a_part_is_computed_as_the_whole(part: str, ti_arch: str, rng: np.random.Generator) -> None:
    rules = {"x-": tikgen.absorbing(11, kind="cpml"), "x+": "clamp", "y": LAYER}
    options: Any = {"dim": 2, "boundary": rules}
    if part != "a corner" or ti_arch != "cpu":
        options["schedule"] = {"loop": "points"}  # It compiles sooner.
    text = "u' = u + lap(u)/8 + dx(v); m = sum(u')"
    whole = tikgen.update(text, **options)
    before = arrays_of(whole, (23, 70), rng)
    after = {name: value.copy() for name, value in before.items()}
    whole(**after)
    own = PARTS[part]
    numbers = tuple(
        (low, high, start - low, n) for (start, _, low, high), n in zip(own, (23, 70), strict=True)
    )
    held = tuple(slice(start - low, stop + high) for start, stop, low, high in own)
    inner = tuple(slice(start, stop) for start, stop, *_ in own)
    kernel = tikgen.update(text, part=numbers, **options)

    def cut(name: str, value: np.ndarray) -> np.ndarray:
        """Return what this part has of an array: all slots of its rows or columns."""
        if name in ("cpml_x", "cpml_y", "m"):
            return value.copy()
        if not name.startswith("cpml"):
            return value[held].copy()
        return value[:, :, held[1]].copy() if name[6] == "x" else value[:, held[0]].copy()

    given = {name: cut(name, value) for name, value in before.items()}
    found = {name: value.copy() for name, value in given.items()}
    launched(kernel, **given)
    kernel(**found)
    mine = tuple(slice(low, low + stop - start) for start, stop, low, _ in own)
    np.testing.assert_array_equal(found["u_next"][mine], after["u_next"][inner])
    for name in ("cpml_dxx_u", "cpml_dx_v", "cpml_dyy_u"):
        # What a part does not compute stays as it is.
        is_new = found[name] != given[name]
        (i, _, *_), (j, end, *_) = own
        assert is_new.any() == ((j < 5 or end > 65) if name[6] == "y" else i < 11)
        np.testing.assert_array_equal(found[name][is_new], cut(name, after[name])[is_new])


BEYOND: Any = {
    "equations": "u' = lap(u*u)",
    "dim": 2,
    "boundary": tikgen.absorbing(2, kind="cpml"),
    "part": ((0, 1, 6, 86), (3, 0, 3, 43)),
}


def test_a_part_beyond_its_grid_is_refused(ti_arch: str, rng: np.random.Generator) -> None:
    kernel = tikgen.build("update", schedule={"loop": "points"}, **BEYOND)
    kernel(**arrays_of(kernel, (80, 40), rng))
    for shape, message in (((81, 40), "n0 = 80 at most; got 81"), ((38, 51), "n1 = 40 at most")):
        given = arrays_of(kernel, shape, rng)
        for launch in (kernel, kernel.bind, kernel.reference, kernel.compile):
            with pytest.raises(ArgumentError, match=message):
                launch(**given)
    baked = tikgen.build("update", schedule={"loop": "points"}, shape=(38, 40), **BEYOND)
    baked(**arrays_of(baked, (38, 40), rng))


def test_indices_of_a_part_are_added_up() -> None:
    for loop in ("points", "function"):
        code = str(tikgen.build("update", schedule={"loop": loop}, **BEYOND).source)
        assert "if 0 <= i + 6 < 2 or 86 - 2 <= i + 6 < 86:" in code
        assert "ti.select(i + 6 < 2, i + 6, i - 76)" in code
        assert "ti.select(j + 3 < 2, j + 3, j - 36)" in code
    sponge = {**BEYOND, "boundary": tikgen.absorbing(2)}
    assert "or j + 35 > 43 - 2:" in str(tikgen.build("update", **sponge).source)


def largest_drawn(name: str, **problem: Any) -> list[int]:
    """Return the largest extent of each axis among launches that verification draws."""
    template = find_template(name)
    variant = choose(template, None, None, "cpu", problem)[0]
    sizes = [one["sizes"] for one in drawn(launches(template, variant, "cpu"), 60, seed=1)]
    return [max(each[f"n{axis}"] for each in sizes) for axis in range(2)]


def test_verification_launches_parts_within_their_grid() -> None:
    n0, n1 = largest_drawn("update", **BEYOND)
    assert n0 <= 80
    assert n1 <= 40


@pytest.mark.parametrize("name", ["update", "map"])
def test_verification_stretches_parts_without_layers(name: str) -> None:
    text = "equations" if name == "update" else "expr"
    rest = {"boundary": "clamp"} if name == "update" else {}
    n0, n1 = largest_drawn(name, **{text: "v = u + 1"}, dim=2, part=BEYOND["part"], **rest)
    assert n0 > 80
    assert n1 > 40


def test_the_interior_pays_nothing() -> None:
    # On a GPU, points near an edge without a layer have the code of the others.
    for arch, plain in (("cpu", "zero"), ("cuda", "interior")):
        inner = []
        for rule in (plain, LAYER):
            text = tikgen.render(
                "update", equations=WAVE, dim=2, scalars="c", boundary=rule, arch=arch
            )
            begin = "buffer_old = "
            inner.append(text.text[text.text.index(begin) : text.text.rindex(" else:")])
        assert inner[0] == inner[1]


@pytest.mark.parametrize(
    ("text", "boundary", "problem"),
    [
        ("u' = u + u[1]", LAYER, "on axis x, which changes derivatives such as dx\\(u\\)"),
        ("u' = u + dx(p)", {"u": LAYER, "p": "zero"}, "take none there of a field that has it"),
        ("u' = dx(dx(u))", LAYER, "takes neighbours of dx\\(u\\), which is known at the point"),
        ("r = dx(u); u' = r[1]", LAYER, "takes neighbours of dx\\(u\\)"),
        ("u' = dx(u, along=u)", LAYER, "take a layer of kind 'sponge'"),
        ("u' = dx(u)", ("cpml", 0, "zero"), "a width from 1 to 10000 points; got 0"),
        ("u' = dx(u)", ("cpml", 3), "takes "),
        ("u' = dx(u)", {"x-": LAYER, "x+": "periodic"}, "both sides must be"),
        ("u' = dx(u)*cpml_x", LAYER, "use the name 'cpml_x', which layers of kind 'cpml' have"),
        (
            "u' = dx(u) + dx(p)",
            {"u": LAYER, "p": {"x-": LAYER, "x+": tikgen.absorbing(9, kind="cpml")}},
            "of 5 and 5 points on axis x for u, and of 5 and 9 for p; all fields",
        ),
    ],
    ids=str,
)
def test_what_does_not_fit_is_refused(text: str, boundary: Any, problem: str) -> None:
    with pytest.raises(ParameterError, match=problem):
        tikgen.render("update", equations=text, dim=1, boundary=boundary)


def test_layers_need_floats() -> None:
    with pytest.raises(ParameterError, match="need floats; got i32"):
        tikgen.render("update", equations="u' = lap(u)", dim=1, dtype="i32", boundary=LAYER)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"strength": 0.1}, "takes no strength and no order; tikgen.matched_layers takes"),
        ({"order": 2}, "takes no strength and no order"),
        ({"kind": "pml"}, "'kind' takes 'sponge' or 'cpml'; got 'pml'"),
    ],
    ids=str,
)
def test_a_kind_takes_its_own_numbers(options: Any, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        tikgen.absorbing(9, **{"kind": "cpml"} | options)


@pytest.mark.parametrize(
    ("shape", "numbers", "problem"),
    [
        ((9,), {}, r"have 2 axes; got the shape \(9,\)"),
        ((9, 9), {"courant": 0}, "points an update above 0 and at most 10; got 0"),
        ((9, 9), {"reflection": 1.0}, "'reflection' takes a number between 0 and 1; got 1.0"),
        ((9, 9), {"shift": -1}, "'shift' takes a number from 0 to 1; got -1"),
        ((9, 9), {"stretch": 0.5}, "'stretch' takes a number from 1 to 100; got 0.5"),
    ],
    ids=str,
)
def test_numbers_of_layers_have_limits(shape: Any, numbers: Any, problem: str) -> None:
    kernel = tikgen.update(WAVE, dim=2, scalars="c", boundary=LAYER)
    with pytest.raises(ValueError, match=problem):
        tikgen.matched_layers(kernel, shape, **{"courant": 0.5} | numbers)


def test_a_kernel_without_layers_has_no_arrays_for_them() -> None:
    kernel = tikgen.update(WAVE, dim=2, scalars="c", boundary="zero")
    with pytest.raises(ValueError, match="has no layers of kind 'cpml'; make them by boundary="):
        tikgen.matched_layers(kernel, (9, 9), 0.5)


def test_numbers_of_layers_are_those_of_their_source() -> None:
    kernel = tikgen.update(
        "u' = dx(u)", dim=1, dtype="f64", boundary=tikgen.absorbing(4, kind="cpml")
    )
    found = tikgen.matched_layers(kernel, (30,), 0.5, reflection=1e-4, shift=0.1, stretch=3)
    assert {name: value.shape for name, value in found.items()} == {
        "cpml_x": (4, 3, 8),
        "cpml_dx_u": (1, 8),
    }
    # At the centres of the second cell from the lower wall, and from the upper one.
    s = 2.5 / 4
    d, k, a = 4 * 0.5 * np.log(1e4) / (2 * 4) * s**3, 1 + 2 * s**3, 0.1 * (1 - s)
    b = np.exp(-d / k - a)
    wanted = [b, d * (b - 1) / (d * k + k**2 * a), 1 / k - 1]
    for slot in (1, 6):
        np.testing.assert_allclose(found["cpml_x"][2, :, slot], wanted, rtol=1e-12)
    assert not found["cpml_dx_u"].any()


def test_an_ejected_file_has_no_layers() -> None:
    kernel = tikgen.update("u' = u + lap(u)", dim=2, boundary=tikgen.absorbing(4, kind="cpml"))
    with pytest.raises(TemplateError, match="layers of kind 'cpml'; take 'sponge'"):
        kernel.eject()
