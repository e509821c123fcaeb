"""Formats times, sizes and counts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def duration(seconds: float) -> str:
    """Return a time with three digits and a unit, such as ``3.14 ms``."""
    for limit, factor, unit in ((1e-6, 1e9, "ns"), (1e-3, 1e6, "us"), (1, 1e3, "ms")):
        # Just below a limit three digits would round up to 1e+03.
        if seconds < limit * 0.9995:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds:.3g} s" if seconds < 999.5 else f"{seconds:,.0f} s"


def size(count: int) -> str:
    """Return a number of bytes, such as ``1.2 MB``."""
    number = float(count)
    for unit in ("B", "kB", "MB"):
        if number < 1000:
            return f"{number:.0f} {unit}" if unit == "B" else f"{number:.1f} {unit}"
        number /= 1000
    return f"{number:.1f} GB"


def counted(count: int, noun: str) -> str:
    """Return a number with its noun, such as ``1 kernel`` or ``10,000 launches``."""
    if count != 1:
        noun = "axes" if noun == "axis" else f"{noun}{'es' if noun.endswith('ch') else 's'}"
    return f"{count:,} {noun}"


def are_missing(names: Sequence[str]) -> str:
    """Return in words that some arguments are missing."""
    begin = "arguments {} are" if len(names) > 1 else "argument {} is"
    return f"{begin.format(', '.join(names))} missing"


def listing(choices: Iterable[str]) -> str:
    """Return choices as words, such as ``f32 or f64``."""
    *most, last = choices
    return f"{', '.join(most)} or {last}" if most else last
