"""The rules of annotations: which values a field takes."""

from __future__ import annotations

import collections.abc
import types
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NewType, TypeVar, Union, get_args, get_origin

import msgspec
import numpy as np

from tikgen.dtypes import DType
from tikgen.ring.messages.annotations import array_dtype, unaliased

Test = Callable[[Any], bool]


@dataclass(frozen=True)
class Rule:
    """The values that a field takes.

    Attributes:
        text: for error messages.
        exact: the types whose instances are valid without a test.
        test: returns whether a value is valid; None if every value is.
        bounds: the least and greatest value of an integer of some width.
        dtype: the dtype that arrays must have.
    """

    text: str
    exact: tuple[type[Any], ...] = ()
    test: Test | None = None
    bounds: tuple[int, int] | None = None
    dtype: np.dtype[Any] | None = None

    def takes(self, value: Any) -> bool:
        """Return whether a value is valid."""
        if self.test is None:
            return True
        if type(value) in self.exact and self.bounds is None and self.dtype is None:
            return True
        return self.test(value)


def is_real(value: Any) -> bool:
    """Return whether a value is a real number that a float holds without loss, and no bool."""
    if isinstance(value, float):
        return True
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, np.number)):
        return False
    if isinstance(value, (np.complexfloating, np.timedelta64)):
        return False
    return isinstance(value, int) or bool(float(value) == value) or bool(value != value)


def is_integer(value: Any) -> bool:
    """Return whether a value is an integer, and no bool."""
    return isinstance(value, (int, np.integer)) and not isinstance(value, (bool, np.timedelta64))


_LEAVES: dict[Any, Rule] = {
    float: Rule("float", (float, int), is_real),
    int: Rule("int", (int,), is_integer),
    bool: Rule("bool", (bool,), lambda value: isinstance(value, (bool, np.bool_))),
    complex: Rule("complex", (complex,), lambda value: isinstance(value, complex)),
    None: Rule("None", (type(None),), lambda value: value is None),
    type(None): Rule("None", (type(None),), lambda value: value is None),
}


def rule(annotation: Any) -> Rule:
    """Return the rule of a resolved annotation."""
    annotation = unaliased(annotation)
    if annotation in (Any, object) or isinstance(annotation, (TypeVar, str)):
        return Rule("anything")
    try:
        if annotation in _LEAVES:
            return _LEAVES[annotation]
    except TypeError:  # Annotated metadata that cannot be hashed.
        pass
    if isinstance(annotation, NewType):
        return rule(annotation.__supertype__)
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _annotated(arguments[0], arguments[1:])
    if origin in (Union, types.UnionType):
        return _union([rule(argument) for argument in arguments])
    if origin is Literal:
        return Rule(
            " or ".join(map(repr, arguments)),
            test=lambda value: any(type(value) is type(one) and value == one for one in arguments),
        )
    kind = origin or annotation
    if kind is np.ndarray:
        return _array(annotation)
    if not isinstance(kind, type) or getattr(kind, "_is_protocol", False):
        return Rule("anything")
    if issubclass(kind, dict) and not arguments and hasattr(kind, "__total__"):  # A TypedDict.
        return _of_msgspec(annotation)
    return _container(annotation, kind, arguments) if arguments else _instance(kind)


def _instance(kind: type[Any]) -> Rule:
    return Rule(kind.__name__, (kind,), lambda value: isinstance(value, kind))


def _array(annotation: Any) -> Rule:
    dtype = array_dtype(annotation)
    if dtype is None:
        return Rule("array", (np.ndarray,), lambda value: isinstance(value, np.ndarray))
    return Rule(
        f"array of {dtype}",
        (np.ndarray,),
        lambda value: isinstance(value, np.ndarray) and bool(value.dtype == dtype),
        dtype=dtype,
    )


def _union(rules: list[Rule]) -> Rule:
    text = " | ".join(one.text for one in rules)
    if any(one.test is None for one in rules):
        return Rule("anything")
    simple = [one for one in rules if one.bounds is None and one.dtype is None]
    return Rule(
        text,
        tuple(kind for one in simple for kind in one.exact),
        lambda value: any(one.takes(value) for one in rules),
    )


def _annotated(annotation: Any, extras: tuple[Any, ...]) -> Rule:
    inner = rule(annotation)
    for extra in extras:
        if isinstance(extra, msgspec.Meta):
            return _of_msgspec(Annotated[annotation, extra], inner)
        if hasattr(extra, "ring_rule"):
            found: Rule = extra.ring_rule()
            return found
        if isinstance(extra, DType) and not extra.is_float:
            return _bounded(int(extra.lowest), int(extra.highest))
    return inner


def _bounded(lowest: int, highest: int) -> Rule:
    return Rule(
        f"int of {lowest} to {highest}",
        (int,),
        lambda value: is_integer(value) and lowest <= value <= highest,
        bounds=(lowest, highest),
    )


def _of_msgspec(annotation: Any, inner: Rule | None = None) -> Rule:
    def test(value: Any) -> bool:
        if inner is not None and not inner.takes(value):
            return False
        try:
            msgspec.convert(value, annotation)
        except msgspec.ValidationError:
            return False
        return True

    return Rule(_text(annotation), test=test)


def _text(annotation: Any) -> str:
    return str(annotation).replace("typing.", "")


def _container(annotation: Any, kind: type[Any], arguments: tuple[Any, ...]) -> Rule:
    text = _text(annotation)

    def is_kind(value: Any) -> bool:
        return isinstance(value, kind)

    if issubclass(kind, tuple) and arguments[-1] is not Ellipsis:
        parts = [rule(argument) for argument in arguments]

        def test_tuple(value: Any) -> bool:
            return (
                is_kind(value)
                and len(value) == len(parts)
                and all(part.takes(item) for part, item in zip(parts, value, strict=True))
            )

        return Rule(text, test=test_tuple)
    if issubclass(kind, collections.abc.Mapping) and len(arguments) == 2:
        of_keys, of_values = map(rule, arguments)

        def test_mapping(value: Any) -> bool:
            return is_kind(value) and _all(of_keys, value) and _all(of_values, value.values())

        return Rule(text, test=test_mapping)
    if issubclass(kind, collections.abc.Collection):
        of_items = rule(arguments[0])

        # Four times faster for long lists than the set of the types.
        is_fast = annotation in (list[float], list[int], list[str], list[bool])

        def test_items(value: Any) -> bool:
            if is_fast and type(value) is list:
                try:
                    return msgspec.convert(value, annotation) is not None
                except msgspec.ValidationError:  # NumPy numbers may be valid.
                    return _all(of_items, value)
            is_text = isinstance(value, (str, bytes)) and kind not in (str, bytes)
            return is_kind(value) and not is_text and _all(of_items, value)

        return Rule(text, test=test_items)
    return Rule(text, (kind,), is_kind)


def _all(of_items: Rule, values: Iterable[Any]) -> bool:
    """Return whether all items are valid; their types are checked first, which is faster."""
    if of_items.test is None:
        return True
    exact = set(of_items.exact) if of_items.bounds is None and of_items.dtype is None else set()
    return set(map(type, values)) <= exact or all(map(of_items.takes, values))
