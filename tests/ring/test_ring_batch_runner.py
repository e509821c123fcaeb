"""Batches: each message gets its own reply, or its own error."""

import threading
from typing import Any

import numpy as np
import pytest
import taichi as ti

import tikgen
from tikgen.buffers.compute_kernel import kernel as compute_kernel
from tikgen.errors import TaichiNotInitialised
from tikgen.ring.batch.runner import BatchRunner
from tikgen.ring.errors import ColumnError, InvalidConfigurationError, TypeValidationError
from tikgen.ring.messages.base import message
from tikgen.ring.messages.columns import f32, f64, i32, vector


@message
class Pair:
    x: float
    y: float


@message
class Sum:
    z: float


@message
class Count:
    n: int


@message
class Point:
    p: vector(f32, 3)
    k: i32 = 0


@message
class Length:
    length: float
    k: i32


@message
class Named:
    name: str


NORM = """
import taichi as ti

@ti.kernel
def norm(p: ti.types.ndarray(dtype=ti.f32, ndim=2), k: ti.types.ndarray(dtype=ti.i32, ndim=1),
         length: ti.types.ndarray(dtype=ti.f32, ndim=1),
         weights: ti.types.ndarray(dtype=ti.f32, ndim=1), more: ti.i32):
    for i in range(p.shape[0]):
        total = ti.f32(0.0)
        for j in range(p.shape[1]):
            total += weights[j] * ti.abs(p[i, j])
        if k[i] >= 0:
            length[i] += total
        k[i] += more
"""


def add(max_batch: int = 64) -> BatchRunner:
    kernel = tikgen.build("map", expr="z = a*x + y")
    return BatchRunner("add", kernel, Pair, Sum, max_batch=max_batch, constants={"a": 2})


@pytest.mark.parametrize("count", [1, 7, 64, 131])
def test_each_message_gets_its_own_reply(ti_arch, count, rng):
    runner = add()
    messages = [Pair(*rng.standard_normal(2).tolist()) for _ in range(count)]
    replies = runner.run(messages)
    assert [one.correlation_id for one in replies] == [one.message_id for one in messages]
    assert len({one.message_id for one in replies}) == count
    for reply, asked in zip(replies, messages, strict=True):
        assert type(reply) is Sum
        assert reply.z == pytest.approx(2 * asked.x + asked.y, rel=1e-5, abs=1e-5)
    assert runner.run([]) == [] and runner.device_seconds > 0


@pytest.mark.parametrize("seed", range(3))
def test_a_message_that_does_not_fit_affects_no_other(ti_arch, seed, rng):
    bad = {
        "text": lambda: Pair("1", 0.0),  # type: ignore[arg-type]
        "too large": lambda: Pair(0.0, 1e39),
        "too small": lambda: Pair(-1e39, 0.0),
        "other": lambda: Sum(1.0),
        "none": lambda: None,
    }
    kinds = rng.choice(["good", *bad], size=97, p=[0.8] + [0.04] * 5).tolist()
    messages = [bad[k]() if k in bad else Pair(float(n), 1.0) for n, k in enumerate(kinds)]
    replies = add(max_batch=40).run(messages)
    assert len(replies) == len(messages)
    for place, (kind, reply) in enumerate(zip(kinds, replies, strict=True)):
        if kind == "good":
            assert reply.z == 2.0 * place + 1 and reply.correlation_id == messages[place].message_id
        elif kind in ("other", "none"):
            assert isinstance(reply, TypeValidationError) and "takes Pair" in str(reply)
        else:
            assert isinstance(reply, ColumnError) and str(reply).startswith("Actor 'add': column")
            assert reply.kernel_id == "add" and reply.column == (
                "y" if kind == "too large" else "x"
            )
    nothing_good = add().run([None, bad["too small"]()])
    assert [type(one) for one in nothing_good] == [TypeValidationError, ColumnError]


