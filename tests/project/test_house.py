"""The rules of the house that a machine can check; docs/architecture.md says why they exist."""

from __future__ import annotations

import ast
import functools
import graphlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import tikgen
from tikgen.template.base import BUILTIN_FOLDER

PACKAGE = Path(tikgen.__file__).parent
DOCS = Path(__file__).parents[2] / "docs"
FILES = sorted(
    path
    for path in PACKAGE.rglob("*.py")
    if "templates" not in path.relative_to(PACKAGE).parts and path.name != "template.py"
)
MOST_LINES = 440
# A method of a kernel returns what a higher room makes; annotations name its type.
NAMED_BY_ANNOTATIONS = {
    ("pipeline.kernel", "lifecycle.trace"),
    ("pipeline.kernel", "tuning.result"),
}


def rooms() -> list[str]:
    """Return the rooms in the order in which they may import each other, the lowest first."""
    page = (DOCS / "architecture.md").read_text(encoding="utf-8")
    listed = re.search(r"<!-- rooms: begin -->\n+```text\n(.*?)```", page, re.DOTALL)
    assert listed is not None
    return [line.split()[0].rstrip("/") for line in listed[1].splitlines() if line[:1].strip()]


def module_of(path: Path) -> str:
    """Return the dotted name of a file, less the ``tikgen.``; that of the package is ``tikgen``."""
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(part for part in parts if part != "__init__") or "tikgen"


MODULES = {module_of(path): path for path in FILES}


@functools.cache
def nodes_of(module: str) -> tuple[ast.AST, ...]:
    """Return the nodes of the syntax tree of a module."""
    return tuple(ast.walk(ast.parse(MODULES[module].read_text(encoding="utf-8"))))


def imported(importer: str) -> Iterator[str]:
    """Yield the modules of tikgen that a file imports, within functions and for types as well."""
    for node in nodes_of(importer):
        if isinstance(node, ast.Import):
            found = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{importer}: {ast.unparse(node)}"
            found = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in found:
            if name == "tikgen" or name.startswith("tikgen."):
                module = name.removeprefix("tikgen.")
                while module not in MODULES:
                    module = module.rpartition(".")[0] or "tikgen"
                yield module


@functools.cache
def imports() -> dict[str, set[str]]:
    """Return what each module imports of the others."""
    return {
        module: {other for other in imported(module) if (module, other) not in NAMED_BY_ANNOTATIONS}
        - {module}
        for module in MODULES
    }


def room_of(module: str) -> str:
    """Return the room of a module: its first part."""
    return module.partition(".")[0]


def test_the_list_of_rooms_names_each_of_them_once() -> None:
    assert sorted(rooms()) == sorted({room_of(module) for module in MODULES})


def test_imports_point_one_way_between_rooms() -> None:
    order = rooms()
    upward = [
        f"{module} imports {other}, whose room stands above"
        for module, others in imports().items()
        for other in others
        if order.index(room_of(other)) > order.index(room_of(module))
    ]
    assert not upward


def test_no_files_import_each_other_in_a_circle() -> None:
    try:
        graphlib.TopologicalSorter(imports()).prepare()
    except graphlib.CycleError as error:
        pytest.fail(" imports ".join(reversed(error.args[1])))


def is_private_of_taichi(node: ast.AST) -> bool:
    """Tell whether a node names what Taichi does not promise to keep."""
    if isinstance(node, ast.ImportFrom | ast.Import):
        names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        return any(n.startswith("taichi.") for n in (*names, *(a.name for a in node.names)))
    private = {"_primal", "_adjoint", "pytaichi", "lang", "_lib"}
    return isinstance(node, ast.Attribute) and node.attr in private


def test_only_one_room_touches_private_names_of_taichi() -> None:
    found = {
        module: [ast.unparse(node) for node in nodes_of(module) if is_private_of_taichi(node)]
        for module in MODULES
    }
    assert any(found[module] for module in MODULES if room_of(module) == "taichi")
    assert not {m: named for m, named in found.items() if named and room_of(m) != "taichi"}


def test_one_file_makes_consoles() -> None:
    making = re.compile(r"\bConsole\(|from_markup\(|rich import print|get_console\(")
    found = {m for m, path in MODULES.items() if making.search(path.read_text(encoding="utf-8"))}
    assert found == {"consoles"}  # Others may print :x: as a picture.


def test_files_stay_near_400_lines() -> None:
    lengths = {
        module: len(path.read_text(encoding="utf-8").splitlines())
        for module, path in MODULES.items()
    }
    assert not {module: length for module, length in lengths.items() if length > MOST_LINES}


def test_python_files_of_templates_stay_near_400_lines() -> None:
    paths = list(BUILTIN_FOLDER.glob("*/*.py"))
    lengths = {str(path): len(path.read_text(encoding="utf-8").splitlines()) for path in paths}
    assert paths
    assert not {path: length for path, length in lengths.items() if length > MOST_LINES}


def test_test_files_have_at_most_500_lines() -> None:
    paths = Path(__file__).parents[1].rglob("*.py")
    lengths = {path.name: len(path.read_text(encoding="utf-8").splitlines()) for path in paths}
    assert not {name: length for name, length in lengths.items() if length > 500}


def test_everything_public_has_a_docstring() -> None:
    for name in tikgen.__all__:
        value = getattr(tikgen, name)
        assert isinstance(value, str) or (value.__doc__ or "").strip(), name
