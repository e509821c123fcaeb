"""Templates whose files are saved without a watcher: the next use takes them as they are."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tikgen
from tikgen.children.job_process import JobProcess
from tikgen.errors import ExportError, TemplateChanged, TemplateError, UnknownTemplate
from tikgen.live import Watcher, watch
from tikgen.template import catalogue
from tikgen.verification.case import Case
from tikgen.verification.worker import outcome_of
from watch_samples import next_change, put, save
from watch_samples import root as root
from watch_samples import watcher as watcher

pytestmark = pytest.mark.once


def _gives(kernel: tikgen.Kernel) -> int:
    x = np.zeros(3, np.int32)
    kernel(x)
    return int(x[1])


def test_builds_take_the_files_as_they_are_and_kernels_keep_their_code(
    root: Path, ti_arch: str
) -> None:
    template = tikgen.load_template(root / "adder")
    first = tikgen.build(template)
    assert tikgen.build("adder") is tikgen.build(template) is first
    # Of the same length, one right after the other, and in each kind of file.
    for number, (file, old, new) in enumerate(
        [
            ("adder/kernel.py.j2", "more(p.n)", "more(p+n)".replace("p+n", "7  ")),
            ("_shared/inner.j2", "ti.i32({{ n }})", "ti.i32({{ 8 }})"),
            ("adder/template.py", '"of no meaning"', '"in disuse   "'),
        ]
    ):
        save(root / file, old, new)
        made = tikgen.build(("adder", template)[number % 2])
        assert made is not first
        assert _gives(made) == (7, 8, 8)[number]
    assert tikgen.load_template(root / "adder").fingerprint == made.template.fingerprint
    assert tikgen.build("adder") is tikgen.build(template) is made
    assert _gives(first) == 1
    with watch(first, on_change=lambda change: None) as watcher:
        assert watcher.wait(60.0) is not None  # It is behind the files.
        assert _gives(first) == 8


@pytest.mark.parametrize("name", ["KeyboardInterrupt", "GeneratorExit", "SystemExit"])
def test_a_watcher_outlives_whatever_a_template_raises(
    root: Path, watcher: Watcher, name: str
) -> None:
    tikgen.build("adder")
    save(root / "adder/template.py", "from typing", f"raise {name}('mine')\nfrom typing")
    change = next_change(watcher)
    assert f"{name}: mine" in str(change.error)
    save(root / "adder/template.py", f"raise {name}('mine')\n", "")
    assert next_change(watcher).ok
    assert watcher.is_running


def test_what_a_watcher_follows_is_left_to_it(root: Path) -> None:
    template = catalogue.find_template("adder")
    catalogue.follow(template.folder, follows=True)
    save(root / "adder/kernel.py.j2", "more(p.n)", "more(7)")
    assert catalogue.current_template(template) is template
    assert tikgen.render("adder").variant.template is template
    catalogue.follow(template.folder, follows=False)
    assert catalogue.current_template(template) is not template


def test_a_file_that_is_gone_is_missed_by_the_next_build(root: Path) -> None:
    tikgen.build("adder")
    (root / "adder/kernel.py.j2").unlink()
    with pytest.raises(TemplateError, match=r"the file .*kernel\.py\.j2 is missing"):
        tikgen.build("adder")
    with pytest.raises(UnknownTemplate):
        tikgen.build("adderr")


def test_no_process_judges_other_code_than_that_it_was_asked_about(
    root: Path, tmp_path: Path
) -> None:
    kernel = tikgen.build("adder", shape=(4,))
    before = kernel.template
    case = Case("adder", str(before.folder), "cpu", {}, {"m": 4}, fingerprint=before.fingerprint)
    put(root / "adder/kernel.py.j2", (root / "adder/kernel.py.j2").read_text() + "\n")
    outcome = outcome_of(case, lambda digest: None)
    now = catalogue.find_template("adder").fingerprint
    assert outcome.kind == "changed"
    for named in (before.fingerprint[:8], now[:8], "repeat this"):
        assert named in outcome.message
    with pytest.raises(ExportError, match="the files of its template were changed: build it again"):
        tikgen.aot.export([kernel], tmp_path / "adder.tkb", archs=["cpu"])


def test_the_process_that_asked_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    process = JobProcess("unused", "cpu", timeout=1.0)
    monkeypatch.setattr(JobProcess, "is_running", True)
    monkeypatch.setattr(process, "send", lambda line: None)
    monkeypatch.setattr(process, "reply", lambda timeout: {"kind": "changed", "message": "other"})
    with pytest.raises(TemplateChanged, match="other"):
        process.answer("{}", 1.0)
