"""Marks the tests that start processes, and leaves out what ``make quick`` has no time for.

``left_out.txt`` records which tests start processes, and which initialise Taichi without the
fixture ``ti_arch``. A run adds what is missing from it, unless ``CI=true``; in a quick run such a
test fails, too.
"""

from __future__ import annotations

import os
import platform
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

RECORD = Path(__file__).with_name("left_out.txt")
ROOT = RECORD.parent.parent
IN_CI = os.environ.get("CI") == "true"
STARTS = {"subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.system"}
# A test that initialises Taichi itself does so on an arch of its own, whatever this process tests.
MARKERS = {"process": ("process",), "taichi": ("arch", "once")}
# In the order in which they are named: a test that has several of them counts once.
REASONS = {"slow": "make verify", "arch": "make test", "process": "make test"}
WHY = {"slow": "take long", "arch": "launch kernels", "process": "start processes"}

Entries = set[tuple[str, str]]


def name_of(item: pytest.Item) -> str:
    """Return the name of a test function, without parameters."""
    return item.nodeid.partition("[")[0]


def recorded() -> Entries:
    """Return pairs of a test function and what it does."""
    lines = RECORD.read_text().splitlines() if RECORD.is_file() else []
    return {(name, what) for name, what in map(str.split, lines)}


def is_there(name: str) -> bool:
    """Return whether a recorded test still exists."""
    file, *_, function = name.split("::")
    return (ROOT / file).is_file() and f"def {function}(" in (ROOT / file).read_text()


class Noticing:
    """Notices which tests start processes, those of fixtures included, or initialise Taichi."""

    def __init__(self, is_quick: bool) -> None:
        self.is_quick = is_quick
        self.is_running = False
        self.started = 0
        self.seen = 0
        self.fixtures: list[pytest.FixtureDef[Any]] = []
        platform.processor()  # It runs uname, once.
        sys.addaudithook(self._hear)

    def _hear(self, event: str, _: object) -> None:
        if self.is_running and event in STARTS:
            self.started += 1
            if self.is_quick:
                pytest.fail(f"starts a process, and is left out from now on ({RECORD.name})")

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self) -> Iterator[None]:
        self.is_running = True
        try:
            return (yield)
        finally:
            self.is_running = False

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[Any]) -> Iterator[None]:
        before = self.started
        try:
            return (yield)
        finally:
            if self.started > before and fixturedef.scope != "function":
                self.fixtures.append(fixturedef)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Iterator[None]:
        result = yield
        found: Entries = set()
        if self.started > self.seen:
            found = {(name, "process") for name in (name_of(item), *self._users(item.session))}
        self.seen = self.started
        self.fixtures.clear()
        if self.is_quick and _reset_taichi():
            found.add((name_of(item), "taichi"))
        item.user_properties.extend(("left out", entry) for entry in sorted(found))
        if (name_of(item), "taichi") in found:
            pytest.fail(f"initialises Taichi, and is left out from now on ({RECORD.name})")
        return result

    def _users(self, session: pytest.Session) -> Iterator[str]:
        for item in session.items:
            for fixture in self.fixtures:
                used = fixture.argname in getattr(item, "fixturenames", ())
                if used and item.nodeid.startswith(fixture.baseid):
                    yield name_of(item)


def _reset_taichi() -> bool:
    """Undo ``ti.init``; return whether a test called it."""
    if "taichi" not in sys.modules:
        return False
    from tikgen.taichi import runtime

    if not runtime.is_initialised():
        return False
    sys.modules["taichi"].reset()
    return True


class Record:
    """Adds to the record what a run found out. Workers report to the process that started them."""

    def __init__(self) -> None:
        self.found: Entries = set()
        self.added: Entries = set()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "teardown":
            noticed = [entry for key, entry in report.user_properties if key == "left out"]
            self.found.update((name, what) for name, what in noticed)

    def pytest_sessionfinish(self) -> None:
        known = recorded()
        self.added = self.found - known
        stays = sorted(entry for entry in known | self.found if is_there(entry[0]))
        if not IN_CI and set(stays) != known:
            RECORD.write_text("".join(f"{name} {what}\n" for name, what in stays))

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        if self.added:
            done = "missing from" if IN_CI else "added to"
            terminalreporter.section(f"{done} {RECORD.name}, which a local run writes")
            for name, what in sorted(self.added):
                terminalreporter.line(f"{name} {what}")


class LeavingOut:
    """Leaves out the tests that launch kernels, start processes or take long, and says so."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        kept, left_out = [], []
        for item in items:
            reason = next((name for name in REASONS if item.get_closest_marker(name)), None)
            (left_out if reason else kept).append(item)
            if reason:
                self.counts[reason] += 1
        items[:] = kept
        config.hook.pytest_deselected(items=left_out)
        if hasattr(config, "workeroutput"):
            config.workeroutput["left out"] = dict(self.counts)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        self.counts = Counter(getattr(node, "workeroutput", {}).get("left out", self.counts))

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        terminalreporter.section(f"left out: {self.counts.total()} tests")
        for reason, target in REASONS.items():
            count = self.counts[reason]
            terminalreporter.line(f"{count:5} that {WHY[reason]} (`{target}` runs them)")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--quick", action="store_true", help="leave out tests that launch kernels or run processes"
    )


def pytest_configure(config: pytest.Config) -> None:
    is_quick = config.getoption("quick")
    config.pluginmanager.register(Noticing(is_quick))
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Record())
    if is_quick:
        config.pluginmanager.register(LeavingOut())


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: Iterable[pytest.Item]) -> None:
    known = recorded()
    for item in items:
        for what, markers in MARKERS.items():
            if (name_of(item), what) in known:
                for marker in markers:
                    item.add_marker(marker)
