"""A template to watch, and files to save."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import tikgen
from tikgen.live import Watcher, watch

DEADLINE = 300.0  # Only of a test that fails.

TEXT = """\
#% from "_shared/outer.j2" import more
import taichi as ti


@ti.kernel
def {{ name }}(x: {{ arguments[0].annotation }}):
    for i in range(x.shape[0]):
        x[i] = x[i] + {{ more(p.n) }}
"""
PLAIN = TEXT.replace("{{ more(p.n) }}", "1").partition("\n")[2]
OUTER = (
    '#% from "_shared/inner.j2" import number\n{% macro more(n) %}{{ number(n) }}{% endmacro %}\n'
)
INNER = "{% macro number(n) %}ti.i32({{ n }}){% endmacro %}\n"
CODE = '''\
from typing import Literal

from tikgen import Array, DType, ProblemModel, ScheduleModel, Template, parameter


class Adder(Template):
    """Adds a number to every element."""

    class Problem(ProblemModel):
        n: int = parameter("the number", 1)

    class Schedule(ScheduleModel):
        way: Literal[1, 2, 4] = parameter("of no meaning", 1)

    def arguments(self, p):
        return (Array("x", DType.i32, ("m",), role="inout"),)

    def default_schedule(self, p, arch, sizes):
        return {"way": 2}

    @staticmethod
    def reference(p, x):
        return x + p.n
'''


def next_change(watcher: Watcher, wanted: Callable[..., bool] = lambda change: True):
    """Return the next change that is wanted."""
    end = time.monotonic() + DEADLINE
    while time.monotonic() < end:
        change = watcher.wait(1.0)
        if change is not None and wanted(change):
            return change
    raise AssertionError([str(change) for change in watcher.changes])


def save(path: Path, old: str, new: str) -> None:
    """Save a file with ``old`` replaced."""
    text = path.read_text()
    assert old in text
    put(path, text.replace(old, new))


def put(path: Path, text: str) -> None:
    """Save a file at once: a watcher must not see a half of it, which would be a change too."""
    whole = path.with_name(f"{path.name}.new")
    whole.write_text(text)
    whole.replace(path)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Give a folder with a template ``adder``, one that imports nothing, and macros."""
    files = {
        "_shared/outer.j2": OUTER,
        "_shared/inner.j2": INNER,
        "_shared/unused.j2": INNER,
        "adder/kernel.py.j2": TEXT,
        "adder/template.py": CODE,
        "plain/kernel.py.j2": PLAIN,
        "plain/template.py": CODE.replace("class Adder", "class Plain"),
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    tikgen.clear()  # Of kernels with the same code, those of another folder are taken.
    for name in ("adder", "plain"):
        tikgen.load_template(tmp_path / name)
    return tmp_path


@pytest.fixture
def watcher(root: Path) -> Iterator[Watcher]:
    with watch(root, on_change=lambda change: None) as running:
        yield running
