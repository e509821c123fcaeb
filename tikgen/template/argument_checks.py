"""The rules that a call must keep, whether Taichi's arrays are passed or those of bundles."""

from __future__ import annotations

import functools
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from tikgen.errors import ArgumentError
from tikgen.template import views
from tikgen.template.arguments import Argument, Array, Opaque, Scalar, split_extent, symbols
from tikgen.template.here import Constant
from tikgen.template.shapes import MOST_ELEMENTS
from tikgen.units import are_missing, counted


class Check:
    """What one argument must be, laid out for speed.

    Besides NumPy arrays it takes what subclasses say in :meth:`takes_fresh` and
    :meth:`array_problem`.
    """

    def __init__(self, argument: Array | Scalar, symbols: tuple[str, ...]) -> None:
        dtype = argument.dtype
        self.name = argument.name
        self.dtype = dtype
        self.numpy = dtype.numpy
        self.is_scalar = isinstance(argument, Scalar)
        self.is_float = dtype.is_float
        self.lowest, self.highest = dtype.lowest, dtype.highest
        if dtype.is_float:  # What needs no closer look.
            self.highest = float(np.finfo(dtype.numpy).max)
            self.lowest = -self.highest
        self.takes_field = isinstance(argument, Array) and argument.storage == "field"
        self.takes_host = not self.is_scalar and not self.takes_field
        self.written = isinstance(argument, Array) and argument.written
        self.writes = "may write" if getattr(argument, "assumed", False) else "writes"
        self.inplace = isinstance(argument, Array) and argument.inplace
        self.strided = isinstance(argument, Array) and argument.strided
        self.shape = argument.shape if isinstance(argument, Array) else ()
        self.ndim = len(self.shape)
        self.extents = tuple(
            (-1 if symbol is None else symbols.index(symbol), more)
            for symbol, more in map(split_extent, self.shape)
        )

    def may_be(self, other: Check) -> bool:
        """Tell whether the array, which is written, may be the very same as another one."""
        is_like = (self.dtype, self.ndim) == (other.dtype, other.ndim)
        return is_like and self.inplace and not other.written

    def takes_numpy(self, array: Any) -> bool:
        """Tell whether a NumPy array has the dtype, the layout and the access that is needed."""
        flags = array.flags
        return bool(
            array.dtype == self.numpy
            and (flags.c_contiguous or self.takes_view(array))
            and (flags.writeable or not self.written)
        )

    def takes_view(self, array: Any) -> bool:
        """Tell whether an array that is not contiguous is a view of the kind that is taken."""
        return self.strided and views.strides_of(array, may_overlap=not self.written) is not None

    def takes_fresh(self, array: Any) -> bool:
        """Tell in the quickest way that a device array fits; False means to look closer."""
        raise NotImplementedError

    def array_problem(self, value: Any) -> str:
        """Return what is wrong with an array that is no plain NumPy array, or nothing."""
        raise NotImplementedError

    def scalar_problem(self, value: Any) -> str:
        """Return what is wrong with a scalar, or an empty string."""
        kind = type(value)
        is_plain = kind is int or (kind is float and self.is_float)
        if is_plain and self.lowest <= value <= self.highest:
            return ""
        what = f"argument {self.name!r} takes a number of dtype {self.dtype}"
        if isinstance(value, bool | np.bool_) or not isinstance(
            value, int | float | np.integer | np.floating
        ):
            return f"{what}; got {kind_of(value)}"
        if self.is_float:
            if self.dtype.holds(value):
                return ""
            return f"{what}, up to {self.highest:.6g}; got {_shown(value)}"
        if isinstance(value, float | np.floating):
            return f"{what}; got the float {value!r}"
        if not self.lowest <= int(value) <= self.highest:
            return f"{what}, from {self.lowest} to {self.highest}; got {_shown(value)}"
        return ""

    def numpy_problem(self, value: Any) -> str:
        """Return what is wrong with a NumPy array of any class, or nothing."""
        if problem := hidden_problem(self.name, value):
            return f"argument {self.name!r} {problem}"
        return "" if self.takes_numpy(value) else self.explain(value)

    def explain(self, value: Any) -> str:
        """Return what is wrong with a plain NumPy array."""
        if value.dtype != self.numpy:
            same = value.dtype == bool and self.numpy.itemsize == 1
            hint = f"; pass {self.name}.view(np.{self.numpy})" if same else ""
            wanted = f"dtype {self.dtype} ({self.numpy})"
            return f"argument {self.name!r} takes {wanted}; got {value.dtype}{hint}"
        is_locked = self.written and not value.flags.writeable
        if not (is_locked or value.flags.c_contiguous or self.takes_view(value)):
            copy = f"np.ascontiguousarray({self.name})"
            return self.layout_problem("C-contiguous", value, copy)
        return f"argument {self.name!r} is read-only, and the kernel {self.writes} to it"

    def layout_problem(self, wanted: str, value: Any, copy: str) -> str:
        """Return how the strides of an array are wrong.

        Args:
            wanted: what it must be, unless views are taken.
            value: a NumPy array or a tensor.
            copy: code for a copy that can be passed.
        """
        strides = value.strides if isinstance(value, np.ndarray) else tuple(value.stride())
        rule = ""
        if self.strided:
            wanted = "a view that is taken"
            rule = f"; {views.problem_of(value, may_overlap=not self.written)}"
        back = f", and write it back: {self.name}[...] = copy" if self.written else ""
        return (
            f"argument {self.name!r} is not {wanted} (strides {strides}){rule}; pass {copy}{back}"
        )

    def wrong_ndim(self, shape: tuple[int, ...]) -> str:
        """Return how the number of axes is wrong."""
        axes = counted(self.ndim, "axis")
        return f"argument {self.name!r} takes {axes} {self._wanted()}; got shape {shape}"

    def wrong_extent(
        self, shape: tuple[int, ...], symbols: Sequence[str], sizes: Sequence[int]
    ) -> str:
        """Return how an extent is wrong, given the sizes that are known so far."""
        known = [f"{k} = {v}" for k, v in zip(symbols, sizes, strict=True) if v >= 0]
        where = f" where {', '.join(known)}" if known else ""
        return f"argument {self.name!r} takes shape {self._wanted()}{where}; got {shape}"

    def wrong_size(self, shape: tuple[int, ...], symbol: str) -> str:
        """Return that an extent leaves no positive size."""
        wanted = f"takes shape {self._wanted()}, and {symbol} is at least 1"
        return f"argument {self.name!r} {wanted}; got {shape}"

    def wrong_count(self, shape: tuple[int, ...]) -> str:
        """Return how the number of elements is wrong."""
        what = "is empty" if math.prod(shape) == 0 else f"has over {MOST_ELEMENTS} elements"
        return f"argument {self.name!r} {what} (shape {shape}), which kernels cannot take"

    def wrong_span(self, value: Any) -> str:
        """Return how far apart the elements of a view are."""
        return (
            f"argument {self.name!r} is a view whose elements lie in a run of "
            f"{views.span_of(value)}, and over {MOST_ELEMENTS} cannot be taken; pass a copy"
        )

    def _wanted(self) -> str:
        return f"({', '.join(map(str, self.shape))}{',' * (self.ndim == 1)})"


