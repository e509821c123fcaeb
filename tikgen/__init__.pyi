from . import aot, errors, live, ring
from .arguments import Array, Scalar
from .bound import BoundKernel
from .builder import build, clear, render
from .catalogue import add_template_path, list_templates, load_template
from .description import describe
from .dtypes import DType
from .errors import TikgenError
from .expression import Expression, Program
from .kernel import Kernel
from .lifecycle.cause import why
from .lifecycle.trace import Trace
from .lifecycle.tracing import trace
from .live.notebook import load_ipython_extension, unload_ipython_extension
from .one_off import from_string
from .parameters import Identifier, Invalid, ProblemModel, ScheduleModel, parameter
from .rendering import Source, Variant
from .shorthands import elementwise
from .template import Cost, Template
from .tuning.result import TuneResult
from .tuning.run import tune
from .tuning.sweep_result import SweepResult
from .tuning.sweeping import sweep
from .verification import Report, verify
from .version import __version__

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
    "SweepResult",
    "Template",
    "TikgenError",
    "Trace",
    "TuneResult",
    "Variant",
    "__version__",
    "add_template_path",
    "aot",
    "build",
    "clear",
    "describe",
    "elementwise",
    "errors",
    "from_string",
    "list_templates",
    "live",
    "load_ipython_extension",
    "load_template",
    "parameter",
    "render",
    "ring",
    "sweep",
    "trace",
    "tune",
    "unload_ipython_extension",
    "verify",
    "why",
]
