"""direct-cpu vectorises the loops of users: as they are written, with indices of 64 bits."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import tikgen
from conftest import ARCH
from tikgen.engines import llvm_indices, llvm_reads, native

pytest_plugins = ["compiled_texts"]
on_cpu = pytest.mark.skipif(ARCH != "cpu", reason="the engine is for cpu")

BODIES = {
    "a sum of neighbours": (
        "y[i, j] = 0.5 * x[i, j] + x[(i + 1) % n, j] + x[i, ti.max(j - 1, 0)]",
        lambda x: 0.5 * x + np.roll(x, -1, 0) + x[:, np.r_[0, : x.shape[1] - 1]],
    ),
    "the greatest so far": (
        "best = ti.max(best, x[i, j])\n            y[i, j] = best",
        lambda x: np.maximum.accumulate(x, axis=1),
    ),
    "every second one": (
        "if j % 2 == 0:\n                y[i, j] = x[i, j]",
        lambda x: np.where(np.arange(x.shape[1]) % 2 == 0, x, -1),
    ),
    "a call": (
        "y[i, j] = total(x, i, j)",
        lambda x: np.cumsum(x, axis=1),
    ),
}
TEXT = """
import taichi as ti


@ti.func
def total(x: ti.template(), i, end):
    found = x[i, 0] * 0
    k = 0
    while k <= end:
        found += x[i, k]
        k += 1
    return found


@ti.kernel
def walk(x: ti.types.ndarray(dtype=ti.f64, ndim=2), y: ti.types.ndarray(dtype=ti.f64, ndim=2)):
    n = x.shape[0]
    for i in range(n):
        best = x[i, 0]
        for j in range(x.shape[1]):
            BODY
"""


@on_cpu
@pytest.mark.arch
@pytest.mark.parametrize("name", BODIES)
def test_plain_loops_of_users_are_not_unrolled_and_right(
    name: str, ti_arch: str, texts: list[str], rng: np.random.Generator
) -> None:
    body, expected = BODIES[name]
    one_off = tikgen.from_string(TEXT.replace("BODY", body))
    for kernel in (one_off.with_engine("direct-cpu"), one_off.with_engine("taichi")):
        for shape in ((1, 1), (3, 7), (2, 8), (5, 9), (4, 37), (64, 1), (2, 1001), (1, 4096)):
            x, y = rng.random(shape), np.full(shape, -1.0)
            kernel(x, y)
            np.testing.assert_allclose(y, expected(x), rtol=1e-13)
    assert "inttoptr" not in texts[0]
    assert "%xtraiter" not in texts[0]


@on_cpu
@pytest.mark.arch
def test_a_row_of_neighbours_is_a_loop_over_vectors(ti_arch: str, texts: list[str]) -> None:
    """Without a question before each row whether its indices wrap around."""
    body = "if 0 < i and 0 < j:\n                y[i, j] = x[i - 1, j] + x[i, j - 1]"
    kernel = tikgen.from_string(TEXT.replace("BODY", body)).with_engine("direct-cpu")
    x, y = np.ones((2, 5, 9))
    kernel(x, y)
    assert (y[1:, 1:] == 2).all()
    made = str(native._optimised(texts[0], native._machine()))
    assert "vector.body" in made
    assert "vector.scevcheck" not in made


@on_cpu
@pytest.mark.arch
def test_a_condition_keeps_no_loop_from_vectors(ti_arch: str, texts: list[str]) -> None:
    """What it keeps from being read is where all arguments are."""
    inside = "i > 0 and i < x.shape[0] - 1 and j > 0 and j < x.shape[1] - 1"
    body = f"if {inside}:\n                y[i, j] = x[i - 1, j] + x[i, j + 1]"
    kernel = tikgen.from_string(TEXT.replace("BODY", body)).with_engine("direct-cpu")
    x, y = np.ones((5, 9)), np.zeros((5, 9))
    kernel(x, y)
    assert (y[1:-1, 1:-1] == 2).all() and y.sum() == 2 * 3 * 7
    assert "vector.body" in str(native._optimised(texts[0], native._machine()))


CODE = """\
define void @f(ptr %x, ptr %most, i32 %given) {
entry:
  %n = load i32, ptr %most, align 4, !invariant.load !0
  %read = load i32, ptr %x, align 4
  %other = load i32, ptr %x, align 4
  br label %body

body:
  %i = phi i32 [ 0, %entry ], [ %next, %body ]
  %last = phi i32 [ 0, %entry ], [ %i, %body ]
  %row = mul i32 %i, %n
  %at = add nsw i32 %row, LEAF
  %wide = sext i32 %at to i64
  %place = getelementptr float, ptr %x, i64 %wide
  store float 1.0, ptr %place, align 4
  %next = add i32 %i, 1
  %more = icmp slt i32 %next, %given
  br i1 %more, label %body, label %out

out:
  ret void
}

