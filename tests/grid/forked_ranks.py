"""Has processes of MPI be forked from one that has imported Taichi and tikgen.

What ``mpiexec`` starts is a small process. It hands its files, its variables and its connection
to ``mpiexec`` to the forked one, and ends as that does. When it is ended, the other is ended too.
"""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

from forked import MOST_BYTES, MOST_FILES, Server

SMALL = """
import json, os, signal, socket, sys
ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
request = {
    "arguments": sys.argv[2:],
    "variables": dict(os.environ),
    "folder": os.getcwd(),
    "files": ["PMI_FD"],
    "tied": True,
}
with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as relay:
    relay.connect(sys.argv[1])
    files = [0, 1, 2, int(os.environ["PMI_FD"]), theirs.fileno()]
    socket.send_fds(relay, [json.dumps(request).encode()], files)
theirs.close()
ours.recv(32)
code = os.waitstatus_to_exitcode(int(ours.recv(32)))
if code < 0:
    signal.signal(-code, signal.SIG_DFL)
    os.kill(os.getpid(), -code)
sys.exit(code)
"""
# What a forked process does.
SCRIPT = """
import os, runpy, sys
sys.argv = sys.argv[1:]
sys.path.insert(0, os.path.dirname(sys.argv[0]))
runpy.run_path(sys.argv[0], run_name="__main__")
"""


@contextlib.contextmanager
def command(server: Server) -> Iterator[list[str]]:
    """Give the words that run a script, in a process which the server forks, below mpiexec."""
    with (
        tempfile.TemporaryDirectory() as folder,
        socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listening,
    ):
        path = Path(folder) / "relay"
        listening.bind(str(path))
        listening.listen()
        relay = threading.Thread(target=_relay, args=(listening, server), daemon=True)
        relay.start()
        try:
            yield [sys.executable, "-I", "-S", "-c", SMALL, str(path), SCRIPT]
        finally:
            listening.shutdown(socket.SHUT_RDWR)  # The thread waits no longer.
            relay.join()


def _relay(listening: socket.socket, server: Server) -> None:
    while True:
        try:
            connection, _ = listening.accept()
        except OSError:
            return
        with connection:
            content, files, _, _ = socket.recv_fds(connection, MOST_BYTES, MOST_FILES)
        if content:
            server.send(content, files)
        for file in files:
            os.close(file)
