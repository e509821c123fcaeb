"""The sdist, the wheel built from it, and what that wheel does where it is installed."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

import tikgen

ROOT = Path(__file__).parents[2]
TEMPLATE_FILES = sorted(
    path.relative_to(ROOT).as_posix()
    for path in (ROOT / "templates").rglob("*")
    if path.suffix in (".j2", ".py")
)


def run(*command: str, **environment: str) -> str:
    done = subprocess.run(
        command,
        cwd=environment.pop("cwd", ROOT),
        env=os.environ | environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the sdist, and the wheel out of the sdist."""
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder))
    return folder


@pytest.fixture(scope="module")
def wheel(dist: Path) -> Path:
    return next(dist.glob("*.whl"))


def test_sdist_holds_what_a_packager_needs(dist: Path) -> None:
    with tarfile.open(next(dist.glob("*.tar.gz"))) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    wanted = {"pyproject.toml", "LICENSE", "README.md", "Makefile", "tikgen/__init__.py"}
    wanted |= {"SECURITY.md", "CITATION.cff", "mkdocs.yml", "docs/public-api.md"}
    assert wanted | set(TEMPLATE_FILES) | {"tests/conftest.py"} <= names


def test_wheel_holds_the_templates_inside_the_package(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {f"tikgen/{name}" for name in TEMPLATE_FILES} <= names
    assert "tikgen/py.typed" in names
    assert {name.split("/")[0] for name in names if ".dist-info" not in name} == {"tikgen"}
    assert not [name for name in names if "__pycache__" in name]


def test_wheel_from_the_sdist_equals_the_wheel_from_the_tree(wheel: Path, tmp_path: Path) -> None:
    run(sys.executable, "-m", "build", "--no-isolation", "--wheel", "--outdir", str(tmp_path))
    direct = next(tmp_path.glob("*.whl"))
    assert zipfile.ZipFile(direct).namelist() == zipfile.ZipFile(wheel).namelist()


def test_metadata(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        read = {Path(name).name: name for name in archive.namelist() if ".dist-info" in name}
        metadata = Parser().parsestr(archive.read(read["METADATA"]).decode())
        entry_points = archive.read(read["entry_points.txt"]).decode()
    extras = {
        "verify",
        "plot",
        "optuna",
        "pandas",
        "dask",
        "live",
        "fast",
        "cuda",
        "notebook",
        "torch",
        "gpu",
        "sympy",
        "hdf5",
        "mpi",
        "bench",
        "dev",
        "docs",
        "all",
    }
    assert metadata["Version"] == tikgen.__version__
    assert extras == set(metadata.get_all("Provides-Extra", []))
    assert "tikgen = tikgen.cli:main" in entry_points
    assert any(r.startswith("taichi<1.8,>=1.7.4") for r in metadata.get_all("Requires-Dist", []))


def test_twine_accepts_both(dist: Path) -> None:
    if importlib.util.find_spec("twine") is None and os.environ.get("CI") != "true":
        pytest.skip("twine is not installed")
    files = sorted(str(path) for path in dist.iterdir())
    assert len(files) == 2
    run(sys.executable, "-m", "twine", "check", "--strict", *files)


def test_installed_wheel_finds_and_builds_its_templates(wheel: Path, tmp_path: Path) -> None:
    target = tmp_path / "site"
    options = ("--quiet", "--no-deps", "--no-index", "--target", str(target))
    run(sys.executable, "-m", "pip", "install", *options, str(wheel))
    program = "import tikgen; print(tikgen.__file__, *tikgen.list_templates(), sep='\\n')"
    program += "\nprint(tikgen.build('stencil', dim=2).digest)"
    printed = run(
        sys.executable, "-c", program, PYTHONPATH=str(target), cwd=str(tmp_path)
    ).splitlines()
    # Taichi prints lines of its own now and then.
    first = printed.index(str(target / "tikgen" / "__init__.py")) + 1
    last = first + len(template_names())
    assert printed[first:last] == template_names()
    assert len(printed[last]) == 64


def test_a_tree_that_was_never_installed_knows_its_version(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "tikgen", tmp_path / "tikgen")
    shutil.copytree(ROOT / "templates", tmp_path / "templates")
    program = (
        "import importlib.metadata as metadata\n"
        "real = metadata.distribution\n"
        "def distribution(name):\n"
        "    if name == 'tikgen':\n"
        "        raise metadata.PackageNotFoundError(name)\n"
        "    return real(name)\n"
        "metadata.distribution = distribution\n"
        "import tikgen\n"
        "print(tikgen.__file__, tikgen.__version__, sep='\\n')\n"
        "tikgen.build('stencil', dim=2)\n"
    )
    printed = run(sys.executable, "-c", program, PYTHONPATH=str(tmp_path), cwd=str(tmp_path))
    told = [str(tmp_path / "tikgen" / "__init__.py"), tikgen.__version__]
    assert printed.splitlines()[-2:] == told


def template_names() -> list[str]:
    return sorted(Path(name).parent.name for name in TEMPLATE_FILES if name.endswith("py.j2"))
