"""What a kernel takes: arrays with symbolic shapes, scalars, and workspaces."""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

import numpy as np

from tikgen.dtypes import ALL_DTYPES, DType
from tikgen.errors import DeclarationError, near

Role = Literal["in", "out", "inout", "work"]
Storage = Literal["ndarray", "field"]
Values = Literal["small", "any"]
Extent = int | str

_EXTENT = re.compile(r"(?P<symbol>[^\W\d]\w*)(?:\s*\+\s*(?P<more>\d+))?")


@dataclass(frozen=True)
class Array:
    """An array argument.

    Attributes:
        name: name in the kernel's signature.
        dtype: element type.
        shape: one extent an axis: a number, a symbol such as ``"n0"`` that must agree wherever
            it stands, or a symbol plus a number such as ``"rows + 1"``.
        role: ``"in"`` is only read, ``"out"`` only written, ``"inout"`` both, ``"work"`` is a
            workspace that tikgen allocates.
        storage: ``"ndarray"`` takes NumPy arrays, ``ti.ndarray`` and torch tensors, ``"field"``
            takes a ``ti.field``.
        covered: whether a written array gets every element written. What a kernel leaves alone
            keeps its value only where this is False (see ``Kernel``).
        inplace: whether an output may be the very array that is also an input.
        strided: whether it may be a view, whose rows lie apart in memory.
        values: what verification draws: ``"small"`` for floats from -1 to 1 and small whole
            numbers, ``"any"`` where the kernel must be right for every finite number, of which
            some launches then take. An index is ``"small"``, or made by ``Template.inputs``.
        assumed: whether the role is that which the text of a kernel allows, and not declared.
    """

    name: str
    dtype: DType
    shape: tuple[Extent, ...]
    role: Role = "in"
    storage: Storage = "ndarray"
    covered: bool = True
    inplace: bool = False
    strided: bool = False
    values: Values = "small"
    assumed: bool = field(default=False, repr=False)

    @property
    def may_be_scalar(self) -> bool:
        """Return whether a kernel reads it as one number for each element, and nothing more."""
        return self.role == "in" and all(n == 1 or isinstance(n, str) for n in self.shape)

    def __post_init__(self) -> None:
        """Raise :class:`DeclarationError` for what an array cannot have."""
        _check(self.name, self.dtype, "an array")
        for what, value, listed in (
            ("role", self.role, get_args(Role)),
            ("storage", self.storage, get_args(Storage)),
            ("values", self.values, get_args(Values)),
        ):
            _check_listed(self.name, what, value, listed)
        if not isinstance(self.shape, tuple):
            hint = f"; write ({self.shape!r},)" if isinstance(self.shape, int | str) else ""
            problem = f"shape takes a tuple of extents such as ('n', 4); got {self.shape!r}{hint}"
            raise DeclarationError(self.name, problem)
        for extent in self.shape:
            try:
                least = split_extent(extent)[1]
            except (TypeError, ValueError):
                least = -1
            if least < 0 or isinstance(extent, bool):
                problem = f"shape has {extent!r}; an extent is a number such as 4, 'n' or 'n + 1'"
                raise DeclarationError(self.name, problem)

    @property
    def ndim(self) -> int:
        """Return the number of axes."""
        return len(self.shape)

    @property
    def written(self) -> bool:
        """Tell whether the kernel writes to the array."""
        return self.role != "in"

    @property
    def annotation(self) -> str:
        """Return the type annotation of the argument in generated code."""
        if self.storage == "field":
            return "ti.template()"
        return f"ti.types.ndarray(dtype={self.dtype.taichi}, ndim={self.ndim})"

    def __str__(self) -> str:
        arrow = {"in": "", "out": " -> written", "inout": " -> updated", "work": " (workspace)"}
        return f"{self.name}: {self.dtype}[{', '.join(map(str, self.shape))}]{arrow[self.role]}"


@dataclass(frozen=True)
class Scalar:
    """A scalar argument, passed by value at every launch.

    Attributes:
        name: name in the kernel's signature.
        dtype: its type.
        values: what verification draws, see :class:`Array`.
    """

    name: str
    dtype: DType
    values: Values = "small"

    def __post_init__(self) -> None:
        """Raise :class:`DeclarationError` for what a scalar cannot have."""
        _check(self.name, self.dtype, "a scalar")
        _check_listed(self.name, "values", self.values, get_args(Values))

    @property
    def annotation(self) -> str:
        """Return the type annotation of the argument in generated code."""
        return self.dtype.taichi

    def __str__(self) -> str:
        return f"{self.name}: {self.dtype}"


