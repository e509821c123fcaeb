"""Commands about what becomes of a kernel: ir, why."""

from __future__ import annotations

import sys
from enum import Enum
from typing import Annotated

import typer

from tikgen.cli.options import Arch, Json, Name, Params, Shape, parse_shape, template_name
from tikgen.cli.output import print_code, print_json, say
from tikgen.template.literals import parse_params


class Kind(str, Enum):
    """What there is to show of a kernel."""

    python = "python"
    ast = "ast"
    chi = "chi"
    llvm = "llvm"
    llvm_optimized = "llvm-optimized"
    asm = "asm"
    spirv = "spirv"
    ptx = "ptx"


def register(app: typer.Typer) -> None:
    """Add the commands to ``app``."""
    app.command("ir")(ir_command)
    app.command("why")(why_command)


def ir_command(
    name: Name,
    kind: Annotated[
        Kind, typer.Argument(help="What to show; spirv is there on vulkan, ptx on cuda.")
    ],
    param: Params = None,
    arch: Annotated[Arch, typer.Option(help="Arch to compile for.")] = Arch.cpu,
    shape: Shape = None,
) -> None:
    """Print what a kernel is at a stage of its compilation, from Python to machine code."""
    from tikgen.lifecycle.ir import ir_of
    from tikgen.pipeline.builder import build

    name = template_name(name)
    sizes = parse_shape(name, shape)
    kernel = build(name, arch=arch.value, shape=sizes, **parse_params(name, param))
    text = ir_of(kernel, kind.value, arch=arch.value)
    if kind is Kind.python:
        print_code(text)
    else:
        sys.stdout.write(text)


def why_command(
    name: Name,
    param: Params = None,
    arch: Annotated[Arch, typer.Option(help="Arch whose default schedule is taken.")] = Arch.cpu,
    shape: Shape = None,
    json: Json = False,
) -> None:
    """Tell why a kernel would be built: what differs from the nearest one that the store knows."""
    from tikgen.lifecycle.cause import why

    name = template_name(name)
    sizes = parse_shape(name, shape)
    cause = why(name, arch=arch.value, shape=sizes, **parse_params(name, param))
    if json:
        print_json({"text": str(cause), "differences": [d._asdict() for d in cause.differences]})
    else:
        say(str(cause))
