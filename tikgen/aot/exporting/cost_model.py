"""The cost of a template as sums of products of sizes, which a manifest can hold."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence

from tikgen.aot.manifest import Cost, Term
from tikgen.pipeline.rendering import Variant

# Sizes that determine the coefficients, then those at which the result is checked.
_LOW, _HIGH = 64, 192
_CHECKED = (67, 128, 331)


def cost_of(variant: Variant) -> Cost | None:
    """Return the cost of a launch by its sizes, or None if it is no sum of products."""
    template, problem = variant.template, variant.problem
    try:
        symbols = template.size_symbols(problem)
        baked = dict(variant.sizes)
        free = [symbol for symbol in symbols if symbol not in baked]

        def at(sizes: Mapping[str, int]) -> tuple[int, int]:
            found = template.cost(problem, {**baked, **sizes})
            return found.bytes, found.flops

        terms = _terms(free, lambda sizes: at(sizes)[0]), _terms(free, lambda sizes: at(sizes)[1])
    except Exception:  # Templates may have no cost.
        return None
    moved, done = terms
    return None if moved is None or done is None else Cost(tuple(moved), tuple(done))


def _terms(symbols: Sequence[str], cost: Callable[[dict[str, int]], float]) -> list[Term] | None:
    """Return ``cost`` as a sum of terms in which each symbol occurs at most once.

    Each coefficient is a difference over a corner of the cube from _LOW to _HIGH.
    """
    step = _HIGH - _LOW
    values = {
        chosen: cost({s: _HIGH if s in chosen else _LOW for s in symbols})
        for chosen in _subsets(symbols)
    }
    # In (size - _LOW) first, then multiplied out.
    around: dict[tuple[str, ...], float] = {}
    for chosen in _subsets(symbols):
        total = sum((-1) ** (len(chosen) - len(part)) * values[part] for part in _subsets(chosen))
        around[chosen] = total / step ** len(chosen)
    found = [
        Term(
            sum(
                factor * (-_LOW) ** (len(over) - len(chosen))
                for over, factor in around.items()
                if set(chosen) <= set(over)
            ),
            chosen,
        )
        for chosen in _subsets(symbols)
    ]
    terms = [Term(round(t.factor, 6), t.symbols) for t in found if abs(t.factor) > 1e-6]
    for place in itertools.islice(itertools.product(_CHECKED, repeat=len(symbols)), 27):
        sizes = dict(zip(symbols, place, strict=True))
        wanted = cost(sizes)
        if abs(evaluate(terms, sizes) - wanted) > 1e-6 * abs(wanted) + 1e-6:
            return None
    return terms


def evaluate(terms: Sequence[Term], sizes: Mapping[str, int]) -> float:
    """Return the value of a sum of terms for given sizes."""
    total = 0.0
    for term in terms:
        product = term.factor
        for symbol in term.symbols:
            product *= sizes[symbol]
        total += product
    return total


def _subsets(symbols: Sequence[str]) -> list[tuple[str, ...]]:
    return [
        chosen
        for count in range(len(symbols) + 1)
        for chosen in itertools.combinations(symbols, count)
    ]
