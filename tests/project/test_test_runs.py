"""What selects tests: the record of those that start processes, spreads, and coverage's page."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import left_out
from spread import spread

ROOT = Path(__file__).parents[2]


def test_every_recorded_test_exists() -> None:
    entries = left_out.recorded()
    assert not [name for name, _ in entries if not left_out.is_there(name)]
    assert {what for _, what in entries} <= left_out.MARKERS.keys()


TESTS = """
import subprocess, sys
import pytest
from conftest import init_taichi

@pytest.fixture(scope="module")
def child():
    subprocess.run([sys.executable, "-c", ""], check=True)

def test_plain(): pass
def test_first(child): pass
def test_second(child): pass
def test_taichi(): init_taichi()
@pytest.mark.slow
def test_slow(): pass
def test_kernel(ti_arch): pass
"""


def test_a_quick_run_notices_what_it_has_to_leave_out(tmp_path: Path) -> None:
    tests = tmp_path / "tests"
    tests.mkdir()
    for name in ("conftest.py", "left_out.py"):
        (tests / name).write_text((ROOT / "tests" / name).read_text())
    (tests / "test_some.py").write_text(TESTS)
    (tmp_path / "pyproject.toml").write_text(
        "[tool.pytest.ini_options]\n"
        'pythonpath = ["tests"]\nmarkers = ["slow", "arch", "once", "process"]\n'
    )

    def quick(**more: str) -> str:
        command = [sys.executable, "-m", "pytest", "--quick", "-q", "-p", "no:cacheprovider"]
        environment = {k: v for k, v in os.environ.items() if k != "CI"} | more
        python_path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
        done = subprocess.run(
            command,
            cwd=tmp_path,
            env=environment | {"PYTHONPATH": python_path},
            capture_output=True,
            text=True,
            timeout=300,
        )
        return done.stdout

    first = quick()
    assert "2 passed" in first and "3 errors" in first
    assert "left out: 2 tests" in first and "1 that launch kernels (`make test` runs them)" in first
    assert (tests / "left_out.txt").read_text().splitlines() == [
        "tests/test_some.py::test_first process",
        "tests/test_some.py::test_second process",
        "tests/test_some.py::test_taichi taichi",
    ]
    again = quick(CI="true")
    assert "1 passed" in again and "left out: 5 tests" in again
    (tests / "left_out.txt").write_text("")
    assert "missing from left_out.txt" in quick(CI="true")
    assert not (tests / "left_out.txt").read_text()


def combinations(mark: pytest.MarkDecorator, with_slow: bool) -> set[tuple[object, ...]]:
    return {given.values for given in mark.args[1] if with_slow or not given.marks}


def test_a_spread_holds_every_part_of_every_combination() -> None:
    two = spread("a, b", "wxyz", "12")
    assert len(combinations(two, True)) == 8 and len(combinations(two, False)) == 4
    three = spread("a, b, c", "xyz", "12", "pq")
    kept = combinations(three, False)
    assert len(combinations(three, True)) == 12 and len(kept) < 12
    for place in range(3):
        assert {each[:place] + each[place + 1 :] for each in kept} == {
            each[:place] + each[place + 1 :] for each in combinations(three, True)
        }


@pytest.fixture
def coverage_page() -> ModuleType:
    path = ROOT / "docs" / "coverage_page.py"
    spec = importlib.util.spec_from_file_location("coverage_page", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_of_coverage_sums_up_by_room(coverage_page: ModuleType) -> None:
    def found(count: int, *missing: int) -> dict[str, object]:
        summary = {"num_statements": count, "missing_lines": len(missing)}
        return {"summary": summary, "missing_lines": list(missing)}

    files = {
        "tikgen/a/x.py": found(10, 3, 7, 8),
        "tikgen/a/y.py": found(5),
        "tikgen/z.py": found(5),
    }
    page = coverage_page.page({"files": files})
    assert "| `a` | 15 | 3 | 80.0 % |" in page
    assert "| all | 20 | 3 | 85.0 % |" in page
    assert page.endswith("| `a/x.py` | 3, 7-8 |\n")
