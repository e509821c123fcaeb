"""Recording: what a program launches, as a file, and that file as a bundle with a graph."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import taichi as ti
import yaml

import tikgen
from conftest import ARCH, init_taichi
from tikgen import aot
from tikgen.aot import manifest
from tikgen.aot.recording import recording_file
from tikgen.aot.recording.recorded_graph import turn_of
from tikgen.aot.recording.recorder import Recording
from tikgen.errors import ArgumentError, ExportError
from tikgen.pipeline import evidence
from tikgen.pipeline.bound import BoundKernel
from tikgen.pipeline.loaded import Loaded

pytest_plugins = ["one_compiler"]
pytestmark = pytest.mark.usefixtures("one_compiler")

BUNDLE_ARCH = {"cpu": "x64"}.get(ARCH, ARCH)


@ti.kernel
def push(
    x: ti.types.ndarray(ndim=1),
    v: ti.types.ndarray(dtype=ti.f32, ndim=1),
    dt: ti.f32,
    n: ti.template(),
):
    for i in range(x.shape[0]):
        for _ in ti.static(range(n)):
            x[i] += dt * v[i]


@ti.kernel
def scatter(x: ti.types.ndarray(dtype=ti.f32, ndim=1), target: ti.template()):
    for i in target:
        target[i] += 2 * x[i % x.shape[0]]


@ti.kernel
def read(x: ti.types.ndarray(dtype=ti.f32, ndim=1)) -> ti.f32:
    return x[0]


def double(kind: str) -> Any:
    """Return a kernel of a text, which takes an array that is annotated so."""
    return tikgen.from_string(
        "import taichi as ti\n\n\n@ti.kernel\n"
        f"def double(x: ti.types.ndarray({kind})):\n"
        "    for i in range(x.shape[0]):\n        x[i] *= 2\n"
    )


def launched(recording: Recording) -> list[tuple[str, dict[str, Any]]]:
    return [(launch.kernel, launch.arguments) for launch in recording.content.launches]


@pytest.mark.arch
def test_every_kind_of_launch_is_recorded_in_order(ti_arch: str, tmp_path: Path) -> None:
    copy = tikgen.build("map", expr="z = a*x", scalars=("a",))
    x, z = np.ones((2, 5), np.float32)
    device = ti.ndarray(ti.f32, 5)
    field = ti.field(ti.f32, 4)
    bound = copy.bind(x=x, z=z, a=3.0)
    copy(x=x, z=z, a=1.0)
    with aot.record(tmp_path / "calls.yml") as recording:
        tikgen.build("map", expr="z = x + 1")
        copy(x=x, z=z, a=2.0)
        bound(a=4)
        push(x, device, np.float32(0.5), 3)
        push(dt=0.25, x=x, n=2, v=z)
        scatter(x, field)
        field.fill(3)
        double("dtype=ti.f32, ndim=1")(z)
        double("").bind(x)()  # Not over a cached context, but as a plain call.
        field.to_numpy()  # A copy.
        with pytest.raises(ArgumentError):
            copy(x=x, z=z[:-1], a=2.0)
    copy(x=x, z=z, a=1.0)
    name = recording.content.builds[0].name
    assert launched(recording) == [
        (name, {"x": "x", "z": "z", "a": 2.0}),
        (name, {"x": "x", "z": "z", "a": 4.0}),
        ("push", {"x": "x", "v": "v", "dt": 0.5}),
        ("push_2", {"x": "x", "v": "z", "dt": 0.25}),
        ("scatter", {"x": "x"}),
        ("fill_field", {}),
        ("double", {"x": "z"}),
        ("double", {"x": "x"}),
    ]
    assert [b.parameters["expr"] for b in recording.content.builds] == ["z = a * x", "z = x + 1"]
    assert recording.content.builds[0].digest == copy.digest
    assert recording.content.builds[0].schedule["unroll"] == copy.params["unroll"]
    shown = [(a.name, a.dtype, a.shape) for a in recording.content.arrays]
    assert shown == [("x", "f32", (5,)), ("z", "f32", (5,)), ("v", "f32", (5,))]
    own = {k.name: k for k in recording.content.kernels}
    assert own["push"].templates["n"] == 3 and own["push_2"].templates["n"] == 2
    assert (
        own["push"].file == __file__
        and own["push"].line == push.__wrapped__.__code__.co_firstlineno
    )
    assert [f.name for f in recording.content.fields] == ["target"]
    assert own["scatter"].fields == {"target": "target"}
    assert own["fill_field"].fields == {"field": "target"}
    assert recording.path == tmp_path / "calls.yml"
    on_disk = recording_file.read(recording.path)
    for part in ("kernels", "fields", "arrays", "launches"):
        assert getattr(on_disk, part) == getattr(recording.content, part)
    assert [b.digest for b in on_disk.builds] == [b.digest for b in recording.content.builds]
    assert on_disk.arch == ti_arch


@pytest.mark.arch
def test_views_of_the_same_memory_are_one_array(ti_arch: str, tmp_path: Path) -> None:
    both = np.ones((2, 6), np.float32)
    with aot.record(tmp_path / "calls.yml") as recording:
        for step in range(4):
            push(both[step % 2], both[1 - step % 2], 0.1, 1)
        push(both[0][:3], both[1][:3], 0.1, 1)
    names = [tuple(given.values())[:2] for _, given in launched(recording)]
    assert names == [("x", "v"), ("v", "x")] * 2 + [("x_2", "v_2")]


def test_every_thread_is_recorded(ti_arch: str, tmp_path: Path) -> None:
    x = np.ones(4, np.float32)
    push(x, x.copy(), 0.5, 1)
    arrays = [np.ones(4, np.float32) for _ in range(3)]

    def work(array: Any) -> None:
        for _ in range(20):
            push(array, x, 0.5, 1)

    with aot.record(tmp_path / "calls.yml") as recording:
        threads = [threading.Thread(target=work, args=(array,)) for array in arrays]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    found = [given["x"] for _, given in launched(recording)]
    assert sorted(found) == sorted(["x", "x_2", "x_3"] * 20)
    assert len(recording.content.kernels) == 1


def test_nothing_is_in_the_way_of_launches_otherwise(ti_arch: str, tmp_path: Path) -> None:
    taichis = type(push._primal)

    def hooked() -> list[Any]:
        return [Loaded.run, BoundKernel.__call__, taichis.launch_kernel, taichis.__call__]

    before = hooked()
    with pytest.raises(ZeroDivisionError), aot.record(tmp_path / "calls.yml"):
        assert all(a is not b for a, b in zip(before, hooked(), strict=True))
        push(np.ones(3, np.float32), np.ones(3, np.float32), 0.5, 1)
        1 / 0  # noqa: B018
    assert all(a is b for a, b in zip(before, hooked(), strict=True))
    assert len(recording_file.read(tmp_path / "calls.yml").launches) == 1, "written all the same"
    assert [p.name for p in tmp_path.iterdir()] == ["calls.yml"]


def test_recordings_do_not_nest(ti_arch: str, tmp_path: Path) -> None:
    with aot.record(tmp_path / "a.yml"):
        with (
            pytest.raises(ExportError, match="another recording is active"),
            aot.record(tmp_path / "b.yml"),
        ):
            pass
        push(np.ones(3, np.float32), np.ones(3, np.float32), 0.5, 1)
    assert len(recording_file.read(tmp_path / "a.yml").launches) == 1
    with aot.record(tmp_path / "b.yml"):
        pass
    assert not recording_file.read(tmp_path / "b.yml").launches


def test_a_file_that_cannot_be_written(tmp_path: Path) -> None:
    with (
        pytest.raises(ExportError, match="there is no folder"),
        aot.record(tmp_path / "nowhere" / "calls.yml"),
    ):
        pytest.fail("the block must not run in vain")
    (tmp_path / "calls.yml").mkdir()
    with pytest.raises(ExportError, match="cannot be written"), aot.record(tmp_path / "calls.yml"):
        pass
    assert [p.name for p in tmp_path.iterdir()] == ["calls.yml"]


# Damaged files.

GOOD = recording_file.File(
    format=recording_file.FORMAT,
    tikgen="0.1",
    taichi="1.7.4",
    arch="cpu",
    kernels=(
        recording_file.Own(
            name="go",
            function="go",
            file="go.py",
            line=3,
            arguments=(manifest.Argument(name="a", kind="scalar", dtype="f32"),),
            text="import taichi as ti\n\n\n@ti.kernel\ndef go(a: ti.f32):\n    pass\n",
        ),
    ),
    launches=(recording_file.Launch("go", {"a": 1.5}),),
)


def test_a_file_reads_as_it_was_written(tmp_path: Path) -> None:
    recording_file.write(GOOD, tmp_path / "calls.yml")
    assert recording_file.read(tmp_path / "calls.yml") == GOOD
    assert "@ti.kernel\n" in (tmp_path / "calls.yml").read_text(), "a text is written as it is"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "format: 1",
            "format: 2",
            "has format 2, written by tikgen '?0.1'?; this tikgen reads format 1",
        ),
        ("format: 1\n", "", "is no recording"),
        ("kernels:", "kernels: [", "is damaged"),
        ("name: go", "name: 7", "is damaged .*Expected `str`"),
        ("name: go", "name: gone", "launch 0 is of the unknown kernel 'go'"),
        ("{a: 1.5}", "{b: 1.5}", "launch 0 does not have the arguments of go"),
        ("{a: 1.5}", "{a: x}", "launch 0 passes the unknown 'x'"),
        ("{a: 1.5}", "{a: [x]}", "launch 0 passes the unknown"),
        ("fields: {}", "fields: {x: y}", "go uses the unknown field 'y'"),
        ("launches:", "!!python/name:os.system launches:", "is damaged"),
    ],
)
def test_a_damaged_file_is_refused(tmp_path: Path, old: str, new: str, message: str) -> None:
    path = tmp_path / "calls.yml"
    recording_file.write(GOOD, path)
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    with pytest.raises(ExportError, match=message):
        aot.export_recording(path, tmp_path / "bundle")
    assert not (tmp_path / "bundle").exists()


def test_a_file_that_is_none(tmp_path: Path) -> None:
    path = tmp_path / "calls.yml"
    with pytest.raises(ExportError, match="cannot be read: No such file"):
        aot.export_recording(path, tmp_path / "bundle")
    path.write_bytes(bytes(range(256)))
    with pytest.raises(ExportError, match="is damaged"):
        aot.export_recording(path, tmp_path / "bundle")


# Loops.


@pytest.mark.parametrize(
    ("launches", "turn"),
    [
        ("", ""),
        ("A", "A"),
        ("AB", "AB"),
        ("AA", "A"),
        ("ABAB", "AB"),
        ("ABA", "ABA"),
        ("ABABA", "AB"),
        ("AABAAB", "AAB"),
        ("AABAABAA", "AAB"),
        ("iABABAB", "iABABAB"),
        ("ABCCC", "ABCCC"),
    ],
)
def test_a_turn_of_a_loop_is_found(launches: str, turn: str) -> None:
    assert launches[: turn_of(launches)] == turn


def test_random_loops_are_found(rng: np.random.Generator) -> None:
    for _ in range(200):
        body = rng.integers(0, 3, int(rng.integers(1, 9))).tolist()
        keys = int(rng.integers(2, 6)) * body + body[: int(rng.integers(0, len(body)))]
        period = turn_of(keys)
        repeats = [p for p in range(1, len(keys)) if keys[p:] == keys[:-p]]
        assert period == min(repeats) <= len(body)
        assert turn_of([*keys, "end"]) == len(keys) + 1


# From a recording to a bundle.


def simulate(steps: int, x: Any, v: Any, total: Any, dt: float = 0.5) -> None:
    """Run a program of its own kernels, a template's and a field."""
    scale = tikgen.build("map", expr="z = a*x", scalars=("a",))
    for step in range(steps):
        push(x, v, dt + step, 2)
        scatter(x, total)
        push(v, x, 0.125, 1)
        scale(x=v, z=x, a=0.5)


