"""Watching: which saves rebuild which kernels, broken saves, and refused targets."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import tikgen
from tikgen.errors import KernelCompileError, RenderError, TemplateError, TikgenError
from tikgen.live import Watcher, watch, watching
from tikgen.live.rebuilding import Change, rebuild
from watch_samples import CODE, DEADLINE, TEXT, next_change, put, save
from watch_samples import root as root
from watch_samples import watcher as watcher

pytestmark = pytest.mark.once


def added(kernel: Callable[..., None]) -> int:
    """Return what ``kernel`` adds to every element."""
    x = np.random.default_rng().integers(-1000, 1000, 5, dtype=np.int32)
    y = x.copy()
    kernel(y)
    (difference,) = set(map(int, y - x))
    return difference


def test_a_save_rebuilds_the_kernels_of_its_template_and_no_others(
    ti_arch: str, root: Path, watcher: Watcher
) -> None:
    one, two, plain = tikgen.build("adder"), tikgen.build("adder", n=2), tikgen.build("plain")
    assert [added(k) for k in (one, two, plain)] == [1, 2, 1]
    code = plain.source
    save(root / "adder/kernel.py.j2", "x[i] + {{", "x[i] + 10 * {{")
    change = next_change(watcher)
    assert change.ok
    assert set(change.rebuilt) == {one, two}
    # Nothing was compiled so far.
    assert "rebuilt" not in str(change)
    assert "compiled by the next call" in str(change)
    assert change.files == (root / "adder/kernel.py.j2",)
    assert [added(k) for k in (one, two, plain)] == [10, 20, 1]
    assert plain.source is code
    assert tikgen.build("adder") is one
    assert tikgen.build("adder", n=2) is two
    assert added(tikgen.build("adder", n=3)) == 30


def test_a_macro_file_rebuilds_the_kernels_that_import_it(
    ti_arch: str, root: Path, watcher: Watcher
) -> None:
    adder, plain = tikgen.build("adder", n=5), tikgen.build("plain", n=5)
    assert (added(adder), added(plain)) == (5, 1)
    save(root / "_shared/unused.j2", "ti.i32", "ti.i64")
    save(root / "_shared/inner.j2", "ti.i32({{ n }}", "ti.i32({{ n }} + 7")
    change = next_change(watcher)
    assert (change.template, change.rebuilt) == ("adder", (adder,))
    assert change.files == (root / "_shared/inner.j2",)
    assert watcher.changes == (change,)
    assert (added(adder), added(plain)) == (12, 1)
    assert added(adder) == 12
    (compiled,) = watcher.changes[1:]
    assert compiled.ok and compiled.compiled == (adder,)
    assert str(compiled) == "adder: _shared/inner.j2 changed: rebuilt adder_n5"


def test_a_new_local_macro_file_overrides_the_built_in_one(
    ti_arch: str, root: Path, watcher: Watcher
) -> None:
    save(
        root / "plain/kernel.py.j2",
        "import taichi",
        '#% from "_shared/flat.j2" import a\nimport taichi',
    )
    change = next_change(watcher)  # tikgen has such a file, without the macro.
    assert change.ok
    put(root / "_shared/flat.j2", "{% macro a() %}3{% endmacro %}\n")
    assert root / "_shared/flat.j2" in next_change(watcher).files


@pytest.mark.parametrize("bound", [False, True])
def test_a_running_loop_has_the_new_code_from_its_next_call_on(
    ti_arch: str, root: Path, watcher: Watcher, bound: bool
) -> None:
    kernel = tikgen.build("adder", n=3)
    x = np.zeros(4, np.int32)
    call = kernel.bind(x) if bound else lambda: kernel(x)
    seen: list[set[int]] = []

    def loop() -> None:
        end = time.monotonic() + DEADLINE
        while time.monotonic() < end and seen[-1] != {300}:
            x[:] = 0
            call()
            seen.append(set(map(int, x)))

    call()
    seen.append(set(map(int, x)))
    thread = threading.Thread(target=loop)
    thread.start()
    save(root / "adder/kernel.py.j2", "x[i] + {{", "x[i] + 100 * {{")
    thread.join()
    assert seen[0] == {3}
    assert seen[-1] == {300}
    assert all(values in ({3}, {300}) for values in seen)


@pytest.mark.parametrize(
    ("file", "old", "new", "kind", "place"),
    [
        ("adder/kernel.py.j2", "more(p.n)", "mor(p.n)", RenderError, "adder/kernel.py.j2:8"),
        ("adder/kernel.py.j2", "range(", "range((", RenderError, "adder/kernel.py.j2:7"),
        ("adder/kernel.py.j2", "x[i] +", "ti.foo(x[i]) +", KernelCompileError, "kernel.py.j2:8"),
        ("_shared/inner.j2", "{{ n }}", "{{ m }}", RenderError, "_shared/inner.j2:1"),
        (
            "adder/template.py",
            "p, arch, sizes):",
            "p, arch, sizes):\n        ?",
            TemplateError,
            "19",
        ),
        (
            "adder/kernel.py.j2",
            "import taichi",
            "raise SystemExit\nimport taichi",
            RenderError,
            ":2",
        ),
        (
            "adder/template.py",
            "from typing",
            "raise SystemExit\nfrom typing",
            TemplateError,
            "py:1",
        ),
        ("adder/template.py", '{"way": 2}', "{}[p]", TemplateError, "template.py:19"),
        ("adder/template.py", "n: int", "q: int", TikgenError, "parameter 'n' was given"),
    ],
)
def test_a_broken_save_keeps_the_old_code_until_it_is_repaired(
    ti_arch: str,
    root: Path,
    watcher: Watcher,
    file: str,
    old: str,
    new: str,
    kind: type,
    place: str,
) -> None:
    kernel = tikgen.build("adder", n=4)
    assert added(kernel) == 4
    code = kernel.source
    whole = (root / file).read_text()
    save(root / file, old, new)
    next_change(watcher)
    assert added(kernel) == 4
    change = watcher.changes[-1]  # Taichi's own errors come up in the call.
    error = change.error or change.kept[kernel]
    assert isinstance(error, kind)
    assert place in str(error)
    assert place in str(change)
    assert not change.ok
    assert kernel.source is code
    put(root / file, whole.replace("the number", "a number"))
    assert next_change(watcher).ok
    save(root / "adder/kernel.py.j2", "x[i] + {{", "x[i] + 2 * {{")
    assert next_change(watcher).rebuilt == (kernel,)
    assert added(kernel) == 8
    assert kernel.params["way"] == 2


def test_kernels_of_equal_code_separate_if_their_code_differs_again(
    ti_arch: str, root: Path, watcher: Watcher
) -> None:
    one, two = tikgen.build("adder", n=1), tikgen.build("adder", n=2)
    assert (added(one), added(two)) == (1, 2)
    whole = (root / "adder/kernel.py.j2").read_text()
    save(root / "adder/kernel.py.j2", "{{ more(p.n) }}", "9")
    next_change(watcher)
    assert (added(one), added(two)) == (9, 9)
    assert tikgen.build("adder", n=3).function in (one.function, two.function)
    put(root / "adder/kernel.py.j2", whole)
    next_change(watcher)
    assert (added(one), added(two)) == (1, 2)
    assert added(tikgen.build("adder", n=3)) == 3


def test_a_loop_that_builds_at_each_step_keeps_what_works(
    ti_arch: str, root: Path, watcher: Watcher
) -> None:
    kernel = tikgen.build("adder", n=4)
    seen: list[tuple[object, int]] = []
    stop = threading.Event()

    def loop() -> None:
        while not stop.is_set():
            built = tikgen.build("adder", n=4)
            seen.append((built, added(built)))

    thread = threading.Thread(target=lambda: seen.append((kernel, 4)) or loop())
    added(kernel)
    thread.start()
    try:
        for text in ("x[i] - {{", "x[i] + zzz * {{", "x[i] + {{ nope }} * {{", "x[i] + 5 * {{"):
            put(root / "adder/kernel.py.j2", TEXT.replace("x[i] + {{", text))
            next_change(watcher)
            steps = len(seen)
            while len(seen) < steps + 3 and thread.is_alive():
                time.sleep(0.001)
    finally:
        stop.set()
        thread.join()
    assert {id(built) for built, _ in seen} == {id(kernel)}
    assert {value for _, value in seen} == {4, -4, 20}
    assert seen[-1][1] == 20


def test_a_save_between_two_checks_of_the_files_is_not_lost(
    ti_arch: str, root: Path, watcher: Watcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel, path = tikgen.build("adder", n=4), root / "adder/kernel.py.j2"
    texts = [TEXT.replace("x[i] + {{", f"x[i] + {factor} * {{{{") for factor in (2, 3)]

    def saved_meanwhile(*args: object) -> Change:
        """See the second text where the watcher saw the first, which then comes back."""
        if len(texts) == 2:
            put(path, texts.pop())
            change = rebuild(*args)  # type: ignore[arg-type]
            put(path, texts[0])
            return change
        return rebuild(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(watching, "rebuild", saved_meanwhile)
    put(path, texts[0])
    next_change(watcher)
    assert added(kernel) == 8


def test_a_save_undone_before_the_next_call_changes_nothing(
    ti_arch: str, root: Path, watcher: Watcher
) -> None:
    kernel = tikgen.build("adder", n=6)
    assert added(kernel) == 6
    whole = (root / "adder/kernel.py.j2").read_text()
    for text in (whole.replace("x[i] +", "x[i] -"), whole):
        put(root / "adder/kernel.py.j2", text)
        next_change(watcher)
    assert added(kernel) == 6
    assert tikgen.build("adder", n=6) is kernel


def test_declarations_are_those_of_the_new_file_if_the_code_is_the_same(
    ti_arch: str, root: Path, watcher: Watcher
) -> None:
    kernel = tikgen.build("adder", n=4)
    assert added(kernel) == 4
    # As long as before and within the same second: Python's own cache would not notice.
    save(root / "adder/template.py", "x + p.n", "x * p.n")
    save(root / "adder/template.py", '"way": 2', '"way": 4')
    change = next_change(watcher, lambda c: kernel in c.rebuilt + c.unchanged)
    assert change.ok
    assert added(kernel) == 4
    assert kernel.reference(np.array([5], np.int32)) == [20]
    assert kernel.params["way"] == 4


def test_a_template_that_changed_before_it_was_watched_is_rebuilt_at_once(
    ti_arch: str, root: Path
) -> None:
    kernel = tikgen.build("adder", n=8)
    assert added(kernel) == 8
    save(root / "adder/kernel.py.j2", "x[i] +", "x[i] -")
    with watch(kernel) as watcher:
        assert next_change(watcher).rebuilt == (kernel,)
        assert added(kernel) == -8


def gone(root: Path) -> None:
    (root / "adder/kernel.py.j2").unlink()


def renamed(root: Path) -> None:
    (root / "adder/kernel.py.j2").rename(root / "adder/other.py.j2")


def a_folder(root: Path) -> None:
    gone(root)
    (root / "adder/kernel.py.j2").mkdir()


def half_saved(root: Path) -> None:
    put(root / "adder/kernel.py.j2", TEXT[: TEXT.index("x[i] =") + 3])


def binary(root: Path) -> None:
    (root / "adder/kernel.py.j2").write_bytes(b"\x7fELF\xff\xfe\x00")


def without_its_folder(root: Path) -> None:
    shutil.move(root / "adder", root / "elsewhere")


def huge(root: Path) -> None:
    put(root / "adder/kernel.py.j2", TEXT + "y = 1\n" * 1_700_000)


@pytest.mark.parametrize(
    "harm", [gone, renamed, a_folder, half_saved, binary, huge, without_its_folder]
)
def test_a_deleted_file_harms_no_kernel_and_may_be_restored(
    ti_arch: str, root: Path, watcher: Watcher, harm: Callable[[Path], None]
) -> None:
    kernel = tikgen.build("adder", n=4)
    assert added(kernel) == 4
    harm(root)
    change = next_change(watcher, lambda c: not c.ok)
    assert "adder" in str(change)
    assert added(kernel) == 4
    shutil.rmtree(root / "adder", ignore_errors=True)
    (root / "adder").mkdir()
    put(root / "adder/template.py", CODE)
    put(root / "adder/kernel.py.j2", TEXT.replace("x[i] +", "x[i] -"))
    next_change(watcher, lambda c: kernel in c.rebuilt)
    assert added(kernel) == -4


def test_a_python_file_that_is_gone_or_new_is_named(root: Path, watcher: Watcher) -> None:
    tikgen.build("adder")
    helper = root / "adder/helper.py"
    save(root / "adder/template.py", "from typing", "from .helper import N\nfrom typing")
    lost = next_change(watcher)
    assert lost.files == (root / "adder/template.py",)
    put(helper, "N = 1\n")
    assert next_change(watcher).files == (helper,)
    helper.unlink()
    lost = next_change(watcher)
    assert lost.files == (helper,)
    assert str(lost).startswith("adder: adder/helper.py changed, and cannot be used")
    assert "No module named helper.py" in str(lost)
