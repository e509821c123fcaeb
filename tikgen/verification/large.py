"""Large sizes: how they are drawn, and how far the reference of a template gets in time."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from tikgen.pipeline.builder import resolve
from tikgen.pipeline.rendering import Variant
from tikgen.template.arguments import Array, concrete_shape, symbols
from tikgen.template.base import Template
from tikgen.template.blame import as_dict, blamed
from tikgen.verification.case import Case, Outcome

if TYPE_CHECKING:
    from hypothesis.strategies import DrawFn, SearchStrategy

# Beyond that Vulkan on a CPU stops silently.
MOST_ELEMENTS = 65_535
MOST_ON_CPU = 2**18
# The least extent of the longest axis, about where the other sizes end, and what is added to it.
_LONG, _REST = 1024, 31
# So many extents are tried. Of more than 127 integers, hypothesis mostly draws small ones.
_EXTENTS = 120
# Sizes are cut to multiples of these, or to the largest power of two, or one beside them: tiles,
# teams, vectors and chunks have such sizes, and so have arrays of users.
_POWER = 0
_MULTIPLES = (1, 32, 64, 128, 256, 1000, _POWER, _POWER)
# Of so many extents beside the long one, one is 1.
_THIN = 4
# All others are that small beside the long one in every other launch: many iterations of a
# parallel loop then write few elements, where updates that threads lose show.
_TINY = (1, 2, 3, 5, 8, 17, 64)
_CUT = 64
# So large arrays are tried at once, and four times as large ones after each success.
_FIRST, _STEP = 2**12, 4
# Seconds of a reference after which arrays do not grow further: it may take the square of them.
_SLOW = 0.03


def most_elements(arch: str, variant: Variant) -> int:
    """Return how many elements an array may have."""
    return at_least_fixed(MOST_ON_CPU, variant) if arch == "cpu" else MOST_ELEMENTS


def at_least_fixed(most: int, variant: Variant) -> int:
    """Return a limit of elements, or what the largest array has whose shape no size changes."""
    arrays = [a for a in variant.arguments + variant.workspace if isinstance(a, Array)]
    fixed = [math.prod(concrete_shape(a, {})) for a in arrays if not symbols((a,))]
    return max([most, *fixed])


def elements(variant: Variant, sizes: Mapping[str, int]) -> int:
    """Return the elements of the largest array."""
    arrays = [a for a in variant.arguments + variant.workspace if isinstance(a, Array)]
    return max((int(np.prod(concrete_shape(a, sizes))) for a in arrays), default=0)


def most_sizes(template: Template, variant: Variant) -> dict[str, int]:
    """Return the greatest size of each symbol that the template limits."""
    method = "largest_sizes()"
    with blamed(template, method):
        found = template.largest_sizes(variant.problem)
        return as_dict(template, method, found, "size", template.size_symbols(variant.problem))


def large_sizes(
    template: Template, variant: Variant, arch: str
) -> SearchStrategy[dict[str, int]] | None:
    """Return a strategy for sizes up to the limit, or None where the template lists its sizes.

    They lie evenly on a logarithmic scale: 2,000 elements are as likely as 200,000. One axis is
    long; the others are anything from 1 on, as far as they fit beside it, often 1, and all of them
    small in every other launch. Any of them may be a power of two, a multiple of one, or of 1,000.
    """
    from hypothesis import strategies as st

    needed, limit = symbols(variant.arguments), most_elements(arch, variant)
    if not needed or type(template).sizes is not Template.sizes:
        return None
    largest = most_sizes(template, variant)
    spread, wide = _spread(_LONG, limit), _spread(1, limit)

    @st.composite
    def draw_sizes(draw: DrawFn) -> dict[str, int]:
        long = draw(st.sampled_from(needed))
        beside_it = _TINY if len(needed) > 1 and draw(st.booleans()) else wide
        sizes = {}
        for name in needed:
            is_thin = name != long and draw(st.integers(1, _THIN)) == _THIN
            size = 1 if is_thin else draw(st.sampled_from(spread if name == long else beside_it))
            more = draw(st.integers(0, _REST)) if name == long else 0
            sizes[name] = min(size + more, limit, largest.get(name, limit))
        sizes = shrunk(variant, sizes, limit, long)
        for name, size in sizes.items():
            step = draw(st.sampled_from(_MULTIPLES)) or 1 << (size.bit_length() - 1)
            beside = draw(st.sampled_from((0, 0, -1, 1))) if step > 1 else 0
            if size >= step:
                sizes[name] = min(size // step * step + beside, size)
        return sizes

    return draw_sizes()


def _spread(least: int, most: int) -> list[int]:
    """Return extents that lie evenly on a logarithmic scale."""
    steps = np.geomspace(least, most, _EXTENTS)
    return sorted({round(step) for step in steps.tolist()})


def shrunk(
    variant: Variant, sizes: Mapping[str, int], limit: int, long: str | None = None
) -> dict[str, int]:
    """Return sizes with arrays of at most ``limit`` elements, as far as that is possible.

    The longest axis becomes shorter first, and ``long`` last.
    """
    found = dict(sizes)
    while elements(variant, found) > limit:
        others = [name for name in found if found[name] > 1 and name != long]
        longest = max(others or found, key=found.__getitem__)
        if found[longest] <= 1:
            break
        found[longest] = 3 * found[longest] // 4
    return found


@dataclass(frozen=True)
class _Reached:
    """The elements of the largest array so far, and the seconds of its reference."""

    elements: int = 0
    seconds: float = 0.0


class Ladder:
    """Lets arrays grow step by step, and no further once the reference is slow.

    A reference may take the square of what its arrays hold, in time and in memory.
    """

    def __init__(self, template: Template) -> None:
        self._template = template
        self._reached: dict[str, _Reached] = {}
        self._taken: dict[str, list[Case]] = {}

    def note(self, case: Case, outcome: Outcome) -> None:
        """Take down what a case took."""
        key = self._key(case)
        if outcome.elements >= self._reached.get(key, _Reached()).elements:
            self._reached[key] = _Reached(outcome.elements, outcome.seconds)

    def climb(self, case: Case, run: Callable[[Case], None]) -> None:
        """Run a large case, smaller ones before it where none came near, or none of them.

        A case that comes again takes the same steps: hypothesis wants to see it fail again.
        """
        if case.line in self._taken:
            for step in self._taken[case.line]:
                run(step)
            return
        taken = self._taken[case.line] = []
        for step in self._steps(case):
            taken.append(step)
            run(step)

    def _steps(self, case: Case) -> Iterator[Case]:
        if self._key(case) not in self._reached:
            return  # It cannot be launched at all.
        variant = resolve(self._template, arch=case.arch, **case.params)
        wanted = elements(variant, case.sizes)
        while True:
            reached = self._reached[self._key(case)]
            if wanted <= reached.elements:
                # As slow as that, in proportion, but for what the last step took.
                if reached.seconds * wanted / reached.elements <= _STEP * _SLOW:
                    yield case
                return
            if reached.seconds > _SLOW:
                return
            limit = max(_FIRST, _STEP * reached.elements)
            if wanted <= limit:
                yield case
                return
            sizes = shrunk(variant, case.sizes, limit)
            # What is shrunk anyway may as well be a multiple; arrays still grow.
            multiples = {n: m // _CUT * _CUT if m >= 2 * _CUT else m for n, m in sizes.items()}
            yield replace(case, sizes=multiples)
            if self._reached[self._key(case)].elements <= reached.elements:
                return

    def _key(self, case: Case) -> str:
        return repr({name: case.params[name] for name in self._template.Problem.model_fields})


def largest_of(outcomes: Mapping[str, Outcome]) -> tuple[dict[str, int], int]:
    """Return the largest size of each symbol, and the elements of the largest array, launched."""
    sizes: dict[str, int] = {}
    most = 0
    for line, outcome in outcomes.items():
        if outcome.kind == "passed":
            most = max(most, outcome.elements)
            for name, size in Case.from_line(line).sizes.items():
                sizes[name] = max(size, sizes.get(name, 0))
    return dict(sorted(sizes.items())), most
