"""Making the kernel of a persistent actor: without hypothesis, and with an explanation."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import rich.console

from conftest import ARCH
from tikgen.errors import ExportError
from tikgen.pipeline.rendering import render_variant
from tikgen.ring.persistent import making
from tikgen.ring.persistent.ring import PersistentRing

pytest_plugins = ["one_compiler"]
pytestmark = pytest.mark.usefixtures("one_compiler")

stays = pytest.mark.skipif(ARCH == "vulkan", reason="no kernel stays on vulkan")

PROGRAM = """
from tikgen.ring import PersistentRing
handler = "total = total + x*x; y = total"
with PersistentRing("a", {"x": "f32"}, {"y": "f32"}, handler, state={"total": 0.0}) as ring:
    print([ring.call(x) for x in (1.0, 2.0)])
"""


@stays
@pytest.mark.skipif(ARCH != "cpu", reason="the program is for cpu")
def test_making_a_kernel_needs_no_hypothesis_and_explains_the_delay(tmp_path: Path) -> None:
    # A package that cannot be imported shadows the installed one.
    (tmp_path / "path" / "hypothesis").mkdir(parents=True)
    absent = "raise ImportError('hypothesis is not installed')"
    (tmp_path / "path" / "hypothesis" / "__init__.py").write_text(absent, encoding="utf-8")
    (tmp_path / "program.py").write_text(PROGRAM, encoding="utf-8")
    printed = []
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "program.py"],
            cwd=tmp_path,
            env={
                **os.environ,
                "PYTHONPATH": str(tmp_path / "path"),
                "TIKGEN_CACHE_DIR": str(tmp_path / "store"),
                "FORCE_COLOR": "1",  # As on a terminal.
            },
            capture_output=True,
            text=True,
            timeout=280,
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout.splitlines()[-1] == "[1.0, 5.0]"
        printed.append(done.stderr)
    assert printed[0].count("proves it against NumPy") == 1
    assert "compile" in printed[0] and "prove" in printed[0]
    assert "tikgen" not in printed[1]
    (bundle,) = (tmp_path / "store" / "ring").glob("*/bundle")
    (kernel,) = json.loads((bundle / "manifest.json").read_text())["kernels"].values()
    (build,) = kernel["builds"].values()
    assert build["proof"]["against"] == "reference"
    assert build["proof"]["examples"] == making.PROOFS


def test_the_delay_is_explained_once_and_only_in_a_terminal(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "tikgen.ring")
    for is_terminal in (False, True):
        monkeypatch.setattr(
            rich.console.Console, "is_terminal", property(lambda self, is_so=is_terminal: is_so)
        )
        making._announce.cache_clear()
        caplog.clear()
        for _ in range(3):
            making._announce()
        assert len(caplog.records) == 1
        assert capsys.readouterr().err.count("compiles") == is_terminal


@stays
def test_a_handler_that_contradicts_its_reference_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def off_by_one(variant: Any) -> Any:
        source = render_variant(variant)
        assert source.text.count("+ ti.i32(1)") == 1
        return replace(source, text=source.text.replace("+ ti.i32(1)", "+ ti.i32(2)"))

    monkeypatch.setattr(making, "PROOFS", 3)
    monkeypatch.setattr("tikgen.aot.exporting.template_kernels.render_variant", off_by_one)
    ring = PersistentRing("a", {"x": "i32"}, {"y": "i32"}, "y = 3*x + 1", arch=ARCH)
    with pytest.raises(ExportError, match="failed the proof"):
        ring.start()
