"""Writes what the documentation says about the code: docs/templates.md, and the list of files.

``python docs/generate.py`` (or ``make docs``) does so; a test fails where a page is stale.
"""

from __future__ import annotations

import ast
import dataclasses
import graphlib
import textwrap
from collections.abc import Iterator
from pathlib import Path

from tikgen import describe
from tikgen.builder import resolve
from tikgen.catalogue import find_template
from tikgen.description import Description
from tikgen.parameters import ParameterInfo, canonical
from tikgen.template import BUILTIN_FOLDER, TEXT_NAME

DOCS = Path(__file__).parent
PACKAGE = DOCS.parent / "tikgen"
BEGIN, END = "<!-- house: begin -->", "<!-- house: end -->"

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


def pages() -> dict[Path, str]:
    """Return the text that each written page must have."""
    architecture = DOCS / "architecture.md"
    before, _, rest = architecture.read_text(encoding="utf-8").partition(BEGIN)
    after = rest.partition(END)[2]
    listing = "\n".join([BEGIN, "", "```text", *house(), "```", "", END])
    return {DOCS / "templates.md": templates_page(), architecture: before + listing + after}


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


def house() -> Iterator[str]:
    """Yield a line for each file of the package; a file imports only files above it.

    Raises:
        graphlib.CycleError: if files import each other in a circle.
    """
    sorter = graphlib.TopologicalSorter({unit: _imports(unit) for unit in _units()})
    sorter.prepare()
    while sorter.is_active():
        ready = sorted(sorter.get_ready())
        for unit in ready:
            path = PACKAGE / unit
            if path.is_dir():
                yield from _folder(path, "")
            else:
                yield _line(f"{unit}.py", path.with_suffix(".py"))
        sorter.done(*ready)


def _folder(path: Path, indent: str) -> Iterator[str]:
    """Yield a line for a subpackage and each file in it, files before folders."""
    yield _line(f"{indent}{path.name}/", path / "__init__.py")
    inner = (file for file in path.glob("*.py") if file.name != "__init__.py")
    yield from (_line(f"{indent}    {file.name}", file) for file in sorted(inner))
    for folder in sorted(path.glob("*/__init__.py")):
        yield from _folder(folder.parent, f"{indent}    ")


def _line(shown: str, path: Path) -> str:
    doc = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return f"{shown:<22} {' '.join(doc.partition(chr(10) * 2)[0].split())}"


def _units() -> set[str]:
    """Return the names of the package's modules and subpackages."""
    modules = {path.stem for path in PACKAGE.glob("*.py")}
    return modules | {path.parent.name for path in PACKAGE.glob("*/__init__.py")}


def _imports(unit: str) -> set[str]:
    """Return the units that ``unit`` imports as it is loaded itself."""
    path = PACKAGE / unit
    files = sorted(path.rglob("*.py")) if path.is_dir() else [path.with_suffix(".py")]
    found: set[str] = set()
    for file in files:
        for node in ast.parse(file.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ImportFrom) and node.module == "tikgen":
                found |= {alias.name for alias in node.names if alias.name in _units()}
            elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tikgen."):
                found.add(str(node.module).split(".")[1])
    return found - {unit}


if __name__ == "__main__":
    for page, text in pages().items():
        page.write_text(text, encoding="utf-8")
