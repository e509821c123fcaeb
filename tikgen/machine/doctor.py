"""Examines this machine: working archs, their devices, known limits, versions and caches."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import shutil
import signal
import subprocess
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tikgen import engines
from tikgen.children import safe_path
from tikgen.machine.devices import ARCHS, device_name
from tikgen.store import default_store
from tikgen.version import __version__

PACKAGES = (
    *("taichi", "numpy", "jinja2", "pydantic", "hypothesis", "matplotlib", "torch", "llvmlite"),
)
_PROBE_SECONDS = 120
# The process that runs a kernel, and its output if the result is correct.
_PROBE = "tikgen.demo.probe"
WORKS = "tikgen: the probe works, offline cache at "

_LIMITS = {
    "cpu": (
        "cpu: i8 and u8 // and % give wrong numbers, min and max on them abort; templates cast",
        "cpu: integer division by zero ends the process",
        "cpu: block_dim must be a power of two; there is no shared memory",
    ),
    "cuda": (
        "cuda: a launch copies NumPy arrays to the device and back; ti.ndarray stays there",
        "cuda: only the thread that called ti.init allocates arrays",
    ),
    "vulkan": (
        "vulkan: exp, log, sin, cos, tan, tanh and pow do not exist in f64; use f32, or cpu",
        "vulkan: i8 and u8 // and %, and atomics on f16, end the process",
    ),
    "lavapipe": (
        "lavapipe (Vulkan on the CPU): a kernel stops silently after 65,535 loop iterations in "
        "one invocation, nested loops counted together; templates refuse launches that need more",
    ),
    "any": (
        "every arch: 64 arguments a kernel at most; 32 arrays on vulkan",
        "every arch: arrays of u1 give wrong numbers; use i32 for flags",
    ),
}


@dataclass(frozen=True)
class ArchReport:
    """Whether a kernel ran correctly on an arch, and on which device."""

    name: str
    works: bool
    device: str
    message: str


@dataclass(frozen=True)
class EngineReport:
    """Whether an engine beside Taichi can be used here."""

    name: str
    works: bool
    message: str


@dataclass(frozen=True)
class CacheReport:
    """A cache on disk."""

    name: str
    folder: str
    entries: int
    bytes: int


@dataclass(frozen=True)
class Diagnosis:
    """The result of ``tikgen doctor``."""

    versions: dict[str, str]
    archs: tuple[ArchReport, ...]
    caches: tuple[CacheReport, ...]
    limits: tuple[str, ...]
    troubles: tuple[str, ...]
    engines: tuple[EngineReport, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the diagnosis as plain data."""
        return asdict(self)


def examine(archs: tuple[str, ...] = ARCHS) -> Diagnosis:
    """Examine this machine; a separate process tries each arch, so that a crash is a result."""
    probes = {arch: _run_probe(arch) for arch in archs}
    reports = tuple(_report_of(arch, *probe) for arch, probe in probes.items())
    taichi_folder = next(filter(None, (_cache_folder_in(log) for _, log in probes.values())), None)
    return Diagnosis(
        versions=_versions(),
        archs=reports,
        caches=_caches(taichi_folder),
        limits=_limits_of(reports),
        troubles=_troubles(reports, taichi_folder),
        engines=tuple(_engine_report(n, reports) for n in engines.ENGINES if n != engines.TAICHI),
    )


def _engine_report(name: str, archs: tuple[ArchReport, ...]) -> EngineReport:
    """Return whether an engine works, as a process finds that launches a kernel by it."""
    if why := engines.missing(name):
        return EngineReport(name, False, why)
    arch = next((r for r in archs if r.name == engines.arch_of(name)), None)
    if arch is None or not arch.works:
        return EngineReport(name, False, f"{engines.arch_of(name)} does not work, or was not tried")
    report = _report_of(arch.name, *_run_probe(arch.name, name))
    message = "a kernel ran and gave the same bits as with Taichi"
    return EngineReport(name, report.works, message if report.works else report.message)


