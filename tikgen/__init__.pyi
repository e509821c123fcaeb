from . import aot as aot
from . import errors as errors
from . import live as live
from . import ring as ring
from .arguments import Array as Array
from .arguments import Scalar as Scalar
from .bound import BoundKernel as BoundKernel
from .builder import build as build
from .builder import clear as clear
from .builder import render as render
from .catalogue import (
    add_template_path as add_template_path,
)
from .catalogue import (
    list_templates as list_templates,
)
from .catalogue import (
    load_template as load_template,
)
from .description import describe as describe
from .dtypes import DType as DType
from .errors import TikgenError as TikgenError
from .expression import Expression as Expression
from .expression import Program as Program
from .kernel import Kernel as Kernel
from .lifecycle.cause import why as why
from .lifecycle.trace import Trace as Trace
from .lifecycle.tracing import trace as trace
from .live.notebook import (
    load_ipython_extension as load_ipython_extension,
)
from .live.notebook import (
    unload_ipython_extension as unload_ipython_extension,
)
from .one_off import from_string as from_string
from .parameters import (
    Identifier as Identifier,
)
from .parameters import (
    Invalid as Invalid,
)
from .parameters import (
    ProblemModel as ProblemModel,
)
from .parameters import (
    ScheduleModel as ScheduleModel,
)
from .parameters import (
    parameter as parameter,
)
from .rendering import Source as Source
from .rendering import Variant as Variant
from .shorthands import elementwise as elementwise
from .template import Cost as Cost
from .template import Template as Template
from .tuning.result import TuneResult as TuneResult
from .tuning.run import tune as tune
from .tuning.sweep_result import SweepResult as SweepResult
from .tuning.sweeping import sweep as sweep
from .verification import Report as Report
from .verification import verify as verify
from .version import __version__ as __version__

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
