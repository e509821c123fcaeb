"""What live reloading says, and what it does where the system does not help."""

from __future__ import annotations

import contextlib
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tikgen
from tikgen.errors import InvalidId, TikgenError
from tikgen.live import Loader, cells, versions, watching
from tikgen.live.rebuilding import Change


def test_a_change_names_kernels_whose_code_is_the_same() -> None:
    kernel = tikgen.build("map", expr="y = 2*x")
    said = str(Change("map", (Path("map/template.py"),), unchanged=(kernel,)))
    assert said.startswith("map: map/template.py changed: the code of map")
    assert said.endswith("is the same")


def test_a_cell_that_uses_what_others_define_gets_a_hint() -> None:
    def hint(name: str, **variables: Any) -> str:
        return cells._hint(f"Name '{name}' is not defined", "cell", "", {}, variables)

    assert "A cell does not see other cells: define f in this one as well." in hint("f", f=len)
    assert "%%tikgen cell n=$n, then {{ n }}" in hint("n", n=3)
    assert hint("m", n=3) == ""


def test_an_object_that_refuses_to_be_looked_at_has_no_size() -> None:
    class Shy:
        @property
        def nbytes(self) -> int:
            raise RuntimeError("not yours")

    held = versions.bytes_in({"x": np.zeros(1000), "shy": Shy(), "all": [bytes(500)]})
    assert 8500 <= held < 10_000


def test_where_the_system_cannot_watch_files_are_looked_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def none_left(*_: Any) -> Any:
        raise OSError("no space left for watches")

    monkeypatch.setattr(watching, "need_watchfiles", lambda: none_left)
    monkeypatch.setattr(watching, "_POLL_SECONDS", 0.0)
    stop = threading.Event()
    looks = 0
    for _ in watching.wakes(frozenset, stop):
        looks += 1
        if looks == 3:
            stop.set()
    assert looks == 3


@pytest.mark.parametrize(
    ("id", "statement", "is_importable"),
    [
        ("lib", "import lib", True),
        ("é", "from é import V", True),
        ("s.t", "from s.t import V", True),
        ("s.t", "import s.t", False),
        ("1a", "import 1a", False),
        ("class", "import class", False),
        ("a-b", "from a-b import V", False),
    ],
)
def test_ids_that_statements_can_import(id: str, statement: str, is_importable: bool) -> None:
    loader = Loader()
    assert loader.load("V = 1", id).V == 1
    with contextlib.nullcontext() if is_importable else pytest.raises(TikgenError):
        loader.load(statement, "user")


@pytest.mark.parametrize("id", ["", ".a", "-a", "a b", "x" * 101, "os.a"])
def test_ids_that_are_refused(id: str) -> None:
    with pytest.raises(InvalidId):
        Loader().load("V = 1", id)
