"""tikgen turns Jinja2 templates into verified, tuned, cached Taichi kernels."""

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
]
