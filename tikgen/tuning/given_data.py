"""The data on which kernels are timed: typical of a template, or a user's own.

The data of verification is full of special values, for which another schedule may be the best.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from tikgen.disk import why
from tikgen.dtypes import DType
from tikgen.errors import ArgumentError, TemplateError, TikgenError
from tikgen.pipeline.records import OWN, TYPICAL
from tikgen.pipeline.signature import Signature
from tikgen.template.arguments import Argument, Array, Scalar, concrete_shape, symbols
from tikgen.template.base import NDArray, Template
from tikgen.template.blame import as_dict, blamed
from tikgen.template.declared import as_numbers
from tikgen.verification.data import poison

# The value of each argument before a launch, by name.
Values = Mapping[str, Any]


def typical_values(
    template: Template, problem: Any, sizes: Mapping[str, int], seed: int
) -> dict[str, Values]:
    """Return the typical data of a template, by kind; what is only written holds poison and ones.

    Raises:
        TemplateError: if ``workload`` of the template fails, or returns another shape.
    """
    rng = np.random.default_rng(seed)
    arguments = template.arguments(problem)
    with blamed(template, "workload()"):
        found = as_dict(template, "workload()", template.workload(problem, sizes, rng))
        names = [argument.name for argument in arguments]
        kinds = {
            kind: as_dict(template, "workload()", values, "argument", names)
            for kind, values in found.items()
        }
    if not kinds:
        raise TemplateError(template.name, "workload() gives no data")
    shared = {
        a.name: _made_up(a, sizes, rng)
        for a in arguments
        if any(a.name not in given for given in kinds.values())
    }
    return {
        kind: {
            a.name: _declared(template, a, sizes, given[a.name])
            if a.name in given
            else shared[a.name]
            for a in arguments
        }
        for kind, given in kinds.items()
    }


def _made_up(argument: Argument, sizes: Mapping[str, int], rng: np.random.Generator) -> Any:
    assert isinstance(argument, Array | Scalar)
    dtype = argument.dtype
    if isinstance(argument, Scalar):
        return rng.uniform(0.5, 1) if dtype.is_float else int(rng.integers(1, 10))
    shape = concrete_shape(argument, sizes)
    return _blank(argument, sizes) if argument.role == "out" else uniform(dtype, shape, rng)


def uniform(dtype: DType, shape: tuple[int, ...], rng: np.random.Generator) -> NDArray:
    """Return floats from -1 to 1, or integers from -100 (unsigned: 0) to 100."""
    if not dtype.is_float:
        return rng.integers(-100 if dtype.is_signed else 0, 100, shape, dtype.numpy, True)
    values = rng.random(shape, np.float64 if dtype.bits == 64 else np.float32)
    values *= 2
    values -= 1
    return values.astype(dtype.numpy, copy=False)


def _declared(template: Template, argument: Argument, sizes: Mapping[str, int], value: Any) -> Any:
    """Return a value of ``workload`` in the dtype of its argument."""
    assert isinstance(argument, Array | Scalar)
    shape = concrete_shape(argument, sizes) if isinstance(argument, Array) else ()
    with blamed(template, "workload()"):
        found = as_numbers(template, "workload()", argument, value)
        found = np.ascontiguousarray(found).reshape(found.shape)
    if found.shape != shape:
        problem = f"workload() gives {argument.name} the shape {found.shape}, not {shape}"
        raise TemplateError(template.name, problem)
    return found.item() if isinstance(argument, Scalar) else found


@dataclass(frozen=True)
class OwnData:
    """A user's own arguments; without values, those that are typical of the template.

    Attributes:
        values: the value of each argument before a launch.
        same: for each output that shares the array of an input, the name of that input.
        sizes: value of each size symbol.
        folder: where :func:`saved` wrote the values.
    """

    values: Values = field(default_factory=dict)
    same: Mapping[str, str] = field(default_factory=dict)
    sizes: Mapping[str, int] = field(default_factory=dict)
    folder: str = ""

    @property
    def kind(self) -> str:
        """Return the kind of data, as records have it."""
        return OWN if self.values else TYPICAL

    @functools.cached_property
    def digest(self) -> str:
        """Return a SHA-256 of the data, empty where it is typical."""
        if not self.values:
            return ""
        digest = hashlib.sha256(repr(sorted(self.same.items())).encode())
        for name, value in self.values.items():
            array = np.asarray(value)
            digest.update(f"{name} {array.dtype} {array.shape}".encode())
            digest.update(array.reshape(-1).view(np.uint8).data)
        return digest.hexdigest()


@contextlib.contextmanager
def saved(data: OwnData | None) -> Iterator[OwnData]:
    """Write data to a folder that only this user can read, and remove it in the end."""
    if data is None:
        yield OwnData()
        return
    with tempfile.TemporaryDirectory(prefix="tikgen-data-") as folder:
        try:
            for name, value in data.values.items():
                np.save(Path(folder, f"{name}.npy"), np.asarray(value), allow_pickle=False)
        except OSError as error:
            raise TikgenError(f"Cannot write the data to {folder}: {why(error)}.") from None
        yield replace(data, folder=folder)


def load(folder: str, arguments: Sequence[Argument]) -> dict[str, Values]:
    """Return what :func:`saved` wrote."""
    found = {}
    for argument in arguments:
        value = np.load(Path(folder) / f"{argument.name}.npy", allow_pickle=False)
        found[argument.name] = value.item() if isinstance(argument, Scalar) else value
    return {OWN: found}


def own_data(
    template: Template, problem: Any, positional: Sequence[Any], named: Mapping[str, Any]
) -> OwnData:
    """Return a copy of a user's own arguments; those that are only written may be missing.

    Raises:
        ArgumentError: if an argument is missing, unknown, or does not fit.
    """
    arguments = tuple(_on_host(a) for a in template.arguments(problem))
    rules = Signature(template.name, arguments)
    given = rules.named(positional, named)
    arrays = {a.name: a for a in arguments if isinstance(a, Array)}
    held = {name: _copied(value) for name, value in rules.on_host(given).items()}
    sizes = rules.sizes_of(held)
    missing = [
        name
        for name in rules.names
        if name not in given and not (name in arrays and _can_make(arrays[name], sizes))
    ]
    if missing:
        what = f"argument {', '.join(missing)} is missing: give all that is read"
        raise ArgumentError(template.name, what)
    values = {
        name: held[name] if name in held else _blank(arrays[name], sizes) for name in rules.names
    }
    found = rules.check(list(values.values()))
    same = {
        name: other
        for name, array in arrays.items()
        for other in given
        if array.inplace and name != other and given.get(name) is given[other]
    }
    return OwnData(values, same, dict(zip(rules.symbols, found, strict=True)))


def _on_host(argument: Argument) -> Argument:
    return replace(argument, storage="ndarray") if isinstance(argument, Array) else argument


def _copied(value: Any) -> Any:
    """Return a C-contiguous copy of an array, anything else as it is."""
    return np.array(value, order="C", subok=True) if isinstance(value, np.ndarray) else value


def _can_make(array: Array, sizes: Mapping[str, int]) -> bool:
    """Return whether an array is only written, and its shape is known."""
    return array.role == "out" and set(symbols((array,))) <= sizes.keys()


def _blank(array: Array, sizes: Mapping[str, int]) -> NDArray:
    """Return an array of poison and ones: what is added to a NaN that must stay would not show."""
    found = np.full(concrete_shape(array, sizes), poison(array.dtype), array.dtype.numpy)
    found.reshape(-1)[1::2] = 1
    return found
