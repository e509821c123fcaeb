"""Child processes that do not start, die or are gone; forks, which leave them to their parent."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tikgen.children import process, safe_path, work
from tikgen.children.job_process import JobProcess
from tikgen.children.process import ChildProcess, Died

SLEEPS = "import time; time.sleep(600)"
DIES = "import sys; sys.exit('no such driver')"
LEAVES = 'import os; print(\'{"absent": ""}\', flush=True); os.close(0); os._exit(3)'
SPENT = """
import json, os, sys
print('{"absent": ""}', flush=True)
for line in sys.stdin:
    print('{"stage": "spent", "note": ""}', flush=True)
    print(json.dumps({"kind": "ok", "message": str(os.getpid())}), flush=True)
"""

FORKS = """
import atexit, os, sys
from tikgen.children import safe_path
from tikgen.children.process import ChildProcess
from tikgen.disk import TemporaryFolder

safe_path.command = lambda *_: [sys.executable, "-c", sys.argv[1]]
child, folder = ChildProcess("none", launcher=sys.argv[3:]), TemporaryFolder()
atexit.register(child.stop)
assert child.start() == ""
pid = os.fork()
if pid == 0:
    if sys.argv[2] == "early":
        child.close()
        folder.remove()
    sys.exit(0)
assert os.waitpid(pid, 0)[1] == 0
assert folder.path.is_dir()
child.send("{}")
print(child.reply(60)["stage"], child.reply(60)["kind"], folder.path)
"""


def running(monkeypatch: pytest.MonkeyPatch, code: str) -> ChildProcess:
    monkeypatch.setattr(safe_path, "command", lambda *_: [sys.executable, "-c", code])
    return ChildProcess("none")


def test_a_process_that_does_not_start_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    child = running(monkeypatch, DIES)
    said = child.start()
    assert said.startswith("the process died while it started") and "no such driver" in said
    child.stop()
    monkeypatch.setattr(process, "START_SECONDS", 0.01)
    child = running(monkeypatch, SLEEPS)
    assert child.start() == "the process did not start within 0.01 s"
    assert not child.is_running


def test_a_line_to_a_process_that_has_ended_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    with running(monkeypatch, LEAVES) as child:
        assert child.start() == ""
        assert child._process is not None
        child._process.wait()
        with pytest.raises(Died, match="exit status 3"):
            child.send("anything")


def test_a_job_on_an_arch_that_does_not_work_has_an_outcome(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Absent(JobProcess):
        def start(self) -> str:
            return "no device"

    made: Any = Absent("none", "cuda", timeout=1.0)
    said = {"kind": "error", "message": "cuda does not work here: no device"}
    assert made.answer("{}", 1.0) == said


def test_another_process_takes_the_place_of_a_spent_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(safe_path, "command", lambda *_: [sys.executable, "-c", SPENT])
    with JobProcess("none", "vulkan", timeout=60.0) as process:
        answers = [process.answer("{}", 60.0) for _ in range(3)]
    assert {answer["kind"] for answer in answers} == {"ok"}
    assert len({answer["message"] for answer in answers}) == 3


def test_a_process_is_spent_by_what_its_driver_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work, "_INITS_ON_VULKAN", 2)
    for arch, inits, spent in (("cpu", 9, False), ("vulkan", 1, False), ("vulkan", 2, True)):
        monkeypatch.setattr(work, "_inits", [arch] * inits)
        assert work.is_spent() is spent


def test_the_package_is_found_wherever_it_was_imported_from(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    parent = str(Path(safe_path.__file__).parents[2])
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry != parent])
    assert safe_path.importable()[0] == parent


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.parametrize("when", ["early", "at the end"])
@pytest.mark.parametrize("launcher", [(), ("env",)])
def test_a_fork_leaves_processes_and_folders_to_its_parent(
    when: str, launcher: tuple[str, ...]
) -> None:
    command = [sys.executable, "-c", FORKS, SPENT, when, *launcher]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout.split()[:2]) == (0, ["spent", "ok"]), done.stderr
    assert not Path(done.stdout.split()[2]).exists()