!0 = !{}
"""


@pytest.mark.parametrize("leaf", ["%last", "7", "-1", "%n", "%given", "%read"])
def test_indices_have_64_bits(leaf: str) -> None:
    text = CODE.replace("LEAF", leaf)
    found = llvm_indices.widened(text)
    assert re.search(r"%wide = add i64 %tikgen\.index\d, 0", found)
    assert found.count(" = mul nsw i64 ") == found.count(" = add nsw i64 ") == 1
    assert "%tikgen" not in str(native._optimised(text, native._machine()))
    native._optimised(found, native._machine())  # It is valid.


@pytest.mark.parametrize(
    ("old", "new"),
    [
        # A difference of two counters that may have wrapped around.
        ("mul i32 %i, %n", "sub i32 %read, %other"),
        ("add nsw i32 %row, %read", "sub i32 %other, %read"),
        # A number that is stored, too.
        ("store float 1.0, ptr %place", "store i64 %wide, ptr %place"),
        # No sum.
        ("add nsw i32 %row, %read", "and i32 %row, %read"),
    ],
)
def test_what_may_wrap_around_stays(old: str, new: str) -> None:
    text = CODE.replace("LEAF", "%read")
    assert text.count(old) == 1
    text = text.replace(old, new)
    assert llvm_indices.widened(text) == text


def test_each_axis_may_have_a_number_that_was_read() -> None:
    row = "  %row = mul i32 %i, %n"
    text = CODE.replace("LEAF", "%read").replace(
        row, f"  %shifted = sub i32 %i, %other\n{row.replace('%i,', '%shifted,')}"
    )
    assert "add i64 %tikgen" in llvm_indices.widened(text)
    # Not if the extent was read from an array that nothing writes: it may be anything.
    assert text.count("!invariant.load !0") == 1
    text = text.replace("!invariant.load !0", f"!invariant.load {llvm_reads.NOTE}")
    assert "%tikgen" not in llvm_indices.widened(text)


def test_an_index_of_many_sums_stays() -> None:
    sums = [f"  %s{n + 1} = add i32 %s{n}, %i" for n in range(2000)]
    text = CODE.replace("LEAF", "7").replace("%at = add nsw i32 %row, 7", "%s0 = add i32 %row, 7")
    text = text.replace("  %wide = sext i32 %at", "\n".join(sums) + "\n  %wide = sext i32 %s2000")
    assert llvm_indices.widened(text) == text


# Sums that wrap around, of which the remainder is an index.
HASHES = {
    "a product": "y[i] = x[(i * i * i * 7919) % 70]",
    "a remainder of bits": "y[i] = x[(i * i * 73856093 + 7) % 64]",
    "neighbours": "for j in range(3):\n            y[i] += x[((i + j) * 1000003) % 70]",
    "a number read": "c = x[i % 70] * 100000003\n        y[i] = x[c % 70]",
    "a generator": """s = i
        for t in range(5):
            s = s * 1103515245 + 12345
        y[i] = x[s % x.shape[0]]""",
    "a hash": """h = 5381
        for c in range(8):
            h = (h << 5) + h + (i + c)
        y[i] = x[h % 70]""",
    "a given number": "y[i] = x[(i + n * n) % 70]",
}
HASH = """
import taichi as ti


@ti.kernel
def hashes(
    x: ti.types.ndarray(dtype=ti.i32, ndim=1), y: ti.types.ndarray(dtype=ti.i32, ndim=1), n: ti.i32
):
    for i in y:
        BODY
"""


@on_cpu
@pytest.mark.arch
@pytest.mark.parametrize("name", HASHES)
def test_a_sum_that_wraps_around_has_a_remainder(name: str, ti_arch: str) -> None:
    one_off = tikgen.from_string(HASH.replace("BODY", HASHES[name]))
    x, results = np.arange(70, dtype=np.int32), []
    for engine in ("direct-cpu", "taichi"):
        y = np.zeros(3001, np.int32)
        one_off.with_engine(engine)(x, y, 46340)
        results.append(y)
    np.testing.assert_array_equal(*results)
    assert len(set(results[0].tolist())) > 10


LATTICE = """
import taichi as ti


@ti.kernel
def stream(
    f: ti.types.ndarray(dtype=ti.f32, ndim=3),
    g: ti.types.ndarray(dtype=ti.f32, ndim=3),
    velocity: ti.types.ndarray(dtype=ti.i32, ndim=2),
    weight: ti.types.ndarray(dtype=ti.f32, ndim=1),
):
    for i in range(1, f.shape[1] - 1):
        for j in range(1, f.shape[2] - 1):
            s = 0.0
            for q in RANGE:
                s += f[q, i - velocity[0, q], j - velocity[1, q]]
            for q in RANGE:
                g[q, i, j] = weight[q] * s
