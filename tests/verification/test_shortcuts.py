"""Conditions of a shortcut: a mutant that takes it less often is no fault, all others are."""

from __future__ import annotations

from typing import Any

import pytest

from some_cases import examples
from tikgen.pipeline.builder import resolve
from tikgen.template.catalogue import find_template
from tikgen.verification import mutation_run
from tikgen.verification.case import Case, literal
from tikgen.verification.mutator import Mutant
from tikgen.verification.process import ArchProcess
from tikgen.verification.shortcuts import other_ways

KERNEL = """\
def k(x, y, n):
    for i in range(n):
        if 2 <= i < x.shape[0] - 2:
            y[i] = x[i]
        else:
            y[i] = abs(x[i])
        if i < 3:
            y[i] = 0
"""
SHORT, LONG, ENDS = "y[i] = x[i]", "y[i] = abs(x[i])", "y[i] = 0"


@pytest.mark.parametrize(
    ("old", "new", "always", "left_out"),
    [
        ("2 <= i", "2 < i", "if 0 == 1", SHORT),
        ("2 <= i", "3 <= i", "if 0 == 1", SHORT),
        ("- 2:", "- 3:", "if 0 == 1", SHORT),
        ("x.shape[0] - 2", "(x.shape[0] - 1) - 2", "if 0 == 1", SHORT),
        ("2 <= i", "1 <= i", "if 0 == 0", LONG),
        ("- 2:", "+ 2:", "if 0 == 0", LONG),
        ("i < 3", "i <= 3", "if 0 == 0", ENDS),
        ("i < 3", "i < 2", "if 0 == 1", ENDS),
    ],
)
def test_the_way_that_is_gone_more_often(old: str, new: str, always: str, left_out: str) -> None:
    found = other_ways(KERNEL, KERNEL.replace(old, new))
    assert found is not None
    one, other = found
    assert always in one
    assert one.count("if 0 ==") == 1
    assert left_out in one
    assert left_out not in other
    assert other.count("pass") == 1


def test_a_condition_of_many_parts() -> None:
    pairs = [(0, 1), (0, 2), (0, 3), (1, 3), (2, 3)]
    test = " and ".join(f"(y.shape[{a}] == 1 or y.shape[{b}] == 1)" for a, b in pairs)
    text = f"def k(x, y):\n    if {test}:\n        copy(x, y)\n    else:\n        walk(x, y)\n"
    for number in range(0, len(pairs), examples(1, 2)):
        parts = test.split(" and ")
        parts[number] = parts[number].replace(" or ", " and ")
        found = other_ways(text, text.replace(test, " and ".join(parts)))
        assert found is not None and "if 0 == 1" in found[0] and "copy" not in found[1]


@pytest.mark.parametrize(
    ("old", "new"),
    [("2 <= i", "2 > i"), ("= 0", "= 1"), ("i < 3", "i < n"), ("x[i]\n", "x[i + 1]\n")],
)
def test_other_changes_choose_no_way(old: str, new: str) -> None:
    assert other_ways(KERNEL, KERNEL.replace(old, new)) is None


TURNS = """\
def k(x, n):
    for turn in range(n * 8):
        if turn % 8 == 0:
            part = turn // 8
            x[part] = 1
"""


@pytest.mark.parametrize(("old", "new"), [("== 0", "!= 0"), ("== 0", "== 1")])
def test_any_turn_may_do_the_work_of_all(old: str, new: str) -> None:
    found = other_ways(TURNS, TURNS.replace(old, new))
    assert found is not None
    assert "if 0 == 0" in found[0]
    assert "x[part]" not in found[1]
    own = TURNS.replace("x[part] = 1", "x[part] = turn")
    assert other_ways(own, own.replace(old, new)) is None


@pytest.mark.parametrize(("old", "new"), [("% 8 ==", "% 9 =="), ("% 8 ==", "// 8 ==")])
def test_some_turn_must_do_the_work(old: str, new: str) -> None:
    assert other_ways(TURNS, TURNS.replace(old, new)) is None
    never = other_ways(TURNS, TURNS.replace("== 0", "== 9"))
    assert never is not None
    assert "if 0 == 1" in never[0]  # Which no launch passes.


