"""Running error analysis: a bound on the error of generated code, element by element.

Every value has a bound on its absolute error; each operation propagates those of its operands and
adds its own rounding (Higham, Accuracy and Stability of Numerical Algorithms, 2002, section 3.3).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tikgen.dtypes import DType
from tikgen.expression.tree import COMPARISONS, LITERALS, Node, literal_value

NDArray = npt.NDArray[Any]

# Rounding of each operation, (relative, absolute) in units of eps: the worst that was measured on
# cpu and vulkan, with a margin. Vulkan's logarithms and hyperbolic tangents have a small absolute,
# not relative, error; exp and pow lose more, see below.
COST = {
    "+": (1, 0),
    "*": (1, 0),
    "/": (3, 0),
    "sqrt": (2, 0),
    "sin": (4, 1),
    "cos": (4, 1),
    "tan": (8, 1),
    "asin": (4, 4),
    "acos": (4, 4),
    "atan": (4, 0),
    "atan2": (4, 4),
    "cosh": (4, 0),
    "sinh": (4, 0),
    "tanh": (4, 2),
    "exp": (4, 0),
    "expm1": (6, 0),
    "log": (4, 4),
    **dict.fromkeys(("acosh", "asinh", "atanh", "hypot", "log10", "log1p", "log2"), (8, 0)),
}
# Vulkan computes these in f32 by polynomials with errors of up to 4e-4.
COST_F32 = {"asin": (4, 5000), "acos": (4, 5000), "atan2": (4, 64)}
# On Vulkan, sine, cosine and tangent of larger numbers have no correct digits.
LARGEST_ANGLE_F32 = 2.0**22
# On cuda, a quotient by a larger number is 0 with fast math (CUDA C++ Programming Guide, intrinsic
# functions, __fdividef).
LARGEST_DIVISOR_F32 = 2.0**126

_MONOTONE = {
    "sqrt": np.sqrt,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "sinh": np.sinh,
    "tanh": np.tanh,
    "exp": np.exp,
    "log": np.log,
    "acosh": np.arccosh,
    "asinh": np.arcsinh,
    "atanh": np.arctanh,
    "expm1": np.expm1,
    "log10": np.log10,
    "log1p": np.log1p,
    "log2": np.log2,
}
_STEPS = {"floor": np.floor, "ceil": np.ceil, "round": np.rint, "sign": np.sign}


class Bounded(NamedTuple):
    """Values with their absolute errors; truth values with True as error where undecided.

    A sum also has its number of terms and the sum of their magnitudes. So does a multiple of one:
    fast math may take a common factor out of several sums, and then add all terms in any order.
    The unit of a value is a power of two, or several, of which all its terms are whole multiples.
    """

    value: NDArray
    error: NDArray
    terms: int = 1
    magnitudes: NDArray | None = None
    units: NDArray | None = None

    @property
    def unit(self) -> NDArray:
        """Return a number of which its terms are multiples, infinite for 0, else 0 if unknown."""
        if self.units is not None:
            return self.units
        # Terms of a sum that was divided are multiples of nothing.
        return _last_bit(self.value) if self.magnitudes is None else np.zeros_like(self.value)

    @property
    def mass(self) -> NDArray:
        """Return the sum of the magnitudes of its terms."""
        return np.abs(self.value) if self.magnitudes is None else self.magnitudes

    def spread(self, shape: tuple[int, ...]) -> Bounded:
        """Return values and errors broadcast to ``shape``."""
        value, error = (np.array(np.broadcast_to(part, shape)) for part in self[:2])
        return self._replace(value=value, error=error)


def exact(value: NDArray, dtype: DType) -> Bounded:
    """Return values without error, in wide precision."""
    wide = np.asarray(value).astype(dtype.wide)
    return Bounded(wide, np.zeros_like(wide))


def stored(result: Bounded, dtype: DType) -> Bounded:
    """Return a result rounded to ``dtype``, if it was computed in a wider one."""
    if dtype.computed is dtype:
        return result
    with np.errstate(all="ignore"):
        value, error = result.value, result.error
        kept = value.astype(dtype.numpy).astype(value.dtype)
        rounding = np.where(np.isfinite(value), dtype.eps * (np.abs(value) + dtype.tiny), 0)
        error = np.where((kept == value) & (error == 0), 0, error + rounding)
        beyond = np.abs(value) + error > float(np.finfo(dtype.numpy).max)
        error = np.where(beyond & np.isfinite(value), np.inf, error)
    return Bounded(value, error)


def bound(node: Node, values: Mapping[str, Bounded], dtype: DType) -> Bounded:
    """Return the value of the tree in wide precision, and its error if computed in ``dtype``."""
    if not dtype.is_float:
        zero = np.zeros((), dtype.wide)
        return Bounded(zero, zero)
    with np.errstate(all="ignore"):
        return _Analysis(values, dtype).of(node)


class _Analysis:
    """Evaluates a tree; every method takes and returns :class:`Bounded` values."""

    def __init__(self, values: Mapping[str, Bounded], dtype: DType) -> None:
        self._values = values
        self._dtype = dtype
        self._highest = np.finfo(dtype.numpy).max.astype(dtype.wide)
        self._cost = COST | (COST_F32 if dtype is DType.f32 else {})

    def of(self, node: Node) -> Bounded:
        op = node.op
        if op == "name":
            return self._values[str(node.value)]
        if op in LITERALS:
            return self._literal(literal_value(node))
        *outer, inner = node.chain
        found = self._over(inner, [self.of(arg) for arg in inner.args])
        for each in reversed(outer):
            found = self._over(each, [found, self.of(each.args[1])])
        return found

    def _over(self, node: Node, args: list[Bounded]) -> Bounded:
        op = node.op
        if op in COMPARISONS:
            return _compare(op, *args)
        if op in ("and", "or", "not", "cast", "isnan"):
            return self._logic(op, args)
        if op == "where":
            return _where(*args)
        if op == "**" and node.whole_exponent is not None:
            return self._whole_power(args[0], node.whole_exponent)
        if op in _MONOTONE:
            extra = 2 * np.abs(args[0].value) if op == "exp" else 0
            return self._monotone(op, _MONOTONE[op], args[0], extra)
        if op in _STEPS:
            return _steps(_STEPS[op], args[0])
        methods: dict[str, Callable[..., Bounded]] = {
            "neg": _negated,
            "abs": lambda a: Bounded(np.abs(a.value), a.error),
            "+": self._sum,
            "-": lambda a, b: self._sum(a, _negated(b)),
            "*": self._product,
            "/": self._quotient,
            "//": self._floor_quotient,
            "%": self._remainder,
            "**": self._power,
            "min": lambda a, b: _extremum(np.fmin, a, b),
            "max": lambda a, b: _extremum(np.fmax, b, a),
            "sin": lambda a: self._wave("sin", np.sin, a),
            "cos": lambda a: self._wave("cos", np.cos, a),
            "tan": self._tan,
            "cosh": self._cosh,
            "atan2": self._atan2,
            "hypot": self._hypot,
        }
        return methods[op](*args)

    def _literal(self, value: Any) -> Bounded:
        wide = self._dtype.wide.type(value)
        stored = self._dtype.numpy.type(value).astype(self._dtype.wide)
        return Bounded(np.asarray(wide), gap(stored, wide))

    def _round(self, op: str, value: NDArray, passed_on: NDArray, relative: Any = 0) -> Bounded:
        """Return ``value`` with the propagated error and that of its own rounding."""
        own, absolute = self._cost[op]
        rounding = self._dtype.eps * ((own + relative) * np.abs(value) + absolute)
        certain_zero = (value == 0) & (passed_on == 0) & (absolute == 0)
        error = passed_on + np.where(certain_zero, 0, rounding + self._dtype.tiny)
        # Infinities and NaN that result from exact values are certain; possible overflows are not.
        error = np.where(np.isnan(error) | (np.abs(value) + error > self._highest), np.inf, error)
        return Bounded(value, np.where(np.isfinite(value) | (passed_on != 0), error, 0))

    def _sum(self, a: Bounded, b: Bounded) -> Bounded:
        """Return a + b; fast math may add the terms of a long sum in any order."""
        value = a.value + b.value
        terms = a.terms + b.terms
        mass = np.add(a.mass, b.mass)
        reordered = 0 if terms == 2 else self._dtype.eps * terms / 2 * mass
        total = self._round("+", value, a.error + b.error + reordered)
        total = total._replace(terms=terms, magnitudes=mass)
        return self._exact_if_held(total, mass, np.minimum(a.unit, b.unit), a, b)

    def _product(self, a: Bounded, b: Bounded) -> Bounded:
        passed_on = _scaled(a.error, np.abs(b.value) + b.error) + _scaled(b.error, np.abs(a.value))
        product = self._round("*", a.value * b.value, passed_on)
        product = _of_terms(product, max(a.terms, b.terms), lambda: a.mass * b.mass)
        return self._exact_if_held(product, a.mass * b.mass, a.unit * b.unit, a, b)

    def _exact_if_held(self, result: Bounded, mass: Any, unit: Any, *args: Bounded) -> Bounded:
        """Return a sum or product without error where the dtype holds it, in whatever order."""
        is_exact = (mass <= 2 / self._dtype.eps * unit) & (mass <= self._highest)
        is_exact &= unit >= self._dtype.tiny
        for arg in args:
            is_exact = is_exact & (arg.error == 0)
        return result._replace(error=np.where(is_exact, 0, result.error), units=unit)

    def _quotient(self, a: Bounded, b: Bounded) -> Bounded:
        value = a.value / b.value
        least = np.abs(b.value) - b.error
        passed_on = (a.error + _scaled(b.error, np.abs(value))) / least
        passed_on = np.where((a.error == 0) & (b.error == 0), 0, passed_on)
        passed_on = np.where((least <= 0) & (b.error > 0), np.inf, passed_on)
        if self._dtype is DType.f32:
            lost = np.abs(b.value) + b.error > LARGEST_DIVISOR_F32
            passed_on = np.where(lost & np.isfinite(b.value), passed_on + np.abs(value), passed_on)
        quotient = self._round("/", value, passed_on)
        return _of_terms(quotient, a.terms, lambda: a.mass / np.abs(b.value))

    def _floor_quotient(self, a: Bounded, b: Bounded) -> Bounded:
        """Return a // b, which is exact if a and b are exact."""
        value = np.floor_divide(a.value, b.value)
        jump = _steps(np.floor, self._quotient(a, b)).error
        jump = np.where((a.error == 0) & (b.error == 0), 0, jump)
        # A large whole quotient is rounded like any other number.
        rounding = 4 * self._dtype.eps * np.abs(value)
        is_exact = (rounding < 0.25) | np.isinf(value)
        return Bounded(value, jump + np.where(is_exact, 0, rounding))

    def _remainder(self, a: Bounded, b: Bounded) -> Bounded:
        """Return a % b: a minus a multiple of b without rounding, then one rounded sum."""
        value = np.remainder(a.value, b.value)
        moved = a.error + _scaled(b.error, np.abs(np.floor_divide(a.value, b.value)) + 1)
        is_inside = (np.abs(value) > moved) & (np.abs(value) + moved < np.abs(b.value) - b.error)
        passed_on = np.where((moved == 0) | is_inside, moved, np.abs(b.value) + moved)
        return self._round("+", value, np.where(np.isnan(passed_on), np.inf, passed_on))

    def _whole_power(self, a: Bounded, exponent: int) -> Bounded:
        value = a.value**exponent
        if exponent == 0:
            return Bounded(value, np.zeros_like(value))
        near, far = np.abs(a.value) - a.error, np.abs(a.value) + a.error
        passed_on = np.maximum(gap(far**exponent, np.abs(value)), gap(near**exponent, value))
        if exponent < 0:
            passed_on = np.where((near <= 0) & (a.error > 0), np.inf, passed_on)
        passed_on = np.where(a.error == 0, 0, passed_on)
        return self._round("*", value, passed_on, relative=abs(exponent) + 2)

    def _power(self, a: Bounded, b: Bounded) -> Bounded:
        """Return a ** b as exp2(b * log2(abs(a))), with the sign of a negative base restored."""
        value = a.value**b.value
        corners = [
            gap((a.value + s * a.error) ** (b.value + t * b.error), value)
            for s in (-1, 1)
            for t in (-1, 1)
        ]
        # A power of a negative number is a number only if the exponent is exactly whole.
        is_known = (np.abs(a.value) > a.error) & ((a.value > 0) | (b.error == 0))
        passed_on = np.where(is_known, np.maximum.reduce(corners), np.inf)
        is_exact = is_known & (a.error == 0) & (b.error == 0)
        is_exact &= np.isfinite(a.value) & np.isfinite(b.value)
        passed_on = np.where(is_exact, 0, passed_on)
        magnitude = np.abs(b.value * np.log(np.abs(a.value)))
        return self._round("exp", value, passed_on, 4 + 4 * np.abs(b.value) + 4 * magnitude)

    def _monotone(self, op: str, function: Any, a: Bounded, extra: Any) -> Bounded:
        spread = np.where(a.error == 0, 0, _spread(function, a))
        return self._round(op, function(a.value), spread, extra)

    def _wave(self, op: str, function: Any, a: Bounded) -> Bounded:
        passed_on = np.where(self._is_reduced(a), np.minimum(a.error, 2), 2)
        return self._round(op, function(a.value), passed_on)

    def _is_reduced(self, a: Bounded) -> NDArray:
        """Return where an angle is small enough for every arch to reduce it to one turn."""
        return np.asarray((np.abs(a.value) <= LARGEST_ANGLE_F32) | (self._dtype is not DType.f32))

    def _tan(self, a: Bounded) -> Bounded:
        to_pole = np.abs(np.cos(a.value)) - a.error
        passed_on = np.where(to_pole > 0, a.error / to_pole**2, np.inf)
        passed_on = np.where(a.error == 0, 0, passed_on)
        passed_on = np.where(self._is_reduced(a), passed_on, np.inf)
        value = np.tan(a.value)
        # Computed as sin / cos, whose divisor has an absolute error.
        return self._round("tan", value, passed_on, 2 * np.abs(value))

    def _cosh(self, a: Bounded) -> Bounded:
        return self._monotone("cosh", np.cosh, a._replace(value=np.abs(a.value)), 0)

    def _atan2(self, y: Bounded, x: Bounded) -> Bounded:
        total = y.error + x.error
        radius = np.hypot(y.value, x.value) - total
        at_cut = (np.abs(y.value) <= y.error) & (y.error > 0) & (x.value - x.error < 0)
        turned = np.where((radius > 0) & ~at_cut, total / radius, 2 * np.pi)
        passed_on = np.where(total == 0, 0, turned)
        return self._round("atan2", np.arctan2(y.value, x.value), passed_on)

    def _hypot(self, x: Bounded, y: Bounded) -> Bounded:
        return self._round("hypot", np.hypot(x.value, y.value), x.error + y.error)

    def _logic(self, op: str, args: list[Bounded]) -> Bounded:
        a = args[0]
        if op == "not":
            return Bounded(~a.value, a.error)
        if op == "cast":
            return Bounded(a.value.astype(self._dtype.wide), a.error.astype(self._dtype.wide))
        if op == "isnan":
            return Bounded(np.isnan(a.value), ~np.isfinite(a.error))
        b = args[1]
        if op == "or":  # By De Morgan's law.
            either = self._logic("and", [Bounded(~a.value, a.error), Bounded(~b.value, b.error)])
            return Bounded(~either.value, either.error)
        both = (a.error & (b.value | b.error)) | (b.error & (a.value | a.error))
        return Bounded(a.value & b.value, both)