@pytest.fixture(scope="module")
def recorded_program(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Path]:
    """Record the program, once."""
    made: list[Path] = []

    def make() -> Path:
        if not made:
            path = tmp_path_factory.mktemp("recording") / "calls.yml"
            x, v = np.ones((2, 6), np.float32)
            with aot.record(path):
                simulate(3, x, v, ti.field(ti.f32, 9))
            made.append(path)
        return made[0]

    return make


@pytest.mark.skipif(ARCH != "cpu", reason="elsewhere small grids have no schedule of their own")
def test_the_schedule_for_any_sizes_stands_in_for_one_that_was_not_verified(
    ti_arch: str, tmp_path: Path
) -> None:
    kernel = tikgen.build("stencil", dim=1, boundary="zero")
    verified = tikgen.build("stencil", dim=1, boundary="zero", schedule={}, engine="taichi")
    tally = evidence.Tally({}, passed=True, examples=1, worst=0.0)
    evidence.keep(verified.template, "cpu", 7, {verified.digest: tally})
    x = np.ones(9, np.float32)
    with aot.record(tmp_path / "calls.yml"):
        kernel(x, np.zeros_like(x))
    assert kernel.schedule.serial and not verified.schedule.serial
    bundle = aot.export_recording(tmp_path / "calls.yml", tmp_path / "bundle", ("x64",))
    assert bundle.ok, bundle.failures
    (exported,) = bundle.manifest.kernels.values()
    assert exported.builds["x64"].schedule["serial"] == "False"


