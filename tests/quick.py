"""Marks the tests that start processes, and runs the quick ones alone with ``--quick``."""

from __future__ import annotations

import functools
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

# What the text of a test module holds that starts processes, itself or through tikgen.
_STARTING = re.compile(
    r"subprocess|multiprocessing|ChildProcess|ArchProcess|\.ir\(|"
    r"\b(verify|tune|sweep|export|run_process|run_cli)\("
)
_EVENTS = {"subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.system"}
# What is left out, and which target runs it. A test with several of these markers counts once.
_LEFT_OUT = {"slow": "make verify", "arch": "make test", "process": "make test"}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--quick", action="store_true", help="run no test that launches kernels or starts processes"
    )


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("quick"):
        config.pluginmanager.register(Quick())


@functools.cache
def _starts_processes(module: Path) -> bool:
    return bool(_STARTING.search(module.read_text(encoding="utf-8")))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if _starts_processes(item.path):
            item.add_marker("process")


def _skip_taichi(*_: object, **__: object) -> None:
    pytest.skip("initialises Taichi; `make test` runs it")


class Quick:
    """Deselects marked tests; skips others at the moment they start a process or Taichi."""

    def __init__(self) -> None:
        import taichi as ti  # Other runs need not import it yet.

        self.counts: Counter[str] = Counter()
        self._is_testing = False
        ti.init = _skip_taichi
        sys.addaudithook(self._refuse_processes)

    def _refuse_processes(self, event: str, _: object) -> None:
        if self._is_testing and event in _EVENTS:
            pytest.skip("starts a process; `make test` runs it")

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        kept, left_out = [], []
        for item in items:
            marker = next((name for name in _LEFT_OUT if item.get_closest_marker(name)), None)
            (left_out if marker else kept).append(item)
            if marker:
                self.counts[marker] += 1
        items[:] = kept
        config.hook.pytest_deselected(items=left_out)
        if hasattr(config, "workeroutput"):
            config.workeroutput["left out"] = dict(self.counts)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self._is_testing = True
        try:
            return (yield)
        finally:
            self._is_testing = False

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        self.counts = Counter(getattr(node, "workeroutput", {}).get("left out", self.counts))

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        terminalreporter.section(f"left out: {self.counts.total()} tests")
        for marker, target in _LEFT_OUT.items():
            terminalreporter.line(f"{self.counts[marker]:5} marked {marker} (`{target}`)")
