"""Without a package that is an extra, an error names what to install."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tikgen
from tikgen.demo.stepwise import drawn
from tikgen.errors import TikgenError
from tikgen.tuning import pictures, search
from tikgen.tuning.sweeps import cluster, formats
from tikgen.tuning.sweeps.table import SweepResult

ROW = {"template": "map", "arch": "cpu", "digest": "d", "kind": "timed", "message": None}


def empty() -> tikgen.Trace:
    with tikgen.trace() as traced:
        pass
    return traced


USES: dict[str, tuple[str, Callable[[], Any], str]] = {
    "a table of a trace": ("pandas", lambda: empty().to_pandas(), "pandas"),
    "a table of a sweep": ("pandas", lambda: SweepResult([ROW]).to_pandas(), "pandas"),
    "a Parquet file": ("pyarrow", formats._pyarrow, "pandas"),
    "a cluster": ("distributed", cluster._need_distributed, "dask"),
    "a timeline": ("tikgen.lifecycle.timeline", lambda: empty().timeline(), "plot"),
    "a picture": ("tikgen.tuning.plots", pictures.drawing, "plot"),
    "a search": ("optuna", lambda: search.choose("map", "optuna", None, True), "optuna"),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("what", USES)
def test_what_is_missing_is_named(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module, use, extra = USES[what]
    package, _, name = module.rpartition(".")
    if package:
        monkeypatch.delattr(sys.modules[package], name, raising=False)
    monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(TikgenError, match=rf"pip install 'tikgen\[{extra}\]'"):
        use()


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ModuleNotFoundError("matplotlib"), "No picture: matplotlib is missing; pip install"),
        (PermissionError(13, "Permission denied"), "No picture: cannot write a.png: Permission"),
        (None, "wrote a.png"),
    ],
)
def test_a_demonstration_goes_on_without_its_picture(error: Exception | None, said: str) -> None:
    def draw() -> None:
        if error is not None:
            raise error

    assert drawn(Path("a.png"), draw).startswith(said)
