"""Hypothesis strategies for the values of one parameter, read off its type and its limits."""

from __future__ import annotations

import math
import sys
import types
import typing
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin

from pydantic.fields import FieldInfo

from tikgen.dtypes import ALL_DTYPES, DType
from tikgen.expression import Expression
from tikgen.template.parameters import Identifier

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

_SIMPLE_DTYPES = ("i32", "f32", "i64", "f64")
# None of them is a name that Python, Taichi or a template is likely to have taken.
_IDENTIFIERS = tuple(map(Identifier, ("q", "q2", "some_name", "aName", "longer_" * 6 + "name")))
# What a number without limits may be: 0, 1 and -1, small, large, and of many digits.
_INTEGERS = (0, 1, -1, 2, 3, 7, -13, 100, 4097, 1_000_003, -123_456_789)
_NUMBERS = (
    0.0,
    1.0,
    -1.0,
    2.0,
    0.5,
    -1.5,
    0.1,
    1e-3,
    0.7312958463502187,
    -3.141592653589793,
    9876.5,
)
_FEW, _LEAST = 100, 1e-4
_MOST_ITEMS = 3
# What is done to the default of an expression, whose names nothing else tells.
_EXPRESSIONS = ("{}", "-({})", "2*({})", "({}) + 1", "({})*({})")


@dataclass(frozen=True)
class _Limits:
    """The limits of a number, as pydantic has them."""

    ge: Any = None
    gt: Any = None
    le: Any = None
    lt: Any = None
    multiple_of: Any = None

    @classmethod
    def of(cls, metadata: Iterable[Any]) -> _Limits:
        found: dict[str, Any] = {}
        for each in _flat(metadata):
            for name in cls.__dataclass_fields__:
                if (value := getattr(each, name, None)) is not None:
                    found[name] = value
        return cls(**found)

    def allow(self, value: Any) -> bool:
        return (
            (self.ge is None or value >= self.ge)
            and (self.gt is None or value > self.gt)
            and (self.le is None or value <= self.le)
            and (self.lt is None or value < self.lt)
        )


def of_field(field: FieldInfo) -> SearchStrategy[Any] | None:
    """Return the strategy that the type of a parameter implies, or None where it implies none."""
    extra = field.json_schema_extra
    choices = extra.get("choices") if isinstance(extra, dict) else None
    return _of_type(field.annotation, field.metadata, field.default, choices)


def _of_type(
    annotation: Any, metadata: Iterable[Any], default: Any, choices: Any
) -> SearchStrategy[Any] | None:
    from hypothesis import strategies as st

    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is typing.Annotated:
        return _of_type(arguments[0], [*metadata, *arguments[1:]], default, choices)
    if annotation is bool:
        return st.booleans()
    if annotation is DType:
        names = choices or ALL_DTYPES
        return st.sampled_from(sorted(names, key=lambda n: (n not in _SIMPLE_DTYPES, n[0] == "f")))
    if origin is Literal:
        return st.sampled_from(_simple_first(arguments, default))
    if annotation in (int, float):
        if choices:
            return st.sampled_from(sorted(map(annotation, choices)))
        limits = _Limits.of(metadata)
        return _integers(limits) if annotation is int else _numbers(limits)
    if annotation is Identifier:
        return st.sampled_from(choices or _IDENTIFIERS)
    if annotation is Expression and isinstance(default, str | Expression):
        text = str(default)
        return st.sampled_from([change.replace("{}", text) for change in _EXPRESSIONS])
    if origin in (typing.Union, types.UnionType):
        kinds = [a for a in arguments if a is not type(None)]
        rules = [_of_type(kind, metadata, default, choices) for kind in kinds]
        known = [rule for rule in rules if rule is not None]
        if known and type(None) in arguments:
            known.insert(0, st.none())
        return st.one_of(known) if known else None
    if origin is tuple:
        return _tuples(arguments, choices)
    return None


def _tuples(arguments: tuple[Any, ...], choices: Any) -> SearchStrategy[Any] | None:
    from hypothesis import strategies as st

    rules = [_of_type(kind, (), None, choices) for kind in arguments if kind is not Ellipsis]
    known = [rule for rule in rules if rule is not None]
    if len(known) < len(rules):
        return None
    if Ellipsis in arguments:
        is_name = arguments[0] is Identifier
        return st.lists(known[0], max_size=_MOST_ITEMS, unique=is_name).map(tuple)
    return st.tuples(*known)


def _integers(limits: _Limits) -> SearchStrategy[int]:
    from hypothesis import strategies as st

    step = limits.multiple_of or 1
    # In steps: n stands for n * step.
    lows = [math.ceil(limits.ge / step)] if limits.ge is not None else []
    lows += [math.floor(limits.gt / step) + 1] if limits.gt is not None else []
    highs = [math.floor(limits.le / step)] if limits.le is not None else []
    highs += [math.ceil(limits.lt / step) - 1] if limits.lt is not None else []
    low, high = max(lows, default=None), min(highs, default=None)
    if low is not None and high is not None:
        return _times(st.integers(low, high), step)
    from_limit = low if low is not None else high or 0
    special = _special(_INTEGERS, from_limit, lambda n: limits.allow(n * step))
    few = st.integers(
        low if low is not None else from_limit - _FEW,
        high if high is not None else from_limit + _FEW,
    )
    return _times(st.sampled_from(special) | few, step)


def _numbers(limits: _Limits) -> SearchStrategy[float]:
    from hypothesis import strategies as st

    if limits.multiple_of is not None:
        return _integers(limits).map(float)
    low = max((n for n in (limits.ge, limits.gt) if n is not None), default=None)
    high = min((n for n in (limits.le, limits.lt) if n is not None), default=None)
    if low is not None and high is not None:
        # Where fast math runs, numbers below the least normal one may count as 0.
        return st.floats(low, high).filter(
            lambda n: limits.allow(n) and (n == 0 or abs(n) >= sys.float_info.min)
        )
    from_limit = low if low is not None else high or 0.0
    special = _special(_NUMBERS, from_limit, limits.allow)
    few = st.floats(
        low if low is not None else from_limit - _FEW,
        high if high is not None else from_limit + _FEW,
    )
    # Next to others a number that rounds to 0 only hides what is multiplied by it.
    return st.sampled_from(special) | few.filter(
        lambda n: limits.allow(n) and (n == 0 or abs(n) >= _LEAST)
    )


def _special(values: Sequence[Any], limit: Any, allow: Callable[[Any], bool]) -> list[Any]:
    """Return the values that are allowed as they are, and counted from the limit either way."""
    shifted = [limit + sign * value for value in values for sign in (1, -1)]
    return list(dict.fromkeys(value for value in (*values, *shifted) if allow(value)))


def _times(numbers: SearchStrategy[int], step: Any) -> SearchStrategy[Any]:
    return numbers if step == 1 else numbers.map(lambda n: n * step)


def _flat(metadata: Iterable[Any]) -> Iterable[Any]:
    """Yield what limits a value: pydantic's ``Field`` inside of a type holds limits of its own."""
    for each in metadata:
        if isinstance(each, FieldInfo):
            yield from each.metadata
        else:
            yield each


def _simple_first(choices: tuple[Any, ...], default: Any) -> list[Any]:
    """Return numbers in order, or else the default in front."""
    if all(isinstance(c, int) for c in choices):
        return sorted(choices)
    return sorted(choices, key=lambda choice: choice != default)
