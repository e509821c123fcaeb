"""What launches kernels for which no engine was named."""

from __future__ import annotations

import itertools
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import taichi as ti

import tikgen
from conftest import ARCH
from proving import until_decided, want_few_launches
from tikgen import engines

on_cuda = pytest.mark.skipif(ARCH != "cuda", reason="the default of another arch")
numbers = itertools.count(3)

# Ends while its PTX is being made.
ENDING = """
import taichi as ti, torch, tikgen
from tikgen.pipeline import automatic
ti.init(arch=ti.cuda, log_level=ti.ERROR)
kernel = tikgen.build("map", expr="y = 2*x + 0.123", dtype="f32")
x, y = torch.ones(9, device="cuda"), torch.zeros(9, device="cuda")
while automatic.choice_of(kernel.loaded)._making is None:
    kernel(x, y)
print("ends")
"""


def test_each_arch_has_its_default(monkeypatch: pytest.MonkeyPatch) -> None:
    for arch in ("vulkan", None):
        assert engines.resolved(engines.DEFAULT, arch) == "taichi"
    assert engines.resolved(engines.DEFAULT, "cpu") == "direct"
    assert engines.resolved(engines.DEFAULT, "cuda") == "auto"
    for arch in ("cpu", "cuda"):
        assert engines.resolved("taichi", arch) == "taichi"
    monkeypatch.setattr(engines, "works", lambda name: False)
    assert engines.resolved(engines.DEFAULT, "cpu") == "taichi"
    assert [engines.for_arch(arch) for arch in ("cpu", "cuda", "vulkan", None)] == [
        *("direct-cpu", "direct-cuda", "", "")
    ]


@pytest.mark.arch
@pytest.mark.skipif(ARCH == "cuda", reason="there it is automatic")
def test_the_default_launches(ti_arch: str) -> None:
    kernel = tikgen.build("map", expr="y = 2*x", dtype="f32")
    x, y = np.ones(9, np.float32), np.zeros(9, np.float32)
    kernel(x, y)
    assert (y == 2).all()
    its = engines.for_arch(ARCH) or "taichi"
    assert (kernel.engine, kernel.bind(x, y).engine) == (its, its)
    assert (f"launched by {its}" in repr(kernel)) == (its != "taichi")
    assert kernel.why == f"{its} is the default"


@pytest.fixture
def kernel(ti_arch: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    want_few_launches(monkeypatch)
    return tikgen.build("map", expr=f"y = y + {next(numbers)}*x", dtype="f32")


@pytest.mark.arch
@on_cuda
@pytest.mark.parametrize("is_bound", [True, False], ids=["bound", "plain"])
@pytest.mark.parametrize("kind", ["torch", "taichi"])
def test_on_cuda_arrays_of_the_device_come_to_be_launched_directly(
    kernel: Any, kind: str, is_bound: bool
) -> None:
    start = np.arange(1001, dtype=np.float32)
    if kind == "torch":
        torch = pytest.importorskip("torch")
        x, y, want = (torch.tensor(start, device="cuda") for _ in range(3))
    else:
        x, y, want = (ti.ndarray(ti.f32, 1001) for _ in range(3))
        for array in (x, y, want):
            array.from_numpy(start)
    call = kernel.bind(y, x) if is_bound else lambda: kernel(y, x)
    until_decided(kernel, call)
    call()
    for _ in range(kernel.launches):
        kernel.with_engine("taichi")(want, x)
    ti.sync()
    host = [a.cpu().numpy() if kind == "torch" else a.to_numpy() for a in (y, want)]
    np.testing.assert_array_equal(*host)
    assert (host[0][1:] > start[1:]).all()
    assert kernel.engine == "direct-cuda"
    assert kernel.why == "direct-cuda is proven for it"


@pytest.mark.arch
@on_cuda
def test_on_cuda_a_stream_of_torch_changes_nothing(kernel: Any) -> None:
    """Launches stay in the stream of Taichi, as before they were direct."""
    torch = pytest.importorskip("torch")
    x, y = (torch.ones(1 << 24, device="cuda") for _ in range(2))
    until_decided(kernel, lambda: kernel(y, x))
    assert kernel.engine == "direct-cuda"
    y.zero_()
    torch.cuda.synchronize()
    with torch.cuda.stream(torch.cuda.Stream()):
        for _ in range(20):
            kernel(y, x)
    ti.sync()
    factor = float(str(kernel.params["expr"]).partition("*")[0].partition("+")[2])
    assert (y.cpu().numpy() == 20 * factor).all()


@pytest.mark.arch
@pytest.mark.process
@on_cuda
def test_a_process_may_end_while_code_is_made(ti_arch: str) -> None:
    pytest.importorskip("torch")
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", ENDING], capture_output=True, text=True, timeout=180
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith("ends\n")