@dataclass(frozen=True)
class Opaque:
    """An argument of a user's own kernel that tikgen cannot check; Taichi says what it takes.

    Attributes:
        name: name in the kernel's signature.
        axes: number of axes of an array of vectors or matrices, without theirs, if it is known.
        elements: the shape of its elements, if it is known.
        dtype: the type of the elements of an array of any number of axes, if it is known.
        is_template: whether it is declared as ``ti.template()``.
    """

    name: str
    axes: int | None = None
    elements: tuple[int, ...] = ()
    dtype: DType | None = None
    is_template: bool = False

    def __str__(self) -> str:
        return f"{self.name}: as the kernel declares"


Argument = Array | Scalar | Opaque


def _check_listed(name: str, what: str, value: object, listed: tuple[str, ...]) -> None:
    if value not in listed:
        takes = f"takes {', '.join(map(repr, listed[:-1]))} or {listed[-1]!r}"
        hint = near(value, listed) if isinstance(value, str) else ""
        problem = f"{what} {takes}; got {value!r}" + (f".{hint}" if hint else "")
        raise DeclarationError(name, problem)


def _check(name: object, dtype: object, what: str) -> None:
    """Raise :class:`DeclarationError` for a name or a dtype that an argument cannot have."""
    if not isinstance(name, str) or not name.isidentifier() or keyword.iskeyword(name):
        raise DeclarationError(f"{what} {name!r}", "its name must be an identifier")
    if not isinstance(dtype, DType):
        known = ", ".join(ALL_DTYPES)
        problem = f"dtype takes a DType, such as p.dtype or DType.f32, of {known}; got {dtype!r}"
        raise DeclarationError(name, problem)


def split_extent(extent: Extent) -> tuple[str | None, int]:
    """Return the symbol of an extent, if any, and the number added to it.

    Raises:
        ValueError: if ``extent`` is neither a number, a symbol nor a symbol plus a number.
    """
    if isinstance(extent, int):
        return None, extent
    match = _EXTENT.fullmatch(extent)
    if match is None:
        raise ValueError(f"{extent!r} is not an extent such as 4, 'n' or 'n + 1'")
    return match["symbol"], int(match["more"] or 0)


def symbols(arguments: tuple[Argument, ...]) -> tuple[str, ...]:
    """Return the size symbols of ``arguments`` in order of first use."""
    found: dict[str, None] = {}
    for argument in arguments:
        if isinstance(argument, Array):
            for extent in argument.shape:
                symbol, _ = split_extent(extent)
                if symbol is not None:
                    found[symbol] = None
    return tuple(found)


def concrete_shape(array: Array, sizes: Mapping[str, int]) -> tuple[int, ...]:
    """Return the shape of ``array`` where each symbol has its value from ``sizes``."""
    shape = []
    for extent in array.shape:
        symbol, more = split_extent(extent)
        shape.append(more if symbol is None else sizes[symbol] + more)
    return tuple(shape)


def with_sizes(argument: Argument, sizes: Mapping[str, int]) -> Argument:
    """Return ``argument`` with each symbol in its shape replaced by its value in ``sizes``."""
    if not isinstance(argument, Array):
        return argument
    return replace(argument, shape=concrete_shape(argument, sizes))


def positive_values(
    arguments: Iterable[Argument], sizes: Mapping[str, int], rng: np.random.Generator
) -> dict[str, Any]:
    """Return data on which kernels with roots, logarithms or powers are timed.

    Below 0 these have no value, and libraries take a detour there. Scalars lie from 0.5 to 1,
    elements of arrays that are read from 0.01 to 1, or from 1 to 99 where they are integers.
    """
    found: dict[str, Any] = {}
    for argument in arguments:
        if isinstance(argument, Scalar):
            found[argument.name] = rng.uniform(0.5, 1)
        elif isinstance(argument, Array) and argument.role in ("in", "inout"):
            shape = concrete_shape(argument, sizes)
            dtype = argument.dtype
            values = rng.uniform(0.01, 1, shape) if dtype.is_float else rng.integers(1, 100, shape)
            found[argument.name] = values.astype(dtype.numpy)
    return found
