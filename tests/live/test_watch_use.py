"""Watching templates: what is printed and refused, and which files count."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import tikgen
from tikgen.errors import InvalidValue, TemplateError, TikgenError, WatchError
from tikgen.live import watch
from tikgen.pipeline.rendering import render_variant
from tikgen.template import catalogue
from tikgen.template.base import BUILTIN_FOLDER, files_of
from watch_samples import next_change, save
from watch_samples import root as root
from watch_samples import watcher as watcher

pytestmark = pytest.mark.once


def test_what_is_wrong_is_printed_and_on_change_may_fail(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kernel = tikgen.build("adder", n=4)
    with watch("adder") as watcher:
        save(root / "adder/kernel.py.j2", "more(p.n)", "mor(p.n)")
        next_change(watcher)
    printed = capsys.readouterr().err
    assert "kept the old code of adder_n4" in printed
    assert "template: adder/kernel.py.j2:8: x[i] = x[i] + {{ mor(p.n) }}" in printed

    def fail(change: object) -> None:
        raise ValueError("mine")

    with watch(kernel.template, on_change=fail) as watcher:
        assert not next_change(watcher).ok  # The kernel is still behind its files.
        save(root / "adder/kernel.py.j2", "mor(p.n)", "more(p.n)")
        assert next_change(watcher).ok
        save(root / "adder/kernel.py.j2", "x[i] +", "x[i] -")
        assert next_change(watcher).ok
    assert "ValueError: mine" in capsys.readouterr().err


def test_what_cannot_be_watched_is_refused(root: Path, tmp_path: Path) -> None:
    text = "import taichi as ti\n\n\n@ti.kernel\ndef f(x: ti.i32):\n    y = x\n"
    for target, problem in (
        (tikgen.from_string(text), "a kernel from a string cannot be watched"),
        (root / "absent", "is not a folder"),
        (root / "_shared", "is not the folder of a template"),
        (root / "adder/template.py", "is not a folder"),
        ("/no\x00where", "is no"),
        (3, "is not a kernel, template or folder"),
    ):
        with pytest.raises(WatchError, match=problem):
            watch(target)  # type: ignore[arg-type]
    with pytest.raises(InvalidValue, match="'on_change' takes a function of a change; got 5"):
        tikgen.live.watch("map", on_change=5)  # type: ignore[arg-type]
    with pytest.raises(WatchError, match="takes a kernel"):
        watch()
    with pytest.raises(tikgen.errors.UnknownTemplate, match="Did you mean 'adder'"):
        watch("addder")


def test_the_same_is_watched_once_at_a_time_and_stopped_as_often_as_one_likes(root: Path) -> None:
    watcher = watch(root / "adder/kernel.py.j2")
    for target in (tikgen.build("adder"), root):
        with pytest.raises(WatchError, match="adder: it is watched already"):
            watch(target)
    with watch("plain") as other:
        assert other.is_running
    watcher.stop()
    watcher.stop()
    assert not watcher.is_running
    assert watcher.wait(0.01) is None
    with watch("adder", "plain") as again:
        assert again.is_running
        assert "adder, plain, running" in repr(again)


def test_without_watchfiles_it_says_what_to_install(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "watchfiles._rust_notify", None)
    with pytest.raises(TikgenError, match=r"pip install 'tikgen\[live\]'"):
        watch(root)


def test_the_fingerprint_covers_the_files_that_a_text_leads_to_and_no_others(root: Path) -> None:
    def changes(file: str) -> bool:
        before = files_of(root / "adder")
        with (root / file).open("a") as opened:
            opened.write("\n")
        after = files_of(root / "adder")
        assert bool(after.changed_since(before)) is (after.fingerprint != before.fingerprint)
        return after.fingerprint != before.fingerprint

    for file in ("adder/kernel.py.j2", "adder/template.py", "_shared/outer.j2", "_shared/inner.j2"):
        assert changes(file)
    assert not changes("_shared/unused.j2")
    save(root / "_shared/inner.j2", "macro", "include name\n%}{% macro")  # May be any file.
    assert changes("_shared/unused.j2")
    stencil = {macro.name for macro in files_of(BUILTIN_FOLDER / "stencil").macros}
    assert {"_shared/loops.j2", "_shared/functions.j2"} < stencil
    assert "_shared/teams.j2" not in stencil


def test_a_template_renders_with_the_macros_that_it_was_loaded_with(root: Path) -> None:
    before = tikgen.render("adder", n=1)
    save(root / "_shared/inner.j2", "{{ n }}", "{{ n }} + 40")
    assert render_variant(before.variant).text == before.text
    assert "ti.i32(1 + 40)" in tikgen.render("adder", n=1).text
    template = catalogue.reload_template(root / "adder")
    assert template is not before.variant.template
    assert catalogue.find_template("adder") is template


def test_a_template_that_cannot_be_reloaded_stays_known(root: Path) -> None:
    known = catalogue.find_template("adder")
    kernel = tikgen.build("adder", n=2)
    ejected = kernel.eject()
    save(root / "adder/template.py", "class Problem", "raise OSError('no')\n    class Problem")
    for use in (lambda: catalogue.reload_template(root / "adder"), lambda: tikgen.build("adder")):
        with pytest.raises(TemplateError, match=r"OSError: no \(in template.py:9\)"):
            use()
    assert known in catalogue.loaded_templates()
    assert kernel.eject() == ejected
    assert sys.modules[type(known).__module__].Adder is type(known)
