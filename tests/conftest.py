"""Fixtures: one arch a process, a store of the test run's own, no kernel left over."""

from __future__ import annotations

import contextlib
import functools
import gc
import os
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from tikgen.verification.process import ArchProcess

pytest_plugins = ["quick", "some_cases", "forked"]
# How long an example takes says how busy the machine is. The rest stays as hypothesis chose it,
# which has settings of its own for CI.
settings.register_profile("tikgen", settings(), deadline=None)
settings.load_profile("tikgen")

# What Taichi and LLVM compiled for the tests; later runs take it from there.
COMPILED = Path(__file__).parents[1] / ".pytest_cache" / "compiled"
MACHINE_CODE = COMPILED.with_name("code")
# Rooms whose tests compile most, and do not ask what was compiled.
_SHARING = frozenset({"expression", "grid", "program", "scaling", "templates"})
ARCH = os.environ.get("TIKGEN_TEST_ARCH", "cpu")
# What is piped has whole lines without it. Some shells export it; readline, which pytest imports,
# sets it for child processes where os.environ does not show it.
os.environ.pop("COLUMNS", None)
os.unsetenv("COLUMNS")
# No test asks Taichi's server for a newer version.
os.environ["TI_SKIP_VERSION_CHECK"] = "ON"
# A shell has its background jobs ignore Ctrl-C, and their children too.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@functools.cache
def _may_launch(module: Path) -> bool:
    return re.search(r"ti_arch|mark\.arch", module.read_text(encoding="utf-8")) is not None


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Import no module without tests that launch kernels where ``-m arch`` asks for these alone."""
    is_module = collection_path.name.startswith("test_") and collection_path.is_file()
    asked = re.match(r"arch\b(?!.*\bor\b)", config.option.markexpr or "")
    return True if asked and is_module and not _may_launch(collection_path) else None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that launch kernels: ``-m arch`` selects what a further arch must repeat."""
    for item in items:
        if "ti_arch" in getattr(item, "fixturenames", ()):
            item.add_marker("arch")
        if item.get_closest_marker("arch") and not _may_launch(item.path):
            raise pytest.UsageError(f"{item.path} launches kernels, and so it has to name ti_arch")


@pytest.fixture(scope="session", autouse=True)
def _own_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Keep the user's store out of the tests, and the tests out of the user's store."""
    folder = tmp_path_factory.mktemp("store")
    before = os.environ.get("TIKGEN_CACHE_DIR")
    os.environ["TIKGEN_CACHE_DIR"] = str(folder)
    yield folder
    if before is None:
        del os.environ["TIKGEN_CACHE_DIR"]
    else:
        os.environ["TIKGEN_CACHE_DIR"] = before


@pytest.fixture(scope="module", autouse=True)
def _shared_code(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, _own_store: Path
) -> Iterator[None]:
    """Let runs share machine code: its key has all that it depends on."""
    with pytest.MonkeyPatch.context() as patch:
        if request.path.parent.name in _SHARING:
            folder = tmp_path_factory.mktemp("store")
            MACHINE_CODE.mkdir(parents=True, exist_ok=True)
            (folder / "code").symlink_to(MACHINE_CODE)
            patch.setenv("TIKGEN_CACHE_DIR", str(folder))
        yield


@pytest.fixture(autouse=True)
def _own_template_path() -> Iterator[None]:
    """Forget the folders of templates that commands of a test were given."""
    before = os.environ.get("TIKGEN_TEMPLATE_PATH")
    yield
    if before is None:
        os.environ.pop("TIKGEN_TEMPLATE_PATH", None)
    else:
        os.environ["TIKGEN_TEMPLATE_PATH"] = before


@pytest.fixture(scope="module", autouse=True)
def _small_heap() -> None:
    """Keep what exists already out of garbage collections, which many tests ask for."""
    gc.collect()
    gc.freeze()


def built_in_templates() -> set[str]:
    """Return the names of tikgen's own templates, less those that tests made known."""
    from tikgen.template.base import BUILTIN_FOLDER

    return {path.parent.name for path in BUILTIN_FOLDER.glob("*/kernel.py.j2")}


def init_taichi(**options: Any) -> None:
    """Initialise Taichi on the arch of this process, with further options of ``ti.init``."""
    import taichi as ti

    ti.init(
        arch=getattr(ti, ARCH),
        log_level=ti.ERROR,
        enable_fallback=False,
        offline_cache_file_path=str(COMPILED),
        **options,
    )


def have_taichi(fast_math: bool) -> None:
    """Initialise Taichi unless it is so: that takes longer than many a test."""
    import taichi as ti

    from tikgen.taichi import runtime

    if runtime.current_arch() != ARCH or ti.cfg.fast_math is not fast_math:
        init_taichi(fast_math=fast_math)


@pytest.fixture
def without_fast_math() -> None:
    """Have results bit for bit as they are written."""
    have_taichi(fast_math=False)


@pytest.fixture
def ti_arch(request: pytest.FixtureRequest) -> Iterator[str]:
    """Give the arch of this process, with Taichi initialised on it."""
    try:
        have_taichi(fast_math="without_fast_math" not in request.fixturenames)
    except Exception as error:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(f"{ARCH} does not work on this machine: {error}")
    yield ARCH


@pytest.fixture
def by_taichi(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have Taichi launch what names no engine, in child processes too."""
    from tikgen import engines

    monkeypatch.setenv("TIKGEN_ENGINE", engines.TAICHI)
    monkeypatch.setattr(engines, "_wanted", engines.TAICHI)


@pytest.fixture
def rng() -> np.random.Generator:
    """Give random numbers that differ from run to run; the seed shows in a failing test."""
    seed = int.from_bytes(os.urandom(4), "little")
    print(f"rng seed {seed}")
    return np.random.default_rng(seed)


@pytest.fixture(scope="session")
def _verifying() -> Iterator[ArchProcess]:
    from tikgen.verification.process import ArchProcess

    class Lasting(ArchProcess):
        def start(self) -> str:
            return "" if self.is_running else super().start()

        def __exit__(self, *_: object) -> None:
            pass

    process = Lasting(ARCH, 120.0)
    process.start()
    yield process
    ArchProcess.__exit__(process)


@pytest.fixture
def one_process(_verifying: ArchProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let all verifications on the arch share a process: its start outlasts most of their work."""
    from tikgen.verification import search
    from tikgen.verification.process import ArchProcess

    def process_for(arch: str, timeout: float) -> ArchProcess:
        if arch != ARCH:
            return ArchProcess(arch, timeout)
        _verifying.timeout = timeout
        return _verifying

    monkeypatch.setattr(search, "ArchProcess", process_for)


@pytest.fixture(scope="session", autouse=True)
def _measured_children() -> Iterator[None]:
    """Let child processes end by themselves where coverage measures them: a kill loses it all."""
    if "COVERAGE_RUN" not in os.environ:
        yield
        return
    from tikgen.children.process import ChildProcess

    stop = ChildProcess.stop

    def end(child: ChildProcess) -> None:
        process = child._process
        if process is not None and process.poll() is None and process.stdin is not None:
            with contextlib.suppress(OSError, subprocess.TimeoutExpired):
                process.stdin.close()
                process.stdin = None  # Else it is flushed once more.
                process.wait(10)
        stop(child)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ChildProcess, "stop", end)
        yield
