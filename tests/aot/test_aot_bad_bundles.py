"""Bundles that are damaged, incomplete or hostile: a clear error, and nothing left behind."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import stat
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tikgen
from tikgen.aot.contents import check_all
from tikgen.aot.manifest import ARCHS, Build, File, Kernel, Manifest, encode
from tikgen.aot.running import c_library
from tikgen.errors import BundleError
from tikgen.machine.devices import host_arch

ARCH = host_arch()
OTHER = next(arch for arch in ARCHS if arch != ARCH)
FILES = {
    f"{ARCH}/heat/__version__": b"1.7.4",
    f"{ARCH}/heat/heat.ll": os.urandom(70_001),
    f"{OTHER}/heat/heat.spv": os.urandom(301),
    "sources/heat.py": b"print(1)\n",
}
BAD = f"{ARCH}/heat/heat.ll"


def manifest_of(held: dict[str, bytes], **changes: Any) -> Manifest:
    builds = {a: Build(module=f"{a}/heat", entry="heat", digest="") for a in (ARCH, OTHER)}
    said: dict[str, Any] = {
        "format": 1,
        "name": "sample",
        "archs": (ARCH, OTHER),
        "tikgen": "0",
        "taichi": "1.7.4",
        "kernels": {"heat": Kernel(name="heat", family="heat", builds=builds)},
        "files": {
            name: File(hashlib.sha256(data).hexdigest(), len(data)) for name, data in held.items()
        },
    }
    return Manifest(**said | changes)


@pytest.fixture(params=["folder", "archive"])
def bundle(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Give a sound bundle, the files of which are no artefacts."""
    folder = tmp_path / "sample"
    write_all(folder, {**FILES, "manifest.json": encode(manifest_of(FILES))})
    return folder if request.param == "folder" else archived(folder)


