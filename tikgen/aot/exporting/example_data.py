"""Examples of users' own kernels, and what their references make of them: a file of the bundle."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeGuard

import numpy as np

from tikgen.aot import manifest as m
from tikgen.aot.exporting.made_up import made_up, sizes_for
from tikgen.aot.exporting.plan import KernelPlan, OwnCheck
from tikgen.dtypes import DType
from tikgen.errors import ExportError


def data_file(name: str) -> str:
    """Return the file in the bundle that holds the examples of a user's own kernel."""
    return f"proofs/{name}.npz"


def checked_examples(
    kernel: str, arguments: Sequence[m.Argument], examples: Sequence[Sequence[Any]]
) -> tuple[tuple[Any, ...], ...]:
    """Return copies of examples as a launch takes them; lists become arrays.

    Raises:
        ExportError: if one does not fit the arguments.
    """
    names = ", ".join(a.name for a in arguments)
    found = []
    for example in examples:
        if not isinstance(example, list | tuple) or len(example) != len(arguments):
            count = len(example) if isinstance(example, list | tuple) else repr(example)[:40]
            raise ExportError(
                kernel, f"an example has {count} values; it takes {names or 'none'}, as a tuple"
            )
        pairs = zip(arguments, example, strict=True)
        found.append(tuple(_checked(kernel, argument, value) for argument, value in pairs))
    return tuple(found)


def _checked(kernel: str, argument: m.Argument, value: Any) -> Any:
    dtype = np.dtype(DType(argument.dtype).numpy)
    array = np.array(value, dtype if isinstance(value, list | tuple) else None, order="C")
    ndim = len(argument.shape) + len(argument.element)
    if argument.kind == "scalar" and array.ndim == 0 and array.dtype.kind in "biuf":
        return array.item()
    trailing = array.shape[len(argument.shape) :]
    if array.ndim != ndim or array.dtype != dtype or trailing != argument.element:
        wanted = "a number" if argument.kind == "scalar" else f"{argument.dtype} of {ndim} axes"
        raise ExportError(
            kernel,
            f"an example gives {argument.name!r} {array.dtype}{list(array.shape)}; it is {wanted}",
        )
    return array


def write_data(kernel: KernelPlan, count: int, seed: int, file: Path) -> None:
    """Write the examples of a user's own kernel, if any, and what its reference makes of them.

    Raises:
        ExportError: if the reference fails, or returns something else.
    """
    check = kernel.check
    if not _is_told(check):
        return
    arguments = kernel.entry.arguments
    rng = np.random.default_rng(seed)
    given = _given(kernel, check) or [
        made_up(arguments, sizes_for(arguments, n), rng) for n in range(count)
    ]
    arrays: dict[str, Any] = dict(_arrays(kernel, check, given))
    file.parent.mkdir(exist_ok=True)
    np.savez_compressed(file, **arrays)


def is_current(kernel: KernelPlan, file: Path | None) -> bool:
    """Tell whether a file holds what examples and the reference of a kernel say now."""
    check = kernel.check
    if not _is_told(check):
        return True
    if file is None:
        return False
    with np.load(file) as data:
        held = {name: data[name] for name in data.files}
    try:
        now = _arrays(kernel, check, _given(kernel, check) or _values(held))
    except ExportError:
        return False
    return held.keys() == now.keys() and all(
        held[n].dtype == now[n].dtype and held[n].tobytes() == now[n].tobytes() for n in held
    )


def count_of(file: Path) -> int:
    """Return the number of examples in a file."""
    with np.load(file) as data:
        return len({name.partition("/")[0] for name in data.files})


def has_wanted(file: Path) -> bool:
    """Tell whether a file holds what a reference computed."""
    with np.load(file) as data:
        return any("/wanted/" in name for name in data.files)


def _is_told(check: object) -> TypeGuard[OwnCheck]:
    return isinstance(check, OwnCheck) and bool(check.reference or check.examples)


def _given(kernel: KernelPlan, check: OwnCheck) -> list[dict[str, Any]]:
    names = [a.name for a in kernel.entry.arguments]
    return [dict(zip(names, example, strict=True)) for example in check.examples]


def _values(held: Mapping[str, np.ndarray[Any, Any]]) -> list[dict[str, Any]]:
    """Return the arguments of each example in a file."""
    found: dict[int, dict[str, Any]] = {}
    for place, array in held.items():
        number, what, name = place.split("/")
        if what == "values":
            found.setdefault(int(number), {})[name] = array if array.ndim else array.item()
    return [found[number] for number in sorted(found)]


def _arrays(
    kernel: KernelPlan, check: OwnCheck, given: Sequence[Mapping[str, Any]]
) -> dict[str, np.ndarray[Any, Any]]:
    """Return all that the file is to hold, by its place there."""
    arrays: dict[str, np.ndarray[Any, Any]] = {}
    for number, values in enumerate(given):
        arrays |= {f"{number}/values/{n}": np.asarray(v) for n, v in values.items()}
        wanted = _wanted(kernel, check, values)
        arrays |= {f"{number}/wanted/{n}": v for n, v in wanted.items()}
    return arrays


def _wanted(
    kernel: KernelPlan, check: OwnCheck, values: Mapping[str, Any]
) -> dict[str, np.ndarray[Any, Any]]:
    """Return what the reference, if any, says that arrays and fields hold after a launch."""
    if check.reference is None:
        return {}
    name = kernel.entry.name
    arguments = kernel.entry.arguments
    copies = [np.array(v) if isinstance(v, np.ndarray) else v for v in values.values()]
    try:
        wanted = check.reference(*copies)
    except Exception as error:
        raise ExportError(name, f"its reference fails: {type(error).__name__}: {error}") from None
    shapes = {a.name: np.shape(values[a.name]) for a in arguments if a.kind == "array"}
    shapes |= {n: (*f.shape, *f.element) for n, f in kernel.fields.items()}
    if not isinstance(wanted, Mapping) or not wanted or wanted.keys() - shapes.keys():
        raise ExportError(
            name,
            f"its reference returns {wanted!r:.80}; it is to return a dict from names of arrays "
            f"({', '.join(sorted(shapes))}) to what they hold after a launch",
        )
    found = {n: np.asarray(held) for n, held in wanted.items()}
    for array, held in found.items():
        if held.shape != shapes[array] or held.dtype.kind not in "biuf":
            raise ExportError(
                name,
                f"its reference returns {array!r} as {held.dtype}{list(held.shape)}; the shape is "
                f"{list(shapes[array])}",
            )
    return found
