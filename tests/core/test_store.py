"""The store: atomic, checked, shared between processes; its problems never stop a caller."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest

import tikgen
from conftest import built_in_templates
from tikgen.engines import code_store, guarded
from tikgen.errors import StoreError, StoreWarning
from tikgen.pipeline import evidence, records
from tikgen.pipeline.rendering import digest_of
from tikgen.store import KINDS, Store, default_store

DOCUMENT = {"text": "for i in range(3):\n    pass\n", "numbers": [1, 0.1, 1e-300], "none": None}


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


def only_file(store: Store) -> Path:
    (path,) = store.folder.rglob("*.json")
    return path


def test_a_document_reads_as_written(store: Store) -> None:
    assert store.read("sources", "ab12") is None
    store.write("sources", "ab12", DOCUMENT)
    assert store.read("sources", "ab12") == DOCUMENT
    assert Store(store.folder).read("sources", "ab12") == DOCUMENT
    assert store.read("evidence", "ab12") is None
    assert only_file(store) == store.folder / "sources" / "ab" / "ab12.json"


def test_a_later_write_replaces(store: Store) -> None:
    store.write("sources", "k", {"n": 1})
    store.write("sources", "k", {"n": 2})
    assert store.read("sources", "k") == {"n": 2}
    assert store.keys("sources") == ("k",)


def test_keys_sizes_and_clear(store: Store) -> None:
    assert store.keys("sources") == ()
    assert store.sizes() == {}
    assert store.clear() == 0
    for key in ("b1", "a1", "a.2"):
        store.write("sources", key, DOCUMENT)
    store.write("evidence", "a1", DOCUMENT)
    assert store.keys("sources") == ("a.2", "a1", "b1")
    on_disk = sum(p.stat().st_size for p in store.folder.glob("sources/*/*.json"))
    assert store.sizes() == {"evidence": (1, on_disk // 3), "sources": (3, on_disk)}
    assert store.clear("sources") == 3
    assert store.sizes() == {"evidence": (1, on_disk // 3)}
    assert store.clear() == 1
    assert store.sizes() == {}


@pytest.mark.parametrize(
    "name", ["", "..", ".", ".hidden", "a/b", "../x", "a\\b", "a\n", "x" * 129]
)
def test_names_cannot_leave_the_folder(store: Store, name: str) -> None:
    for kind, key in (("sources", name), (name, "key")):
        with pytest.raises(StoreError, match="cannot be a k"):
            store.write(kind, key, DOCUMENT)
        with pytest.raises(StoreError, match="cannot be a k"):
            store.read(kind, key)
    with pytest.raises(StoreError, match="cannot be a kind"):
        store.clear(name)
    assert not store.folder.exists()


def test_a_document_that_is_not_json_is_refused(store: Store) -> None:
    with pytest.raises(StoreError, match="sources/k is not JSON"):
        store.write("sources", "k", {"value": object()})
    assert store.keys("sources") == ()


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text[: len(text) // 2],
        lambda text: "",
        lambda text: text.replace("range(3)", "range(4)"),
        lambda text: "[1, 2]",
        lambda text: '{"sha256": "0", "document": 3}',
        lambda text: "\udcff\udcfe",
        lambda text: "[" * 100_000,
    ],
    ids=["cut off", "empty", "changed", "no dict", "no document", "not UTF-8", "deep"],
)
def test_a_damaged_entry_reads_as_missing_and_is_replaced(store: Store, damage) -> None:
    store.write("sources", "k", DOCUMENT)
    store.write("sources", "other", DOCUMENT)
    for path in store.folder.rglob("*.json"):
        path.write_bytes(damage(path.read_text()).encode("utf-8", "surrogateescape"))
    with pytest.warns(StoreWarning, match="is damaged") as caught:
        assert store.read("sources", "k") is None
        assert store.read("sources", "k") is None
        assert store.read("sources", "other") is None
    assert len(caught) == 1
    store.write("sources", "k", DOCUMENT)
    assert store.read("sources", "k") == DOCUMENT


def test_an_error_while_writing_leaves_the_old_entry_and_no_other_file(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.write("sources", "k", {"n": 1})

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(Path, "replace", full)
        with pytest.warns(StoreWarning, match="the disk is full") as caught:
            store.write("sources", "k", {"n": 2})
            store.write("sources", "l", {"n": 3})
        assert len(caught) == 1
    assert store.read("sources", "k") == {"n": 2}
    assert store.keys("sources") == ("k", "l")
    assert Store(store.folder).read("sources", "k") == {"n": 1}
    assert [p.name for p in store.folder.rglob("*") if p.is_file()] == ["k.json"]
    store.write("sources", "k", {"n": 4})  # The disk works again.
    assert Store(store.folder).read("sources", "k") == {"n": 4}


def test_documents_in_memory_are_not_shared_with_the_caller(tmp_path: Path) -> None:
    (tmp_path / "store").write_text("a file, not a folder")
    store = Store(tmp_path / "store")
    document = {"list": [1]}
    with pytest.warns(StoreWarning, match="kept in memory") as caught:
        store.write("sources", "k", document)
        document["list"].append(2)
        first = store.read("sources", "k")
        assert first == {"list": [1]}
        first["list"].append(3)
        assert store.read("sources", "k") == {"list": [1]}
        assert store.read("sources", "absent") is None
        assert store.update("sources", "k", lambda old: {"was": old}) == {"was": {"list": [1]}}
        assert store.sizes() == {"sources": (1, 0)}
        assert store.clear() == 1
        assert store.read("sources", "k") is None
    assert len(caught) == 1


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="permissions do not bind root")
def test_a_read_only_folder_degrades_to_memory(store: Store) -> None:
    store.write("sources", "aa", {"n": 1})
    store.folder.chmod(0o500)
    try:
        with pytest.warns(StoreWarning, match="kept in memory") as caught:
            store.write("evidence", "k", {"n": 2})
            assert store.read("evidence", "k") == {"n": 2}
        assert len(caught) == 1
    finally:
        store.folder.chmod(0o700)


def test_an_entry_that_cannot_be_opened_reads_as_missing(store: Store) -> None:
    store.write("sources", "k", DOCUMENT)
    path = only_file(store)
    path.unlink()
    path.mkdir()
    with pytest.warns(StoreWarning, match="cannot be used"):
        assert store.read("sources", "k") is None


def test_clear_removes_the_files_of_dead_processes(store: Store) -> None:
    store.write("sources", "k", DOCUMENT)
    old, new = (only_file(store).with_name(name) for name in (".old.tmp", ".new.tmp"))
    old.write_text("half")
    new.write_text("half")
    os.utime(old, (0, 0))
    assert store.keys("sources") == ("k",)
    assert store.clear() == 1
    assert not old.exists()
    assert new.exists()


FILL = """
import sys
from tikgen.store import Store
store, me = Store(sys.argv[1]), int(sys.argv[2])
for n in range(40):
    store.write("sources", f"{n:02d}", {"n": n, "filler": "x" * 5000})
    assert store.read("sources", f"{n:02d}")["n"] == n
    store.update("tuning", "counter", lambda old: {"n": (old or {"n": 0})["n"] + 1})
