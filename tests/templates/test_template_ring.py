"""The ring template: what a launch that ends by itself takes, answers, counts and leaves alone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tikgen
from some_cases import examples
from tikgen import Assignments, DType, Kernel
from tikgen.errors import ParameterError, UnsupportedOnArch
from tikgen.pipeline.builder import resolve
from tikgen.pipeline.comparison import worst_error
from tikgen.template.base import BUILTIN_FOLDER
from tikgen.template.catalogue import find_template

SUM = {
    "handler": "y = a*x + 1; total = total + x",
    "inputs": {"x": "f32", "a": "f32"},
    "outputs": {"y": "f32"},
    "state": ("total",),
}
RUN, PAUSE, DRAIN, END = range(4)
COMMAND, TAIL, DONE, STATE, BEAT, LIMIT, POLLS = range(0, 112, 16)


@pytest.fixture
def arch(ti_arch: str) -> str:
    """Give an arch where kernels can stay, with Taichi initialised on it."""
    if ti_arch == "vulkan":
        pytest.skip("no kernel stays on vulkan")
    return ti_arch


def launched(
    kernel: Kernel,
    slots: int,
    done: int,
    count: int,
    rng: Any,
    command: int = DRAIN,
    limit: int = 0,
) -> dict[str, Any]:
    """Launch on random messages and return the arrays by name, compared with the reference."""
    control = np.zeros(128, np.int64)
    control[[COMMAND, TAIL, DONE, LIMIT]] = command, done + count, done, limit
    arrays: dict[str, Any] = {"control": control.astype(np.uint32).view(np.int32)}
    for argument in kernel.variant.arguments[1:]:
        size = slots if argument.name.endswith(("_in", "_out")) else 1
        numbers = (
            rng.integers(-50, 50, size) if argument.dtype.is_signed else rng.integers(0, 50, size)
        )
        arrays[argument.name] = numbers.astype(argument.dtype.numpy)
    expected = kernel.reference(*arrays.values())
    kernel(*arrays.values())
    written = [a.name for a in kernel.variant.arguments if a.written]
    for name, value in zip(written, expected, strict=True):
        assert np.array_equal(arrays[name], value.astype(arrays[name].dtype)), name
    return arrays


def test_verification_passes(arch: str, tmp_path: Path, one_process: None) -> None:
    report = tikgen.verify("ring", archs=(arch,), max_examples=examples(8, 4), scripts=tmp_path)
    assert report.ok, str(report)


@pytest.mark.parametrize("done", [0, 5, 2**31 - 3, 2**32 - 3, 2**31 + 1])
def test_messages_are_taken_in_order_wherever_they_stand(arch: str, done: int, rng: Any) -> None:
    kernel = tikgen.build("ring", **SUM)
    assert [a.name for a in kernel.variant.arguments] == [
        "control",
        "a_in",
        "x_in",
        "y_out",
        "total_state",
    ]
    for slots in (1, 8, 64):
        for count in {0, 1, slots // 2, slots}:
            arrays = launched(kernel, slots, done, count, rng)
            words = arrays["control"].view(np.uint32)
            assert words[[DONE, STATE, POLLS]].tolist() == [(done + count) % 2**32, 4, 0]
            taken = (done + np.arange(count)) % slots
            y = arrays["a_in"][taken] * arrays["x_in"][taken] + 1
            assert np.array_equal(arrays["y_out"][taken], y)


@pytest.mark.parametrize("batch", [1, 64, 65536])
def test_batches_change_nothing(arch: str, batch: int, rng: Any) -> None:
    launched(tikgen.build("ring", batch=batch, **SUM), 256, 250, 199, rng)


@pytest.mark.parametrize(
    ("command", "limit", "count", "state"), [(END, 0, 0, 3), (RUN, 1, 7, 5), (PAUSE, 2, 0, 5)]
)
def test_commands(arch: str, command: int, limit: int, count: int, state: int, rng: Any) -> None:
    kernel = tikgen.build("ring", **SUM)
    words = launched(kernel, 8, 3, 7, rng, command, limit)["control"]
    assert words[DONE] == 3 + count
    assert words[STATE] == state
    assert words[POLLS] == (1024 * limit if state == 5 else 0)
    assert words[STATE + 1] == (2 if command == PAUSE else 1)


@pytest.mark.parametrize("dtype", ["i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64", "f64"])
def test_every_dtype_in_which_to_compute(arch: str, dtype: str, rng: Any) -> None:
    handler = "y = x*x + 3*count; count = count + 1; z = max(x, 3) // 2"
    if dtype == "f64":
        handler = handler.replace("//", "/")
    columns = {"inputs": {"x": dtype}, "outputs": {"y": dtype, "z": dtype, "count": dtype}}
    kernel = tikgen.build("ring", handler=handler, state=("count",), dtype=dtype, **columns)
    launched(kernel, 16, 11, 13, rng)


HALF_HANDLERS = (
    "y = max(a*x, b)",
    "y = max(x, 0); total = max(total, a - b)",
    "y = where(x < b, x, b) % 3; total = min(total, a*x) + 1",
    "y = x; total = abs(total) // 2 - x",
)


@pytest.mark.parametrize("handler", HALF_HANDLERS)
@pytest.mark.parametrize("reply", ["f16", "f32", "i16"])
def test_halves_are_computed_in_single_precision(
    arch: str, handler: str, reply: str, rng: Any
) -> None:
    kernel = tikgen.build(
        "ring",
        handler=handler,
        inputs={"x": "f16", "a": "i8", "b": "f16"},
        outputs={"y": reply, "x": "f16"},
        state=("total",),
        dtype="f16",
    )
    before = {"control": np.zeros(128, np.int32)}
    before["control"][[COMMAND, TAIL]] = DRAIN, 60
    for argument in kernel.variant.arguments[1:]:
        size = 1 if argument.name == "total_state" else 64
        before[argument.name] = rng.uniform(-9, 9, size).astype(argument.dtype.numpy)
    after = {name: array.copy() for name, array in before.items()}
    kernel(*after.values())
    written = [a.name for a in kernel.variant.arguments if a.written]
    wanted = dict(zip(written, kernel.reference(*before.values()), strict=True))
    allowed = kernel.template.tolerance(kernel.problem, before, wanted)
    for name in written:
        worst = worst_error(after[name], wanted[name], allowed[name])
        assert worst <= 1, (name, after[name], wanted[name], allowed[name])


@pytest.mark.parametrize("dtype", ["f16", "i8", "u64"])
def test_columns_that_are_drawn_fit_the_dtype(dtype: str) -> None:
    template = find_template("ring")
    drawn = {"dtype": dtype, "inputs": {"x": "i16", "a": "f32", "b": "u8"}}
    inputs = template.adjust({**drawn, "outputs": {}, "state": ("total",)}, "cpu")["inputs"]
    assert resolve(template, arch="cpu", **{**SUM, "inputs": inputs, "dtype": dtype})


def test_columns_are_converted(arch: str) -> None:
    numbers = [0.5, -0.5, 1.49, -1.51, 300, -300, np.nan, np.inf, -np.inf, 127.5, 2.0**40]
    whole = [1, 0, 1, -2, 127, -128, 0, 127, -128, 127, 127]
    kernel = tikgen.build(
        "ring", handler="y = x", inputs={"x": "f64"}, outputs={"y": "i8", "x": "f32"}, dtype="f64"
    )
    control = np.zeros(128, np.int32)
    control[[COMMAND, TAIL]] = DRAIN, len(numbers)
    x = np.resize(numbers, 16).astype(np.float64)
    narrow, y = np.zeros(16, np.float32), np.zeros(16, np.int8)
    expected = kernel.reference(control, x, narrow, y)
    kernel(control, x, narrow, y)
    assert y[: len(whole)].tolist() == whole == expected[2][: len(whole)].tolist()
    assert y[len(whole) :].tolist() == [0] * 5
    assert np.array_equal(narrow[: len(whole)], np.float32(numbers), equal_nan=True)


def test_a_state_may_be_replied_and_a_column_changed(arch: str, rng: Any) -> None:
    kernel = tikgen.build(
        "ring",
        handler="n = n + 1; x = x + n",
        inputs={"x": "i32"},
        outputs={"x": "i32", "n": "i32"},
        state=("n", "kept"),
        dtype="i32",
    )
    arrays = launched(kernel, 4, 0, 3, rng)
    assert np.diff(arrays["n_out"][:3]).tolist() == [1, 1]
    assert np.array_equal(arrays["x_out"][:3], arrays["x_in"][:3] + arrays["n_out"][:3])


def test_the_order_of_columns_in_a_dict_changes_nothing(arch: str) -> None:
    one = tikgen.build("ring", **SUM)
    other = tikgen.build("ring", **SUM | {"inputs": {"a": "f32", "x": "f32"}})
    assert one.digest == other.digest
    assert one.variant.arguments == other.variant.arguments


MUTANTS = {
    "counts a batch as one message": ('{{ tell(done_word, "ring_count"', '{{ tell(done_word, "1"'),
    "forgets the state": ("{{ variable }}_state[0] = {{ variable }}", "pass"),
    "loses the last message": ("ti.min(ring_tail - ring_done", "ti.min(ring_tail - ring_done - 1"),
    "runs over the end": ("& ring_mask", "% (ring_mask + 2)"),
    "does not pause": ("if ring_command == {{ run }} or", "if ring_command == {{ pause }} or"),
    "drains what it must leave": ("or ring_command == {{ drain }}", "or ring_command == {{ end }}"),
}


# These are found when a launch does not end, or by many examples.
LATE = ("counts a batch as one message", "does not pause", "drains what it must leave")


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.slow) if name in LATE else name for name in MUTANTS],
)
def test_verification_finds_what_is_broken(
    name: str, arch: str, tmp_path: Path, one_process: None
) -> None:
    before, after = MUTANTS[name]
    if arch == "cuda" and "count" in before:
        pytest.skip("a kernel with state takes one message at a time there")
    # Under another name: other tests of this process build the template itself.
    for folder, copy in (("_shared", "_shared"), ("ring", "broken_ring")):
        (tmp_path / copy).mkdir()
        for path in (BUILTIN_FOLDER / folder).glob("*.*"):
            (tmp_path / copy / path.name).write_text(path.read_text())
    macros = tmp_path / "_shared" / "ring.j2"
    text = macros.read_text()
    assert before in text
    macros.write_text(text.replace(before, after))
    if name == "loses the last message":  # It would wait forever for the one that it leaves.
        macros.write_text(macros.read_text().replace("ring_quiet == 2", "ring_quiet == 3"))
    template = tikgen.load_template(tmp_path / "broken_ring")
    report = tikgen.verify(
        template, archs=(arch,), max_examples=15, scripts=tmp_path, shrink_seconds=0.1, **SUM
    )
    assert not report.ok


def test_vulkan_is_refused_and_told_what_to_use(ti_arch: str) -> None:
    variant = resolve("ring", arch="vulkan", **SUM)
    assert "engine='batch'" in str(variant.template.unsupported(variant.problem, "vulkan"))
    if ti_arch == "vulkan":
        with pytest.raises(UnsupportedOnArch, match="engine='batch'"):
            tikgen.build("ring", **SUM)


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"handler": "y = a*b"}, "reads b, which is no column of a message and no state"),
        ({"handler": "z = a*x"}, "does not assign y"),
        ({"handler": "y = x; ring_lane = 1"}, "uses 'ring_lane', which the kernel has for itself"),
        ({"handler": "y = x; x_in = 1"}, "uses 'x_in'"),
        ({"inputs": {"x": "f32", "a": "f32", "f32": "f32"}}, "names 'f32'"),
        ({"inputs": {}, "handler": "y = 1"}, "must name a column or more"),
        ({"state": ("x",)}, "names x, which messages bring"),
        ({"state": ("total", "total")}, "names total twice"),
        ({"inputs": {"x": "i32", "a": "f32"}}, "cannot hold every i32, as the column x is"),
        ({"inputs": {"x": "i64", "a": "f32"}, "dtype": "f64"}, "cannot hold every i64"),
        ({"outputs": {"y": "i64"}}, "rounded to 32 bits at most"),
        ({"outputs": {f"y{n}": "f32" for n in range(60)}}, "does not assign|more than 60"),
        ({"handler": "y = sin(x)", "dtype": "i32", "inputs": {"x": "i32"}}, "sin"),
        ({"lanes": 64, "arch": "cuda"}, "must be 1 where state="),
        ({"lanes": 64, "state": (), "handler": "y = a*x"}, "must be 1 on cpu"),
        ({"polling": "fence"}, "cannot be 'fence' on cpu; it works only on cuda or vulkan"),
    ],
)
def test_what_makes_no_sense_is_refused(changed: dict[str, Any], problem: str) -> None:
    with pytest.raises(ParameterError, match=problem):
        tikgen.render("ring", **{"arch": "cpu"} | SUM | changed)


def test_on_a_gpu_words_are_read_behind_fences_and_lanes_share_a_batch() -> None:
    params = SUM | {"handler": "y = a*x", "state": ()}
    shared = tikgen.render("ring", arch="cuda", **params).text
    assert "range(256)" in shared
    assert "memfence" in shared
    assert "atomic" not in shared
    alone = tikgen.render("ring", arch="cuda", **SUM).text
    assert "range(1)" in alone
    assert "SharedArray" not in alone
    assert "memfence" not in tikgen.render("ring", arch="cpu", **SUM).text


def test_cost_counts_what_is_read_and_written() -> None:
    template = tikgen.load_template(BUILTIN_FOLDER / "ring")
    columns = {"inputs": {"x": DType.f32}, "outputs": {"y": DType.f64}}
    problem = template.Problem(handler=Assignments.parse("y = 2*x + 1"), dtype=DType.f64, **columns)
    cost = template.cost(problem, {"slots": 100})
    assert (cost.bytes, cost.flops) == (1200, 200)


def test_an_ejected_file_checks_itself(arch: str, tmp_path: Path) -> None:
    path = tmp_path / "ejected.py"
    path.write_text(tikgen.build("ring", **SUM).eject())
    done = subprocess.run(
        [sys.executable, str(path)], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "y_out: worst error is" in done.stdout
