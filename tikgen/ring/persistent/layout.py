"""What a persistent kernel takes and gives: columns, state, and the dtype in which it computes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tikgen.dtypes import DType
from tikgen.ring.errors import ColumnError, InvalidConfigurationError


@dataclass(frozen=True)
class Layout:
    """The columns of a persistent kernel.

    Attributes:
        inputs: dtype of each column of a message, by name, in the order of a call's values.
        outputs: dtype of each column of a reply, by name, in the order of a call's results.
        state: what each state variable begins with.
        dtype: in which the handler computes, and of the state.
    """

    inputs: Mapping[str, DType]
    outputs: Mapping[str, DType]
    state: Mapping[str, int | float]
    dtype: DType

    @property
    def key(self) -> str:
        """Return one text for layouts that take the same kernel."""
        columns = [sorted((n, d.value) for n, d in c.items()) for c in (self.inputs, self.outputs)]
        return repr((columns, sorted(self.state), self.dtype.value))


def layout_of(
    kernel_id: str, inputs: Any, outputs: Any, state: Mapping[str, int | float], dtype: object
) -> Layout:
    """Return the layout of a kernel.

    Args:
        kernel_id: what errors name.
        inputs: columns of a message: a dict of dtypes by name, or a sequence of ``Column``.
        outputs: columns of a reply, likewise.
        state: what each state variable begins with, by name.
        dtype: in which to compute; None for what holds every column.

    Raises:
        ColumnError: if a column cannot be one of a persistent kernel.
        InvalidConfigurationError: if the state is no dict of numbers, or nothing holds it all.
    """
    known = _columns(kernel_id, "inputs", inputs), _columns(kernel_id, "outputs", outputs)
    if not known[0]:
        raise InvalidConfigurationError("inputs", inputs, "takes a column or more")
    if not isinstance(state, Mapping):
        raise InvalidConfigurationError("state", state, "takes a dict of numbers by name")
    for name, value in state.items():
        if isinstance(value, bool) or not isinstance(value, int | float | np.number):
            raise InvalidConfigurationError(f"state[{name!r}]", value, "takes a number")
    numbers = {name: getattr(v, "item", lambda v=v: v)() for name, v in state.items()}
    chosen = _dtype_for([*known[0].values(), *known[1].values()], dtype)
    for name, value in numbers.items():
        if not chosen.is_float and not _is_held(value, chosen):
            raise InvalidConfigurationError(
                f"state[{name!r}]", value, f"takes whole numbers that {chosen} holds"
            )
    return Layout(*known, numbers, chosen)


def _columns(kernel_id: str, what: str, given: Any) -> dict[str, DType]:
    if isinstance(given, Mapping):
        pairs: Sequence[tuple[Any, Any, Any]] = [(name, d, 0) for name, d in given.items()]
    elif isinstance(given, Sequence) and not isinstance(given, str):
        try:
            pairs = [(c.name, c.dtype, c.length) for c in given]
        except AttributeError:
            raise InvalidConfigurationError(what, given, "takes columns, or a dict") from None
    else:
        raise InvalidConfigurationError(what, given, "takes columns, or a dict of dtypes by name")
    found: dict[str, DType] = {}
    for name, dtype, length in pairs:
        if length:
            problem = f"is a vector of {length}; a persistent kernel takes numbers, a column each"
            raise ColumnError(str(name), problem, kernel_id)
        if name in found:
            raise ColumnError(str(name), f"is there twice in {what}", kernel_id)
        try:
            found[name] = DType.parse(dtype)
        except ValueError as error:
            raise ColumnError(str(name), f"has no dtype of a kernel: {error}", kernel_id) from None
    return found


def _dtype_for(dtypes: Sequence[DType], given: object) -> DType:
    """Return in what to compute: what was given, else what holds every column."""
    if given is not None:
        try:
            return DType.parse(given)
        except ValueError as error:
            raise InvalidConfigurationError("dtype", given, str(error)) from None
    if len(set(dtypes)) == 1:
        return dtypes[0]
    if len({dtype.is_float for dtype in dtypes}) == 2:
        wide = any(
            dtype.bits == 64 or (dtype.bits == 32 and not dtype.is_float) for dtype in dtypes
        )
        return DType.f64 if wide else DType.f32
    common = np.result_type(*(dtype.numpy for dtype in dtypes))
    if common.kind == "f" and not dtypes[0].is_float:
        listed = ", ".join(sorted({dtype.value for dtype in dtypes}))
        raise InvalidConfigurationError(
            "dtype", given, f"no dtype holds all of {listed}; say in which to compute"
        )
    return DType.parse(common)


def _is_held(value: int | float, dtype: DType) -> bool:
    # In this order: NaN and infinity have no int.
    return dtype.lowest <= value <= dtype.highest and value == int(value)
