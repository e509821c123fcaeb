"""Template update over views: arrays whose rows lie apart in memory, as those of x[1:-1, 1:-1]."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import tikgen
from conftest import ARCH, init_taichi
from some_cases import examples
from tikgen import aot, engines
from tikgen.errors import ArgumentError, ExportError, ProgramError, TemplateError
from tikgen.pipeline.kernel import Kernel
from tikgen.pipeline.loaded import load_source
from tikgen.program.native import NativeStepper

NDArray = npt.NDArray[Any]
on_cpu = pytest.mark.skipif(ARCH != "cpu", reason="elsewhere NumPy arrays are copied")
pytestmark = pytest.mark.usefixtures("ti_arch", "without_fast_math")

# Fields, vectors, masks, other types, reductions, updates in place, and values over faces.
TEXTS: dict[str, dict[str, Any]] = {
    "u' = u + a*lap(u)": {},
    "u' = u + a*(lap(u) - c*u[1]); c = 2*c": {"types": {"c": "f64"}},
    "r = u*v; u' = u + a*(lap(u) - r); v' = v + a*(lap(v) + r); most = max(u'); all = sum(r)": {},
    "v' = v + a*lap(v); s = sum(v.q for q in 3) + w": {"vectors": {"v": 3}},
    "f.1 = f.1 + a*g": {"vectors": {"f": 2}},
    "u' = u + a*lap(u)/2": {"mask": "solid"},
    "u' = u + a*lap(u)*3": {"boundary": tikgen.absorbing(3)},
}
BOUNDARIES = ("interior", "periodic", "clamp", "zero", "antireflect", tikgen.neumann("a"))


class Surrounded:
    """A view of an array that holds more, which is poisoned.

    Args:
        values: the elements of the view.
        slices: where they are in the array, a slice with an end for each axis.
    """

    def __init__(self, values: NDArray, slices: tuple[slice, ...]) -> None:
        self.base = np.empty([place.stop + 2 for place in slices], values.dtype)
        self.base.view(np.uint8)[...] = 0xA5
        self.view = self.base[slices]
        self.view[...] = values
        self._around = np.ones(self.base.shape, bool)
        self._around[slices] = False

    def check_around(self) -> None:
        """Check that nothing was written beside the view."""
        assert np.all(self.base[self._around].view(np.uint8) == 0xA5)


@st.composite
def surrounded(draw: st.DrawFn, values: NDArray) -> Surrounded:
    """Draw an array of which a view has these values: offsets and steps."""
    slices = []
    for axis, extent in enumerate(values.shape):
        start = draw(st.integers(0, 3))
        steps = st.integers(1, 3) if axis < values.ndim - 1 else st.sampled_from((1, 1, 2, 3, 16))
        step = draw(steps)
        slices.append(slice(start, start + step * (extent - 1) + 1, step))
    return Surrounded(values, tuple(slices))


@st.composite
def kernels(draw: st.DrawFn) -> Kernel:
    """Draw a kernel of some equations, dimension, boundary, schedule and engine."""
    text = draw(st.sampled_from(sorted(TEXTS)))
    dim = draw(st.integers(1, 3)) if "[1]" not in text else 1
    options = {"boundary": draw(st.sampled_from(BOUNDARIES))} | TEXTS[text]
    possible = [e for e in ("taichi", "direct-cpu") if not engines.problem(e)]
    return tikgen.update(
        text,
        dim=dim,
        scalars="a",
        dtype=draw(st.sampled_from(("f32", "f64"))),
        order=draw(st.sampled_from((2, 4))),
        engine=draw(st.sampled_from(possible)),
        schedule=draw(st.sampled_from((None, {"loop": "points"}, {"loop": "function"}))),
        **options,
    )


def launch_both_ways(kernel: Kernel, how: str, draw: Callable[[Any], Any]) -> None:
    """Compare a launch over views with one over contiguous copies, bit for bit."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    most = {1: 150, 2: 45, 3: 20}[kernel.params["dim"]]
    extents = st.sampled_from((1, 2, 3, 7, 16)) | st.integers(1, most)
    sizes = {symbol: draw(extents) for symbol in kernel.signature.symbols}
    views, copies, bases = {}, {}, []
    for argument in kernel.signature.arguments:
        name = argument.name
        if isinstance(argument, tikgen.Scalar):
            views[name] = copies[name] = 0.25
            continue
        assert isinstance(argument, tikgen.Array)
        shape = [sizes.get(str(extent), extent) for extent in argument.shape]
        values = rng.integers(0, 2, shape) if name == "solid" else rng.normal(0, 2, shape)
        copies[name] = values.astype(argument.dtype.numpy)
        views[name] = copies[name].copy()
        if not argument.written and not draw(st.integers(0, 3)):
            one = values[tuple(slice(0, draw(st.sampled_from((1, None)))) for _ in shape)]
            views[name] = np.broadcast_to(one.astype(argument.dtype.numpy), shape)
            copies[name] = np.ascontiguousarray(views[name])
        elif name not in ("most", "all") and draw(st.integers(0, 3)):
            bases.append(draw(surrounded(copies[name])))
            views[name] = bases[-1].view
    for arrays in (copies, views):
        if how == "called":
            kernel(**arrays)
        else:
            kernel.bind(**arrays)()
    for name, expected in copies.items():
        np.testing.assert_array_equal(views[name], expected, err_msg=name)
    for base in bases:
        base.check_around()


