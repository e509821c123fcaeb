"""Kernels ahead of time: compiled and proved here, run by a process that never imports Taichi.

It writes the bundle heat.zip, which runs from C and C++ as well: see aot_c and aot_cpp.
"""

import subprocess
import sys

import numpy as np

import tikgen

N, STEPS, RATIO = 200, 100, 0.2


def export() -> None:
    """Write a bundle with one kernel, and a graph that launches it twice."""
    step = tikgen.build("stencil", dim=2, update=True, boundary="periodic")
    two_steps = [
        ("step", {"x": "u", "y": "half", "scale": "ratio"}),
        ("step", {"x": "half", "y": "u", "scale": "ratio"}),
    ]
    bundle = tikgen.aot.export(
        {"step": step},
        "heat.zip",
        ["cpu"],
        graphs={"two_steps": {"steps": two_steps, "temporaries": ["half"]}},
        verify=True,
        max_examples=5,
    )
    print(bundle)


def run() -> None:
    """Solve the heat equation with the graph, and compare with NumPy."""
    start = np.random.default_rng().random((N, N), dtype=np.float32)
    with tikgen.aot.load("heat.zip") as runtime:
        u = runtime.array(start)
        for _ in range(STEPS // 2):
            runtime.two_steps(u, ratio=RATIO)
        result = u.to_numpy()

    expected = start.astype(np.float64)
    for _ in range(STEPS):
        around = sum(np.roll(expected, by, axis) for axis in (0, 1) for by in (-1, 1))
        expected += RATIO * (around - 4 * expected)
    error = np.abs(result - expected).max()
    print(f"{STEPS} steps without Taichi; largest error against NumPy: {error:.1e}")
    assert "taichi" not in sys.modules
    assert error < 1e-5


if sys.argv[1:] == ["run"]:
    run()
else:
    export()
    subprocess.run([sys.executable, __file__, "run"], check=True)
