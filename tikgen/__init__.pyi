from . import aot as aot
from . import errors as errors
from . import live as live
from . import ring as ring
from . import scaling as scaling
from .dtypes import DType as DType
from .errors import TikgenError as TikgenError
from .expression import Assignments as Assignments
from .expression import Equations as Equations
from .expression import Expression as Expression
from .grid.gpus import choose_gpu as choose_gpu
from .grid.grid import Grid as Grid
from .lifecycle.cause import why as why
from .lifecycle.description import describe as describe
from .lifecycle.trace import Trace as Trace
from .lifecycle.trace import trace as trace
from .live.notebook import (
    load_ipython_extension as load_ipython_extension,
)
from .live.notebook import (
    unload_ipython_extension as unload_ipython_extension,
)
from .pipeline.bound import BoundKernel as BoundKernel
from .pipeline.builder import build as build
from .pipeline.builder import clear as clear
from .pipeline.builder import render as render
from .pipeline.kernel import Kernel as Kernel
from .pipeline.one_off import elementwise as elementwise
from .pipeline.one_off import from_string as from_string
from .pipeline.one_off import reduce as reduce
from .pipeline.one_off import update as update
from .pipeline.rendering import Source as Source
from .pipeline.rendering import Variant as Variant
from .program.parts import copy as copy
from .program.parts import loop as loop
from .program.parts import swap as swap
from .program.parts import varying as varying
from .program.parts import when as when
from .program.program import Program as Program
from .template.arguments import Array as Array
from .template.arguments import Scalar as Scalar
from .template.base import Cost as Cost
from .template.base import Template as Template
from .template.catalogue import (
    add_template_path as add_template_path,
)
from .template.catalogue import (
    list_templates as list_templates,
)
from .template.catalogue import (
    load_template as load_template,
)
from .template.layers import absorbing as absorbing
from .template.matched import matched_layers as matched_layers
from .template.parameters import (
    Identifier as Identifier,
)
from .template.parameters import (
    Invalid as Invalid,
)
from .template.parameters import (
    ProblemModel as ProblemModel,
)
from .template.parameters import (
    ScheduleModel as ScheduleModel,
)
from .template.parameters import (
    parameter as parameter,
)
from .template.written_rules import dirichlet as dirichlet
from .template.written_rules import neumann as neumann
from .tuning.result import TuneResult as TuneResult
from .tuning.run import tune as tune
from .tuning.sweeps.sweep import sweep as sweep
from .tuning.sweeps.table import SweepResult as SweepResult
from .verification import Report as Report
from .verification import verify as verify
from .version import __version__ as __version__

__all__ = [
    "Array",
    "Assignments",
    "BoundKernel",
    "Cost",
    "DType",
    "Equations",
    "Expression",
    "Grid",
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
    "absorbing",
    "add_template_path",
    "aot",
    "build",
    "choose_gpu",
    "clear",
    "copy",
    "describe",
    "dirichlet",
    "elementwise",
    "errors",
    "from_string",
    "list_templates",
    "live",
    "load_ipython_extension",
    "load_template",
    "loop",
    "matched_layers",
    "neumann",
    "parameter",
    "reduce",
    "render",
    "ring",
    "scaling",
    "swap",
    "sweep",
    "trace",
    "tune",
    "unload_ipython_extension",
    "update",
    "varying",
    "verify",
    "when",
    "why",
]