"""


def test_eight_processes_fill_an_empty_store_at_once(store: Store) -> None:
    children = [
        subprocess.Popen(
            [sys.executable, "-W", "error::UserWarning", "-c", FILL, str(store.folder), str(me)],
            stderr=subprocess.PIPE,
            text=True,
        )
        for me in range(8)
    ]
    for child in children:
        _, errors = child.communicate(timeout=240)
        assert child.returncode == 0, errors
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(store.keys("sources")) == 40
        assert all(store.read("sources", key)["n"] == int(key) for key in store.keys("sources"))
    assert store.read("tuning", "counter") == {"n": 8 * 40}  # No update was lost.
    assert not list(store.folder.rglob("*.tmp"))


def test_the_default_store_follows_the_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIKGEN_CACHE_DIR", str(tmp_path / "one"))
    one = default_store()
    assert one.folder == tmp_path / "one"
    assert default_store() is one
    monkeypatch.setenv("TIKGEN_CACHE_DIR", str(tmp_path / "two"))
    assert default_store().folder == tmp_path / "two"
    monkeypatch.delenv("TIKGEN_CACHE_DIR")
    assert default_store().folder.name == "tikgen"


def test_a_file_is_plain_json(store: Store) -> None:
    store.write("sources", "k", DOCUMENT)
    entry = json.loads(only_file(store).read_text())
    assert entry["document"] == DOCUMENT
    assert len(entry["sha256"]) == 64


@pytest.fixture
def used(store: Store, monkeypatch: pytest.MonkeyPatch) -> Store:
    """Give an empty store that ``tikgen.build`` uses."""
    monkeypatch.setenv("TIKGEN_CACHE_DIR", str(store.folder))
    tikgen.clear()
    return store


BUILD_ALL = """
import sys
import taichi
import tikgen
print("ready", flush=True)
sys.stdin.readline()
required = {
    "map": {"expr": "z = a*x + y"},
    "update": {"equations": "u' = lap(u)"},
    "ring": {"handler": "y = 2*x", "inputs": {"x": "f32"}, "outputs": {"y": "f32"}},
}
for name in tikgen.list_templates():
    tikgen.build(name, **required.get(name, {}))