DRAWN: dict[str, Any] = {
    "deadline": None,
    "suppress_health_check": list(HealthCheck),
    "phases": (Phase.generate,),  # To shrink would take minutes.
}


@on_cpu
@settings(max_examples=examples(3, 2), **DRAWN)
@given(kernel=kernels(), how=st.sampled_from(("called", "bound")), data=st.data())
def test_views_give_the_bits_of_copies(kernel: Kernel, how: str, data: st.DataObject) -> None:
    launch_both_ways(kernel, how, data.draw)


@on_cpu
@pytest.mark.slow
@settings(max_examples=120, **DRAWN)
@given(kernel=kernels(), how=st.sampled_from(("called", "bound")), data=st.data())
def test_many_views_give_the_bits_of_copies(kernel: Kernel, how: str, data: st.DataObject) -> None:
    launch_both_ways(kernel, how, data.draw)


@pytest.fixture
def heat() -> Kernel:
    return tikgen.update("u' = u + a*lap(u)", dim=2, scalars="a", boundary="periodic")


def expected_of(u: NDArray, a: float = 0.1) -> NDArray:
    """Return a step of the heat equation by NumPy."""
    around = sum(np.roll(u, step, axis) for axis in (0, 1) for step in (-1, 1))
    found: NDArray = u + np.float32(a) * (around - 4 * u)
    return found


def near(found: NDArray, u: NDArray) -> bool:
    return np.allclose(found, expected_of(u), atol=1e-5)


@on_cpu
def test_views_of_every_kind(heat: Kernel, rng: np.random.Generator) -> None:
    """Ghost layers, every second row, halves of one array in turn, other orders of axes."""
    x = rng.random((2, 30, 40), dtype=np.float32)
    heat(x[0, 1:-1, 1:-1], 0.1, x[1, 1:-1, 1:-1])
    assert near(x[1, 1:-1, 1:-1], x[0, 1:-1, 1:-1])
    heat(x[0, ::2], 0.1, x[0, 1::2])  # Their rows take turns, and share no element.
    assert near(x[0, 1::2], x[0, ::2])
    turned = rng.random((9, 2, 8), dtype=np.float32).transpose(1, 0, 2)
    heat(turned[0], 0.1, turned[1])
    assert near(turned[1], turned[0])
    column = rng.random((12, 7, 2), dtype=np.float32)[:, 3:4, 1]  # Of one element a row.
    heat(column, 0.1, out := np.empty_like(column))
    assert near(out, column)
    pairs = rng.random((20, 60), dtype=np.float32).view(np.complex64)
    heat(pairs.real, 0.1, pairs.imag)
    assert near(pairs.imag, pairs.real)
    for profile in (x[0, :, :1], x[0, :1], x[0, :1, :1]):
        repeated = np.broadcast_to(profile, x[0].shape)
        heat(repeated, 0.1, x[1])
        assert near(x[1], repeated)


