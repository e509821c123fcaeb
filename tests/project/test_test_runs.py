"""What selects tests: quick runs, spreads, cases that are drawn; and the page about coverage."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import conftest
from some_cases import SEED
from spread import spread

ROOT = Path(__file__).parents[2]
pytest_plugins = ["pytester"]


TESTS = """
import subprocess, sys
import pytest
import taichi as ti

def test_plain(): pass
def test_hidden(): __import__("os").system("true")
def test_taichi(): ti.init()
@pytest.mark.slow
def test_slow(): pass
def test_kernel(ti_arch): pass
"""


@pytest.mark.slow
def test_a_quick_run_leaves_out_kernels_and_processes(tmp_path: Path) -> None:
    tests = tmp_path / "tests"
    tests.mkdir()
    for name in ("conftest.py", "quick.py", "some_cases.py", "forked.py"):
        (tests / name).write_text((ROOT / "tests" / name).read_text())
    (tests / "test_processes.py").write_text("import subprocess\n\ndef test_child(): pass\n")
    (tests / "test_some.py").write_text(TESTS.replace("import subprocess, sys\n", ""))
    (tmp_path / "pyproject.toml").write_text(
        "[tool.pytest.ini_options]\n"
        'pythonpath = ["tests"]\nmarkers = ["slow", "arch", "once", "process"]\n'
    )
    python_path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "--quick", "-q", "-rs", "-p", "no:cacheprovider"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": python_path},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert "1 passed, 2 skipped, 3 deselected" in done.stdout, done.stdout
    assert "starts a process; `make test` runs it" in done.stdout
    assert "initialises Taichi; `make test` runs it" in done.stdout
    assert "left out: 3 tests" in done.stdout
    for marker in ("slow", "arch", "process"):
        assert f"1 marked {marker} (" in done.stdout


CASES = """
import pytest

@pytest.mark.parametrize("n", range(9))
def test_kernel(ti_arch, n): pass
@pytest.mark.parametrize("n", range(2))
def test_few(ti_arch, n): pass
@pytest.mark.parametrize("n", range(7))
def test_plain(n): pass
"""


def test_some_cases_are_drawn_from_a_seed(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    fixtures = "@pytest.fixture\ndef ti_arch(): pass\n"
    marks = "def pytest_collection_modifyitems(items):\n    for item in items:\n"
    mark = '        "plain" in item.name or item.add_marker("arch")\n'
    pytester.makeconftest(f"import pytest\n{fixtures}{marks}{mark}")
    pytester.makeini("[pytest]\nmarkers = arch\n")
    pytester.makepyfile(CASES)

    def drawn(seed: str, *options: str) -> set[str]:
        monkeypatch.setenv(SEED, seed)
        found = pytester.inline_run("-p", "some_cases", "--collect-only", *options)
        return {call.item.nodeid for call in found.getcalls("pytest_itemcollected")} - {
            item.nodeid for call in found.getcalls("pytest_deselected") for item in call.items
        }

    whole, some = drawn("1"), drawn("1", "--some")
    counts = Counter(name.partition("::")[2].partition("[")[0] for name in some)
    assert len(whole) == 18 and some < whole
    assert tuple(counts[f"test_{name}"] for name in ("kernel", "few", "plain")) == (2, 1, 7)
    assert drawn("1", "--some") == some
    assert len({frozenset(drawn(str(seed), "--some")) for seed in range(6)}) > 1


@pytest.mark.parametrize(
    ("text", "expression", "ignored"),
    [
        ("def test_plain(): pass", "arch and not slow", True),
        ("def test_plain(): pass", "arch", True),
        ("def test_plain(): pass", "arch or slow", None),
        ("def test_plain(): pass", "not slow", None),
        ("def test_plain(): pass", "", None),
        ("def test_kernel(ti_arch): pass", "arch", None),
        ("pytestmark = pytest.mark.arch", "arch", None),
    ],
)
def test_modules_without_kernels_are_not_imported_where_kernels_are_asked_for(
    text: str, expression: str, ignored: bool | None, tmp_path: Path
) -> None:
    (tmp_path / "test_some.py").write_text(text)
    config: Any = SimpleNamespace(option=SimpleNamespace(markexpr=expression))
    assert conftest.pytest_ignore_collect(tmp_path / "test_some.py", config) is ignored
    assert conftest.pytest_ignore_collect(tmp_path, config) is None


def test_a_module_that_hides_its_kernels_is_told(tmp_path: Path) -> None:
    module = tmp_path / "test_some.py"
    module.write_text("from elsewhere import test_kernel")
    item: Any = SimpleNamespace(
        fixturenames=["ti_arch"], path=module, add_marker=print, get_closest_marker=str
    )
    with pytest.raises(pytest.UsageError, match=r"test_some\.py launches kernels"):
        conftest.pytest_collection_modifyitems([item])


def combinations(mark: pytest.MarkDecorator, *without: str) -> set[tuple[object, ...]]:
    """Return the combinations that have none of these marks."""
    return {
        given.values
        for given in mark.args[1]
        if not {mark.name for mark in given.marks}.intersection(without)
    }


def test_a_spread_holds_every_part_of_every_combination() -> None:
    two = spread("a, b", "wxyz", "12")
    assert len(combinations(two)) == 8 and len(combinations(two, "slow")) == 4
    three = spread("a, b, c", "xyz", "12", "pq")
    kept = combinations(three, "slow")
    assert len(combinations(three)) == 12 and len(kept) < 12
    for place in range(3):
        assert {each[:place] + each[place + 1 :] for each in kept} == {
            each[:place] + each[place + 1 :] for each in combinations(three)
        }
    elsewhere = combinations(three, "slow", "once")
    assert len(elsewhere) == 3
    assert [set(values) for values in zip(*elsewhere, strict=True)] == [
        set("xyz"), set("12"), set("pq")
    ]  # fmt: skip


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
