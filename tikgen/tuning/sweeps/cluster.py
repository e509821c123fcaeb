"""Runs the tasks of a sweep on the workers of a Dask cluster.

Each worker measures in a process of its own, as a sweep on one machine does: a kernel that crashes
or hangs ends that process and not the worker. Templates travel with their jobs.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import threading
import time
import uuid
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tikgen.disk import TemporaryFolder
from tikgen.errors import TikgenError, one_line
from tikgen.machine.devices import device_name
from tikgen.pipeline.records import taichi_version
from tikgen.template.base import TEXT_NAME, Template
from tikgen.tuning.job import Measurement, job_of
from tikgen.tuning.process import MeasuringProcess
from tikgen.tuning.ranks.launching import RanksProcess, process_for
from tikgen.tuning.sweeps.results_file import Done
from tikgen.tuning.sweeps.runners import Task, absence
from tikgen.version import __version__

if TYPE_CHECKING:
    from distributed import Client, Future

# Dask raises either, before Python 3.11.
_TIMEOUTS = (TimeoutError, asyncio.TimeoutError)
CONNECT_SECONDS = 10.0
# Workers may still be starting, or be restarted after they died.
WORKERS_SECONDS = 60.0
_POLL_SECONDS = 5.0
# Tasks of a worker: the one that it measures and the next.
_AT_HAND = 2
# Dask gives up a task after three workers died of it; then it is submitted once more.
_RESUBMISSIONS = 1
_KEPT = "What was measured is in the results file, if one was named"


# On a worker.


@dataclass(frozen=True)
class Package:
    """A template as it travels: its fingerprint, and its files by path."""

    name: str
    fingerprint: str
    files: Mapping[str, str]

    @classmethod
    def of(cls, folder: str) -> Package:
        """Return the package of the template in ``folder``."""
        template = Template(Path(folder))
        root = template.folder.parent
        paths = [template.folder / TEXT_NAME, *sorted(template.folder.glob("*.py"))]
        paths += [m.path for m in template.macros if m.path.is_relative_to(root)]
        files = {p.relative_to(root).as_posix(): p.read_text(encoding="utf-8") for p in paths}
        return cls(template.name, template.fingerprint, files)


_turn = threading.Lock()
# By group of jobs.
_processes: dict[tuple[str, ...], MeasuringProcess] = {}
_absent: dict[tuple[str, ...], str] = {}
_unpacked: dict[str, tuple[Path, Any]] = {}


def describe_worker(archs: Sequence[str]) -> dict[str, Any]:
    """Return the versions on this worker and the device behind each arch."""
    return {
        "versions": {"tikgen": __version__, "taichi": taichi_version()},
        "devices": {arch: device_name(arch) for arch in archs},
    }


def measure_on_worker(lines: Sequence[str], package: Package, timeout: float) -> dict[str, Any]:
    """Measure a job, and its baseline if there is one, in the process for its arch."""
    job, *others = map(job_of, lines)
    with _turn:
        folder = str(_unpack(package))
        _stop_ranks(job.group)
        if job.group not in _processes:
            _processes[job.group] = process_for(job, timeout)
            _absent[job.group] = _processes[job.group].start()
        process, absent = _processes[job.group], _absent[job.group]
        process.timeout = timeout
        began = time.perf_counter()
        found = absence(job.place, absent)
        if not absent:
            found = process.run(*(replace(each, folder=folder) for each in (job, *others)))
        return {
            "measurement": asdict(found),
            "device": device_name(job.arch),
            "busy": time.perf_counter() - began,
            "absent": bool(absent),
        }


def stop_processes() -> None:
    """End the processes of this worker, once none of them measures."""
    # Dask runs this in the thread that keeps the worker alive, which must not wait.
    threading.Thread(target=_stop_processes, daemon=True).start()


def _stop_processes() -> None:
    with _turn:
        for process in _processes.values():
            process.close()
        _processes.clear()
        _absent.clear()


def _stop_ranks(wanted: tuple[str, ...]) -> None:
    """End ranks of other groups, which would take cores and memory from this one."""
    for group, process in list(_processes.items()):
        if isinstance(process, RanksProcess) and group != wanted:
            process.close()
            del _processes[group], _absent[group]


def _unpack(package: Package) -> Path:
    """Return the folder of a template; raise where this tikgen would render it differently."""
    if package.fingerprint not in _unpacked:
        holder = TemporaryFolder()  # Removed when the worker ends.
        root = holder.path
        for name, text in package.files.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text, encoding="utf-8")
        _unpacked[package.fingerprint] = (root / package.name, holder)
    folder = _unpacked[package.fingerprint][0]
    if Template(folder).fingerprint != package.fingerprint:
        raise TikgenError(
            f"The worker cannot render {package.name} as it is rendered here: its tikgen "
            f"{__version__} has other shared macros. Install the same tikgen there."
        )
    return folder


# On the machine that asks.


@contextlib.contextmanager
def connected(scheduler: str) -> Iterator[Client]:
    """Give a client of the scheduler at an address, and close it in the end.

    Raises:
        TikgenError: if Dask is not installed, or the scheduler does not answer.
    """
    _need_distributed()
    from distributed import Client

    _check_address(scheduler)
    try:
        client = Client(scheduler, timeout=CONNECT_SECONDS, set_as_default=False)
    except Exception as error:  # Any program may listen there.
        reason = " ".join(str(error).split()) or type(error).__name__
        raise TikgenError(
            f"The scheduler at {scheduler!r} does not answer within {CONNECT_SECONDS:g} s: "
            f"{reason}. Take the address that `dask scheduler` prints, such as tcp://host:8786."
        ) from None
    try:
        yield client
    finally:
        client.close(timeout=CONNECT_SECONDS)


def _check_address(scheduler: str) -> None:
    """Raise where an address lacks its host or its port; a client would wait forever."""
    from distributed.comm.addressing import parse_address, parse_host_port

    try:
        kind, rest = parse_address(scheduler)
        if kind != "inproc":
            parse_host_port(rest)
    except ValueError as error:
        raise TikgenError(
            f"{scheduler!r} is no address of a scheduler: {error}. Take the one that "
            "`dask scheduler` prints, such as tcp://host:8786."
        ) from None


def _need_distributed() -> None:
    try:
        import distributed  # noqa: F401
    except ImportError:
        raise TikgenError("A sweep on a cluster needs Dask: pip install 'tikgen[dask]'.") from None


class ClusterRunner:
    """Measures on the workers of a Dask cluster.

    Args:
        client: a synchronous client of the cluster.
        timeout: seconds that a job may take to compile, to be verified and to be timed.

    Raises:
        TikgenError: if ``client`` is no such client, or there is no worker.
    """

    def __init__(self, client: Client, timeout: float) -> None:
        _need_distributed()
        from distributed import Client

        if not isinstance(client, Client) or client.asynchronous:
            raise TikgenError(f"A sweep takes a synchronous distributed.Client; got {client!r}.")
        if client.status != "running":
            raise TikgenError(
                f"A sweep takes a client that is connected; this one is {client.status}."
            )
        self._client, self._timeout = client, timeout
        self._packages: dict[str, Package] = {}
        # By arch and device.
        self._workers: dict[tuple[str, str], list[str]] = {}
        self._devices: dict[str, tuple[str, ...]] = {}
        self._wait_for_workers()
        self.width = len(self._addresses())

    def devices(self, archs: Sequence[str]) -> Mapping[str, Sequence[str]]:
        """Return the devices behind each arch; raise where a worker has other versions."""
        try:
            found = self._client.run(describe_worker, list(archs))
        except Exception as error:  # A worker may fail to unpickle or to import anything.
            raise TikgenError(
                "The workers cannot run tikgen; install the same version of it on each: "
                f"{one_line(error)}"
            ) from None
        devices: dict[str, dict[str, None]] = {arch: {} for arch in archs}
        here = describe_worker(())["versions"]
        for address, described in found.items():
            if described["versions"] != here:
                raise TikgenError(
                    f"The worker at {address} has {_shown(described['versions'])}, and here is "
                    f"{_shown(here)}; install the same versions."
                )
            for arch, device in described["devices"].items():
                devices[arch][device] = None
                self._workers.setdefault((arch, device), []).append(address)
        self._devices = {arch: tuple(names) for arch, names in devices.items()}
        return self._devices

    def run(self, tasks: deque[Task]) -> Iterator[tuple[Task, Done, bool]]:
        """Take each task off the queue; yield it with its outcome, and whether to keep that.

        Tasks of a worker that dies run again on another one.

        Raises:
            TikgenError: if the scheduler is gone, or there is no worker for long.
        """
        running: dict[Future, tuple[Task, int]] = {}
        try:
            while tasks or running:
                self.width = max(1, len(self._addresses()))
                while tasks and len(running) < _AT_HAND * self.width:
                    task = tasks.popleft()
                    running[self._submit(task)] = (task, 0)
                for future in self._finished(running):
                    task, attempts = running.pop(future)
                    if _is_killed(future) and attempts < _RESUBMISSIONS:
                        running[self._submit(task)] = (task, attempts + 1)
                    else:
                        yield task, *self._outcome(task, future)
        finally:
            if self._client.status == "running":
                with contextlib.suppress(Exception):  # Workers that are gone need no cleanup.
                    self._client.cancel(list(running))
                    self._client.run(stop_processes)

    def _submit(self, task: Task) -> Future:
        job = task.job
        if job.folder not in self._packages:
            self._packages[job.folder] = Package.of(job.folder)
        workers = self._workers.get((job.arch, task.device))
        return self._client.submit(
            measure_on_worker,
            [each.line for each in (job, task.baseline) if each is not None],
            self._packages[job.folder],
            task.seconds(self._timeout),
            key=f"tikgen-{job.template}-{uuid.uuid4().hex}",
            workers=workers,
            allow_other_workers=workers is not None,
        )

    def _finished(self, running: Mapping[Future, Any]) -> list[Future]:
        """Return the futures that are finished, as soon as there is one."""
        from distributed import wait

        while True:
            # All are cancelled where the scheduler is gone.
            with (
                contextlib.suppress(*_TIMEOUTS, concurrent.futures.CancelledError),
                self._client.as_current(),  # ``wait`` takes no client.
            ):
                wait(list(running), timeout=_POLL_SECONDS, return_when="FIRST_COMPLETED")
            if self._client.status != "running":
                raise _scheduler_is_gone()
            done = [future for future in running if future.done()]
            if done:
                return done
            if not self._addresses():
                self._wait_for_workers()

    def _outcome(self, task: Task, future: Future) -> tuple[Done, bool]:
        if future.status == "finished":
            found = future.result()
            measured = Measurement(**found["measurement"])
            done = Done(task.work, measured, found["device"], found["busy"])
            return done, not found["absent"]
        device = task.device or self._devices[task.job.arch][0]
        if _is_killed(future):
            measured = Measurement("crash", "every worker that measured it died")
            return Done(task.work, measured, device), True
        message = f"Dask gave it up: the future is {future.status}"
        if future.status == "error":
            message = one_line(future.exception())
        return Done(task.work, Measurement("error", message), device), False

    def _addresses(self) -> list[str]:
        try:
            return list(self._client.nthreads())
        except (OSError, asyncio.TimeoutError):
            raise _scheduler_is_gone() from None

    def _wait_for_workers(self) -> None:
        try:
            self._client.wait_for_workers(1, timeout=WORKERS_SECONDS)
        except _TIMEOUTS:
            raise TikgenError(
                f"The cluster has had no worker for {WORKERS_SECONDS:g} s; start one with "
                f"`dask worker ADDRESS`. {_KEPT}."
            ) from None


def _scheduler_is_gone() -> TikgenError:
    return TikgenError(f"The scheduler is gone. {_KEPT}: start the sweep again to continue.")


def _is_killed(future: Future) -> bool:
    from distributed import KilledWorker

    return future.status == "error" and isinstance(future.exception(), KilledWorker)


def _shown(versions: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {version}" for name, version in versions.items())
