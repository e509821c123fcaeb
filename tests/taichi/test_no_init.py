"""What works without ti.init, and the errors of what needs it; each in a fresh process."""

from __future__ import annotations

import subprocess
import sys

import pytest


def run(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_everything_before_the_launch_works_without_ti_init() -> None:
    out = run(
        "import numpy as np, tikgen\n"
        "k = tikgen.build('stencil', dim=1)\n"
        "x = np.arange(5, dtype=np.float32) ** 2\n"
        "print(k.reference(x)[1:-1], k.digest, len(k.eject()), tikgen.describe('stencil'))\n"
        "try:\n    k(x, np.zeros_like(x))\n"
        "except tikgen.errors.TaichiNotInitialised as error:\n    print('said:', error)\n"
        "try:\n    k.bind(x, np.zeros_like(x))\n"
        "except tikgen.TikgenError as error:\n    print('said:', error)\n"
    )
    assert "[2. 2. 2.]" in out
    said = "said: stencil cannot run: Taichi is not initialised. Call ti.init(arch=ti.cpu)"
    assert out.count(said) == 2


def test_arrays_made_before_tikgen_was_imported_are_known_to_be_stale() -> None:
    out = run(
        "import taichi as ti, numpy as np\n"
        "ti.init(arch=ti.cpu, log_level=ti.ERROR)\n"
        "x = ti.ndarray(ti.f32, 5)\n"
        "import tikgen\n"
        "k = tikgen.build('stencil', dim=1)\n"
        "y = np.zeros(5, np.float32)\n"
        "k(x, y)\n"
        "ti.init(arch=ti.cpu, log_level=ti.ERROR)\n"
        "try:\n    k(x, y)\n"
        "except tikgen.TikgenError as error:\n    print('said:', error)\n"
        "ti.reset()\n"
        "try:\n    k(y, y.copy())\n"
        "except tikgen.TikgenError as error:\n    print('said:', error)\n"
    )
    assert "argument 'x' was made before the last ti.init and is stale" in out
    assert "Taichi is not initialised" in out


def test_importing_tikgen_does_not_import_the_slow_parts() -> None:
    out = run(
        "import sys, tikgen\n"
        "heavy = ('hypothesis', 'matplotlib', 'torch', 'typer', 'pandas', 'rich')\n"
        "print([m for m in heavy if m in sys.modules])\n"
    )
    assert out.strip().splitlines()[-1] == "[]"


def test_warnings_of_taichis_own_files_are_not_shown() -> None:
    out = run(
        "import contextlib, sys, warnings, tikgen, taichi\n"
        "for name in 'taichi/tools/image.py', 'mine.py':\n"
        "    with contextlib.redirect_stderr(sys.stdout):\n"
        "        warnings.warn_explicit('invalid escape', SyntaxWarning, f'/packages/{name}', 60)\n"
    )
    assert "mine.py:60: SyntaxWarning: invalid escape" in out
    assert "image.py" not in out


def test_the_first_launch_belongs_to_the_thread_that_called_ti_init() -> None:
    out = run(
        "import threading, numpy as np, taichi as ti, tikgen\n"
        "ti.init(arch=ti.cpu, log_level=ti.ERROR)\n"
        "k = tikgen.build('stencil', dim=1, storage='field')\n"
        "f, g = ti.field(ti.f32, 5), ti.field(ti.f32, 5)\n"
        "def work():\n"
        "    try:\n        k(f, g); print('ran')\n"
        "    except tikgen.TikgenError as error:\n        print('said:', error)\n"
        "def in_thread():\n"
        "    t = threading.Thread(target=work); t.start(); t.join()\n"
        "in_thread()\n"
        "ti.sync()\n"
        "in_thread()\n"
        "k(f, g)\n"
    )
    assert "said: stencil cannot have its first launch in this thread" in out
    assert out.count("ran") == 1


@pytest.mark.some
@pytest.mark.parametrize(
    ("imports", "asks"), [("tikgen, taichi", False), ("taichi, tikgen", False), ("taichi", True)]
)
def test_taichi_asks_no_server_for_its_version(
    imports: str, asks: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TI_SKIP_VERSION_CHECK", raising=False)
    out = run(
        "import threading\n"
        "start = threading.Thread.start\n"
        "def show(thread):\n"
        "    if thread._target.__module__ == 'taichi._version_check':\n        print('asked')\n"
        "    else:\n        start(thread)\n"
        "threading.Thread.start = show\n"
        f"import {imports}\n"
        "taichi.init(arch=taichi.cpu)\n"
    )
    assert ("asked" in out) == asks
