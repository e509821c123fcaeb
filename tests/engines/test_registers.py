"""Machine code of direct-cpu reads no vector or mask register that it has not written."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from typing import Any

import numpy as np
import pytest

import tikgen
from conftest import ARCH
from tikgen.engines import native
from tikgen.pipeline.direct import direct_of

pytestmark = [
    pytest.mark.arch,
    pytest.mark.skipif(ARCH != "cpu", reason="the engine is for cpu"),
]
pytest.importorskip("llvmlite", reason="llvmlite is an extra: pip install tikgen[fast]")

# Signs of two numbers at once, as places beyond an edge are mirrored.
MIRRORED = {
    "equations": "u' = u + dt*(lap(u) + u[-1, -1, 0]); m = max(u'*k)",
    "boundary": {
        "x-": "symmetric",
        "x+": "antisymmetric",
        "y-": "periodic",
        "y+": "periodic",
        "z-": "clamp",
        "z+": "antireflect",
    },
    "dim": 3,
    "order": 4,
    "dtype": "f64",
    "scalars": ("dt",),
    "schedule": {"loop": "points"},
}
PART = ((0, 0, 0, 3), (0, 0, 0, 8), (2, 0, 2, 8))


REGISTERS = [f"zmm{n}" for n in range(32)] + [f"k{n}" for n in range(8)]
FILL = """
void fill(long long word) {{
    __asm__ volatile({code} : : "r"(word) : {clobbered});
}}
"""


@pytest.fixture(scope="module")
def fill(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Give a function that leaves a number in all registers that a call need not preserve."""
    if "+avx512bw" not in native.host()[1].split(","):
        pytest.skip("the processor has no AVX-512")
    if (compiler := shutil.which("gcc")) is None:
        pytest.skip("there is no gcc")
    code = [f"vpbroadcastq %0, %%{r}" if r[0] == "z" else f"kmovq %0, %%{r}" for r in REGISTERS]
    folder = tmp_path_factory.mktemp("fill")
    (folder / "fill.c").write_text(
        FILL.format(
            code=" ".join(f'"{line}\\n"' for line in code),
            clobbered=", ".join(f'"{name}"' for name in REGISTERS),
        )
    )
    options = ("-O1", "-mavx512f", "-mavx512bw", "-shared", "-fPIC", "-o", "fill.so", "fill.c")
    subprocess.run([compiler, *options], cwd=folder, check=True, capture_output=True, text=True)
    call = ctypes.CDLL(str(folder / "fill.so")).fill
    call.argtypes, call.restype = [ctypes.c_longlong], None
    return call


@pytest.mark.usefixtures("without_fast_math")
@pytest.mark.parametrize("part", [None, PART], ids=["whole", "part"])
def test_what_registers_hold_makes_no_difference(
    part: Any, fill: Any, rng: np.random.Generator
) -> None:
    kernel = tikgen.update(MIRRORED["equations"], part=part, **_but("equations"))
    u, found = rng.random((3, 8, 6)), []
    loaded = kernel.for_arguments((u, 0.1, u.copy(), np.zeros(1)), {}).loaded
    direct = direct_of(loaded, "direct-cpu")
    for word in (0, -1, 0x3FF0000000000001):
        after, most = np.zeros_like(u), np.zeros(1)
        values = (u, 0.1, after, most)
        scratch = direct.scratch(loaded.check(values))
        launcher = direct.launcher()
        launcher.set_all((*values, *scratch))
        fill(word)
        launcher.launch()
        found.append((after, most))
    for after, most in found[1:]:
        np.testing.assert_array_equal(after, found[0][0])
        np.testing.assert_array_equal(most, found[0][1])
    assert found[0][0].any()


def _but(name: str) -> dict[str, Any]:
    return {key: value for key, value in MIRRORED.items() if key != name}