@pytest.mark.arch
def test_a_recording_becomes_a_graph(
    ti_arch: str,
    recorded_program: Callable[[], Path],
    tmp_path: Path,
    rng: np.random.Generator,
    one_process: None,
) -> None:
    bundle = aot.export_recording(
        recorded_program(),
        tmp_path / "bundle",
        (BUNDLE_ARCH,),
        graph="advance",
        names={"x": "position"},
        arguments=["push.dt"],
        verify=True,
        max_examples=1,
    )
    assert not bundle.failures
    graph = bundle.manifest.graphs["advance"]
    scale = "map_z_a_x_dim1_f32_a"
    assert [step.kernel for step in graph.steps] == ["push", "scatter", "push_2", scale]
    assert [a.name for a in graph.arguments] == ["position", "v", "push_dt"]
    assert list(graph.constants.values()) == [0.125, 0.5]
    x, v = rng.random((2, 11), dtype=np.float32)
    wanted_x, wanted_v, total = x.copy(), v.copy(), ti.field(ti.f32, 9)
    simulate(1, wanted_x, wanted_v, total)
    with aot.load(tmp_path / "bundle", BUNDLE_ARCH) as runtime:
        runtime.advance(position=x, v=v, push_dt=0.5)
        field = runtime.fields["target"].to_numpy()
    np.testing.assert_allclose(x, wanted_x, rtol=1e-5)
    np.testing.assert_allclose(v, wanted_v, rtol=1e-5)
    np.testing.assert_allclose(field, total.to_numpy(), rtol=1e-5)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"names": {"y": "u"}}, "has no array 'y'.* It has v, x"),
        ({"names": {"x": "v"}}, "gives two arrays one name"),
        ({"arguments": ["dtt"]}, "has no scalar 'dtt'. Did you mean 'dt'"),
        ({"arguments": ["dt"]}, r"'dt' is 0.5 for push and 0.125 for push_2.*push_2.dt"),
        ({"temporaries": ["y"]}, "no step uses the temporary array 'y'"),
        ({"launches": (3, 3)}, "no launches from 3 up to 3; it holds 12"),
        ({"launches": "some"}, "launches takes 'loop', 'all' or two numbers"),
        ({"graph": "push"}, "a kernel has the same name"),
    ],
)
def test_a_graph_that_does_not_fit_is_refused(
    ti_arch: str,
    recorded_program: Callable[[], Path],
    tmp_path: Path,
    settings: dict[str, Any],
    message: str,
) -> None:
    with pytest.raises(ExportError, match=message):
        aot.export_recording(recorded_program(), tmp_path / "bundle", **settings)
    assert not (tmp_path / "bundle").exists()


