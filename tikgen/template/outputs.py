"""What a reference returns: an array, a tuple in the order of the outputs, or a dict by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tikgen.errors import TemplateError


def in_order(template: str, outputs: Sequence[str], found: Any) -> tuple[Any, ...]:
    """Return what ``reference`` returned for each output, in their order.

    Args:
        template: name of the template.
        outputs: names of the arrays that its kernel writes, in order.
        found: what ``reference`` returned.

    Raises:
        TemplateError: if an output is missing, or there are others.
    """
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
    results = found if isinstance(found, tuple) else (found,)
    if len(results) != len(outputs):
        arrays = f"{len(results)} array{'s' * (len(results) != 1)}"
        raise TemplateError(template, f"reference() returns {arrays}, not {len(outputs)}; {takes}")
    return results
