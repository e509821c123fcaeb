"""Writes what the documentation says about the code: docs/templates/ and docs/files.md.

``python docs/generate.py`` (or ``make docs``) does so; a test fails where a page is stale.
"""

from __future__ import annotations

import ast
import dataclasses
import textwrap
from pathlib import Path
from typing import Any

from tikgen import describe, render
from tikgen.lifecycle.description import Description
from tikgen.pipeline.builder import resolve
from tikgen.template.base import BUILTIN_FOLDER, TEXT_NAME
from tikgen.template.catalogue import find_template
from tikgen.template.parameters import ParameterInfo, canonical

DOCS = Path(__file__).parent
PACKAGE = DOCS.parent / "tikgen"

HEAD = """\
# Templates

A template is a folder of two files under [`templates/`](../../templates): the text of a kernel and
the declaration of its parameters. A *problem* parameter decides what is computed. A *schedule*
parameter decides how fast, and never changes the result beyond the tolerance of the verification.

| template | computes |
| --- | --- |
"""

TAIL = """
The default of a schedule parameter follows from problem, shape and arch. The tables on the pages
show those of the kernel that the page shows. `tikgen describe NAME` prints the same, with
what was tuned on your machine, and takes `-p` and `--shape`; `tikgen render NAME` prints the
text of a kernel, and `tikgen.list_templates()` returns all names. These pages are written from the
templates by `make docs`.
[Writing a template](../writing-templates.md) explains how to make your own.
"""

# The problem whose kernel a page shows.
SHOWN: dict[str, dict[str, Any]] = {
    "map": {"expr": "z = a*x + y"},
    "reduce": {"op": "sum"},
    "transpose": {"perm": (1, 0)},
    "spmv": {"format": "csr"},
    "scan": {"op": "sum"},
    "update": {"equations": "u' = u + a*lap(u)", "scalars": ("a",), "boundary": "periodic"},
    "ring": {
        "handler": "total = total + x",
        "inputs": {"x": "f32"},
        "outputs": {"total": "f32"},
        "state": ("total",),
    },
}
# The first words of the works in docs/performance.md that measure a template.
WORKS = {"map": ("copy", "axpy"), "reduce": ("sum", "dot")}


FILES_HEAD = """\
# Files

A line about every file of `tikgen/`, room by room; a room imports only rooms above it. This page is
written from the files themselves by `make docs`; [Architecture](architecture.md) explains rooms.
"""


def pages() -> dict[Path, str]:
    """Return the text that each written page must have."""
    found = {DOCS / "templates" / f"{name}.md": template_page(name) for name in template_names()}
    return {DOCS / "templates" / "index.md": index_page(), DOCS / "files.md": files_page(), **found}


def template_names() -> list[str]:
    """Return the names of the built-in templates."""
    return sorted(path.parent.name for path in BUILTIN_FOLDER.glob(f"*/{TEXT_NAME}"))


def index_page() -> str:
    """Return the page that lists the built-in templates."""
    rows = [
        f"| [`{name}`]({name}.md) | {_plain(find_template(name).summary)} |"
        for name in template_names()
    ]
    return HEAD + "\n".join(rows) + "\n" + TAIL


def template_page(name: str) -> str:
    """Return the page about a built-in template."""
    parts = [_section(name), *_kernels(name), *_speed(name)]
    return "\n".join(parts).rstrip() + "\n"


def _kernels(name: str) -> list[str]:
    """Return the lines that show a rendered kernel for the processor, and one for a GPU."""
    problem = SHOWN.get(name, {})
    call = ", ".join([f'"{name}"', *(f"{key}={value!r}" for key, value in problem.items())])
    call = call.replace("'", '"')
    shown = f"`tikgen.build({call})` on cpu, with its default schedule:\n"
    parts = ["## A rendered kernel\n", shown]
    for arch in ("cpu", "cuda"):
        text = render(name, arch=arch, schedule={}, **problem).text.rstrip()
        block = f"```python\n{text}\n```\n"
        if arch == "cuda":
            head = '<details markdown="1"><summary>The same on cuda</summary>\n'
            block = f"{head}\n{block}\n</details>\n"
        parts.append(block)
    return parts


def _speed(name: str) -> list[str]:
    """Return the lines with the rows about a template in the tables of docs/performance.md."""
    works = WORKS.get(name, (name,))
    parts = []
    page = (DOCS / "performance.md").read_text(encoding="utf-8")
    for run in page.partition("\n## The core\n")[0].split("\n### ")[1:]:
        title, _, rest = run.partition("\n")
        tables = [part.split("\n") for part in rest.split("\n\n") if part.startswith("| work")]
        # On lavapipe a processor plays a GPU: that says nothing about speed.
        for table in tables if "lavapipe" not in title else ():
            rows = [row for row in table[2:] if row[2:].startswith(works)]
            if rows and "share of the limit" in table[0]:
                parts += [f"{title}:\n", *table[:2], *rows, ""]
    if not parts:
        return []
    head = (
        "Times of others as multiples of the time of tikgen, measured in turn in one process; \n"
        "[Performance](../performance.md) names the machines and explains the columns.\n"
    ).replace(" \n", "\n")
    return ["## Its speed\n", head, *parts]


def _section(name: str) -> str:
    """Return what a template declares: what it computes and its parameters."""
    description = _described(name)
    head, _, rest = description.doc.partition("\n")
    parts = [f"# {name}\n", _plain("\n".join([head, textwrap.dedent(rest)]).strip()), ""]
    for kind in ("problem", "schedule"):
        infos = [info for info in description.parameters if info.kind == kind]
        if infos:
            parts.append(f"## {kind.capitalize()} parameters\n")
            parts.append(f"| {kind} parameter | default | takes | meaning |\n|{' --- |' * 4}")
            parts += [_row(info, description.default_of(info)) for info in infos]
            parts.append("")
    if description.sizes:
        sizes = ", ".join(f"`{size}`" for size in description.sizes)
        parts.append(f"`shape` takes, by default: {sizes}.\n")
    parts.append(f"Files: [`templates/{name}`](../../templates/{name})\n")
    return "\n".join(parts)


def _described(name: str) -> Description:
    """Return the description of a template, with the schedules that hold where nothing is tuned."""
    problem = SHOWN.get(name, {})
    description = describe(name, **problem)
    variants = {
        arch: resolve(name, schedule={}, arch=arch, **problem) for arch in description.schedules
    }
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
        page.parent.mkdir(exist_ok=True)
        page.write_text(text, encoding="utf-8")
