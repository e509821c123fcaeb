"""Kernels that are exported have the default schedule of what runs the bundle."""

from __future__ import annotations

import pytest

import tikgen
from tikgen.aot.exporting.export_plan import KernelPlan
from tikgen.aot.exporting.template_kernels import plan_kernel
from tikgen.engines import DIRECT_CPU, works
from tikgen.pipeline.choice import choose

ARCHS = ("x64", "vulkan")


def planned(kernel: tikgen.Kernel, is_native: bool = False) -> KernelPlan:
    archs = ARCHS[:1] if is_native else ARCHS
    return plan_kernel(kernel, archs, {}, False, 1, needs_evidence=False, is_native=is_native)


@pytest.mark.skipif(not works(DIRECT_CPU), reason="llvmlite is missing")
@pytest.mark.parametrize(
    ("template", "params"),
    [("stencil", {"dim": 2}), ("update", {"equations": "u' = lap(u)", "dim": 2})],
    ids=["stencil", "update"],
)
def test_a_default_follows_what_runs_the_bundle(template: str, params: dict[str, object]) -> None:
    kernel = tikgen.build(template, arch="cpu", **params)
    plan = planned(kernel)
    assert not plan.failures
    codes = {"x64": plan.codes["x64"], "vulkan": plan.codes["vulkan"]}
    codes["native"] = planned(kernel, is_native=True).codes["x64"]
    for which, (arch, engine) in {
        "x64": ("cpu", "taichi"), "vulkan": ("vulkan", "taichi"), "native": ("cpu", "direct-cpu"),
    }.items():  # fmt: skip
        wanted = choose(template, None, None, arch, params, engine=engine)[0].schedule
        assert codes[which].schedule["loop"] == repr(wanted.loop), which
    assert codes["x64"].schedule != codes["native"].schedule


def test_a_schedule_that_was_given_stays() -> None:
    kernel = tikgen.build("stencil", dim=2, loop="rows", unroll=2, arch="cpu")
    codes = planned(kernel).codes
    assert codes["x64"].schedule == codes["vulkan"].schedule
    assert codes["x64"].schedule["unroll"] == "2"
