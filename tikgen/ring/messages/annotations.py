"""Resolves annotations of message types, including strings that name local classes."""

from __future__ import annotations

import inspect
import sys
from types import FrameType
from typing import Any, get_args, get_origin

import numpy as np

_OWN_MODULES = __name__.rpartition(".")[0]


def resolve_annotations(cls: type[Any], frame: FrameType | None) -> None:
    """Replace the annotations that are strings by the types that they name.

    A name that is not defined yet stays a string, until its first use.
    """
    own = cls.__annotations__
    if any(isinstance(annotation, str) for annotation in own.values()):
        names = _local_names(frame) | {cls.__name__: cls}
        own.update({field: evaluated(what, cls, names) for field, what in own.items()})


def evaluated(annotation: Any, owner: type[Any], names: dict[str, Any] | None = None) -> Any:
    """Return the type that an annotation names; the annotation itself if it is unknown (yet)."""
    if not isinstance(annotation, str):
        return annotation
    module = dict(getattr(sys.modules.get(owner.__module__), "__dict__", {}))
    try:
        return eval(annotation, module, names or {})
    except Exception:  # The name of a class that is defined further down, most often.
        return annotation


def unaliased(annotation: Any) -> Any:
    """Return the type of an alias ``type X = ...``; NumPy's ``NDArray`` may be one."""
    origin = get_origin(annotation) or annotation
    if not hasattr(origin, "__value__") or isinstance(origin, type):
        return annotation
    meant = origin.__value__
    arguments = get_args(annotation)
    return unaliased(meant[arguments] if arguments else meant)


def _local_names(frame: FrameType | None) -> dict[str, Any]:
    """Return the local names of the function and the classes in which a class is defined."""
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
    """Return the dtype of ``npt.NDArray[...]``; None for any."""
    arguments = get_args(annotation)
    wanted = get_args(arguments[-1]) if arguments else ()
    is_number = wanted and isinstance(wanted[0], type) and issubclass(wanted[0], np.generic)
    is_abstract = is_number and wanted[0].__subclasses__()  # Such as np.floating.
    return np.dtype(wanted[0]) if is_number and not is_abstract else None