@pytest.mark.once
def test_what_cannot_be_exported_is_refused_only_where_it_is_launched(
    ti_arch: str, tmp_path: Path
) -> None:
    path = tmp_path / "calls.yml"
    x = np.ones(3, np.float32)
    with aot.record(path) as recording:
        read(x)
        push(x, x.copy(), 0.5, 1)
    assert "returns a value" in recording.content.kernels[0].problem
    assert launched(recording)[0] == ("read", {})
    with pytest.raises(ExportError, match=r"launches read.*returns a value"):
        aot.export_recording(path, tmp_path / "bundle")
    bundle = aot.export_recording(path, tmp_path / "bundle", launches=(1, 2))
    assert list(bundle.manifest.kernels) == ["push"]


def test_derivatives_are_recorded_and_refused(ti_arch: str, tmp_path: Path) -> None:
    weight = ti.field(ti.f32, 3, needs_grad=True)
    loss = ti.field(ti.f32, (), needs_grad=True)

    @ti.kernel
    def measure():
        for i in weight:
            loss[None] += weight[i] ** 2

    with aot.record(tmp_path / "calls.yml") as recording, ti.ad.Tape(loss):
        measure()
    assert [name for name, _ in launched(recording) if "fill" not in name] == [
        "measure",
        "measure_2",
    ]
    problems = {k.name: k.problem for k in recording.content.kernels}
    assert not problems["measure"] and "derivative" in problems["measure_2"]


def test_a_program_that_begins_with_ti_init(tmp_path: Path) -> None:
    with aot.record(tmp_path / "calls.yml") as recording:
        for _ in range(2):
            init_taichi()
            scatter(np.ones(3, np.float32), ti.field(ti.f32, 4))
    assert [name for name, _ in launched(recording)] == ["scatter", "scatter_2"]
    assert [f.name for f in recording.content.fields] == ["target", "target_2"]
    assert recording_file.read(recording.path).arch == ARCH


def test_a_template_that_changed_since_is_refused(ti_arch: str, tmp_path: Path) -> None:
    path = tmp_path / "calls.yml"
    kernel = tikgen.build("map", expr="z = a*x", scalars=("a",))
    x, z = np.ones((2, 5), np.float32)
    with aot.record(path):
        kernel(x=x, z=z, a=2.0)
    content = yaml.safe_load(path.read_text())
    content["builds"][0]["digest"] = "0" * 64
    path.write_text(yaml.safe_dump(content))
    with pytest.raises(ExportError, match="'map' renders to other code than when it was recorded"):
        aot.export_recording(path, tmp_path / "bundle")
    content["builds"][0]["parameters"]["dim"] = 17
    path.write_text(yaml.safe_dump(content))
    with pytest.raises(ExportError, match=r"cannot be built as recorded.*'dim'"):
        aot.export_recording(path, tmp_path / "bundle")