@on_cpu
def test_read_only_views_are_read(heat: Kernel, rng: np.random.Generator) -> None:
    x = rng.random((9, 12), dtype=np.float32)
    x.flags.writeable = False
    out = np.zeros((7, 10), np.float32)
    heat(x[1:-1, 1:-1], 0.1, out)
    assert near(out, x[1:-1, 1:-1])
    with pytest.raises(ArgumentError, match="'u_next' is read-only, and the kernel writes to it"):
        heat(out, 0.1, x[1:-1, 1:-1])


REFUSED: dict[str, tuple[Callable[[NDArray], tuple[NDArray, NDArray]], str]] = {
    "the last axis": (
        lambda x: (np.zeros((9, 12, 17), "f")[..., 0], x[1]),
        r"'u' is not a view that is taken \(strides \(816, 68\)\); its axes must lead forwards, "
        r"the last in steps of at most 16 elements; pass np.ascontiguousarray\(u\)$",
    ),
    "backwards": (lambda x: (x[0, ::-1], x[1]), r"strides \(-48, 4\)"),
    "backwards along rows": (lambda x: (x[0, :, ::-1], x[1]), r"strides \(48, -4\)"),
    "a transposed one": (
        lambda x: (np.zeros((20, 24), "f").T[1:], np.zeros((23, 20), "f")),
        r"'u' is not a view that is taken",
    ),
    "broadcast output": (
        lambda x: (x[0], np.lib.stride_tricks.as_strided(x[1], (9, 12), (0, 4))),
        r"strides \(0, 4\)\); its axes must lead forwards and without overlap, the last in ",
    ),
    "overlapping rows of an output": (
        lambda x: (
            x[0, :5, :8],
            np.lib.stride_tricks.sliding_window_view(x[1, 0], 8, writeable=True),
        ),
        r"strides \(4, 4\)",
    ),
    "parts of elements": (
        lambda x: (np.zeros((9, 12), "f4, i1")["f0"], x[1]),
        r"strides \(60, 5\)\); its strides must be multiples of 4 bytes, those of an element; pass",
    ),
    "Fortran order": (
        lambda x: (np.zeros((17, 3), "f", order="F"), np.zeros((17, 3), "f")),
        r"strides \(4, 68\)\); its axes must lead forwards, the last in steps of at most 16 ",
    ),
    "an output": (
        lambda x: (x[0, :, :6].copy(), x[1, :, 5::-1]),
        r"pass np.ascontiguousarray\(u_next\), and write it back: u_next\[...\] = copy$",
    ),
    "overlapping views": (
        lambda x: (x[0, 1:, 1:], x[0, :-1, :-1]),
        "'u_next' and 'u' share memory, and the kernel writes to 'u_next'; pass a copy",
    ),
    "one view twice": (
        lambda x: (x[0, 1:, 1:], x[0, 1:, 1:]),
        "'u_next' and 'u' share memory",
    ),
    "another shape": (
        lambda x: (x[0, 1:, 1:], x[1, 1:, 2:]),
        r"'u_next' takes shape \(n0, n1\) where n0 = 8, n1 = 11; got \(8, 10\)",
    ),
    "another dtype": (
        lambda x: (x[0, 1:, 1:], x.astype(float)[1, 1:, 1:]),
        r"'u_next' takes dtype f32 \(float32\); got float64",
    ),
    "another number of axes": (
        lambda x: (x[:, 1:, 1:], x[1, 1:, 1:]),
        r"'u' takes 2 axes \(n0, n1\); got shape \(2, 8, 11\)",
    ),
    "empty": (lambda x: (x[0, 1:, 12:], x[1, 1:, 12:]), r"'u' is empty \(shape \(8, 0\)\)"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_no_view_is_refused(heat: Kernel, case: str, rng: np.random.Generator) -> None:
    make, message = REFUSED[case]
    u, u_next = make(rng.random((2, 9, 12), dtype=np.float32))
    for launch in (heat, heat.bind, heat.compile):
        with pytest.raises(ArgumentError, match=message):
            launch(u, 0.1, u_next)


def test_rows_too_far_apart_are_refused(heat: Kernel) -> None:
    memory = np.zeros(64, np.float32)
    far = np.lib.stride_tricks.as_strided(memory, (3, 5), (2**33, 4))
    with pytest.raises(ArgumentError, match="'u' is a view whose elements lie in a run of 4294967"):
        heat(far, 0.1, np.zeros((3, 5), np.float32))


@pytest.mark.skipif(ARCH == "cpu", reason="there it is taken")
def test_views_on_the_host_are_refused_on_gpus(heat: Kernel) -> None:
    x = np.zeros((9, 12), np.float32)
    with pytest.raises(ArgumentError, match=f"'u' is a view .* on the host, which {ARCH} cannot"):
        heat(x[1:, 1:], 0.1, np.zeros((8, 11), np.float32))


@pytest.mark.skipif(ARCH != "cpu", reason="one arch is enough")
def test_templates_without_views_say_what_to_pass() -> None:
    double = tikgen.build("transpose")
    with pytest.raises(ArgumentError, match=r"not C-contiguous .* pass np.ascontiguousarray\("):
        double(np.zeros((4, 6), np.float32)[:, 1:], np.zeros((5, 4), np.float32))
    last = tikgen.update("v' = v + v", dim=2, vectors={"v": 2}, layout="last")
    v = np.zeros((4, 6, 2), np.float32)
    with pytest.raises(ArgumentError, match="'v' is not C-contiguous"):
        last(v[1:-1, 1:-1], v[1:-1, 1:-1].copy())


@on_cpu
def test_contiguous_arrays_have_the_kernel_without_strides(
    heat: Kernel, rng: np.random.Generator
) -> None:
    x = rng.random((2, 9, 12), dtype=np.float32)
    plain = heat.for_arguments((x[0], 0.1, x[1]), {})
    for_views = heat.for_arguments((x[0, 1:, 1:], 0.1, x[1, 1:, 1:]), {})
    assert plain.variant.views is None
    assert "stride" not in plain.source.text
    assert for_views.variant.views is not None
    assert for_views.digest != plain.digest
    assert for_views is heat.for_arguments((x[0, :, 1:], 0.1, x[1, :, 1:]), {})
    # Other strides of one array are another kernel.
    assert for_views is not heat.for_arguments((x[0, :, 1:], 0.1, x[1, :, 1:].copy()), {})
    assert "views, in groups of equal strides: u 0, u_next 0" in for_views.source.text
    before = np.array([for_views.launches, heat.launches])
    heat(x[0, 1:, 1:], 0.1, x[1, 1:, 1:])
    heat(x[0], 0.1, x[1])
    assert [*np.array([for_views.launches, heat.launches]) - before] == [1, 2]


@on_cpu
@pytest.mark.parametrize("engine", ["taichi", "direct-cpu"])
def test_bound_views(heat: Kernel, engine: str, rng: np.random.Generator) -> None:
    if why := engines.problem(engine):
        pytest.skip(why)
    x = rng.random((3, 30, 40), dtype=np.float32)
    u, out, other = x[0, 1:-1, 1:-1], x[1, 1:-1, 1:-1], x[2, ::2, 1:-1][:14]
    bound = heat.with_engine(engine).bind(u, 0.1, out)
    assert bound.engine == engine
    assert bound.arguments["u"] is u
    assert bound.arguments["u_next"] is out
    bound()
    assert near(out, u)
    bound(a=0.2)
    assert np.allclose(out, expected_of(u, 0.2), atol=1e-5)
    assert bound.arguments["a"] == 0.2
    with pytest.raises(ArgumentError, match="has no scalar argument '_n0'; it takes a"):
        bound(_n0=3)
    bound.rebind(u=u[:14], u_next=other, a=0.1)  # Of other strides.
    bound()
    assert near(other, u[:14])
    bound.rebind(u=u[:14].copy(), u_next=np.empty_like(u[:14]))
    bound()
    assert near(bound.arguments["u_next"], u[:14])
    with pytest.raises(ArgumentError, match="share memory"):
        bound.rebind(u=u, u_next=x[0, :-2, :-2])


@on_cpu
def test_kernels_for_views_are_not_exported(heat: Kernel, tmp_path: Path) -> None:
    x = np.zeros((2, 9, 12), np.float32)
    for_views = heat.for_arguments((x[0, 1:, 1:], 0.1, x[1, 1:, 1:]), {})
    with pytest.raises(TemplateError, match="ejects its kernel for contiguous arrays only"):
        for_views.eject()
    with pytest.raises(ExportError, match="it takes views; export the kernel for contiguous arra"):
        aot.export([for_views], tmp_path / "bundle", ["x64"])
    with aot.record(tmp_path / "recorded") as recording:
        heat(x[0, 1:, 1:], 0.1, x[1, 1:, 1:])
    assert [own.problem for own in recording.content.kernels] == [
        "it takes views, which bundles do not hold; pass contiguous arrays"
    ]


@on_cpu
def test_new_code_is_adopted_by_what_it_takes(heat: Kernel) -> None:
    x = np.zeros((2, 9, 12), np.float32)
    kernel = heat.for_arguments((x[0], 0.1, x[1]), {})
    reports: list[Any] = []
    new = load_source(kernel.source)
    kernel.offer(new, reports.append)
    kernel(x[0, 1:, 1:], 0.1, x[1, 1:, 1:])  # Other code launches views.
    assert (kernel.loaded is new, reports) == (False, [])
    kernel(x[0], 0.1, x[1])
    assert (kernel.loaded is new, reports) == (True, [None])
    kernel(x[0, 1:, 1:], 0.1, x[1, 1:, 1:])


@on_cpu
def test_baked_sizes_hold_for_views(rng: np.random.Generator) -> None:
    heat = tikgen.update("u' = u + a*lap(u)", dim=2, scalars="a", boundary="periodic", shape=(7, 9))
    x = rng.random((2, 9, 11), dtype=np.float32)
    heat(x[0, 1:-1, 1:-1], 0.1, x[1, 1:-1, 1:-1])
    assert near(x[1, 1:-1, 1:-1], x[0, 1:-1, 1:-1])
    with pytest.raises(ArgumentError, match=r"'u' takes shape \(7, 9\); got \(8, 9\)"):
        heat(x[0, 1:, 1:-1], 0.1, x[1, 1:, 1:-1])


@on_cpu
def test_references_take_views(heat: Kernel, rng: np.random.Generator) -> None:
    x = rng.random((2, 9, 11), dtype=np.float32)
    u = x[0, 1:-1, 1:-1]
    np.testing.assert_array_equal(heat.reference(u, 0.1), heat.reference(u.copy(), 0.1))
    heat.compile(u, 0.1, x[1, 1:-1, 1:-1])
    assert heat.is_compiled(u, 0.1, x[1, 1:-1, 1:-1])


@on_cpu
def test_views_of_other_kinds_of_arrays(heat: Kernel, rng: np.random.Generator) -> None:
    torch = pytest.importorskip("torch", reason="torch is an extra: pip install tikgen[torch]")
    x = rng.random((2, 9, 12), dtype=np.float32)
    u, out = (torch.from_numpy(part)[1:-1, 1:-1] for part in x.copy())
    heat(u, 0.1, out)
    assert near(out.numpy(), u.numpy())
    heat(torch.from_dlpack(x[0, 1:-1, 1:-1]), 0.1, out)
    assert near(out.numpy(), x[0, 1:-1, 1:-1])
    bound = heat.bind(u, 0.1, out)
    bound()
    moved = torch.rand(11, 12)[2:-2, 1:-1]
    u.set_(moved)  # The same tensor, elsewhere.
    bound()
    assert near(out.numpy(), moved.numpy())
    u.set_(torch.rand(11, 34)[2:-2, 2:12])
    with pytest.raises(ArgumentError, match=r"'u' was freed, moved or resized .* strides"):
        bound()
    with pytest.raises(ArgumentError, match=r"'u' is not a view .*; pass u.contiguous\(\)"):
        heat(u.T, 0.1, out)
    with pytest.raises(ArgumentError, match="share memory"):
        heat(u, 0.1, u[:])


@on_cpu
def test_what_exports_memory_is_told_how(heat: Kernel) -> None:
    class Exporting:
        def __dlpack__(self) -> None: ...

    with pytest.raises(ArgumentError, match=r"got .*Exporting; pass torch.from_dlpack\(u\)"):
        heat(Exporting(), 0.1, np.zeros((3, 4), np.float32))


def stepped(views: bool, steps: int, native: bool | None, start: NDArray) -> Any:
    """Return a program whose arrays are views or not, after some steps."""
    wave = tikgen.update(
        "u' = 2*u - old + c*lap(u)", dim=2, scalars="c", boundary="clamp", engine="taichi"
    )
    places = (slice(1, start.shape[0] + 1), slice(2, 2 * start.shape[1] + 1, 2))
    bases = [Surrounded(start, places) for _ in range(3)]
    u, old, u_next = [b.view if views else b.view.copy() for b in bases]
    program = tikgen.Program(
        [wave.bind(u=u, old=old, u_next=u_next, c=0.2), tikgen.swap((old, u), (u, u_next))],
        native=native,
    )
    program.run(steps)
    return program, bases


@on_cpu
@pytest.mark.parametrize("native", [None, False])
def test_programs_over_views(native: bool | None, rng: np.random.Generator, tmp_path: Path) -> None:
    start = rng.random((17, 41), dtype=np.float32)
    program, bases = stepped(True, 7, native, start)
    wanted, _ = stepped(False, 7, native, start)
    if native is None and not engines.problem("direct-cpu"):
        assert isinstance(program._walk.stepper, NativeStepper)
    for name in wanted.names:
        np.testing.assert_array_equal(program[name], wanted[name])
    path = tmp_path / "state.npz"
    program.save(path)
    assert program.verify(2).ok
    program.run(4)
    ended = program.state().arrays
    program.load(path)
    program.run(4)
    for name, values in program.state().arrays.items():
        np.testing.assert_array_equal(values, ended[name])
    for base in bases:
        base.check_around()


@on_cpu
def test_programs_refuse_views_that_do_not_fit(heat: Kernel, tmp_path: Path) -> None:
    x = np.zeros((3, 9, 12), np.float32)
    u, u_next = x[0, 1:, 1:], x[1, 1:, 1:]
    other = np.zeros((8, 13), np.float32)[:, 2:]
    with pytest.raises(ProgramError, match=r"shape \(8, 11\) and strides \(52, 4\)"):
        tikgen.Program([heat.bind(u, 0.1, other), tikgen.swap((u, other))])
    shifted = heat.bind(x[0, :-1, :-1], 0.1, x[2, 1:, 1:])
    with pytest.raises(ProgramError, match="shares memory with it"):
        tikgen.Program([heat.bind(u, 0.1, u_next), shifted, tikgen.swap((u, u_next))])
    program = tikgen.Program([heat.bind(u, 0.1, u_next), tikgen.swap((u, u_next))])
    with pytest.raises(ProgramError, match="which takes views; use contiguous arrays"):
        program.export(tmp_path / "bundle", ["x64"])
    rows = np.zeros((8, 2, 11), np.float32)  # Their rows take turns.
    pair = rows[:, 0], rows[:, 1]
    tikgen.Program([heat.bind(pair[0], 0.1, pair[1]), tikgen.swap(pair), tikgen.copy(*pair)]).run(3)
    np.testing.assert_array_equal(*pair)


@on_cpu
def test_views_stay_within_bounds_in_debug_mode(rng: np.random.Generator) -> None:
    init_taichi(debug=True)
    try:
        heat = tikgen.update("u' = u + a*lap(u)", dim=2, scalars="a", boundary="periodic")
        base = rng.random((2, 7, 9), dtype=np.float32)
        u, out = base[0, 2:, 3:], base[1, 2:, 3:]  # Nothing lies behind the last element.
        heat(u, 0.1, out)
        assert near(out, u)
    finally:
        init_taichi()
