"""Parametrizes tests over a spread of combinations; the others run in ``make verify``."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

Combination = tuple[Any, ...]


def spread(names: str, *axes: Sequence[Any]) -> pytest.MarkDecorator:
    """Parametrize over all combinations, and mark as slow those that a spread can do without.

    The spread holds every value of two parameters, every pair of values of three, and so on: with
    any one parameter left out, every combination of the others.

    Args:
        names: names of the parameters, separated by commas.
        axes: the values of each.
    """
    everything = list(itertools.product(*axes))
    missing = {part for each in everything for part in _parts(each)}
    kept: list[Combination] = []
    while missing:
        best = max(everything, key=lambda each: len(missing.intersection(_parts(each))))
        missing.difference_update(_parts(best))
        kept.append(best)
    return pytest.mark.parametrize(
        names,
        [
            pytest.param(*each, marks=() if each in kept else pytest.mark.slow)
            for each in everything
        ],
    )


def _parts(combination: Combination) -> Iterator[tuple[int, Combination]]:
    """Yield what is left of a combination without each of its values."""
    for place in range(len(combination)):
        yield place, combination[:place] + combination[place + 1 :]