@pytest.fixture(autouse=True)
def nothing_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Check that no test leaves anything among the temporary files."""
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    yield
    assert not list((tmp_path / "temporary").iterdir())


def write_all(folder: Path, files: dict[str, bytes]) -> None:
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)


def archived(folder: Path) -> Path:
    return Path(shutil.make_archive(str(folder), "zip", folder))


def changed(bundle: Path, change: Callable[[Path], object]) -> Path:
    """Return the bundle with its files changed as in a folder."""
    if bundle.is_dir():
        change(bundle)
        return bundle
    folder = bundle.with_suffix("")
    change(folder)
    return archived(folder)


def refused(path: Path, arch: str | None = ARCH) -> str:
    with pytest.raises(BundleError) as caught:
        tikgen.aot.load(path, arch)
    assert str(path) in str(caught.value)
    return str(caught.value)


def test_a_sound_bundle_is_sound(bundle: Path) -> None:
    assert check_all(bundle) == []
    tikgen.aot.load(bundle, ARCH).close()


def rewrite(name: str, make: Callable[[bytes], bytes]) -> Callable[[Path], object]:
    return lambda root: (root / name).write_bytes(make((root / name).read_bytes()))


def flip(data: bytes) -> bytes:
    return data[:-9] + bytes([data[-9] ^ 4]) + data[-8:]


DAMAGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "one byte": (rewrite(BAD, flip), f"has a file {BAD} that differs from the file of its"),
    "shorter": (rewrite(BAD, lambda d: d[:-1]), f"has a file {BAD} that has 70000 bytes in place"),
    "longer": (rewrite(BAD, lambda d: d + b"x" * 999), "that is longer than the 70001 bytes"),
    "missing": (lambda root: (root / BAD).unlink(), f"lacks the file {BAD}; export it again"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_files(bundle: Path, damage: str) -> None:
    change, message = DAMAGES[damage]
    bad = changed(bundle, change)
    assert message in refused(bad)
    problems = check_all(bad)
    assert len(problems) == 1
    assert message in problems[0]


def test_only_the_files_of_the_arch_are_needed(bundle: Path) -> None:
    bad = changed(bundle, rewrite(f"{OTHER}/heat/heat.spv", flip))
    bad = changed(bad, rewrite("sources/heat.py", flip))
    tikgen.aot.load(bad, ARCH).close()
    assert len(check_all(bad)) == 2


ALTERED: dict[str, tuple[bytes, bytes, list[str]]] = {
    "name": (b'"entry": "heat"', b'"entry": "hear"', ["manifest.json that differs from its dig"]),
    "old": (b'"digest": "[0-9a-f]{64}"', b'"unknown": ""', []),
    "Taichi": (b'"taichi": "1.7.4"', b'"taichi": "1.6.0"', ["differs", "compiled by Taichi 1.6.0"]),
}


@pytest.mark.parametrize("how", ALTERED)
def test_an_altered_manifest_is_reported(bundle: Path, how: str) -> None:
    old, new, expected = ALTERED[how]
    bad = changed(bundle, rewrite("manifest.json", lambda text: re.sub(old, new, text)))
    found = check_all(bad)
    assert len(found) == len(expected)
    assert all(text in problem for text, problem in zip(expected, found, strict=True))


def test_files_missing_from_the_manifest_are_reported(bundle: Path) -> None:
    bad = changed(bundle, lambda root: (root / f"{ARCH}/heat/more.ll").write_bytes(b"x"))
    [problem] = check_all(bad)
    assert f"holds the file '{ARCH}/heat/more.ll', which its manifest does not name" in problem


def test_no_manifest_and_no_bundle(bundle: Path, tmp_path: Path) -> None:
    bad = changed(bundle, lambda root: (root / "manifest.json").unlink())
    assert "is no bundle: it lacks the file manifest.json" in refused(bad)
    assert "does not exist" in refused(tmp_path / "nowhere")
    (tmp_path / "text.zip").write_text("no archive")
    assert "is a damaged archive" in refused(tmp_path / "text.zip")
    assert check_all(tmp_path / "nowhere") != []


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b'{"format": "x"}', b"\xff\xfe", b"null"])
def test_manifests_that_are_none(bundle: Path, data: bytes) -> None:
    bad = changed(bundle, rewrite("manifest.json", lambda _: data))
    assert "has a damaged manifest.json" in refused(bad)


def test_a_manifest_of_a_later_version(bundle: Path) -> None:
    def later(data: bytes) -> bytes:
        return json.dumps({"format": 3, "tikgen": "9.1", "news": [1]}).encode()

    message = refused(changed(bundle, rewrite("manifest.json", later)))
    assert "has format 3, written by tikgen 9.1; this tikgen reads formats up to 2" in message


@pytest.mark.parametrize(
    "path", ["../evil", "/etc/evil", f"{ARCH}/../../evil", f"{ARCH}//evil", "C:/evil", "a\\b", "."]
)
def test_paths_that_lead_outside(bundle: Path, tmp_path: Path, path: str) -> None:
    said = manifest_of({**FILES, path: b"x"})
    bad = changed(bundle, rewrite("manifest.json", lambda _: encode(said)))
    assert f"names the file {path!r}, which is outside of the bundle" in refused(bad)
    archive = tmp_path / "evil.zip"
    with zipfile.ZipFile(archive, "w") as made:
        made.writestr("manifest.json", encode(manifest_of(FILES)))
        for name, data in FILES.items():
            made.writestr(name, data)
        made.writestr(zipfile.ZipInfo(path), b"x")
        made.infolist()[-1].filename = path  # ZipInfo would mend some.
    assert "which is outside of it" in refused(archive)
    assert not (tmp_path / "evil").exists()


def test_a_build_without_artefacts(bundle: Path) -> None:
    builds = {ARCH: Build(module=f"{ARCH}/cold", entry="heat", digest="")}
    kernels = {"heat": Kernel(name="heat", family="heat", builds=builds)}
    said = encode(manifest_of(FILES, kernels=kernels))
    bad = changed(bundle, rewrite("manifest.json", lambda _: said))
    assert f"has no artefacts of heat for {ARCH} in '{ARCH}/cold'" in refused(bad)


@pytest.mark.skipif(sys.platform == "win32", reason="links need rights there")
@pytest.mark.parametrize("what", [BAD, f"{ARCH}/heat", ARCH])
def test_links_are_not_followed(tmp_path: Path, what: str) -> None:
    folder = tmp_path / "sample"
    write_all(folder, {**FILES, "manifest.json": encode(manifest_of(FILES))})
    (folder / what).rename(tmp_path / "elsewhere")
    (folder / what).symlink_to(tmp_path / "elsewhere")
    assert f"has a link in place of {what}" in refused(folder)
    archive = archived(folder)
    with zipfile.ZipFile(archive, "a") as made:
        link = zipfile.ZipInfo(f"{ARCH}/link")
        link.create_system, link.external_attr = 3, (stat.S_IFLNK | 0o777) << 16
        made.writestr(link, "/etc/passwd")
    assert "which is neither file nor folder" in refused(archive)


@pytest.mark.parametrize("share", [0.0, 0.02, 0.3, 0.5, 0.9, 0.999])
def test_truncated_archives(tmp_path: Path, share: float) -> None:
    folder = tmp_path / "sample"
    write_all(folder, {**FILES, "manifest.json": encode(manifest_of(FILES))})
    archive = archived(folder)
    data = archive.read_bytes()
    archive.write_bytes(data[: int(share * len(data))])
    assert "is a damaged archive" in refused(archive)


def test_no_damage_of_an_archive_raises_anything_else(tmp_path: Path) -> None:
    files = {**FILES, BAD: FILES[BAD][:900]}
    folder = tmp_path / "sample"
    write_all(folder, {**files, "manifest.json": encode(manifest_of(files))})
    archive = archived(folder)
    data = archive.read_bytes()
    found = 0
    for place in range(0, len(data), 13):
        archive.write_bytes(data[:place] + bytes([data[place] ^ 0x5A]) + data[place + 1 :])
        found += bool(check_all(archive))
    # Times of files, and whatever else no one reads, may be anything.
    assert found > len(data) // 13 // 2


def test_names_that_an_archive_holds_twice(tmp_path: Path) -> None:
    archive = tmp_path / "twice.zip"
    with zipfile.ZipFile(archive, "w") as made:
        made.writestr("manifest.json", encode(manifest_of(FILES)))
        made.writestr(BAD, FILES[BAD])
        with pytest.warns(UserWarning, match="Duplicate name"):
            made.writestr(BAD, b"x")
    assert f"holds the file '{BAD}' twice" in refused(archive)


def test_archives_that_would_fill_the_disk(tmp_path: Path) -> None:
    archive = tmp_path / "bomb.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as made:
        made.writestr("manifest.json", encode(manifest_of(FILES)))
        for name, data in FILES.items():
            made.writestr(name, bytes(1 << 24) if name == BAD else data)
    assert archive.stat().st_size < 1 << 20
    assert "is longer than the 70001 bytes" in refused(archive)
    huge = {name: File("0" * 64, 1 << 40) for name in FILES}
    with zipfile.ZipFile(archive, "w") as made:
        made.writestr("manifest.json", encode(manifest_of(FILES, files=huge)))
    assert "claims more than" in refused(archive)


def test_unusual_ways_of_packing(tmp_path: Path) -> None:
    archive = tmp_path / "odd.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_BZIP2) as made:
        made.writestr("manifest.json", encode(manifest_of(FILES)))
    assert "encrypted or packed unusually" in refused(archive)


FULL = """
import resource, sys, tempfile
import tikgen
tempfile.tempdir = sys.argv[3]
resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000))
try:
    tikgen.aot.load(sys.argv[1], sys.argv[2]).heat()
