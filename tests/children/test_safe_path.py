"""What lies in the working directory is not imported: not by a command, nor by what it starts."""

from __future__ import annotations

import functools
import importlib.metadata
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from conftest import ARCH
from tikgen import load_template, verify
from tikgen.children import safe_path
from tikgen.children.process import ChildProcess

pytestmark = pytest.mark.once

MAP = ("map", "-p", "expr=out = x + 1", "-p", "dim=1")
QUICK = ("--verify", "--max-examples", "1", "--examples", "1")
MAIN = "from tikgen.cli import main\nmain()\n"
OPTIONAL = {"sitecustomize", "usercustomize", "optuna", "torch", "pynvml", "pandas", "dask"}


@functools.cache
def before_modules() -> set[str]:
    """Return what Python imports for ``python -m``, before it has looked at what is to run."""
    code = "import pkgutil, runpy, sys, warnings; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True)
    return {name.partition(".")[0] for name in done.stdout.split()}


@pytest.fixture(scope="module")
def evil(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a file for everything importable, which reports its import."""
    folder = tmp_path_factory.mktemp("evil")
    known = {*sys.stdlib_module_names, *importlib.metadata.packages_distributions(), *OPTIONAL}
    for name in (n for n in known - {"tikgen"} if n.isidentifier()):
        text = f"open({str(told_by(folder))!r}, 'a').write({name + ' '!r})\nraise ImportError"
        (folder / f"{name}.py").write_text(text)
    return folder


def told_by(folder: Path) -> Path:
    return folder.with_suffix(".told")


def run(evil: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Python in the folder; nothing in it may have been imported."""
    told_by(evil).unlink(missing_ok=True)
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=evil,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert not told_by(evil).exists(), told_by(evil).read_text()
    return done


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Give a script as the one that installing tikgen writes."""
    path = tmp_path_factory.mktemp("bin") / "tikgen"
    path.write_text(MAIN)
    return str(path)


@pytest.mark.parametrize(
    "command",
    [
        ("list",),
        pytest.param(("ir", "map", "chi", *MAP[1:], "--arch", ARCH), marks=pytest.mark.slow),
        pytest.param(
            ("verify", *MAP, "--arch", ARCH, "--max-examples", "2"), marks=pytest.mark.slow
        ),
        pytest.param(("doctor",), marks=pytest.mark.slow),
        pytest.param(
            ("tune", *MAP, "--arch", ARCH, "--shape", "1000", "--budget", "1"),
            marks=pytest.mark.slow,
        ),
        pytest.param(("sweep", *MAP, "--arch", ARCH, "--shape", "1000"), marks=pytest.mark.slow),
    ],
    ids=lambda command: command[0],
)
def test_a_command_runs_nothing_of_the_working_directory(
    evil: Path, script: str, command: tuple[str, ...], ti_arch: str
) -> None:
    done = run(evil, script, *command)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "absent" not in done.stdout


# An export verifies, compiles and proves: it starts a process of each kind.
@pytest.mark.parametrize("then", [(), pytest.param(("verify", "show"), marks=pytest.mark.slow)])
def test_commands_on_bundles_run_nothing_of_the_working_directory(
    evil: Path, script: str, tmp_path: Path, ti_arch: str, then: tuple[str, ...]
) -> None:
    path = str(tmp_path / "bundle")
    more = {
        "verify": ("bundle", "verify", path, "--prove", "--arch", ARCH),
        "show": ("bundle", "show", path),
    }
    for command in (
        ("export", "map", "expr=out = x + 1", "--to", path, "--arch", ARCH, *QUICK),
        *(more[name] for name in then),
    ):
        done = run(evil, script, *command)
        assert done.returncode == 0, done.stdout + done.stderr


def test_tikgen_as_a_module_imports_nothing_of_the_working_directory(
    evil: Path, tmp_path: Path
) -> None:
    for path in evil.glob("*.py"):
        if path.stem not in before_modules():
            (tmp_path / path.name).write_text(path.read_text())
    told_by(evil).unlink(missing_ok=True)
    done = run(tmp_path, "-m", "tikgen", "list")
    assert done.returncode == 0, done.stderr
    assert not told_by(evil).exists(), told_by(evil).read_text()


def test_every_process_is_started_by_one_function() -> None:
    package = Path(safe_path.__file__).parent
    allowed = {"process.py", "doctor.py"}
    for path in package.rglob("*.py"):
        text = path.read_text()
        starts = "sys.executable" in text or "import subprocess" in text
        if starts and path.name != "safe_path.py":
            assert path.name in allowed, path
            assert "sys.executable" not in text, path
            assert "safe_path.command(" in text, path


# Which folders a process passes on.


def as_main(monkeypatch: pytest.MonkeyPatch, name: str, origin: Path | None) -> None:
    """Let this process look as if Python had started that module, or a script for None."""
    main = ModuleType("__main__")
    main.__spec__ = origin and SimpleNamespace(name=name, origin=str(origin))  # type: ignore[assignment]
    monkeypatch.setitem(sys.modules, "__main__", main)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PYTHONPATH", raising=False)
    return tmp_path


def test_what_depends_on_the_working_directory_is_left_out(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", ["", ".", "lib", *sys.path])
    assert not {"", ".", "lib", str(here)} & set(safe_path.importable())


def test_a_module_from_elsewhere_does_not_bring_the_working_directory(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [str(here), *sys.path])
    as_main(monkeypatch, "pytest.__main__", here / ".venv" / "lib" / "pytest" / "__main__.py")
    assert str(here) not in safe_path.importable()


@pytest.mark.parametrize(("name", "file"), [("run", "run.py"), ("app.run", "app/run.py")])
def test_a_module_in_the_working_directory_brings_it(
    here: Path, monkeypatch: pytest.MonkeyPatch, name: str, file: str
) -> None:
    monkeypatch.setattr(sys, "path", [str(here), *sys.path])
    as_main(monkeypatch, name, here / file)
    assert str(here) in safe_path.importable()


def test_the_folder_of_a_script_and_what_it_added_stay(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [str(here), "/somewhere/else", *sys.path])
    as_main(monkeypatch, "", None)
    assert safe_path.importable()[-len(sys.path) :][:2] == [str(here), "/somewhere/else"]


def test_an_empty_entry_of_pythonpath_means_nothing(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [str(here), *sys.path])
    as_main(monkeypatch, "", None)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(("", "/somewhere")))
    assert str(here) not in safe_path.importable()
    assert safe_path.environment()["PYTHONPATH"] == "/somewhere"
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(("", str(here))))
    assert str(here) in safe_path.importable()


def test_a_deleted_working_directory_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "gone"
    folder.mkdir()
    monkeypatch.chdir(folder)
    folder.rmdir()
    assert safe_path.importable()


def test_a_template_finds_the_modules_that_its_user_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ti_arch: str
) -> None:
    from tikgen.template.scaffold import scaffold

    folder = scaffold("doubled", tmp_path)
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "helping_hand.py").write_text("HELPS = True\n")
    code = folder / "template.py"
    code.write_text(code.read_text() + "\n\nimport helping_hand\n\nassert helping_hand.HELPS\n")
    monkeypatch.syspath_prepend(str(tmp_path / "lib"))
    report = verify(load_template(folder), archs=(ti_arch,), max_examples=1)
    assert report.ok, report


def test_a_child_imports_what_its_parent_does(here: Path) -> None:
    (here / "json.py").write_text("raise SystemExit(9)\n")
    with ChildProcess("tikgen.verification.worker", "nonsense", str(here)) as child:
        assert "nonsense" in child.start()
