"""Forks child processes from one that has imported Taichi and tikgen, with ``--some``.

These imports outlast what most children do in a test. Their input, output, folder and variables
are as of any start, and so is their end. ``make verify`` starts every process as users do, and so
do the tests of :mod:`tikgen.children`.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import IO, Any

import pytest

# Children import these as ``__main__``, and so they are forgotten once what they need is there.
_MAIN = (
    "tikgen.verification.worker",
    "tikgen.tuning.worker",
    "tikgen.aot.exporting.export_child",
    "tikgen.aot.exporting.proof_child",
    "tikgen.lifecycle.ir_child",
)
_NEEDED = ("llvmlite.binding", "tikgen.cli.app", "tikgen.verification.run")
# Variables that nothing reads while it is imported.
_FREE = frozenset({"PYTEST_CURRENT_TEST", "TIKGEN_CACHE_DIR", "TIKGEN_TEMPLATE_PATH"})
MOST_BYTES, MOST_FILES = 1 << 17, 5


class Forked:
    """A process that was forked; what :class:`subprocess.Popen` has, as far as it is needed.

    Args:
        pid: its number.
        status: where its exit status will come from.
        stdin: its input.
        stdout: its output.
    """

    def __init__(
        self, pid: int, status: socket.socket, stdin: IO[str] | None, stdout: IO[str]
    ) -> None:
        self.pid, self.stdin, self.stdout = pid, stdin, stdout
        self.returncode: int | None = None
        self._status = status

    def poll(self) -> int | None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            if not select.select([self._status], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(str(self.pid), timeout or 0)
            self.returncode = os.waitstatus_to_exitcode(int(self._status.recv(32)))
            self._status.close()
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def communicate(self, timeout: float | None = None) -> tuple[str, None]:
        """Close its input, and wait for its end; return its output that nobody has read."""
        if self.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                self.stdin.close()
        output = self.stdout.read()
        self.wait(timeout)
        self.stdout.close()
        return output, None


class Server:
    """The process that is forked, started when it is first needed."""

    def __init__(self) -> None:
        from tikgen.children import safe_path

        self.variables, self._path = safe_path.environment(), safe_path.importable()
        self._socket: socket.socket | None = None
        self._starting = threading.Lock()

    def can_fork(self, variables: dict[str, str]) -> bool:
        """Return whether a child with these variables imports what the server did."""
        differing = set(variables.items()) ^ set(self.variables.items())
        return {name for name, _ in differing} <= _FREE

    def fork(
        self,
        arguments: Sequence[str],
        variables: dict[str, str],
        stderr: int,
        folder: Path,
        forks: bool = False,
    ) -> Forked:
        """Return a process that does what ``python -c TEXT ...`` does.

        Args:
            arguments: the text, and further arguments.
            variables: its environment.
            stderr: the file to which its errors go.
            folder: its working directory.
            forks: whether its own children are forked as well.
        """
        given, stdin = os.pipe()
        stdout, taken = os.pipe()
        status, reported = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        request = {
            "arguments": arguments,
            "variables": variables,
            "folder": str(folder),
            "forks": forks,
        }
        self.send(json.dumps(request).encode(), [given, taken, stderr, reported.fileno()])
        for end in (given, taken):
            os.close(end)
        reported.close()
        return Forked(
            int(status.recv(32)),
            status,
            os.fdopen(stdin, "w", encoding="utf-8"),
            os.fdopen(stdout, encoding="utf-8"),
        )

    def send(self, request: bytes, files: Sequence[int]) -> None:
        """Ask for a process.

        Args:
            request: its ``arguments``, ``variables`` and ``folder`` as JSON; the names of variables
                that are the numbers of further files of it, as ``files``; whether it ends when
                nobody waits for its status any more, as ``tied``; whether its own children are
                forked as well, as ``forks``.
            files: its input, its output and its errors, further files, and a socket that takes its
                number and its status.
        """
        with self._starting:
            if self._socket is None:
                self._socket = self._start()
        socket.send_fds(self._socket, [request], files)

    def _start(self) -> socket.socket:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        text = f"import sys; sys.path[:] = {self._path!r}; import forked; forked.serve()"
        subprocess.Popen(
            [sys.executable, "-c", text, str(theirs.fileno())],
            stdin=subprocess.DEVNULL,
            env=self.variables,
            pass_fds=[theirs.fileno()],
        )
        theirs.close()
        return ours

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()


def serve() -> None:
    """Fork until the other side is gone; return in each child, which has the rest to do."""
    for name in (*_MAIN, *_NEEDED):
        importlib.import_module(name)
    for name in _MAIN:
        del sys.modules[name]
    gc.collect()
    gc.freeze()
    _serve(socket.socket(fileno=int(sys.argv[1])))


def _serve(requests: socket.socket) -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    interrupt = signal.signal(signal.SIGINT, signal.SIG_IGN)
    while True:
        content, files, _, _ = socket.recv_fds(requests, MOST_BYTES, MOST_FILES)
        if not content:
            return
        if not os.fork():
            break
        for file in files:
            os.close(file)
    # This process waits for the child: the server need not.
    requests.close()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    request = json.loads(content)
    status = socket.socket(fileno=files.pop())
    if child := os.fork():
        for file in files:
            os.close(file)
        if request.get("tied"):
            threading.Thread(target=_end_with, args=(status, child), daemon=True).start()
        with contextlib.suppress(OSError):
            status.send(str(child).encode())
            status.send(str(os.waitpid(child, 0)[1]).encode())
        os._exit(0)
    status.close()
    signal.signal(signal.SIGINT, interrupt)
    for number, file in enumerate(files[:3]):
        os.dup2(file, number)
        os.close(file)
    os.environ.clear()
    os.environ.update(request["variables"])
    os.environ.update(zip(request.get("files", ()), map(str, files[3:]), strict=True))
    os.chdir(request["folder"])
    if request.get("forks"):
        _serve_its_children()
    text, *arguments = request["arguments"]
    sys.argv = ["-c", *arguments]
    exec(compile(text, "<string>", "exec"), {"__name__": "__main__"})


def _serve_its_children() -> None:
    """Have the children of this process be forked from a copy of it, as it is now."""
    global _server
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    if not os.fork():
        ours.close()
        nothing = os.open(os.devnull, os.O_RDWR)
        for number in range(3):
            os.dup2(nothing, number)
        os.close(nothing)
        _serve(theirs)
        sys.exit()
    theirs.close()
    _server = Server()
    _server._socket = ours
    fork_children()


def _end_with(status: socket.socket, child: int) -> None:
    """End a process when the other side of a socket is gone."""
    if not status.recv(1):
        os.kill(child, signal.SIGKILL)


_server: Server | None = None


def server_for(variables: dict[str, str]) -> Server | None:
    """Return the server, if there is one and it can fork a process with these variables."""
    return _server if _server is not None and _server.can_fork(variables) else None


def popen(
    command: Sequence[str],
    *,
    stderr: IO[bytes],
    env: dict[str, str],
    forks: bool = False,
    **options: Any,
) -> Any:
    """Start a process with pipes for input and output, forked where that comes to the same.

    Args:
        command: its words.
        stderr: the file to which its errors go.
        env: its environment.
        forks: whether its own children are forked as well, if it is.
        options: as of :class:`subprocess.Popen`.
    """
    program, flag, *arguments = command
    plain = program == sys.executable and flag == "-c" and not options.get("start_new_session")
    server = server_for(env) if plain else None
    if server is None:
        return subprocess.Popen(command, stderr=stderr, env=env, **options)
    return server.fork(arguments, env, stderr.fileno(), Path.cwd(), forks)


def fork_children(monkeypatch: pytest.MonkeyPatch | None = None) -> None:
    """Have child processes of tikgen be forked; until this process ends, unless by a patch."""
    from tikgen.children import process

    forking = SimpleNamespace(**{**vars(subprocess), "Popen": popen})
    (monkeypatch or pytest.MonkeyPatch()).setattr(process, "subprocess", forking)


@pytest.fixture(scope="session", autouse=True)
def _forking_server(pytestconfig: pytest.Config) -> Iterator[None]:
    global _server
    given = pytestconfig.getoption
    if given("some") and not given("quick") and "COVERAGE_RUN" not in os.environ:
        _server = Server()
    yield
    if _server is not None:
        _server.close()
    _server = None


@pytest.fixture(scope="module", autouse=True)
def _forked_children(request: pytest.FixtureRequest, _forking_server: None) -> Iterator[None]:
    """Have children be forked, but for those of the tests of how they start."""
    with pytest.MonkeyPatch.context() as patch:
        if _server is not None and request.path.parent.name != "children":
            fork_children(patch)
        yield