def _last_bit(value: NDArray) -> NDArray:
    """Return the last binary digit of each number that is not 0, or 0 beyond 53 digits."""
    fraction, exponent = np.frexp(value)
    digits = np.ldexp(fraction, 53)
    is_whole = np.isfinite(digits) & (digits == np.rint(digits))
    whole = np.where(is_whole, digits, 0).astype(np.int64)
    unit = np.ldexp((whole & -whole).astype(value.dtype), exponent - 53)
    return np.where(value == 0, np.inf, unit)


def _negated(a: Bounded) -> Bounded:
    return a._replace(value=-a.value)


def _of_terms(product: Bounded, terms: int, mass: Callable[[], NDArray]) -> Bounded:
    """Return a multiple of a sum with the terms of the sum."""
    if terms == 1:
        return product
    magnitudes = np.maximum(mass(), np.abs(product.value))
    return product._replace(terms=terms, magnitudes=magnitudes)


def _compare(op: str, a: Bounded, b: Bounded) -> Bounded:
    error = a.error + b.error
    # With fast math, NaN may compare equal to itself.
    is_open = (np.abs(a.value - b.value) <= error) & (error > 0) | ~np.isfinite(error)
    if op == "!=":
        is_open = is_open | np.isnan(a.value) | np.isnan(b.value)
    return Bounded(COMPARISONS[op](a.value, b.value), is_open)


