"""Writes the two files of a new template: a small, commented one that works at once."""

from __future__ import annotations

import keyword
import os
from pathlib import Path

from tikgen.disk import why
from tikgen.errors import TemplateError
from tikgen.template import catalogue
from tikgen.template.base import CODE_NAME, TEXT_NAME
from tikgen.template.parameters import Identifier

_TEXT = """\
{# The kernel. It reads as Python; a line that begins with #% is a Jinja2 statement, and what it
   emits is indented as the statement is. These names are at hand:

     name                   name of the template
     p, s                   problem and schedule parameters, as template.py declares them
     arguments, workspace   what template.py says that the kernel takes

   Look at the result with: tikgen render ./NAME -p power=3 #}
#% from "_shared/signature.j2" import signature
#% from "_shared/loops.j2" import box
import taichi as ti


{# Generated code must hold typed literals only: a bare 0.5 is f32 in Taichi, whatever the dtype.
   Write p.dtype.literal(0.5) in double braces. #}
@ti.kernel
def {{ name }}(
    {{ signature(arguments + workspace) }}
):
    {# `box` writes the loops over every point and applies the schedule. The body stands between
       `call` and `endcall`, once, whatever the unrolling; `index` holds the names of the loop
       indices, here a single one. #}
    #% call(index) box([("i", "0", "x.shape[0]")], s)
    #% set i = index[0]
    y[{{ i }}] = scale * {{ (["x[" ~ i ~ "]"] * p.power) | join(" * ") }}
    #% endcall
"""

_CODE = '''\
"""What `tikgen new` wrote: y = scale * x ** power, to be changed into what you need."""

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

from tikgen import (
    Array,
    DType,
    ProblemModel,
    Scalar,
    ScheduleModel,
    Template,
    parameter,
)


class CLASS(Template):
    """Scaled power of every element, y = scale * x ** power.

    The first line is what `tikgen list` shows, the rest what `tikgen describe` adds.
    """

    # Problem parameters decide what is computed. From these lines come validation, the help
    # texts and what verification draws.
    class Problem(ProblemModel):
        dtype: DType = parameter("element type", DType.f32, choices=("f32", "f64"))
        power: Literal[1, 2, 3, 4] = parameter("exponent, multiplied out in the kernel", 2)

    # Schedule parameters decide how fast, and never what: verification draws them too.
    class Schedule(ScheduleModel):
        unroll: Literal[1, 2, 4, 8] = parameter("elements a step", 4)
        block_dim: Literal[0, 32, 64, 128, 256, 512] = parameter(
            "threads in a block, 0 for Taichi's own choice", 0
        )

    def default_schedule(
        self, p: Any, arch: str, sizes: Mapping[str, int] | None
    ) -> Mapping[str, Any]:
        return {} if arch == "cpu" else {"unroll": 1, "block_dim": 128}

    # What a caller passes, in order. "n" is a size symbol: wherever it stands, sizes must agree.
    # `inplace` lets a caller pass the same array as x and y. `values="any"` says that the kernel
    # must be right for all finite numbers: verification draws some of every size. Leave it out
    # for indices, and where sums may overflow.
    def arguments(self, p: Any) -> tuple[Array | Scalar, ...]:
        return (
            Array("x", p.dtype, ("n",), values="any"),
            Array("y", p.dtype, ("n",), role="out", inplace=True),
            Scalar("scale", p.dtype),
        )

    # What the kernel must compute, in NumPy and in higher precision. It takes the arguments,
    # outputs with what they hold before, and returns the expected outputs.
    @staticmethod
    def reference(p: Any, x: np.ndarray, y: np.ndarray, scale: Any) -> np.ndarray:
        wide = p.dtype.wide
        return np.asarray(scale, wide) * x.astype(wide) ** p.power

    # The greatest error allowed. A product of m + 1 factors is off by at most about m roundings;
    # tikgen allows the rounding of the result on top.
    @staticmethod
    def tolerance(p: Any, inputs: Mapping[str, Any], expected: Mapping[str, Any]) -> Any:
        return {"y": p.power * p.dtype.eps * np.abs(expected["y"])}

    # How many operations a launch does at least. What it moves through memory, and the sizes that
    # verification tries, follow from the arguments.
    def flops(self, p: Any, sizes: Mapping[str, int]) -> int:
        return sizes["n"] * p.power
'''


def scaffold(name: str, parent: Path) -> Path:
    """Make the folder of a new template in ``parent`` and return it.

    Raises:
        TemplateError: if ``name`` is no plain identifier or a keyword, or is taken, or if the
            folder exists or cannot be written.
    """
    if problem := _name_problem(name):
        raise TemplateError(name, problem)
    folder = parent / name
    if os.path.lexists(folder):
        raise TemplateError(name, f"{folder} exists already; nothing was changed")
    if name in catalogue.list_templates():
        raise TemplateError(name, "there is a template of that name already")
    class_name = "".join(word.capitalize() for word in name.split("_")) or name
    try:
        folder.mkdir(parents=True)
        for file, text in ((TEXT_NAME, _TEXT), (CODE_NAME, _CODE)):
            filled = text.replace("NAME", name).replace("CLASS", class_name)
            (folder / file).write_text(filled, encoding="utf-8")
    except OSError as error:
        raise TemplateError(name, f"cannot write {folder}: {why(error)}") from None
    return folder


def _name_problem(name: str) -> str:
    """Return why a template cannot have a name, or an empty string."""
    if keyword.iskeyword(name):
        return f"{name!r} is a keyword of Python; take another name"
    if name == "ti":
        return "'ti' is what generated code calls Taichi; take another name"
    try:
        Identifier.parse(name)
    except ValueError as error:
        takes = "it takes letters of ASCII, digits and underscores, and begins with a letter"
        return f"{error}; {takes}"
    return ""
