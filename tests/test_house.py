"""The rules of the house that a machine can check; docs/architecture.md says why they exist."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import tikgen

PACKAGE = Path(tikgen.__file__).parent
FILES = sorted(p for p in PACKAGE.rglob("*.py") if "templates" not in p.relative_to(PACKAGE).parts)
BRIDGE = PACKAGE / "taichi_bridge.py"
BRIDGES = (BRIDGE, PACKAGE / "taichi_functions.py")


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_only_the_bridge_touches_private_names_of_taichi(path: Path) -> None:
    if path in BRIDGES:
        return
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom | ast.Import):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            names += [alias.name for alias in node.names]
            assert not any(n.startswith("taichi.") for n in names), ast.unparse(node)
        elif isinstance(node, ast.Attribute):
            assert node.attr not in {"_primal", "_adjoint", "pytaichi", "lang", "_lib"}, (
                f"line {node.lineno}: {ast.unparse(node)}"
            )


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_files_stay_near_400_lines(path: Path) -> None:
    most = 960 if path == BRIDGE else 440  # All private names of Taichi stand in one file.
    assert len(path.read_text().splitlines()) <= most


def test_the_core_uses_nothing_that_stands_above_it() -> None:
    above = {
        "aot",
        "cli",
        "demo",
        "doctor",
        "heat",
        "heat_picture",
        "ring",
        "scaffold",
        "stages",
        "tuning",
        "verification",
    }
    above |= {"__init__", "__main__"}
    core = [p for p in FILES if p.parent == PACKAGE and p.stem not in above]
    for path in core:
        for module in imported(path):
            assert module.partition(".")[0] not in above, f"{path.name} imports {module}"


def imported(path: Path) -> list[str]:
    """Return what a file imports from tikgen, within functions as well, less the ``tikgen.``."""
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module == "tikgen":
            found += [f"tikgen.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path.name}: {ast.unparse(node)}"
            found.append(node.module or "")
    return [name.removeprefix("tikgen.") for name in found if name.startswith("tikgen.")]


def test_everything_public_has_a_docstring() -> None:
    for name in tikgen.__all__:
        value = getattr(tikgen, name)
        assert isinstance(value, str) or (value.__doc__ or "").strip(), name
