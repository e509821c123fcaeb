"""Resolves the annotations of message types, also those that are strings and name local classes."""

from __future__ import annotations

import inspect
import sys
from types import FrameType
from typing import Any, get_args, get_origin

import numpy as np

_OWN_MODULES = __name__.rpartition(".")[0]


def resolve_annotations(cls: type[Any], frame: FrameType | None) -> None:
    """Replace the annotations that are strings by what they name where the class is defined.

    What is not defined yet stays a string: it is looked up in the module at the first use.

    Args:
        cls: the class; it may name itself.
        frame: the innermost one of where it is being defined.
    """
    own = cls.__annotations__
    if any(isinstance(annotation, str) for annotation in own.values()):
        names = _local_names(frame) | {cls.__name__: cls}
        own.update({field: evaluated(what, cls, names) for field, what in own.items()})


def evaluated(annotation: Any, owner: type[Any], names: dict[str, Any] | None = None) -> Any:
    """Return what an annotation names; the annotation itself if that is not known (yet).

    Args:
        annotation: a type, or a string.
        owner: the class in whose module a string is looked up.
        names: what is looked up first.
    """
    if not isinstance(annotation, str):
        return annotation
    module = dict(getattr(sys.modules.get(owner.__module__), "__dict__", {}))
    try:
        return eval(annotation, module, names or {})
    except Exception:  # The name of a class that is defined further down, most often.
        return annotation


def unaliased(annotation: Any) -> Any:
    """Return what a ``type X = ...`` stands for; NumPy's ``NDArray`` may be one."""
    origin = get_origin(annotation) or annotation
    if not hasattr(origin, "__value__") or isinstance(origin, type):
        return annotation
    meant = origin.__value__
    arguments = get_args(annotation)
    return unaliased(meant[arguments] if arguments else meant)


def _local_names(frame: FrameType | None) -> dict[str, Any]:
    """Return the names of the function, and of the classes in it, in which a class is defined."""
    while frame and str(frame.f_globals.get("__name__")).startswith(_OWN_MODULES):
        frame = frame.f_back
    places: list[dict[str, Any]] = []
    while frame is not None and frame.f_code.co_name != "<module>":
        places.append(frame.f_locals)
        if frame.f_code.co_flags & inspect.CO_OPTIMIZED:  # A function; else the body of a class.
            break
        frame = frame.f_back
    return {name: value for place in reversed(places) for name, value in place.items()}


def array_dtype(annotation: Any) -> np.dtype[Any] | None:
    """Return the dtype that ``npt.NDArray[...]`` asks for; None if any will do."""
    arguments = get_args(annotation)
    wanted = get_args(arguments[-1]) if arguments else ()
    is_number = wanted and isinstance(wanted[0], type) and issubclass(wanted[0], np.generic)
    is_abstract = is_number and wanted[0].__subclasses__()  # Such as np.floating.
    return np.dtype(wanted[0]) if is_number and not is_abstract else None