"""


def test_processes_build_every_template_with_an_empty_store(used: Store) -> None:
    children = [
        subprocess.Popen(
            [sys.executable, "-W", "error::UserWarning", "-c", BUILD_ALL],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    for child in children:
        assert child.stdout is not None
        while (line := child.stdout.readline()).strip() != "ready":
            assert line, child.communicate()[1]
    for child in children:
        assert child.stdin is not None
        child.stdin.write("go\n")
        child.stdin.flush()
    for child in children:
        _, errors = child.communicate(timeout=240)
        assert child.returncode == 0, errors
        assert "Warning" not in errors
    entries = [used.read("sources", key) for key in used.keys("sources")]
    assert {entry["template"] for entry in entries} == built_in_templates()
    assert all(digest_of(entry["text"]) == entry["digest"] for entry in entries)
    assert tuple(sorted(entry["digest"] for entry in entries)) == used.keys("sources")
    assert not list(used.folder.rglob("*.tmp"))


def test_build_works_without_a_store_and_warns_its_caller_once(used: Store) -> None:
    used.folder.write_text("a file, not a folder")
    with pytest.warns(StoreWarning, match="kept in memory") as caught:
        tikgen.build("stencil", dim=1)
        kernel = tikgen.build("scan")
    assert [warning.filename for warning in caught] == [__file__]
    kept = default_store().read("sources", kernel.digest)
    assert kept is not None
    assert kept["text"] == kernel.source.text


@pytest.mark.parametrize(
    "damage",
    [lambda text: text.replace("def scan", "def evil"), lambda text: text[: len(text) // 2]],
)
def test_build_rewrites_a_damaged_text(used: Store, damage: Callable[[str], str]) -> None:
    digest = tikgen.build("scan").digest
    path = only_file(used)
    whole = path.read_text()
    path.write_text(damage(whole))
    assert path.read_text() != whole
    tikgen.clear()
    with pytest.warns(StoreWarning, match="is damaged") as caught:
        assert tikgen.build("scan").digest == digest
    assert [warning.filename for warning in caught] == [__file__]
    assert path.read_text() == whole


def test_an_unknown_home_folder_degrades_to_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TIKGEN_CACHE_DIR", "~no-such-user/store")
    store = default_store()
    with pytest.warns(StoreWarning, match="no such home folder.*kept in memory") as caught:
        store.write("sources", "k", DOCUMENT)
        assert store.update("tuning", "k", lambda old: {"old": old}) == {"old": None}
    assert len(caught) == 1
    assert default_store() is store
    assert store.read("sources", "k") == DOCUMENT
    assert store.clear() == 2
    assert not list(tmp_path.iterdir())


def test_the_kinds_of_tikgen_are_known() -> None:
    rooms = (code_store, guarded, evidence, records)
    assert {*KINDS} == {"sources", *(room.KIND for room in rooms)}
