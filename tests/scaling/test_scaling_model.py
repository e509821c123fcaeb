"""The model of scaling: what it counts, adds up and refuses; no time is measured."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

import tikgen
from tikgen.errors import GridError
from tikgen.grid.decomposition import Decomposition
from tikgen.scaling import Machine, Network, Point, Prediction, measure, predict
from tikgen.scaling.machine import COPY
from tikgen.scaling.network import Messages, fitted
from tikgen.scaling.steps import launches_of

pytestmark = pytest.mark.usefixtures("ti_arch")
NET = Network(latency=2e-6, bandwidth=1e9, message=1e-6, run=1e-9)
# A byte takes a nanosecond, a launch a microsecond at least.
FLAT = ((1e3, 1e-6), (1e12, 1e3))


def heat(
    shape: tuple[int, ...],
    text: str = "u' = u + dt*lap(u)",
    periodic: bool = True,
    every: int | None = None,
    sums: Literal["fast", "exact"] = "fast",
    **options: Any,
) -> tikgen.Program:
    grid = tikgen.Grid(shape, periodic=periodic, exchange_every=every, sums=sums)
    boundary = "periodic" if periodic else "zero"
    step = tikgen.update(text, dim=len(shape), scalars="dt", boundary=boundary, **options)
    names = {name: np.zeros(1, np.float32) for name in ("warmest", "total") if name in text}
    u, un = (grid.zeros(options.get("dtype", "f32")) for _ in range(2))
    bound = grid.bind(step, u=u, u_next=un, dt=0.1, **names)
    return tikgen.Program([bound, grid.swap((u, un))])


def machine(ranks: int = 1, network: Network | None = None) -> Machine:
    return Machine(ranks, {COPY: FLAT}, network)


def test_a_step_is_its_launches_and_its_exchanges() -> None:
    found = predict(heat((64, 32, 16)), [1, 2, 8], NET, machine())
    one, two, eight = found.strong
    assert (one.ranks, two.parts, eight.parts) == (1, (2, 1, 1), (8, 1, 1))
    points = 64 * 32 * 16
    assert one.seconds == pytest.approx(8e-9 * points)
    assert one.exchanging == one.joining == 0
    assert two.computing == pytest.approx(8e-9 * points / 2)
    # Two planes of 32 x 16 f32, each in one piece.
    assert two.exchanging == pytest.approx(3e-6 + 2 * 2048e-9 + 2e-9)
    assert eight.exchanging == pytest.approx(two.exchanging)
    # Beside ghost points of the other axes, two planes are 16 lines each, the third 256 points.
    cube = predict(heat((48, 48, 96)), [27], NET, machine()).strong[-1]
    assert cube.parts == (3, 3, 3)
    runs = 2 * (16 + 16 + 256)
    assert cube.exchanging == pytest.approx(
        2e-6 + 5e-6 + 2 * (2048 + 2048 + 1024) * 1e-9 + runs * 1e-9
    )


def test_several_steps_share_an_exchange_and_compute_ghost_points() -> None:
    shape = (64, 32, 16)
    (_, two) = predict(heat(shape, every=3), [2], NET, machine()).strong
    assert two.exchange_every == 3
    # 32 planes, and two and one of each neighbour; a point takes 8 bytes.
    assert two.computing == pytest.approx(8e-9 * 512 * (36 + 34 + 32) / 3)
    assert two.exchanging == pytest.approx((3e-6 + 2 * 3 * 2048e-9 + 2e-9) / 3)
    assert predict(heat(shape), [2], NET, machine(), exchange_every=3).strong[-1] == two
    # Of 8 planes, layers hold at most 8.
    eight = predict(heat(shape), [8], NET, machine(), exchange_every=20).strong[-1]
    assert eight.parts == (8, 1, 1)
    assert eight.exchange_every == 8
    # With corners, axes are exchanged one after the other.
    cube = predict(heat((48, 48, 96)), [27], NET, machine(), exchange_every=2).strong[-1]
    assert cube.parts == (3, 3, 3)
    sent = 2 * (2 * 16 * 32 + 2 * 16 * 32 + 2 * 16 * 16) * 4e-9 + 2 * (32 + 32 + 256) * 1e-9
    assert cube.exchanging == pytest.approx((3 * 3e-6 + sent) / 2)
    for text in ("u' = u + dt*lap(u); total = sum(u')", "u' = u + dt*i*lap(u)"):
        alone = predict(heat(shape, text), [2], NET, machine(), exchange_every=3).strong[-1]
        assert alone.exchange_every == 1
    with pytest.raises(GridError, match="exchange_every takes a whole number of 1 or more"):
        predict(heat(shape), [2], NET, machine(), exchange_every=0)


def test_weak_scaling_keeps_the_points_of_a_rank() -> None:
    found = predict(heat((12, 10, 8)), [8, 10_000], NET, machine())
    assert [p.shape for p in found.weak] == [(12, 10, 8), (24, 20, 16), (300, 200, 160)]
    assert [p.parts for p in found.weak] == [(1, 1, 1), (2, 2, 2), (25, 20, 20)]
    assert len({p.computing for p in found.weak}) == 1
    assert [p.ranks for p in found.strong] == [1, 8]  # The grid has too few points for more.
    shares = found.efficiency("weak")
    assert shares[1] == 1 > shares[8] >= shares[10_000] > 0


def test_layers_are_as_wide_as_the_text_reads() -> None:
    def sent(text: str, shape: tuple[int, ...], ranks: tuple[int, ...], **more: Any) -> Any:
        (launch,) = launches_of(heat(shape, text, **more))
        periodic = (more.get("periodic", True),) * len(shape)
        owned = tuple(n // c for n, c in zip(shape, ranks, strict=True))
        return list(launch.messages(Decomposition(shape, ranks, periodic), owned))

    text = "u' = u + dt*lap(u)"
    assert sent(text, (40, 30), (2, 1)) == [Messages(2, 2 * 30 * 4, 2)]
    assert sent(text, (40, 30), (2, 1), order=4) == [Messages(2, 2 * 2 * 30 * 4, 2)]
    assert sent(text, (40, 30), (2, 1), periodic=False) == [Messages(1, 30 * 4, 1)]
    assert sent(text, (40, 30), (4, 1), periodic=False) == [Messages(2, 2 * 30 * 4, 2)]
    assert sent(text, (40, 30), (1, 2)) == [Messages(2, 2 * 40 * 4, 2 * 40)]
    assert sent(text, (40, 30), (1, 2), dtype="f64") == [Messages(2, 2 * 40 * 8, 2 * 40)]
    # Edges travel by two stages.
    assert len(sent("u' = u + dt*dxy(u)", (40, 30), (2, 2))) == 2
    assert sent("u' = u + dt*u**2", (40, 30), (2, 1)) == [Messages(0, 0, 0)]


def test_reductions_are_joined_by_all() -> None:
    text = "u' = u + dt*lap(u); warmest = max(u'); total = sum(u')"
    (_, many) = predict(heat((64, 64), text), [16], NET, machine()).strong
    # In 4 rounds each rank receives two f32 of each other one.
    assert many.joining == pytest.approx(4 * 2e-6 + 15 * 8e-9)
    # An exact sum is joined by itself, as 69 integers of 64 bits.
    (_, many) = predict(heat((64, 64), text, sums="exact"), [16], NET, machine()).strong
    assert many.joining == pytest.approx(2 * 4 * 2e-6 + 15 * (4 + 69 * 8) * 1e-9)


def test_a_join_costs_a_latency_a_doubling_and_what_is_received() -> None:
    net = Network(latency=1e-6, bandwidth=1e9, join=5e-6)
    for ranks, rounds in ((2, 1), (3, 2), (4, 2), (1000, 10)):
        wanted = 5e-6 + rounds * 1e-6 + (ranks - 1) * 8e-9
        assert net.joined(ranks, 8) == pytest.approx(wanted)


def test_a_loop_counts_as_often_as_it_runs() -> None:
    grid = tikgen.Grid((20, 20), periodic=True)
    step = tikgen.update("u' = u + dt*lap(u)", dim=2, scalars="dt", boundary="periodic")
    u, un, n = grid.zeros(), grid.zeros(), np.zeros(1, np.float32)
    inner = [grid.bind(step, u=u, u_next=un, dt=0.1), grid.swap((u, un)), "n = n + 1"]
    looped = tikgen.Program([tikgen.loop(3, inner)], n=n)
    once = tikgen.Program(inner, n=n)
    times, single = (predict(p, [4], NET, machine()).strong[-1].seconds for p in (looped, once))
    assert times == pytest.approx(3 * single)
    for part in (
        tikgen.when("n < 3", inner),
        tikgen.loop(3, inner, until="n > 2"),
    ):
        with pytest.raises(GridError, match="without a condition; got a condition"):
            predict(tikgen.Program([part], n=n), [4], NET, machine())


def test_rates_lie_on_lines_between_what_was_measured() -> None:
    found = Machine(1, {COPY: ((1e3, 1e-6), (1e5, 1e-4)), "mine": ((1e3, 5e-6),)})
    assert found.seconds("other", 10) == 1e-6
    assert found.seconds("other", 1e4) == pytest.approx(1e-5)
    assert found.seconds("other", 1e6) == pytest.approx(1e-3)
    assert found.seconds("mine", 2e3) == pytest.approx(1e-5)


def test_the_machine_of_the_nearest_fewer_ranks_is_taken() -> None:
    slow = Machine(4, {COPY: tuple((size, 2 * seconds) for size, seconds in FLAT)}, NET)
    # Each step exchanges: a grid on a GPU would choose otherwise, and compute ghost points.
    found = predict(heat((64, 64), every=1), [1, 3, 4, 8], Network(1.0, 1e9), [slow, machine()])
    one, three, four, eight = found.strong
    assert three.computing < 2 * one.computing / 2
    assert four.computing == pytest.approx(2 * one.computing / 4)
    assert three.exchanging < four.exchanging * 2 < 1e-3  # Within the machine.
    assert eight.exchanging > 1  # Between nodes.


@pytest.mark.parametrize("seed", range(3))
def test_a_fit_finds_what_messages_cost(seed: int) -> None:
    rng = np.random.default_rng(seed)
    truth = Network(*(10 ** rng.uniform((-6, 8, -7, -9), (-4, 10, -5, -8))))
    every = [
        Messages(count, size, runs)
        for count in (1, 2, 4)
        for size in (64, 10_000, 10**6)
        for runs in (1, 50, 2000)
    ]
    found = fitted([(each, truth.seconds(each)) for each in every])
    assert vars(found) == pytest.approx(vars(truth), rel=1e-3)
    # What cannot be seen costs nothing, and nothing is negative.
    odd = fitted([(each, 1e-5) for each in every])
    assert odd.latency == pytest.approx(1e-5)
    assert odd.bandwidth > 1e15 and 0 <= odd.message < 1e-12 and 0 <= odd.run < 1e-15


@pytest.mark.once
def test_tables_and_pictures(tmp_path: Path) -> None:
    found = predict(heat((64, 64, 64)), [2, 16, 10_000], NET, machine())
    text = str(found)
    assert text.startswith("strong scaling\n")
    assert "\n\nweak scaling\n" in text
    assert "10,000" in text and "100%" in text
    assert all(len(line) <= 100 for line in text.splitlines())
    pytest.importorskip("matplotlib")
    path = tmp_path / "scaling.png"
    figure = found.plot(path, {"strong": {1: 2e-3, 2: 1e-3}})
    assert path.stat().st_size > 10_000
    assert [axes.get_title() for axes in figure.axes] == ["strong scaling", "weak scaling"]
    labels = [text.get_text() for text in figure.axes[0].get_legend().get_texts()]
    assert "measured" in labels
    with pytest.raises(GridError, match="'strong' or 'weak'; got 'other'"):
        found.plot(None, {"other": {1: 1.0}})


def test_machines_are_kept_in_files(tmp_path: Path) -> None:
    path = tmp_path / "node.json"
    for each in (machine(), machine(4, NET)):
        each.save(path)
        assert Machine.load(path) == each
    good = path.read_text()
    for bad in (
        "",
        "[]",
        "3",
        "{}",
        good.replace('"copy"', '"cpy"'),
        good.replace("1e-06", "-1"),
        good.replace("1e-06", "NaN"),
        good.replace('"ranks": 4', '"ranks": 0'),
        good.replace('"ranks": 4', '"ranks": 1.9'),
        good.replace('"ranks": 4', '"ranks": 1e999'),
        good.replace('"ranks": 4', '"ranks": true'),
        good.replace("1000000000.0", "1" + 400 * "0"),
        good.replace("1000.0", "1" + 400 * "0"),
        good.replace('"latency"', '"late"'),
        good.replace("1000000000.0", '"fast"'),
    ):
        assert bad != good
        path.write_text(bad)
        with pytest.raises(GridError, match="holds no machine"):
            Machine.load(path)
    with pytest.raises(GridError, match="cannot be read: "):
        Machine.load(tmp_path / "no.json")
    with pytest.raises(GridError, match="cannot be written: "):
        machine().save(tmp_path / "no" / "such.json")


def test_what_does_not_fit_is_refused() -> None:
    program = heat((8, 8))
    with pytest.raises(GridError, match="several ranks need a network"):
        predict(program, [2], machine=machine())
    for wrong in ([0], [1.5], [True, 2.0], [10**8], [10**5000], [np.float64(2)], [np.True_]):
        with pytest.raises(GridError, match="ranks takes whole numbers from 1 to"):
            predict(program, wrong, NET, machine())  # type: ignore[arg-type]
    x = np.zeros(9, np.float32)
    plain = tikgen.Program([tikgen.elementwise("x = 2*x").bind(x=x)])
    for use in (measure, lambda program: predict(program, [1])):
        with pytest.raises(GridError, match=r"takes a tikgen\.Program; got None"):
            use(None)  # type: ignore[arg-type]
    with pytest.raises(GridError, match="got BoundKernel"):
        predict(plain, [1], NET, machine())
    for name, value in (
        ("latency", -1),
        ("latency", math.inf),
        ("bandwidth", 0),
        ("bandwidth", 10**400),
        ("bandwidth", 10**5000),
        ("run", math.nan),
        ("message", "1"),
        ("join", True),
    ):
        good = {"latency": 1.0, "bandwidth": 1.0}
        with pytest.raises(GridError, match=f"{name} of a network takes a number"):
            Network(**good | {name: value})  # type: ignore[arg-type]
    with pytest.raises(GridError, match="rounds takes a whole number of 1 or more; got 0"):
        measure(program, rounds=0)


@pytest.mark.parametrize(
    ("told", "arguments"),
    [
        ("ranks of a machine takes a whole number of 1 or more; got 0", (0, {COPY: FLAT})),
        ("ranks of a machine takes a whole number of 1 or more; got 1.5", (1.5, {COPY: FLAT})),
        ("rates by the name of a kernel, and those of 'copy'; got {}", (1, {})),
        ("rates by the name of a kernel, and those of 'copy'; got None", (1, None)),
        ("rates of 'copy' takes pairs of bytes", (1, {COPY: ()})),
        ("rates of 'copy' takes pairs of bytes", (1, {COPY: 3})),
        ("rates of 'copy' takes pairs of bytes", (1, {COPY: ((1, 2, 3),)})),
        ("rates of 'mine' takes pairs of bytes", (1, {COPY: FLAT, "mine": FLAT[::-1]})),
        ("finite numbers greater than 0; got ((1000.0, 0.0),)", (1, {COPY: ((1e3, 0.0),)})),
        ("takes a tikgen.scaling.Network or None; got 'fast'", (1, {COPY: FLAT}, "fast")),
    ],
)
def test_a_machine_has_ranks_rates_and_a_network(told: str, arguments: tuple[Any, ...]) -> None:
    with pytest.raises(GridError, match=re.escape(told)):
        Machine(*arguments)


def test_numbers_of_numpy_are_taken(tmp_path: Path) -> None:
    net = Network(np.float32(2e-6), np.int64(10**9), message=np.float64(1e-6))  # type: ignore[arg-type]
    rates = tuple((np.float64(size), np.float32(seconds)) for size, seconds in FLAT)
    given = Machine(np.int32(4), {COPY: rates}, net)  # type: ignore[arg-type,dict-item]
    given.save(tmp_path / "node.json")
    assert Machine.load(tmp_path / "node.json") == given
    found = predict(heat((64, 64)), np.array([2, 8]), net, given)  # type: ignore[arg-type]
    assert [point.ranks for point in found.strong] == [1, 2, 8]
    assert all(type(point.ranks) is int for point in found.weak)


@pytest.mark.parametrize(
    "wrong", [[1, 2], {1: 0}, {0: 1.0}, {1: "fast"}, {1.5: 1.0}, {1: math.inf}, 3]
)
def test_what_was_measured_is_seconds_by_ranks(wrong: Any) -> None:
    found = predict(heat((8, 8)), [2], NET, machine())
    with pytest.raises(GridError, match=r"measured\['weak'\] takes a dict of seconds"):
        found.plot(None, {"weak": wrong})
    with pytest.raises(GridError, match="measured takes a dict by 'strong' or 'weak'; got"):
        found.plot(None, [wrong])  # type: ignore[arg-type]


def test_this_process_is_measured_where_no_machine_is_given() -> None:
    (point,) = predict(heat((16, 16)), [1]).strong
    assert isinstance(point, Point)
    assert 0 < point.seconds < 1
    assert Prediction((point,), (point,)).efficiency("strong") == {1: 1.0}


@pytest.mark.parametrize(("shape", "periodic"), [((24, 17, 9), True), ((50, 40), False)])
def test_kernels_are_measured_on_the_parts_of_2_4_8_ranks(
    shape: tuple[int, ...], periodic: bool
) -> None:
    program = heat(shape, periodic=periodic)
    (launch,) = launches_of(program)
    points = predict(program, [1, 2, 4], NET, machine()).strong
    owned = [tuple(-(-n // c) for n, c in zip(shape, point.parts, strict=True)) for point in points]
    found = measure(program, rounds=1)
    (kernel,) = (rates for key, rates in found.kernels.items() if key != COPY)
    measured = {moved for moved, _ in kernel}
    assert launch.moved(owned[0]) == max(measured)
    assert {launch.moved(each) for each in owned if launch.moved(each) >= 2**14} <= measured
    assert all(seconds > 0 for rates in found.kernels.values() for _, seconds in rates)
    half = measure(program, rounds=1, largest=math.prod(shape) // 2)
    (kernel,) = (rates for key, rates in half.kernels.items() if key != COPY)
    assert max(moved for moved, _ in kernel) == launch.moved((shape[0] // 2, *shape[1:]))