def _run_probe(arch: str, *engine: str) -> tuple[int, str]:
    environment = safe_path.environment()
    for name in ("TI_ARCH", "TI_LOG_LEVEL"):
        environment.pop(name, None)
    try:
        done = subprocess.run(
            safe_path.command(_PROBE, arch, *engine),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=_PROBE_SECONDS,
            env=environment,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return 1, f"did not finish within {_PROBE_SECONDS} s"
    return done.returncode, done.stdout.decode(errors="replace")


def _report_of(arch: str, status: int, log: str) -> ArchReport:
    works = status == 0 and WORKS in log
    device = _device(arch, log) if works else ""
    if works:
        message = "a kernel ran and agrees with its reference"
    elif status < 0:
        message = f"the probe was killed by {signal.Signals(-status).name}"
    else:
        lines = [line.strip() for line in log.splitlines() if line.strip()]
        message = lines[-1] if lines else f"the probe ended with exit status {status}"
    return ArchReport(arch, works, device, message)


def _device(arch: str, log: str) -> str:
    if arch == "cpu":
        return device_name(arch)
    if arch == "cuda":
        query = ("nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader")
        return "; ".join(_output_of(*query).split("\n")) or "unknown"
    match = re.search(r"Found Vulkan Device \d+ \((.*)\)", log)
    name = match[1] if match else "unknown"
    return f"{name}, {driver}" if (driver := _vulkan_driver(name)) else name


def _vulkan_driver(device: str) -> str:
    """Return the driver of a Vulkan device, if the tool vulkaninfo reports it."""
    for part in re.split(r"^GPU\d+:", _output_of("vulkaninfo", "--summary"), flags=re.MULTILINE):
        facts = dict(re.findall(r"^\s*(\w+)\s*= (.*)$", part, flags=re.MULTILINE))
        if facts.get("deviceName") == device:
            return str(facts.get("driverInfo", ""))
    return ""


def _output_of(*command: str) -> str:
    """Return the output of a tool, or nothing if it is missing or fails."""
    if shutil.which(command[0]) is None:
        return ""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version(), "tikgen": __version__}
    for package in PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            found[package] = "not installed"
    return found


def _limits_of(reports: tuple[ArchReport, ...]) -> tuple[str, ...]:
    found = [limit for r in reports if r.works for limit in _LIMITS.get(r.name, ())]
    if any(r.name == "vulkan" and "llvmpipe" in r.device for r in reports):
        found += _LIMITS["lavapipe"]
    return (*found, *_LIMITS["any"])


def _cache_folder_in(log: str) -> Path | None:
    match = re.search(re.escape(WORKS) + r"(.+)", log)
    return Path(match[1]) if match else None


def _caches(taichi_folder: Path | None) -> tuple[CacheReport, ...]:
    store = default_store()
    found = [
        CacheReport(f"tikgen {kind}", str(store.folder / kind), entries, size)
        for kind, (entries, size) in store.sizes().items()
    ] or [CacheReport("tikgen", str(store.folder), 0, 0)]
    if taichi_folder is not None:
        files = [path for path in taichi_folder.rglob("*") if path.is_file()]
        size = sum(path.stat().st_size for path in files)
        found.append(CacheReport("taichi offline", str(taichi_folder), len(files), size))
    return tuple(found)


def _troubles(reports: tuple[ArchReport, ...], taichi_folder: Path | None) -> tuple[str, ...]:
    found = []
    if not any(report.works for report in reports):
        found.append("no arch works; see the message of each")
        home = os.environ.get("HOME")
        if os.name == "posix" and not (home and os.access(home, os.W_OK)):
            what = f"the folder HOME, {home}, cannot be written" if home else "HOME is not set"
            found.append(f"{what}: Taichi ends the process where it has no folder for its cache")
    if taichi_folder is not None:
        found += [
            f"{lock} was left by a killed process, or is in use: Taichi stores no compiled kernels "
            "while it exists; remove it if no Taichi program is running"
            for lock in sorted(taichi_folder.rglob("ticache.lock"))
        ]
    return tuple(found)
