"""The layout of a persistent kernel: columns, state, and the dtype of its computation."""

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
        inputs: dtypes of the columns of a message by name, in the order of the values of a call.
        outputs: dtypes of the columns of a reply by name, in the order of its values.
        state: initial values of the state variables.
        dtype: of the computation, and of the state.
    """

    inputs: Mapping[str, DType]
    outputs: Mapping[str, DType]
    state: Mapping[str, int | float]
    dtype: DType

    @property
    def key(self) -> str:
        """Return a text that is equal for layouts of the same kernel."""
        columns = [sorted((n, d.value) for n, d in c.items()) for c in (self.inputs, self.outputs)]
        return repr((columns, sorted(self.state), self.dtype.value))


def layout_of(
    kernel_id: str, inputs: Any, outputs: Any, state: Mapping[str, int | float], dtype: object
) -> Layout:
    """Return the layout of a kernel."""
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
            raise ColumnError(str(name), f"is twice in {what}", kernel_id)
        try:
            found[name] = DType.parse(dtype)
        except ValueError as error:
            raise ColumnError(str(name), f"has no dtype of a kernel: {error}", kernel_id) from None
    return found


def _dtype_for(dtypes: Sequence[DType], given: object) -> DType:
    """Return the given dtype, or one that holds every column."""
    if given is not None:
        try:
            return DType.parse(given)
        except ValueError as error:
            raise InvalidConfigurationError("dtype", given, str(error)) from None
    if len(set(dtypes)) == 1:
        return dtypes[0]
    if len({dtype.is_float for dtype in dtypes}) == 2:
        wide = any(d.bits == 64 or (d.bits == 32 and not d.is_float) for d in dtypes)
        return DType.f64 if wide else DType.f32
    common = np.result_type(*(dtype.numpy for dtype in dtypes))
    if common.kind == "f" and not dtypes[0].is_float:
        listed = ", ".join(sorted({dtype.value for dtype in dtypes}))
        raise InvalidConfigurationError(
            "dtype", given, f"no dtype holds all of {listed}; pass the dtype of the computation"
        )
    return DType.parse(common)


def _is_held(value: int | float, dtype: DType) -> bool:
    # The range first: NaN and infinity have no int.
    return dtype.lowest <= value <= dtype.highest and value == int(value)
