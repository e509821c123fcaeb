"""Commands about templates: list, describe, new."""

from __future__ import annotations

from inspect import cleandoc
from pathlib import Path
from typing import Annotated

import typer

from tikgen.cli.common import Json, Name, Params, Shape, request
from tikgen.cli.output import print_json, print_table, say, width
from tikgen.errors import TemplateError, TikgenError
from tikgen.template import catalogue
from tikgen.text_layout import reflow


def list_command(json: Json = False) -> None:
    """List the templates that can be built."""
    found = [{"name": name, "summary": _summary(name)} for name in catalogue.list_templates()]
    if json:
        print_json(found)
    else:
        print_table(("template", "what it computes"), [tuple(f.values()) for f in found])


def describe_command(
    name: Name, param: Params = None, shape: Shape = None, json: Json = False
) -> None:
    """Describe a template: what it computes, its parameters, its schedule on each arch."""
    from tikgen.lifecycle.description import describe

    name, asked = request(name, param, shape)
    description = describe(name, **asked)
    if json:
        print_json(description.to_dict())
        return
    say(description.name, style="bold")
    say(reflow(cleandoc(description.doc), width()))
    for kind, meaning in (
        ("problem", "decide what is computed"),
        ("schedule", "decide how fast, never what"),
    ):
        rows = [
            (info.name, description.default_of(info), info.type, info.meaning)
            for info in description.parameters
            if info.kind == kind
        ]
        if rows:
            say("")
            print_table(
                ("parameter", "default", "takes", "meaning"),
                rows,
                title=f"{kind} parameters: {meaning}",
            )
    if description.notes or description.sizes:
        say("")
    for note in description.notes:
        say(note)
    if description.sizes:
        say(f"shape takes: {', '.join(description.sizes)}")


def new_command(
    name: Annotated[str, typer.Argument(help="Name of the new template: a Python identifier.")],
    path: Annotated[Path, typer.Option(metavar="FOLDER", help="Parent of the new folder.")] = (
        Path()
    ),
) -> None:
    """Create a template folder that builds and verifies."""
    from tikgen.template.scaffold import scaffold

    if not path.is_dir():
        raise TemplateError(name, f"there is no folder {path} to write it into; make it first")
    folder = scaffold(name, path)
    shown = folder if folder.is_absolute() else f"./{folder}"
    for file in sorted(folder.iterdir()):
        say(f"wrote {file}")
    say(f"Try it:    tikgen build {shown}")
    say(f"Verify it: tikgen verify {shown}")


def _summary(name: str) -> str:
    try:
        return catalogue.find_template(name).summary
    except TikgenError as error:  # One broken template must not hide the others.
        return f"cannot be used: {error}"
