"""Reductions that a kernel computes in the pass over its points: what its text holds for them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from tikgen.dtypes import DType
from tikgen.template.arguments import Array

# Most parts of a whole array, of which each leaves what it knows, where rows do not divide it: by
# default, and on a GPU as a schedule says.
MOST_PARTS = 2048
Parts = Literal[2, 2048, 8192, 262144]
WHAT_PARTS_ARE = "most parts of the points, where there are reductions; each leaves its own result"
# What generated code with reductions calls its own values.
OWN_OF_TOTALS = re.compile(
    r"(count|length|used|seen|chunk|part|parts|place|point|steps|other|half|thread|rank|rank_low|at_rank"
    r"|\w+_so_far|\w+_of_parts)"
)


@dataclass(frozen=True)
class Total:
    """A reduction, as generated code computes it.

    Extremes of floats are those of their ranks: integers, which LLVM vectorizes, and among which
    NaN has a place.

    Attributes:
        name: the array of one element that receives the result.
        operation: ``"sum"``, ``"max"`` or ``"min"``.
        dtype: the dtype of the terms and of the result.
    """

    name: str
    operation: str
    dtype: DType

    @property
    def is_ranked(self) -> bool:
        """Return whether ranks of floats are compared."""
        return self.operation != "sum" and self.dtype.is_float

    @property
    def state(self) -> DType:
        """Return the dtype of what is known of the terms seen so far."""
        return DType(f"i{self.dtype.bits}") if self.is_ranked else self.dtype

    @property
    def variable(self) -> str:
        """Return the variable that holds it."""
        return f"{self.name}_so_far"

    @property
    def partial(self) -> str:
        """Return the workspace that holds it for each part."""
        return f"{self.name}_of_parts"

    @property
    def rank(self) -> str:
        """Return the function that gives a term's rank, NaN beyond all others."""
        return "rank" if self.operation == "max" else "rank_low"

    @property
    def neutral(self) -> str:
        """Return generated code for what is known of no terms."""
        if self.operation == "sum":
            return self.state.literal(0)
        if self.is_ranked:
            # The rank of infinity, so that the result of no terms is a number.
            rank = {32: 0x7F800000, 64: 0x7FF0000000000000}[self.dtype.bits]
            return self.state.literal(-rank if self.operation == "max" else rank)
        limit = self.state.lowest if self.operation == "max" else self.state.highest
        return self.state.literal(limit)

    def take(self, term: str, of: str = "", unless: str = "") -> str:
        """Return a statement that takes a term into element ``of`` of the variable.

        Args:
            term: generated code for the term.
            of: code for the element.
            unless: code that says whether the term was taken before, which only a sum cares about.
        """
        if unless and self.operation == "sum":
            term = f"ti.select({unless}, {self.neutral}, {term})"
        return self.join(f"{self.rank}({term})" if self.is_ranked else term, of)

    def join(self, other: str, of: str = "") -> str:
        """Return a statement that takes what another part knows into the variable."""
        known = f"{self.variable}{of}"
        if self.operation == "sum":
            return f"{known} += {other}"
        return f"{known} = ti.{self.operation}({known}, {other})"

    def result(self, of: str = "") -> str:
        """Return generated code for the result."""
        known = f"{self.variable}{of}"
        return f"at_rank({known})" if self.is_ranked else known


def totals_of(reductions: Mapping[str, str], dtype: DType) -> tuple[Total, ...]:
    """Return the reductions of a text that is computed in ``dtype``."""
    return tuple(Total(name, operation, dtype) for name, operation in reductions.items())


def results_of(totals: tuple[Total, ...]) -> tuple[Array, ...]:
    """Return the arguments that receive results."""
    return tuple(Array(total.name, total.dtype, (1,), role="out") for total in totals)


def partials_of(totals: tuple[Total, ...], shape: tuple[int | str, ...]) -> tuple[Array, ...]:
    """Return the workspaces, which hold an element for each part."""
    return tuple(Array(total.partial, total.state, shape, role="work") for total in totals)
