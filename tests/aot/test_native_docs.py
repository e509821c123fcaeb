"""The programs on the page about native bundles, in Python and C, run as printed."""

import re
import shlex
import sys
from pathlib import Path

import pytest

from conftest import ARCH
from test_aot_c import run, tool

on_cpu = pytest.mark.skipif(ARCH != "cpu", reason="native bundles are for processors")
pytestmark = [pytest.mark.once, on_cpu]
pytest.importorskip("llvmlite", reason="llvmlite is an extra: pip install tikgen[fast]")

PAGE = (Path(__file__).parents[2] / "docs" / "native.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
PYTHON, PLAIN, COMMANDS, OPENMP = (text for _, text in BLOCKS)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder in which the page's Python ran, and exported its bundle."""
    tool("gcc")
    made = tmp_path_factory.mktemp("page")
    (made / "page.py").write_text(PYTHON.replace("max_examples=3", "max_examples=1"))
    printed = run(sys.executable, "page.py", cwd=made).splitlines()
    wanted = re.findall(r"^print\(.*\)  # (.*)$", PYTHON, re.MULTILINE)
    assert [line for line in printed if not line.startswith("[Taichi]")] == wanted
    return made


@pytest.mark.some
@pytest.mark.parametrize("number", range(COMMANDS.count("$ gcc")))
def test_the_program_in_c_runs_as_printed(number: int, folder: Path) -> None:
    (folder / "main.c").write_text(PLAIN)
    run("sh", "-c", COMMANDS.split("$ ")[number + 1], cwd=folder)
    assert run(folder / "program") == "0.1 0.6\n"


def test_the_program_with_openmp_runs_as_printed(folder: Path) -> None:
    (folder / "openmp.c").write_text(OPENMP)
    command = "gcc openmp.c -fopenmp -Wall -Werror -I heat/include heat/lib/libheat.so -o openmp"
    run(*shlex.split(command), f"-Wl,-rpath,{folder}/heat/lib", cwd=folder)
    assert run(folder / "openmp") == "0.6 in 1 loop\n"
