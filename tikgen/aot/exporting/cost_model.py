"""The cost of a template as sums of products of sizes, which a manifest can hold."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from tikgen.aot.manifest import Cost, Term
from tikgen.pipeline.rendering import Variant

# Sizes that determine the coefficients, in units, and sizes at which the
# result is checked.
_UNIT, _CORNERS = 64, (1, 3)
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
    """Return ``cost`` as a sum of terms in which each symbol occurs at most once, if it is one."""
    products = [
        chosen
        for count in range(len(symbols) + 1)
        for chosen in itertools.combinations(symbols, count)
    ]
    corners = [
        dict(zip(symbols, corner, strict=True))
        for corner in itertools.product(_CORNERS, repeat=len(symbols))
    ]
    matrix = [[math.prod(corner[s] for s in product) for product in products] for corner in corners]
    values = [cost({s: _UNIT * size for s, size in corner.items()}) for corner in corners]
    factors = np.linalg.solve(np.array(matrix, float), np.array(values, float))
    terms = []
    for factor, product in zip(factors.tolist(), products, strict=True):
        scaled = round(factor / _UNIT ** len(product), 6)
        if abs(scaled) > 1e-6:
            terms.append(Term(scaled, product))
    for place in itertools.islice(itertools.product(_CHECKED, repeat=len(symbols)), 27):
        sizes = dict(zip(symbols, place, strict=True))
        wanted = cost(sizes)
        if abs(evaluate(terms, sizes) - wanted) > 1e-6 * abs(wanted) + 1e-6:
            return None
    return terms


def evaluate(terms: Sequence[Term], sizes: Mapping[str, int]) -> float:
    """Return the value of a sum of terms for given sizes."""
    return sum(term.factor * math.prod(sizes[s] for s in term.symbols) for term in terms)