"""


def streamed(f: np.ndarray, g: np.ndarray, velocity: np.ndarray, weight: np.ndarray) -> None:
    for i in range(1, f.shape[1] - 1):
        for j in range(1, f.shape[2] - 1):
            g[:, i, j] = weight * f[range(5), i - velocity[0], j - velocity[1]].sum()


@on_cpu
@pytest.mark.arch
@pytest.mark.parametrize("over", ["range(5)", "ti.static(range(5))"])
def test_what_nothing_writes_is_read_once(
    over: str, ti_arch: str, texts: list[str], rng: np.random.Generator
) -> None:
    kernel = tikgen.from_string(LATTICE.replace("RANGE", over)).with_engine("direct-cpu")
    velocity = np.array([[0, 1, -1, 0, 0], [0, 0, 0, 1, -1]], np.int32)
    weight = rng.random(5, np.float32)
    for shape in ((5, 3, 3), (5, 4, 19), (5, 9, 41)):
        f, g = rng.random((2, *shape), np.float32)
        right = g.copy()
        streamed(f, right, velocity, weight)
        kernel(f, g, velocity, weight)
        np.testing.assert_allclose(g, right, rtol=1e-5)
        right = f.copy()
        streamed(right, right, velocity, weight)
        kernel(f, f, velocity, weight)  # The very same array, which is written then.
        np.testing.assert_allclose(f, right, rtol=1e-4)
    made = str(native._optimised(texts[0], native._machine())).split("\ndefine ")
    (body,) = (f for f in made if "vector.body" in f and ".copy" not in f.partition("{")[0])
    assert "vector.memcheck" not in body


COUNTERS = """
import taichi as ti


@ti.kernel
def take(
    x: ti.types.ndarray(dtype=ti.f32, ndim=1),
    head: ti.types.ndarray(dtype=ti.i32, ndim=1),
    tail: ti.types.ndarray(dtype=ti.i32, ndim=1),
    y: ti.types.ndarray(dtype=ti.f32, ndim=1),
):
    for i in range(y.shape[0]):
        first, last = tail[i], head[i]
        for _ in range(3):
            first += 1
            last += 2
            y[i] = x[last - first]
"""


# Differences that wrap around to 4.
FAR, NEAR = -(2**31) + 3, 2**31 - 1
DIFFERENCES = (
    "a[i] - n",
    "m - n",
    "ti.select(m == 7, a[1], a[i]) - b[i]",
    "ti.max(a[i], m) - b[i]",
)


@on_cpu
@pytest.mark.arch
@pytest.mark.parametrize("index", [*DIFFERENCES, "(a[i] & -1) - b[i]", "a[i] // 1 - b[i]"])
def test_differences_that_wrap_around_are_right(index: str, ti_arch: str) -> None:
    arrays = ", ".join(f"{name}: ti.types.ndarray(dtype=ti.i32, ndim=1)" for name in "xyab")
    kernel = tikgen.from_string(
        f"import taichi as ti\n\n\n@ti.kernel\ndef f({arrays}, m: ti.i32, n: ti.i32):\n"
        f"    for i in y:\n        y[i] = x[{index}]\n"
    ).with_engine("direct-cpu")
    x, y = np.arange(5, dtype=np.int32), np.zeros(9, np.int32)
    kernel(x, y, np.full(9, FAR, np.int32), np.full(9, NEAR, np.int32), FAR, NEAR)
    assert (y == 4).all()


@on_cpu
@pytest.mark.arch
def test_counters_that_wrap_around_have_a_difference(ti_arch: str) -> None:
    kernel = tikgen.from_string(COUNTERS).with_engine("direct-cpu")
    x, y = np.arange(8, dtype=np.float32), np.zeros(3, np.float32)
    kernel(x, np.array([-(2**31), 5, 2], np.int32), np.array([2**31 - 1, 3, 2], np.int32), y)
    assert y.tolist() == [4, 5, 3]


@on_cpu
@pytest.mark.arch
def test_chunks_whose_turns_are_known_but_for_the_last_bits(ti_arch: str) -> None:
    """Of 70 elements the second chunk of 64 has 6: LLVM knows the rest of 70 by 8 to be as many."""
    given: dict[str, Any] = {"dim": 4, "dtype": "i32", "loop": "flat", "chunk": 64}
    kernel = tikgen.build(
        "map", expr="out = x // y + x % y", scalars="y", engine="direct-cpu", **given
    )
    memory = np.full(200, 77, np.int32)
    out = memory[50:120].reshape(1, 2, 5, 7)
    x = np.arange(70, dtype=np.int32).reshape(out.shape)
    kernel(x=x, y=3, out=out)
    np.testing.assert_array_equal(out, x // 3 + x % 3)
    assert (memory[:50] == 77).all()
    assert (memory[120:] == 77).all()