ITEMS = """\
def k(x):
    for i in range(x.shape[0]):
        if i + 3840 < x.shape[0] * x.shape[1]:
            x[i] = 1
        elif i < x.shape[0] * x.shape[1]:
            x[i] = 2
"""


@pytest.mark.parametrize(
    ("old", "new", "always"),
    [
        ("i + 3840", "i + 3841", "if 0 == 1"),
        ("i + 3840", "i + 3839", "if 0 == 0"),
        ("elif i <", "elif i <=", "elif 0 == 0"),
        ("i + 3840 <", "i + 3840 >", None),
        ("elif i < x.shape[0] *", "elif i < x.shape[0] +", None),
    ],
)
def test_sides_of_a_comparison_that_seldom_meet(old: str, new: str, always: str | None) -> None:
    assert old in ITEMS
    found = other_ways(ITEMS, ITEMS.replace(old, new))
    assert found is None if always is None else found is not None and always in found[0]


LIMITS = """\
def k(x, y, first, last):
    left = ti.min(ti.max(first, 2), last)
    right = ti.max(last - 2, left)
    for i in range(left, right):
        y[i] = x[i]
"""


@pytest.mark.parametrize(
    ("old", "new", "always", "without"),
    [
        ("first, 2", "first, 3", "left = last", "ti.min(ti.max(first, 2) - 1, last)"),
        ("first, 2", "first + 1, 2", "left = last", "ti.min(ti.max(first, 2) - 1, last)"),
        ("last - 2", "last - 3", "right = left", "ti.max(last - 2 + 1, left)"),
        ("last - 2", "last - 1 - 2", "right = left", "ti.max(last - 2 + 1, left)"),
    ],
)
def test_the_limit_to_which_a_shortcut_is_taken(
    old: str, new: str, always: str, without: str
) -> None:
    found = other_ways(LIMITS, LIMITS.replace(old, new))
    assert found is not None
    assert always in found[0]
    assert without in found[1]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("first, 2", "first, 1"),
        ("first, 2", "last, 2"),
        ("last - 2", "last + 2"),
        ("last - 2", "last - 1"),
        ("last - 2, left", "last - 2, first"),
        ("right = ti.max", "right = ti.min"),
        ("range(left, right)", "range(right, left)"),
    ],
)
def test_other_changes_move_no_limit(old: str, new: str) -> None:
    assert other_ways(LIMITS, LIMITS.replace(old, new)) is None


def one_variant(process: ArchProcess, params: dict[str, Any]) -> tuple[Any, Any]:
    """Return a run of mutants over one variant of update, and the variant."""
    template = find_template("update")
    variant = resolve(template, arch="cpu", **params)
    values = {name: literal(value) for name, value in variant.params.items()}
    case = Case(template.name, str(template.folder), "cpu", values, {"n0": 5})
    run = mutation_run.MutationRun(template, [case], 4, 1, process)
    return run, run._subject(case)


@pytest.mark.parametrize(
    ("loop", "limit", "nearer", "further"),
    [
        ("points", "1 <= i", "2 <= i", "0 <= i"),
        pytest.param(
            *("function", "ti.max(first, 1)", "ti.max(first, 2)", "ti.max(first, 0)"),
            marks=pytest.mark.slow,
        ),
    ],
)
def test_a_shortcut_that_is_taken_less_often_does_not_count(
    loop: str, limit: str, nearer: str, further: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mutation_run, "_LAUNCHES", 10)
    params = {"equations": "u' = lap(u)", "dim": 1, "boundary": "clamp", "loop": loop}
    with ArchProcess("cpu", 60.0) as process:  # Each variant starts it anew.
        run, subject = one_variant(process, params)
        text = subject.source.text
        assert limit in text
        for new in (nearer, further):
            changed = Mutant("constant", 1, text.replace(limit, new))
            assert run._is_shortcut(subject, changed) is (new == nearer)
