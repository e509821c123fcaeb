"""Loops that Taichi's LLVM unrolled are rolled up again, where it is certain how."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import tikgen
from conftest import ARCH
from tikgen.engines import llvm_rolled

on_cpu = pytest.mark.skipif(ARCH != "cpu", reason="the engine is for cpu")

# The unrolled loop comes first, and the rest is counted down.
LAST = """\
define void @f(ptr %x, i32 %n) {
entry:
  %others = add i32 %n, -1
  %xtraiter = and i32 %n, 7
  %few = icmp ult i32 %others, 7
  br i1 %few, label %out.unr-lcssa, label %body.new

body.new:                                         ; preds = %entry
  %whole = sub nsw i32 %n, %xtraiter
  br label %body

out.unr-lcssa:                                    ; preds = %body, %entry
  %from = phi i32 [ 0, %entry ], [ %i.7, %body ]
  %none = icmp eq i32 %xtraiter, 0
  br i1 %none, label %out, label %body.epil

body.epil:                                        ; preds = %body.epil, %out.unr-lcssa
  %left = phi i32 [ %xtraiter, %out.unr-lcssa ], [ %left.next, %body.epil ]
  %left.next = add nsw i32 %left, -1
  %done = icmp eq i32 %left.next, 0
  br i1 %done, label %out, label %body.epil, !llvm.loop !0

out:                                              ; preds = %body.epil, %out.unr-lcssa
  ret void
}
"""
# The rest comes first, and is counted up.
FIRST = """\
define void @f(ptr %x, i64 %n) {
entry:
  %others = add i64 %n, -1
  %xtraiter3 = and i64 %n, 3
  %none = icmp eq i64 %xtraiter3, 0
  br i1 %none, label %body.prol.loopexit, label %body.prol

body.prol:                                        ; preds = %body.prol, %entry
  %turn = phi i64 [ %turn.next, %body.prol ], [ 0, %entry ]
  %turn.next = add nuw nsw i64 %turn, 1
  %done = icmp eq i64 %xtraiter3, %turn.next
  br i1 %done, label %body.prol.loopexit, label %body.prol, !llvm.loop !0

body.prol.loopexit:                               ; preds = %body.prol, %entry
  %few = icmp ult i64 %others, 3
  br i1 %few, label %out, label %body

out:                                              ; preds = %body.prol.loopexit
  ret void
}
"""


def test_the_loop_for_the_rest_does_all_turns() -> None:
    last = llvm_rolled.rolled(LAST)
    assert "  %xtraiter = add i32 %others, 1\n" in last
    assert "  br i1 true, label %out.unr-lcssa, label %body.new\n" in last
    assert "  br i1 %done, label %out, label %body.epil\n" in last
    first = llvm_rolled.rolled(FIRST)
    assert "  %xtraiter3 = add i64 %others, 1\n" in first
    assert "  br i1 true, label %out, label %body\n" in first
    assert "!llvm.loop" not in first
    # Or up, from what is below 0.
    start = "  %start = sub i32 0, %xtraiter\n  br i1 %none, label %out, label %body.epil\n"
    upwards = LAST.replace("  br i1 %none, label %out, label %body.epil\n", start)
    upwards = upwards.replace("phi i32 [ %xtraiter", "phi i32 [ %start").replace(
        "%left, -1", "%left, 1"
    )
    assert "  %xtraiter = add i32 %others, 1\n" in llvm_rolled.rolled(upwards)


@pytest.mark.parametrize(
    ("text", "old", "new"),
    [
        # What takes the rest for a number of few bits.
        (LAST, "%whole = sub nsw i32 %n, %xtraiter", "%whole = shl nuw nsw i32 %xtraiter, 2"),
        (LAST, "%whole = sub nsw i32 %n, %xtraiter", "%one = icmp eq i32 %xtraiter, 1"),
        # Another number of turns, or of turns that are few.
        (LAST, "icmp ult i32 %others, 7", "icmp ult i32 %others, 8"),
        (LAST, "icmp ult i32 %others, 7", "icmp ugt i32 %others, 7"),
        (LAST, "  %others = add i32 %n, -1\n", ""),
        (LAST, "add nsw i32 %left, -1", "add nsw i32 %left, -2"),
        (LAST, "%none = icmp eq i32 %xtraiter, 0", "%none = icmp eq i32 %n, 0"),
        (LAST, "[ %left.next, %body.epil ]", "[ %left, %body.epil ]"),
        (FIRST, "[ 0, %entry ]", "[ 1, %entry ]"),
        (FIRST, "add nuw nsw i64 %turn, 1", "add nuw nsw i64 %turn, 2"),
        (FIRST, "icmp ult i64 %others, 3", "icmp ult i64 %others, 7"),
        # No loop.
        (FIRST, "label %body.prol, !llvm.loop !0", "label %body.prol"),
    ],
)
def test_what_is_not_certain_stays(text: str, old: str, new: str) -> None:
    assert text.count(old) == 1
    changed = text.replace(old, new)
    assert llvm_rolled.rolled(changed) == changed


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
}
TEXT = """
import taichi as ti


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
def test_plain_loops_of_users_are_rolled_and_right(
    name: str, ti_arch: str, monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator
) -> None:
    found: list[Any] = []
    rolled = llvm_rolled.rolled

    def noting(text: str) -> str:
        found.append((text, rolled(text)))
        return found[-1][1]

    monkeypatch.setattr(llvm_rolled, "rolled", noting)
    body, expected = BODIES[name]
    kernel = tikgen.from_string(TEXT.replace("BODY", body)).with_engine("direct-cpu")
    for shape in ((1, 1), (3, 7), (2, 8), (5, 9), (4, 37), (64, 1), (2, 1001), (1, 4096)):
        x, y = rng.random(shape), np.full(shape, -1.0)
        kernel(x, y)
        np.testing.assert_allclose(y, expected(x), rtol=1e-15)
    (before, after) = found[0]
    rests = re.compile(r"^ *%xtraiter[\w.]* = and", re.MULTILINE)
    assert len(rests.findall(after)) < len(rests.findall(before))


@on_cpu
@pytest.mark.arch
def test_chunks_whose_turns_are_known_but_for_the_last_bits(ti_arch: str) -> None:
    """Of 70 elements the second chunk of 64 has 6: LLVM knows the rest of 70 by 8 to be as many."""
    given = {"dim": 4, "dtype": "i32", "scalars": "y", "loop": "flat", "chunk": 64}
    kernel = tikgen.build("map", expr="out = x // y + x % y", engine="direct-cpu", **given)
    memory = np.full(200, 77, np.int32)
    out = memory[50:120].reshape(1, 2, 5, 7)
    x = np.arange(70, dtype=np.int32).reshape(out.shape)
    kernel(x=x, y=3, out=out)
    np.testing.assert_array_equal(out, x // 3 + x % 3)
    assert (memory[:50] == 77).all()
    assert (memory[120:] == 77).all()
