"""What ``reference`` and ``tolerance`` of a template return, checked against its outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tikgen.errors import TemplateError
from tikgen.template.base import Template
from tikgen.template.blame import as_dict, blamed


def in_order(template: str, outputs: Sequence[str], found: Any) -> tuple[Any, ...]:
    """Return what ``reference`` returned for each output, in their order.

    Args:
        template: name of the template.
        outputs: names of the arrays that its kernel writes, in order.
        found: what ``reference`` returned.

    Raises:
        TemplateError: if an output is missing, or there are others.
    """
    if not outputs:
        problem = "arguments() declares no array that is written; one needs role='out' or 'inout'"
        raise TemplateError(template, problem)
    takes = f"it must return {', '.join(outputs)}: a tuple in that order, or a dict by name"
    if len(outputs) == 1:
        takes = f"it must return {outputs[0]}: an array, or a dict with that name"
    if isinstance(found, Mapping):
        missing = [repr(name) for name in outputs if name not in found]
        unknown = [repr(name) for name in found if name not in outputs]
        if missing or unknown:
            lacks = [f"lacks {', '.join(missing)}"] if missing else []
            lacks += [f"has {', '.join(unknown)}, which is no output"] if unknown else []
            raise TemplateError(
                template, f"reference() returns a dict that {' and '.join(lacks)}; {takes}"
            )
        return tuple(found[name] for name in outputs)
    if found is None:
        raise TemplateError(template, f"reference() returned None; {takes}")
    results = found if isinstance(found, tuple) else (found,)
    if len(results) != len(outputs):
        arrays = f"{len(results)} array{'s' * (len(results) != 1)}"
        raise TemplateError(template, f"reference() returns {arrays}, not {len(outputs)}; {takes}")
    return results


def allowed_errors(
    template: Template, found: Any, expected: Mapping[str, npt.NDArray[Any]]
) -> dict[str, npt.NDArray[Any]]:
    """Return the greatest error allowed for each element of each output.

    Args:
        template: the template.
        found: what its ``tolerance`` returned; what it leaves out is exact.
        expected: what each output must hold, by name.

    Raises:
        TemplateError: if it names something that is no output, is negative, or is NaN.
    """
    method = "tolerance()"
    given = as_dict(template, method, found, "output", expected)
    allowed = {}
    for name, wanted in expected.items():
        with blamed(template, method):
            limit = np.asarray(given.get(name, 0), np.longdouble)
        takes = "a number that is not negative, or one for each element"
        # In an array NaN stands for an undefined limit, which an exact value alone keeps.
        is_nan = limit.ndim == 0 and np.isnan(limit) and np.isfinite(wanted).any()
        if is_nan or (limit < 0).any():
            problem = f"{method} gives {name} {float(limit.min())}; it takes {takes}"
            raise TemplateError(template.name, problem)
        try:
            allowed[name] = np.broadcast_to(limit, wanted.shape)
        except ValueError:
            problem = f"{method} gives {name} the shape {limit.shape}, not {wanted.shape}"
            raise TemplateError(template.name, problem) from None
    return allowed
