"""Writes what the documentation says about the code: docs/templates.md and docs/files.md.

``python docs/generate.py`` (or ``make docs``) does so; a test fails where a page is stale.
"""

from __future__ import annotations

import ast
import dataclasses
import textwrap
from pathlib import Path

from tikgen import describe
from tikgen.lifecycle.description import Description
from tikgen.pipeline.builder import resolve
from tikgen.template.base import BUILTIN_FOLDER, TEXT_NAME
from tikgen.template.catalogue import find_template
from tikgen.template.parameters import ParameterInfo, canonical

DOCS = Path(__file__).parent
PACKAGE = DOCS.parent / "tikgen"

HEAD = """\
# The templates

This page is written from the templates themselves by `make docs`. Every template is a folder of
two files under [`templates/`](../templates). A *problem* parameter decides what is computed; a
*schedule* parameter decides how fast, and never changes the result beyond the tolerance of the
verification. The default of a schedule parameter follows from problem, shape and arch; the tables
show those of the default problem, where there is one. `tikgen describe NAME` prints the same, with
what was tuned on your machine, and takes `-p` and `--shape`; `tikgen render NAME` prints the
kernel's text.
"""


FILES_HEAD = """\
# Files

A line about every file of `tikgen/`, room by room; a room imports only rooms above it. This page is
written from the files themselves by `make docs`; [Architecture](architecture.md) explains rooms.
"""


def pages() -> dict[Path, str]:
    """Return the text that each written page must have."""
    return {DOCS / "templates.md": templates_page(), DOCS / "files.md": files_page()}


def templates_page() -> str:
    """Return the page about every built-in template."""
    names = sorted(path.parent.name for path in BUILTIN_FOLDER.glob(f"*/{TEXT_NAME}"))
    index = "\n".join(
        f"- [`{name}`](#{name}): {_plain(find_template(name).summary)}" for name in names
    )
    return "\n".join([HEAD, index, "", *map(_section, names)]).rstrip() + "\n"


def _section(name: str) -> str:
    description = _described(name)
    head, _, rest = description.doc.partition("\n")
    parts = [f"## {name}\n", _plain("\n".join([head, textwrap.dedent(rest)]).strip()), ""]
    for kind in ("problem", "schedule"):
        infos = [info for info in description.parameters if info.kind == kind]
        if infos:
            parts.append(f"| {kind} parameter | default | takes | meaning |\n|{' --- |' * 4}")
            parts += [_row(info, description.default_of(info)) for info in infos]
            parts.append("")
    if description.sizes:
        sizes = ", ".join(f"`{size}`" for size in description.sizes)
        parts.append(f"`shape` takes, by default: {sizes}.\n")
    parts.append(f"Files: [`templates/{name}`](../templates/{name})\n")
    return "\n".join(parts)


def _described(name: str) -> Description:
    """Return the description of a template, with the schedules that hold where nothing is tuned."""
    description = describe(name)
    if description.missing:
        return description
    variants = {arch: resolve(name, schedule={}, arch=arch) for arch in description.schedules}
    schedules = {
        arch: {key: canonical(value) for key, value in variant.schedule}
        for arch, variant in variants.items()
    }
    return dataclasses.replace(description, schedules=schedules)


def _row(info: ParameterInfo, default: str) -> str:
    if default and default != "required":
        default = f"`{default}`"
    cells = (f"`{info.name}`", default, _plain(info.type), _plain(info.meaning))
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _plain(text: str) -> str:
    """Return ``text`` with asterisks escaped, except in code."""
    parts = text.split("`")
    parts[::2] = [part.replace("*", "\\*") for part in parts[::2]]
    return "`".join(parts)


def files_page() -> str:
    """Return the page with a line about every file, room by room in the order of imports."""
    parts = [FILES_HEAD]
    for room in rooms():
        path = PACKAGE / room
        if path.is_dir():
            lines = [_line(file.relative_to(path).as_posix(), file) for file in _files_of(path)]
            parts.append(f"## {room}\n\n{_doc(path / '__init__.py')}\n")
            parts.append("\n".join(["```text", *lines, "```", ""]))
    single = [PACKAGE / f"{room}.py" for room in rooms() if (PACKAGE / f"{room}.py").is_file()]
    lines = [_line(path.name, path) for path in single]
    parts.insert(1, "\n".join(["## Single files\n", "```text", *lines, "```", ""]))
    return "\n".join(parts)


def rooms() -> list[str]:
    """Return the rooms in the order in which they import each other."""
    text = (DOCS / "architecture.md").read_text(encoding="utf-8")
    listed = text.partition("<!-- rooms: begin -->")[2].partition("<!-- rooms: end -->")[0]
    lines = [line for line in listed.splitlines() if line[:1].strip() and line[0] != "`"]
    return [line.split()[0].rstrip("/") for line in lines]


def _files_of(folder: Path) -> list[Path]:
    """Return the files of a room that say something about themselves, those of subfolders last."""
    files = [file for file in folder.rglob("*.py") if file.name != "__init__.py"]
    return sorted(files, key=lambda file: (len(file.parts), file.parts))


def _line(shown: str, path: Path) -> str:
    return f"{shown:<28} {_doc(path)}"


def _doc(path: Path) -> str:
    """Return the first paragraph that a file says about itself."""
    doc = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return " ".join(doc.partition("\n\n")[0].split())


if __name__ == "__main__":
    for page, text in pages().items():
        page.write_text(text, encoding="utf-8")
