"""Names of kernels in a bundle: stable, readable, and identifiers in Python and C."""

from __future__ import annotations

import keyword
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tikgen.dtypes import DType
from tikgen.pipeline.rendering import Variant

# Parameters by which a selector chooses among the kernels of a family.
_DISPATCHED = ("dim", "ndim")
_DIGITS = 8


def variant_name(variant: Variant) -> str:
    """Return a name such as ``stencil_dim3_f32_order2_interior`` for a template's variant."""
    return _joined(variant, tuple(variant.problem), with_sizes=True)


def family_name(variant: Variant) -> str:
    """Return the name of a variant without its dtype, dimension and sizes."""
    kept = [
        (name, value)
        for name, value in variant.problem
        if name not in _DISPATCHED and not isinstance(value, DType)
    ]
    return _joined(variant, kept, with_sizes=False)


def _joined(variant: Variant, problem: Sequence[tuple[str, Any]], with_sizes: bool) -> str:
    parts = [variant.template.name]
    fields = variant.template.Problem.model_fields
    for name, value in problem:
        # Defaults such as a spacing of 1.0 and the storage are left out.
        is_usual = value == fields[name].default
        if value is None or value is False or (is_usual and _is_quiet(name, value)):
            continue
        is_number = isinstance(value, int | float) and value is not True
        parts.append(f"{name}{value}" if is_number else name if value is True else str(value))
    if with_sizes and variant.sizes:
        parts.append("x".join(str(size) for _, size in variant.sizes))
    return identifier("_".join(parts))


def _is_quiet(name: str, value: Any) -> bool:
    return isinstance(value, float) or name == "storage"


def identifier(text: str) -> str:
    """Return ``text`` as an identifier, with underscores for other characters."""
    name = re.sub(r"_{2,}", "_", re.sub(r"\W", "_", text, flags=re.ASCII)).strip("_")
    if not name or name[0].isdigit() or keyword.iskeyword(name):
        name = f"k_{name}"
    return name


def name_problem(name: object) -> str:
    """Return why something cannot be a name in a bundle, or an empty string."""
    if isinstance(name, str) and identifier(name) == name:
        return ""
    if isinstance(name, str) and keyword.iskeyword(name):
        return "it is a keyword of Python"
    return (
        "a name begins with an ASCII letter, then takes letters, digits and single underscores, "
        "and ends with no underscore"
    )


def bundle_name(path: Path) -> str:
    """Return the name of the bundle at ``path``, the prefix of its names in C."""
    return identifier(path.name.removesuffix(".zip")).lower()


def told_apart(names: Sequence[str], digests: Sequence[str]) -> list[str]:
    """Return ``names`` with a short digest after those that occur more than once."""
    counts = Counter(names)
    return [
        f"{name}_{digest[:_DIGITS]}" if counts[name] > 1 else name
        for name, digest in zip(names, digests, strict=True)
    ]