class Rules(Constant):
    """The ordered arguments of a kernel, and the rules that a call must keep.

    A subclass says which arrays there are besides NumPy's.

    Args:
        kernel: name of the kernel, for messages.
        arguments: what it takes, in order.
        largest: largest value of size symbols.
        hint: returns what to add to the error of an argument that does not fit, by name and value.
    """

    # The kind of array that lives on the device, and the kinds that share memory with no other.
    device_kind: ClassVar[type]
    apart_kinds: ClassVar[type | tuple[type, ...]]

    def __init__(
        self,
        kernel: str,
        arguments: tuple[Argument, ...],
        largest: Mapping[str, int] | None = None,
        hint: Callable[[str, Any], str] = lambda name, value: "",
    ) -> None:
        self.kernel = kernel
        self.arguments = arguments
        self.names = tuple(a.name for a in arguments)
        self.symbols = symbols(arguments)
        # The largest size for each size symbol that has one; baked sizes are no symbols.
        self.largest = {n: most for n, most in (largest or {}).items() if n in self.symbols}
        self.hint = hint
        self._opaque = tuple(i for i, a in enumerate(arguments) if isinstance(a, Opaque))

    @functools.cached_property
    def checks(self) -> tuple[Check | None, ...]:
        """Return the check of each argument, none for what is passed unchecked."""
        return tuple(None if isinstance(a, Opaque) else self._made_check(a) for a in self.arguments)

    @functools.cached_property
    def apart(self) -> tuple[tuple[int, int], ...]:
        """Return pairs (written, other) that must not share memory, each pair once."""
        arrays = {i: a for i, a in enumerate(self.arguments) if isinstance(a, Array)}
        written = {i for i, a in arrays.items() if a.written}
        return tuple(
            (i, j) for i in written for j in arrays if i != j and (j > i or j not in written)
        )

    def _made_check(self, argument: Array | Scalar) -> Check:
        """Return the check of one argument."""
        raise NotImplementedError

    def _opaque_problem(self, argument: Argument, value: Any) -> str:
        """Return why an argument that is passed unchecked must not be passed, or nothing."""
        raise NotImplementedError

    def order(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Any, ...]:
        """Return the arguments in the kernel's order.

        Raises:
            ArgumentError: if one is missing, unknown or given twice.
        """
        if not kwargs and len(args) == len(self.names):
            return tuple(args)
        values = self.named(args, kwargs)
        missing = [name for name in self.names if name not in values]
        if missing:
            raise self._error(f"{are_missing(missing)}; it takes {self}")
        return tuple(values[name] for name in self.names)

    def named(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments given, by name.

        Raises:
            ArgumentError: if one is unknown or given twice.
        """
        if len(args) > len(self.names):
            taken = counted(len(self.names), "argument")
            raise self._error(f"takes {taken} ({self}); got {len(args)}")
        values = dict(zip(self.names, args, strict=False))
        for name, value in kwargs.items():
            if name not in self.names:
                raise self._error(self.unknown(name, value))
            if name in values:
                raise self._error(f"argument {name!r} is given twice")
            values[name] = value
        return values

    def check(self, values: Sequence[Any]) -> list[int]:
        """Return the value of each size symbol, in order of :attr:`symbols`.

        Raises:
            ArgumentError: naming the argument, what it must be and what it is.
        """
        for index in self._opaque:
            if problem := self._opaque_problem(self.arguments[index], values[index]):
                raise self._error(problem)
        device_kind = self.device_kind
        sizes = [-1] * len(self.symbols)
        for check, value in zip(self.checks, values, strict=True):
            if check is None:
                continue
            kind = type(value)
            if kind is np.ndarray and check.takes_host:
                if not check.takes_numpy(value):
                    raise self._error(self._with_hint(check.explain(value), check.name, value))
                shape = value.shape
            elif kind is device_kind and check.takes_fresh(value):
                shape = value.shape
            elif check.is_scalar:
                if problem := check.scalar_problem(value):
                    raise self._error(problem)
                continue
            else:
                if problem := check.array_problem(value):
                    raise self._error(self._with_hint(problem, check.name, value))
                shape = value.shape
            if len(shape) != check.ndim:
                problem = check.wrong_ndim(tuple(shape))
                raise self._error(problem + self.hint(check.name, tuple(shape)))
            count = 1
            for (symbol, more), extent in zip(check.extents, shape, strict=True):
                count *= extent
                if symbol < 0:
                    if extent != more:
                        raise self._error(check.wrong_extent(tuple(shape), self.symbols, sizes))
                elif sizes[symbol] < 0:
                    if extent <= more > 0:  # An array that is empty is refused below.
                        raise self._error(check.wrong_size(tuple(shape), self.symbols[symbol]))
                    sizes[symbol] = extent - more
                elif sizes[symbol] != extent - more:
                    problem = check.wrong_extent(tuple(shape), self.symbols, sizes)
                    raise self._error(problem + self.hint(check.name, tuple(shape)))
            if not 0 < count <= MOST_ELEMENTS:
                raise self._error(check.wrong_count(tuple(shape)))
            if check.strided and views.span_of(value) > MOST_ELEMENTS:
                raise self._error(check.wrong_span(value))
        for name, most in self.largest.items():
            found = sizes[self.symbols.index(name)]
            if found > most:
                raise self._error(f"takes arrays with {name} = {most} at most; got {found}")
        for i, j in self.apart:
            if self._may_share(values[i], values[j]):
                self._check_alias(i, j, values)
        return sizes

    @property
    def is_opaque(self) -> bool:
        """Tell whether an argument is passed unchecked, because nothing is known about it."""
        return bool(self._opaque)

    def scalar_problem(self, index: int, value: Any) -> str:
        """Return what is wrong with ``value`` for the scalar at ``index``, or nothing."""
        check = self.checks[index]
        return check.scalar_problem(value) if check is not None else ""

    def _may_share(self, one: Any, other: Any) -> bool:
        if one is other:
            return True
        if type(one) is np.ndarray and type(other) is np.ndarray:
            return bool(np.may_share_memory(one, other))
        if isinstance(one, self.apart_kinds) or isinstance(other, self.apart_kinds):
            return False
        (start, stop), (its_start, its_stop) = views.memory_of(one), views.memory_of(other)
        return start < its_stop and its_start < stop

    def _check_alias(self, i: int, j: int, values: Sequence[Any]) -> None:
        one, other = self.checks[i], self.checks[j]
        assert one is not None
        assert other is not None
        if (one.strided or other.strided) and not views.share_elements(values[i], values[j]):
            return
        may_be_same = one.may_be(other)
        if may_be_same and views.are_same(values[i], values[j]):
            return
        allowed = " (the very same array would be fine)" if may_be_same else ""
        raise self._error(
            f"arguments {one.name!r} and {other.name!r} share memory, "
            f"and the kernel {one.writes} to {one.name!r}{allowed}; pass a copy"
        )

    def unknown(self, name: str, value: Any) -> str:
        """Return what is wrong with a name that no argument has."""
        return f"has no argument {name!r}; it takes {self}{self.hint(name, value)}"

    def _with_hint(self, problem: str, name: str, value: Any) -> str:
        """Return what is wrong with an argument, and what to say of one of another kind or type."""
        has_hint = "takes dtype" in problem or not hasattr(value, "shape")
        return problem + (self.hint(name, value) if has_hint else "")

    def _error(self, problem: str) -> ArgumentError:
        return ArgumentError(self.kernel, problem)

    def __str__(self) -> str:
        return ", ".join(map(str, self.arguments))

    def __repr__(self) -> str:
        return f"({self})"


def _shown(value: Any) -> str:
    """Return a number as text that tells its size; integers of many digits to some of them."""
    if isinstance(value, int) and abs(value) > sys.float_info.max:
        return "an integer beyond every float"
    return f"{value:.6g}" if isinstance(value, int) and abs(value) > 1e20 else repr(value)


def kind_of(value: Any) -> str:
    """Return the name of the type of a value, for messages."""
    return f"{type(value).__module__}.{type(value).__qualname__}".removeprefix("builtins.")


def is_tensor(value: Any) -> bool:
    """Tell whether a value is a tensor of torch, or of a library like it."""
    return hasattr(value, "data_ptr") and hasattr(value, "is_contiguous")


def hidden_problem(name: str, value: Any) -> str:
    """Return why the memory of an array does not hold its elements, or nothing.

    A kernel reads memory: it knows no masks, no pending signs and no indices of sparse elements.

    Args:
        name: what the array is called, for the advice.
        value: anything; only NumPy arrays and torch tensors may have such a problem.
    """
    if isinstance(value, np.ma.MaskedArray):
        return (
            "is a masked array, and a kernel knows no masks; "
            f"pass {name}.filled(...), or {name}.data to use what the mask hides"
        )
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(value, torch.Tensor):
        return ""
    if value.is_nested or str(value.layout) != "torch.strided":
        kind = "nested" if value.is_nested else str(value.layout).removeprefix("torch.").strip("_")
        return f"is a tensor of layout {kind}; pass a copy, such as {name}.to_dense()"
    if value.is_neg() or value.is_conj():
        bit, method = ("negative", "neg") if value.is_neg() else ("conjugate", "conj")
        return (
            f"has the {bit} bit: its memory holds other numbers than the tensor; "
            f"pass a copy, {name}.resolve_{method}()"
        )
    return "" if _has_memory(value) else _without_memory(value)


def _has_memory(tensor: Any) -> bool:
    try:
        return bool(tensor.data_ptr()) or not tensor.nelement()
    except (RuntimeError, NotImplementedError):  # Tensors of tracers and wrappers.
        return False


def _without_memory(tensor: Any) -> str:
    device = f" of device {tensor.device}" if tensor.device.type == "meta" else ""
    return f"is a tensor{device} that holds no data ({kind_of(tensor)})"