except tikgen.errors.BundleError as error:
    print(error)
"""


def test_what_cannot_be_read_or_unpacked_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "sample"
    write_all(folder, {**FILES, "manifest.json": encode(manifest_of(FILES))})
    packed = archived(folder)
    (folder / BAD).unlink()
    (folder / BAD).mkdir()
    assert "heat.ll that cannot be read: Is a directory" in refused(folder)
    with monkeypatch.context() as patch:
        patch.setattr("tempfile.tempdir", str(packed))
        closed = pytest.raises(BundleError, match=r"cannot be unpacked into .*: Not a directory")
        with tikgen.aot.load(packed, ARCH) as runtime, closed:
            runtime.heat()


@pytest.mark.skipif(sys.platform == "win32", reason="there is no limit to set")
def test_a_disk_that_is_full(tmp_path: Path) -> None:
    folder = tmp_path / "sample"
    write_all(folder, {**FILES, "manifest.json": encode(manifest_of(FILES))})
    done = subprocess.run(
        [sys.executable, "-c", FULL, archived(folder), ARCH, tmp_path / "temporary"],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert "cannot be unpacked into" in done.stdout, done.stderr[-2000:]
    assert done.returncode == 0


def test_a_library_that_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "sample"
    write_all(folder, {**FILES, "manifest.json": encode(manifest_of(FILES))})
    monkeypatch.setenv("TAICHI_C_API_INSTALL_DIR", str(tmp_path))
    with tikgen.aot.load(folder, ARCH) as runtime:
        for _ in range(2):
            with pytest.raises(tikgen.errors.LibraryError, match="TAICHI_C_API_INSTALL_DIR is"):
                runtime.heat()
    with monkeypatch.context() as patch:
        patch.delenv("TAICHI_C_API_INSTALL_DIR")
        patch.setattr(c_library, "_folders_of_taichi", list)
        with pytest.raises(tikgen.errors.LibraryError, match="Taichi, which is not installed: pip"):
            c_library.find_folder()
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "libtaichi_c_api.so").write_bytes(b"no library")
    of_no_use = pytest.raises(tikgen.errors.LibraryError, match="cannot be used")
    with tikgen.aot.load(folder, ARCH) as runtime, of_no_use:
        runtime.heat()
