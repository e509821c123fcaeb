"""What commands share: their common arguments and options, and how these are read."""

from __future__ import annotations

import os
from collections.abc import Sequence
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import typer

from tikgen.cli import shell_completion
from tikgen.disk import whole, why
from tikgen.errors import ParameterError, TemplateError, TikgenError, UnknownTemplate
from tikgen.template import catalogue
from tikgen.template.base import TEXT_NAME
from tikgen.template.literals import parse_literal, parse_params

PICTURES = (".png", ".pdf", ".svg", ".jpg")


class Arch(str, Enum):
    """The archs that a command may run on."""

    cpu = "cpu"
    cuda = "cuda"
    vulkan = "vulkan"


class Engine(str, Enum):
    """What launches kernels."""

    default = "default"
    taichi = "taichi"
    direct_cpu = "direct-cpu"
    direct_cuda = "direct-cuda"


Name = Annotated[
    str,
    typer.Argument(
        help="Name of a template, or path of a template folder such as ./mine.",
        autocompletion=shell_completion.templates,
    ),
]
Params = Annotated[
    list[str] | None,
    typer.Option(
        "-p",
        "--param",
        metavar="NAME=VALUE",
        help="A parameter, such as -p dim=3 -p dtype=f32 -p 'points={(0, 0, 1): 0.5}'. Repeatable.",
        autocompletion=shell_completion.parameters,
    ),
]
Shape = Annotated[
    str | None,
    typer.Option(
        metavar="N,N,...",
        help="Sizes to bake into the kernel, such as --shape 200,200,200 or --shape rows=9,cols=7.",
    ),
]
# Named, since typer 0.27 takes a metavar that equals the name for the name.
RunArch = Annotated[Arch, typer.Option("--arch", metavar="ARCH", help="cpu, cuda or vulkan.")]
RunArchs = Annotated[
    list[Arch] | None,
    typer.Option("--arch", metavar="ARCH", help="cpu, cuda or vulkan. Repeatable."),
]
ScheduleArch = Annotated[
    Arch,
    typer.Option(
        "--arch", metavar="ARCH", help="Arch whose schedule is used: cpu, cuda or vulkan."
    ),
]
Output = Annotated[
    Path | None,
    typer.Option("-o", "--output", metavar="FILE", help="File to write instead of printing."),
]
Force = Annotated[bool, typer.Option("--force", help="Overwrite a file that holds something else.")]
Picture = Annotated[Path | None, typer.Option(metavar="FILE", help="Picture to write.")]
Seed = Annotated[int | None, typer.Option(min=0, metavar="N", help="Seed of the random data.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def request(
    name: str, param: Sequence[str] | None, shape: str | None = None
) -> tuple[str, dict[str, Any]]:
    """Return the name of a template, and its parameters and shape as `build` takes them."""
    name = template_name(name)
    sizes = {} if shape is None else {"shape": parse_shape(name, shape)}
    return name, sizes | parse_params(name, param)


def template_name(name: str) -> str:
    """Return the name of a template that is given by name or by folder."""
    if os.sep not in name and "/" not in name:
        try:
            return catalogue.find_template(name).name
        except UnknownTemplate as error:
            if not Path(name, TEXT_NAME).is_file():
                raise
            problem = f"is not a known template; there is a folder of that name: ./{name}"
            raise TemplateError(name, problem) from error
    folder = Path(name).expanduser().resolve()
    if not folder.is_dir():
        raise TemplateError(name, "there is no such folder")
    if not (folder / TEXT_NAME).is_file():
        raise TemplateError(name, f"the folder holds no {TEXT_NAME}")
    # Through the environment, so that child processes find it as well.
    paths = [str(folder.parent), os.environ.get(catalogue.ENVIRONMENT_VARIABLE, "")]
    os.environ[catalogue.ENVIRONMENT_VARIABLE] = os.pathsep.join(filter(None, paths))
    return catalogue.load_template(folder).name


def parse_shape(template: str, text: str) -> Any:
    """Return a shape from a text such as ``200,200,200`` or ``rows=9,cols=7``."""
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
    """Return a shape; a single number is the size of every axis."""
    shape = parse_shape(template, text)
    return shape[0] if isinstance(shape, tuple) and len(shape) == 1 else shape


def check_file(path: Path | None, endings: Sequence[str]) -> None:
    """Refuse a file that cannot be written, before any work is done."""
    if path is None:
        return
    if path.suffix not in endings:
        raise typer.BadParameter(f"cannot write {path}: name a {', '.join(endings)} file")
    if not path.absolute().parent.is_dir():
        raise typer.BadParameter(f"cannot write {path}: {path.parent} is not a folder")


def check_picture(path: Path | None) -> None:
    """Refuse a picture that cannot be written, before anything is measured."""
    check_file(path, PICTURES)
    if path is not None:
        from tikgen.tuning import pictures

        pictures.drawing()  # A package that is there may not be importable.


def write_text(path: Path, text: str, force: bool) -> None:
    """Write a text that the user may go on editing into a file that the user named.

    Raises:
        TikgenError: if the file holds something else and ``force`` is not set, or cannot be
            written.
    """
    data = text.encode()
    try:
        if not force and path.is_file() and path.read_bytes() not in (b"", data):
            raise TikgenError(
                f"{path} exists and holds something else; nothing was written. "
                "Name another file, or pass --force to overwrite it."
            )
        with whole(path) as new:
            new.write_bytes(data)
    except OSError as error:
        raise TikgenError(f"Cannot write {path}: {why(error)}.") from error
