"""What commands have in common: names of templates, parameters, archs."""

from __future__ import annotations

import importlib.util
import os
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import typer

from tikgen.cli import completion
from tikgen.errors import ParameterError, TemplateError, TikgenError, UnknownTemplate
from tikgen.template import catalogue
from tikgen.template.base import TEXT_NAME
from tikgen.template.literals import parse_literal

PICTURES = (".png", ".pdf", ".svg", ".jpg")


class Arch(str, Enum):
    """The archs that a command may run on."""

    cpu = "cpu"
    cuda = "cuda"
    vulkan = "vulkan"


Name = Annotated[
    str,
    typer.Argument(
        help="Name of a template, or path of a template folder such as ./mine.",
        autocompletion=completion.templates,
    ),
]
Params = Annotated[
    list[str] | None,
    typer.Option(
        "-p",
        "--param",
        metavar="NAME=VALUE",
        help="A parameter, such as -p dim=3 -p dtype=f32 -p 'points={(0, 0, 1): 0.5}'; "
        "give the option once for each.",
        autocompletion=completion.parameters,
    ),
]
Shape = Annotated[
    str | None,
    typer.Option(
        metavar="N,N,...",
        help="Sizes to bake into the kernel, such as --shape 200,200,200 or --shape rows=9,cols=7.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for a program to read.")]


def template_name(name: str) -> str:
    """Return the name of the template that ``name`` means, and make sure it can be found.

    Raises:
        UnknownTemplate: if there is none; names the folder of that name, if it is a template.
        TemplateError: if the folder is not a template.
    """
    if os.sep not in name and "/" not in name:
        try:
            return catalogue.find_template(name).name
        except UnknownTemplate as error:
            if not Path(name, TEXT_NAME).is_file():
                raise
            problem = f"is no template that is known; there is a folder of that name: ./{name}"
            raise TemplateError(name, problem) from error
    folder = Path(name).expanduser().resolve()
    if not folder.is_dir():
        raise TemplateError(name, "there is no such folder")
    if not (folder / TEXT_NAME).is_file():
        raise TemplateError(name, f"the folder holds no {TEXT_NAME}")
    # Through the environment, so that processes which verification starts find it as well.
    paths = [str(folder.parent), os.environ.get(catalogue.ENVIRONMENT_VARIABLE, "")]
    os.environ[catalogue.ENVIRONMENT_VARIABLE] = os.pathsep.join(filter(None, paths))
    return catalogue.load_template(folder).name


def parse_shape(template: str, text: str | None) -> Any:
    """Return a shape from a text such as ``200,200,200`` or ``rows=9,cols=7``, or None.

    Raises:
        ParameterError: if some sizes have names and others have none, or one is given twice.
    """
    if text is None:
        return None
    parts = [part.strip() for part in text.split(",") if part.strip()]
    named = [part.partition("=") for part in parts]
    if not any(equals for _, equals, _ in named):
        return tuple(parse_literal(part) for part in parts)
    sizes = {name.strip(): parse_literal(value.strip()) for name, equals, value in named if equals}
    if len(sizes) < len(parts):  # Some have no name, or one has two sizes.
        problem = f"takes 200,200,200 or n0=200,n1=200,n2=200; got {text}"
        raise ParameterError(template, {"shape": problem})
    return sizes


def one_or_all(template: str, text: str) -> Any:
    """Return a shape; a single number stands for the size of every axis."""
    shape = parse_shape(template, text)
    return shape[0] if isinstance(shape, tuple) and len(shape) == 1 else shape


def check_picture(path: Path | None) -> None:
    """Raise where a picture cannot be written, before anything is measured."""
    if path is None:
        return
    if not path.absolute().parent.is_dir():
        raise typer.BadParameter(f"cannot write {path}: {path.parent} is not a folder")
    if path.suffix not in PICTURES:
        raise typer.BadParameter(f"cannot write {path}: name a {', '.join(PICTURES)} file")
    if importlib.util.find_spec("matplotlib") is None:
        raise TikgenError("Pictures need matplotlib: pip install 'tikgen[plot]'.")
