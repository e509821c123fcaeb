"""Transcendental functions of which LLVM makes vectors, for loops of a processor.

Taichi calls the C library for one number at a time, and a loop with such a call is not vectorised:
a sine of an f32 took 8 ns, and takes 1.7; a loop over f64 with one sine took 20 ns a point.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from tikgen.dtypes import DType
from tikgen.expression import logarithms, polynomials, vector_math_f32, vector_math_f64
from tikgen.expression.helpers import definition
from tikgen.expression.tree import Node

_OF = {DType.f32: vector_math_f32.FUNCTIONS, DType.f64: vector_math_f64.FUNCTIONS}
# What calls the arc tangent of `polynomials`.
_BY_ATAN = frozenset({"atan2", "asin", "acos"})
_CALL = re.compile(r"\bti\.(\w+)\(")
# The names of all functions.
NAMES = frozenset(
    name
    for functions in _OF.values()
    for _, texts in functions.values()
    for text in texts
    for name in re.findall(r"^def (\w+)", text, re.MULTILINE)
)


def vectorised(functions: frozenset[str], dtype: DType) -> frozenset[str]:
    """Return those of some functions that LLVM makes vectors of in a dtype."""
    own = (*polynomials.OWN, *logarithms.OWN)
    return functions & {*_OF.get(dtype.computed, ()), *own}


def in_vectors(code: str, dtype: DType) -> str:
    """Return code that computes in a dtype, with calls that LLVM makes vectors of."""
    known = _OF.get(dtype.computed, {})
    return _CALL.sub(lambda call: f"{known[call[1]][0]}(" if call[1] in known else call[0], code)


def vector_functions(nodes: Iterable[Node], dtype: DType) -> str:
    """Return the definitions of each ``ti.func`` that the code of nodes calls in vectors."""
    known = _OF.get(dtype.computed, {})
    used = frozenset[str]().union(*(node.kinds for node in nodes))
    texts = dict.fromkeys(text.strip() for name in known if name in used for text in known[name][1])
    if used & _BY_ATAN & known.keys() and "atan" not in used:
        texts = {definition("atan_of", dtype.computed).strip(): None, **texts}
    return "\n\n\n".join(texts)
