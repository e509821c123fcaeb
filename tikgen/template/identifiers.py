"""Names that generated code may use."""

from __future__ import annotations

import keyword
from typing import TYPE_CHECKING

from pydantic_core import CoreSchema, core_schema

from tikgen.errors import ConversionError

if TYPE_CHECKING:
    from typing_extensions import Self


class Identifier(str):
    """A name that generated code may use: a Python identifier, no keyword, no dunder."""

    def __new__(cls, value: object) -> Self:
        """Return ``value`` as an instance, or raise ConversionError."""
        cls._check(value)
        return super().__new__(cls, value)

    @classmethod
    def parse(cls, value: object) -> Self:
        """Return ``value`` as an instance, or raise ConversionError."""
        return cls(value)

    @classmethod
    def _check(cls, value: object) -> None:
        text = str(value)
        usable = text.isidentifier() and text.isascii() and not keyword.iskeyword(text)
        if not isinstance(value, str) or not usable or text.startswith("_") or text == "ti":
            raise ConversionError(f"{value!r:.80} is not a plain identifier")

    @classmethod
    def __get_pydantic_core_schema__(cls, _source: object, _handler: object) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(cls.parse)


class FieldName(Identifier):
    """The name of a field, or of a component of one, such as ``v.x`` or ``f.3``."""

    @classmethod
    def _check(cls, value: object) -> None:
        own, dot, component = str(value).partition(".")
        if dot and not (component.isalnum() and component.isascii()):
            takes = "is no name of a field or of a component such as 'v.x'"
            raise ConversionError(f"{value!r:.80} {takes}")
        super()._check(own if isinstance(value, str) else value)
