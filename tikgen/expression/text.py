"""What all texts of users have in common once they are read."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar, cast

from pydantic_core import CoreSchema, core_schema

from tikgen.dtypes import DType
from tikgen.errors import ExpressionError

Method = TypeVar("Method", bound=Callable[[Any, DType], Any])


def once_for_dtype(method: Method) -> Method:
    """Return a method that computes its value once for each dtype."""

    @functools.wraps(method)
    def found(self: Any, dtype: DType) -> Any:
        key = method, dtype
        if key not in self._known:
            self._known[key] = method(self, dtype)
        return self._known[key]

    return cast("Method", found)


class Text:
    """A frozen value that equals others of the same text."""

    __slots__ = ("__weakref__", "_known", "text")

    # What was computed of it before, by method and dtype.
    _known: dict[Any, Any]
    text: str

    def __init__(self, **values: object) -> None:
        for name, value in values.items():
            object.__setattr__(self, name, value)
        object.__setattr__(self, "_known", {})

    def __getattr__(self, name: str) -> Any:
        """Return the text of one that was made without, once it is asked for."""
        if name != "text":
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
        text = self._printed()
        object.__setattr__(self, name, text)
        return text

    def _printed(self) -> str:
        """Return the text of one that was made without."""
        raise NotImplementedError

    @classmethod
    def parse(cls, value: Any) -> Any:
        """Return ``value`` as an instance; raise ExpressionError."""
        raise NotImplementedError

    @classmethod
    def __get_pydantic_core_schema__(cls, _source: object, _handler: object) -> CoreSchema:
        def validate(value: object) -> object:
            try:
                return cls.parse(value)
            except ExpressionError as error:  # Pydantic catches only ValueError.
                raise ValueError(str(error)) from None

        return core_schema.no_info_plain_validator_function(validate)

    def folded(self, dtype: DType) -> Any:
        """Return what is computed in ``dtype``; raise ExpressionError."""
        raise NotImplementedError

    def check(self, dtype: DType) -> None:
        """Raise :class:`ExpressionError` if it cannot be computed in ``dtype``."""
        self.folded(dtype)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, type(self)) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.text!r})"

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__} is frozen")