def _where(condition: Bounded, a: Bounded, b: Bounded) -> Bounded:
    value = np.where(condition.value, a.value, b.value)
    error = np.where(condition.value, a.error, b.error)
    either = gap(a.value, b.value) + np.maximum(a.error, b.error)
    return Bounded(value, np.where(condition.error, either, error))


def _steps(function: Any, a: Bounded) -> Bounded:
    value = function(a.value)
    jump = np.where(a.error == 0, 0, _spread(function, a))
    # With fast math, the sign of NaN is 0.
    open_nan = np.isnan(value) & (function is np.sign)
    return Bounded(value, np.where(open_nan, np.inf, jump))


def _spread(function: Any, a: Bounded) -> NDArray:
    """Return how far a monotone function can be from its value within the error of ``a``."""
    value = function(a.value)
    return np.maximum(
        gap(function(a.value + a.error), value), gap(function(a.value - a.error), value)
    )


def _extremum(function: Any, low: Bounded, high: Bounded) -> Bounded:
    error = np.maximum(low.error, high.error)
    apart = np.abs(low.value - high.value) > low.error + high.error
    value = function(low.value, high.value)
    chosen = np.where(value == low.value, low.error, high.error)
    return Bounded(value, np.where(apart, chosen, error))


def gap(one: NDArray, other: NDArray) -> NDArray:
    """Return the distance between two values: 0 if they are equal, infinite if one is NaN."""
    with np.errstate(all="ignore"):
        distance = np.abs(one - other)
    is_equal = (one == other) | (np.isnan(one) & np.isnan(other))
    return np.where(is_equal, 0, np.where(np.isnan(distance), np.inf, distance))


def _scaled(error: NDArray, factor: NDArray) -> NDArray:
    """Return error times factor, and 0 for no error even if the factor is infinite."""
    return np.where(error == 0, 0, error * factor)
