"""Values that functions of a problem compute once."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from tikgen.template import once as module
from tikgen.template.once import once


def test_a_value_is_computed_once_for_each_problem_and_its_arguments() -> None:
    calls = []

    @once
    def found(p: Any, factor: int = 1, *, more: int = 0) -> int:
        calls.append((p.n, factor, more))
        return int(p.n * factor + more)

    one, equal = SimpleNamespace(n=3), SimpleNamespace(n=3)
    assert [found(one), found(one, 2), found(one, 2), found(one, more=1), found(equal)] == [
        *(3, 6, 6, 4, 3)
    ]
    assert calls == [(3, 1, 0), (3, 2, 0), (3, 1, 1), (3, 1, 0)]


def test_few_problems_are_kept_and_a_new_one_never_has_the_value_of_another() -> None:
    found = once(lambda p: p.n)
    assert [found(SimpleNamespace(n=n)) for n in range(200)] == list(range(200))
    assert len(module._known) <= module._MOST