@pytest.mark.parametrize("count", [1, 13, 500])
def test_columns_are_answered_in_one_launch(ti_arch, count, rng):
    runner = add()
    x, y = rng.standard_normal((2, count)).astype(np.float32)
    before = x.copy()
    x.flags.writeable = False
    found = runner.run_columns({"x": x, "y": y})
    assert list(found) == ["z"] and found["z"].dtype == np.float32
    np.testing.assert_allclose(found["z"], 2 * x + y, rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(x, before)
    kept = found["z"].copy()
    runner.run_columns({"x": y, "y": x})
    np.testing.assert_array_equal(found["z"], kept)
    assert runner.run_columns({"x": x[:0], "y": y[:0]})["z"].shape == (0,)
    with pytest.raises(ColumnError, match="'y' is missing"):
        runner.run_columns({"x": x})
    assert [c.name for c in runner.input_columns + runner.output_columns] == ["x", "y", "z"]


def check_norm(kernel: Any, rng: np.random.Generator) -> None:
    """Check a kernel that leaves some outputs unwritten and changes an input."""
    weights = rng.random(3).astype(np.float32)
    runner = BatchRunner(
        "norm", kernel, Point, Length, max_batch=8, constants={"weights": weights, "more": 10}
    )
    points = rng.standard_normal((29, 3)).astype(np.float32)
    ks = rng.integers(-1, 2, 29)
    expected = np.where(ks >= 0, np.abs(points) @ weights, 0)
    replies = runner.run([Point(p, int(k)) for p, k in zip(points, ks, strict=True)])
    np.testing.assert_allclose([one.length for one in replies], expected, rtol=1e-5)
    assert [one.k for one in replies] == (ks + 10).tolist()
    columns = {"p": points, "k": ks.astype(np.int32)}
    for _ in range(2):
        found = runner.run_columns(columns)
        np.testing.assert_allclose(found["length"], expected, rtol=1e-5)
        np.testing.assert_array_equal(found["k"], ks + 10)
        np.testing.assert_array_equal(columns["k"], ks)


def test_a_kernel_from_a_string_with_vectors_and_an_updated_column(ti_arch, rng):
    check_norm(tikgen.from_string(NORM), rng)


@ti.kernel
def plain_norm(
    p: ti.types.ndarray(dtype=ti.f32, ndim=2),
    k: ti.types.ndarray(),
    length: ti.types.ndarray(dtype=ti.f32, ndim=1),
    weights: ti.types.ndarray(dtype=ti.f32, ndim=1),
    more: ti.i32,
):
    for i in range(p.shape[0]):
        total = 0.0
        for j in range(p.shape[1]):
            total += weights[j] * ti.abs(p[i, j])
        if k[i] >= 0:
            length[i] += total
        k[i] += more


def test_a_plain_kernel_of_taichi(ti_arch, rng):
    check_norm(plain_norm, rng)
    check_norm(compute_kernel(plain_norm), rng)


def test_a_plain_kernel_needs_ti_init(monkeypatch):
    constants = {"weights": np.ones(3, np.float32), "more": 1}
    runner = BatchRunner("norm", plain_norm, Point, Length, max_batch=2, constants=constants)
    monkeypatch.setattr("tikgen.taichi.runtime.is_initialised", lambda: False)
    with pytest.raises(TaichiNotInitialised):
        runner.run([Point([1, 2, 3])])


def test_a_function_of_columns(rng):
    def norm(columns: dict[str, Any], weights: Any, more: int) -> dict[str, Any]:
        length = np.where(columns["k"] >= 0, np.abs(columns["p"]) @ weights, 0)
        columns["p"][:] = 0  # The columns of one caller are not those of another.
        columns["k"] += more
        return {"length": length, "k": columns["k"]}

    check_norm(norm, rng)


@pytest.mark.parametrize(
    "returned, why",
    [
        ({"z": np.zeros(3)}, "has 3 messages after the function; 2 went in"),
        ({"z": np.zeros((2, 2))}, "takes an array of shape"),
        ({"z": ["a", "b"]}, "takes f32"),
        ({"y": np.zeros(2)}, "is not known"),
        ({}, "is missing"),
        (None, "needs a dict of arrays"),
    ],
)
def test_a_function_with_an_invalid_result_raises(returned, why):
    runner = BatchRunner("f", lambda columns: returned, Pair, Sum, max_batch=4)
    for call in (
        lambda: runner.run([Pair(1.0, 2.0)] * 2),
        lambda: runner.run_columns({"x": [1, 2], "y": [1, 2]}),
    ):
        with pytest.raises(ColumnError, match=f"Actor 'f': column '[yz]' .*{why}"):
            call()


def test_an_error_of_the_kernel_is_raised_and_the_next_batch_runs():
    def sometimes(columns: dict[str, Any]) -> dict[str, Any]:
        if columns["x"][0] < 0:
            raise OSError("broken")
        return {"z": columns["x"] + columns["y"]}

    runner = BatchRunner("f", sometimes, Pair, Sum, max_batch=4)
    with pytest.raises(OSError, match="broken"):
        runner.run([Pair(-1.0, 0.0)])
    assert runner.run([Pair(1.0, 2.0)])[0].z == 3.0


def test_threads_do_not_mix_their_batches():
    def slow(columns: dict[str, Any]) -> dict[str, Any]:
        first = columns["x"].copy()
        threading.Event().wait(0.001)
        return {"z": first + columns["y"]}

    runner = BatchRunner("f", slow, Pair, Sum, max_batch=16)
    wrong: list[Any] = []

    def work(k: float) -> None:
        for _ in range(10):
            wrong.extend(r.z for r in runner.run([Pair(k, k)] * 5) if r.z != 2 * k)

    threads = [threading.Thread(target=work, args=(float(k),)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert not wrong and not any(thread.is_alive() for thread in threads)


@message
class Wide:
    x: f64
    y: float


@message
class Vectors:
    x: vector(f32, 2)
    y: float


@message
class Extra:
    x: float
    y: float
    w: float


@message
class X:
    x: float


@message
class Scaled:
    a: float
    x: float
    y: float


@message
class Y:
    y: float


@pytest.mark.parametrize(
    "input_type, output_type, constants, why",
    [
        (Pair, Sum, {}, "scalar 'a' is neither a field nor one of the constants"),
        (Pair, Sum, {"a": "x"}, "constant 'a' takes f32; got 'x'"),
        (Pair, Sum, {"a": True}, "constant 'a' takes f32; got True"),
        (Pair, Sum, {"a": 1, "b": 2}, "constant 'b' is no argument of the kernel"),
        (Pair, Sum, {"a": 1, "x": 2}, "constant 'x' is a field of a message too"),
        (Wide, Sum, {"a": 1}, "field 'x' is f64 and the array is f32; annotate the field with f32"),
        (Vectors, Sum, {"a": 1}, "field 'x' is a vector and the array has 1 axes"),
        (Scaled, Sum, {}, "field 'a' is a scalar of the kernel; with scalars=() the kernel takes"),
        (Extra, Sum, {"a": 1}, "field 'w' is no array of the kernel"),
        (X, Sum, {"a": 1}, "array 'y' is neither a field nor one of the constants"),
        (Pair, Count, {"a": 1}, "field 'n' is no array of the kernel"),
        (Pair, X, {"a": 1}, "output field 'x' is an array that the kernel only reads"),
        (Sum, Sum, {"a": 1}, "input field 'z' is an array that the kernel only writes"),
        (Named, Sum, {"a": 1}, "column 'name' cannot hold"),
        (int, Sum, {"a": 1}, "takes a message type"),
        (Pair, None, {"a": 1}, "takes a message type"),
    ],
)
def test_kernels_and_types_that_do_not_match_are_refused(input_type, output_type, constants, why):
    kernel = tikgen.build("map", expr="z = a*x + y")
    with pytest.raises(InvalidConfigurationError) as caught:
        BatchRunner("k", kernel, input_type, output_type, max_batch=4, constants=constants)
    assert why in str(caught.value)
    if caught.value.parameter == "kernel":
        assert "The kernel takes a: f32, x: f32[n0]" in str(caught.value)
        assert "the input has" in str(caught.value)


@message
class Row:
    a: vector(f32, 3)


@message
class Product:
    c: vector(f32, 2)


@message
class Longer:
    x: vector(f32, 3)
    y: vector(f32, 2)


def test_vectors_are_rows_of_a_matrix(ti_arch, rng):
    matrix = rng.standard_normal((3, 2)).astype(np.float32)
    gemm = tikgen.build("gemm")
    fixed = {n: 1.0 if n == "alpha" else 0.0 for n in _scalars(gemm)} | {"b": matrix}
    runner = BatchRunner("gemm", gemm, Row, Product, max_batch=16, constants=fixed)
    rows = rng.standard_normal((21, 3)).astype(np.float32)
    replies = runner.run([Row(row) for row in rows])
    np.testing.assert_allclose([one.c for one in replies], rows @ matrix, rtol=1e-4, atol=1e-5)
    replies[0].c[:] = 0  # Each reply has its own array.
    np.testing.assert_allclose(runner.run_columns({"a": rows})["c"], rows @ matrix, 1e-4, 1e-5)


def test_extents_that_do_not_match_are_refused():
    @message
    class Both:
        a: vector(f32, 3)
        b: vector(f32, 2)

    gemm = tikgen.build("gemm")
    fixed = dict.fromkeys(_scalars(gemm), 1.0)
    with pytest.raises(InvalidConfigurationError, match="first axes of the arrays have different"):
        BatchRunner("k", gemm, Both, Product, max_batch=4, constants=fixed)

    @message
    class Sums:
        z: vector(f32, 3)

    kernel = tikgen.build("map", expr="z = x + y", dim=2)
    with pytest.raises(InvalidConfigurationError, match="'y' has 2 numbers and the array takes 3"):
        BatchRunner("k", kernel, Longer, Sums, max_batch=4)


def _scalars(kernel: tikgen.Kernel) -> list[str]:
    return [one.name for one in kernel.signature.arguments if isinstance(one, tikgen.Scalar)]


def test_invalid_kernels_and_settings_are_refused():
    for kernel in (None, 3, "norm"):
        with pytest.raises(InvalidConfigurationError, match=r"takes a tikgen\.Kernel"):
            BatchRunner("k", kernel, Pair, Sum, max_batch=4)
    for most in (0, -1, 1.5, True, None):
        with pytest.raises(InvalidConfigurationError, match="max_batch"):
            BatchRunner("k", lambda c: c, Pair, Pair, max_batch=most)  # type: ignore[arg-type]
    kernel = tikgen.from_string(NORM)
    good = {"weights": np.ones(3, np.float32), "more": 1}
    for name, value in (("weights", np.ones(3)), ("weights", 3), ("weights", np.ones((3, 1), "f")),
                        ("more", 1.5), ("more", 2**31)):  # fmt: skip
        with pytest.raises(InvalidConfigurationError, match=f"constant '{name}' takes"):
            BatchRunner("k", kernel, Point, Length, max_batch=4, constants=good | {name: value})
    fields = tikgen.build("stencil", dim=1, storage="field")
    with pytest.raises(InvalidConfigurationError, match="storage='ndarray'"):
        BatchRunner("k", fields, X, Y, max_batch=4)


def test_constants_of_plain_kernels_may_be_read_only_where_they_are_read(ti_arch):
    weights = np.ones(3, np.float32)
    weights.flags.writeable = False
    good = {"weights": weights, "more": 1}
    BatchRunner("k", plain_norm, Point, Length, max_batch=4, constants=good)
    masked = np.ma.masked_array(np.ones(3, np.float32), [1, 0, 0])
    with pytest.raises(InvalidConfigurationError, match="constant 'weights' is a masked array"):
        BatchRunner(
            "k", plain_norm, Point, Length, max_batch=4, constants=good | {"weights": masked}
        )

    @ti.kernel
    def counts(
        x: ti.types.ndarray(dtype=ti.f32, ndim=1),
        y: ti.types.ndarray(dtype=ti.f32, ndim=1),
        seen: ti.types.ndarray(dtype=ti.f32, ndim=1),
    ):
        for i in x:
            y[i] = x[i]
            seen[0] += 1.0

    with pytest.raises(InvalidConfigurationError, match="constant 'seen' is read-only"):
        BatchRunner("k", counts, X, Y, max_batch=4, constants={"seen": weights})
