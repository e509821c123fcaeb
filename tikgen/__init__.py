"""tikgen turns Jinja2 templates into verified, tuned, cached Taichi kernels."""

import importlib
from typing import TYPE_CHECKING, Any

from tikgen.arguments import Array, Scalar
from tikgen.bound import BoundKernel
from tikgen.builder import build, clear, render
from tikgen.catalogue import add_template_path, list_templates, load_template
from tikgen.describe import describe
from tikgen.dtypes import DType
from tikgen.elementwise import elementwise
from tikgen.errors import TikgenError
from tikgen.expression import Expression, Program
from tikgen.kernel import Kernel
from tikgen.one_off import from_string
from tikgen.parameters import Identifier, Invalid, ProblemModel, ScheduleModel, parameter
from tikgen.render import VERSION as __version__  # noqa: N811
from tikgen.render import Source, Variant
from tikgen.template import Cost, Template

if TYPE_CHECKING:
    from tikgen.verification import Report, verify

__all__ = [
    "Array",
    "BoundKernel",
    "Cost",
    "DType",
    "Expression",
    "Identifier",
    "Invalid",
    "Kernel",
    "ProblemModel",
    "Program",
    "Report",
    "Scalar",
    "ScheduleModel",
    "Source",
    "Template",
    "TikgenError",
    "Variant",
    "__version__",
    "add_template_path",
    "build",
    "clear",
    "describe",
    "elementwise",
    "from_string",
    "list_templates",
    "load_template",
    "parameter",
    "render",
    "verify",
]

_LATE = {"Report": "tikgen.verification", "verify": "tikgen.verification"}


def __getattr__(name: str) -> Any:
    """Import what most programs never need when it is first asked for."""
    if name in _LATE:
        return getattr(importlib.import_module(_LATE[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
