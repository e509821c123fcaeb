"""What a text computes, and what the kernel takes."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from tikgen.template.totals import Total, totals_of

# Names that are scalars unless `scalars` says otherwise.
USUAL_SCALARS = ("a", "b", "c", "alpha", "beta", "gamma", "scale")


def argument_names(p: Any) -> tuple[str, ...]:
    """Return what a caller passes, in order."""
    return tuple(dict.fromkeys((*p.expr.inputs, *p.expr.written, *p.expr.reductions)))


def is_scalar(p: Any, name: str) -> bool:
    """Tell whether an input that is never assigned is a scalar."""
    return name in (USUAL_SCALARS if p.scalars is None else p.scalars)


def leader(p: Any) -> str:
    """Return the name of an array that holds all elements."""
    arrays = (*p.expr.written, *(n for n in p.expr.inputs if not is_scalar(p, n)))
    return str(arrays[0]) if arrays else ""


def grid_shape(p: Any, given: Mapping[str, Any]) -> tuple[int, ...]:
    """Return the shape of the arrays."""
    return np.shape(given[leader(p)])


def reductions_of(p: Any) -> tuple[Total, ...]:
    """Return the reductions of a program."""
    return totals_of(p.expr.reductions, p.dtype.working)


def takes_turns(p: Any) -> bool:
    """Tell whether the code of an element holds a loop, which real functions cannot call."""
    return "while " in p.expr.helpers(p.dtype)
