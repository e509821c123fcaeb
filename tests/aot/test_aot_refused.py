"""What a module and an export refuse before anything is compiled."""

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import taichi as ti

import tikgen
from test_aot_export import TO, with_evidence
from tikgen.aot import manifest
from tikgen.aot.exporting import staging
from tikgen.errors import BundleError, ExportError


@ti.kernel
def _shift(x: ti.types.ndarray(dtype=ti.f32, ndim=1)):  # type: ignore[valid-type]
    for i in x:
        x[i] += 1.0


def recorded() -> manifest.Field:
    """Return a field as a recording describes it, which needs no ``ti.init``."""
    return manifest.Field(name="heat", dtype="f32", shape=(4,), element=())


WRONG: dict[str, tuple[Callable[[tikgen.aot.Module, Any], object], str]] = {
    "a name of a kernel": (lambda m, k: m.add_kernel(k, name="a b"), "a name begins with an ASC"),
    "a reference of a template": (
        lambda m, k: m.add_kernel(k, reference=print),
        "come from the template",
    ),
    "schedules of one's own kernel": (
        lambda m, k: m.add_kernel(_shift, schedules={TO: {}}),
        "schedules are for kernels of templates",
    ),
    "a name of a field": (lambda m, k: m.add_field("a b", None), "a name begins with an ASCII"),
    "a field twice": (
        lambda m, k: [m.add_field("heat", recorded()), m.add_field("heat", recorded())],
        "another field has this name",
    ),
    "a number as a field": (
        lambda m, k: m.add_field("heat", 3),
        "the field 'heat': it must be a field, such as ti.field.*; got 3",
    ),
    "a number as steps": (lambda m, k: m.add_graph("g", 5), "it takes a list of steps; got 5"),
    "a graph twice": (
        lambda m, k: [m.add_graph("g", []), m.add_graph("g", [])],
        "'g': it is there already",
    ),
    "no kernel": (lambda m, k: m.plan(), "no kernel was added"),
    "two kernels of one name": (
        lambda m, k: [
            m.add_kernel(k, name="k"),
            m.add_kernel(with_evidence(tikgen.build("map", expr="z = 13*x", dim=1)), name="k"),
            m.plan(),
        ],
        "two kernels have this name",
    ),
    "an archive of another name": (lambda m, k: m.archive("k.tar"), "ends in .zip"),
    "a kernel over fields": (
        lambda m, k: m.add_kernel(tikgen.build("stencil", dim=1, storage="field")),
        "it takes fields; build it with storage='ndarray'",
    ),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_module_says_what_it_cannot_hold(what: str) -> None:
    use, problem = WRONG[what]
    module = tikgen.aot.Module([TO])
    assert repr(module) == f"<Module of 0 kernels, 0 graphs for {TO}>"
    with pytest.raises(ExportError, match=problem):
        use(module, with_evidence(tikgen.build("map", expr="z = 3*x", dim=1)))


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("/", "has no name; give the path of a folder"),
        ("folder.zip", "there is a folder of that name"),
        ("bundle.tar", "ends in .tar, and a bundle is a folder, or a .zip file"),
        ("loop", "cannot be written: "),
        ("~nobody_has_this_name/b", "cannot be written: "),
    ],
)
def test_paths_that_cannot_be_written_are_refused(
    path: str, problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder.zip").mkdir()
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with pytest.raises(BundleError, match=problem):
        tikgen.aot.export([], path, [TO])  # Before anything else.


@pytest.mark.parametrize(
    ("graphs", "problem"),
    [
        ({"g": {"step": []}}, "the graph 'g': it has 'step'; it takes a list of .* mean 'steps'"),
        ({"g": {"temporaries": ["u"]}}, "the graph 'g': it takes a list of steps, or a dict of"),
        ({"g": 3}, "the graph 'g': it takes a list of steps.*; got 3"),
        ([("k", "x")], r"graphs: they are a dict of steps by name; got \[\('k', 'x'\)\]"),
    ],
)
def test_graphs_of_another_form_are_refused(graphs: Any, problem: str, tmp_path: Path) -> None:
    kernel = with_evidence(tikgen.build("map", expr="z = 3*x", dim=1))
    with pytest.raises(ExportError, match=problem):
        tikgen.aot.export(kernel, tmp_path / "b", [TO], graphs=graphs)


def test_a_lock_that_cannot_be_made_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))
    locked = staging.locked(tmp_path / "b")
    with pytest.raises(BundleError, match=r"its lock .* cannot be made \(No such file"), locked:
        pass
