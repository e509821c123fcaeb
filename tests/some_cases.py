"""Draws some cases of the tests that launch kernels, with ``--some``; ``make verify`` runs all.

Cases of one test repeat each other. Every run takes an eighth of them, at least one, from a seed of
its own. Its output begins with what draws them again. The mark ``some`` has the same done with
tests whose kernels are launched by other processes.
"""

from __future__ import annotations

import math
import os
import random
from collections import defaultdict

import pytest

SEED = "TIKGEN_TEST_SEED"
_OF = 8  # One case of so many.


def examples(every: int, some: int) -> int:
    """Return how many examples a test draws anew in each run: ``some`` of them with ``--some``."""
    return some if SEED in os.environ else every


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--some", action="store_true", help="draw some cases of tests with kernels")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("some"):  # The processes of a run inherit the seed of the first.
        os.environ.setdefault(SEED, str(int.from_bytes(os.urandom(3), "little")))


def pytest_report_header(config: pytest.Config) -> list[str]:
    if not config.getoption("some"):
        return []
    return [f"{SEED}={os.environ[SEED]} draws these cases again"]


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("some"):
        return
    tests: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        if item.get_closest_marker("arch") or item.get_closest_marker("some"):
            tests[item.nodeid.partition("[")[0]].append(item)
    left_out: set[pytest.Item] = set()
    for name, cases in tests.items():
        many = math.ceil(len(cases) / _OF)
        drawn = random.Random(f"{os.environ[SEED]} {name}").sample(cases, many)
        left_out.update(set(cases) - set(drawn))
    config.hook.pytest_deselected(items=[item for item in items if item in left_out])
    items[:] = [item for item in items if item not in left_out]
