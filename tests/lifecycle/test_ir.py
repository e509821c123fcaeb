"""The IR of a kernel: each kind of code, for each sort of kernel."""

from __future__ import annotations

import itertools
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import taichi as ti
from typer.testing import CliRunner

import tikgen
from conftest import ARCH, init_taichi
from tikgen.cli import app
from tikgen.errors import ArgumentError, KernelCompileError, TikgenError, UnsupportedOnArch
from tikgen.lifecycle import ir
from tikgen.lifecycle.ir import KINDS, ir_of
from tikgen.lifecycle.spirv import disassemble

# What only each kind says of a kernel that multiplies by 1234.5.
SIGNS = {
    "python": "@ti.kernel",
    "ast": "1234.5",
    "chi": "const 1234.5",
    "llvm": "1.234500e+03",
    "llvm-optimized": "1.234500e+03",
    "asm": "\t.globl\tscaled_",
    "spirv": "OpConstant %f32 1234.5",
    "ptx": ".visible .entry scaled_",
}
HERE = [
    pytest.param(kind, marks=() if archs else pytest.mark.once)
    for kind, archs in KINDS.items()
    if archs is None or ARCH in archs
]
SCALED = """
import taichi as ti


@ti.kernel
def scaled(x: ti.types.ndarray(dtype=ti.f32, ndim=1)):
    for i in range(x.shape[0]):
        x[i] = x[i] * {{ factor }}
"""


@pytest.mark.parametrize("kind", HERE)
def test_every_kind_shows_the_kernel_and_leaves_nothing_behind(
    ti_arch: str, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel = tikgen.from_string(SCALED, factor=1234.5)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    text = kernel.ir(kind)
    assert (SIGNS[kind] if kind != "spirv" else "1234.5") in text
    assert "[Taichi]" not in text
    assert not re.search(r"^\[[A-Z] ", text, re.MULTILINE)
    assert not list(tmp_path.iterdir())
    x = np.full(3, 2.0, np.float32)
    kernel(x)
    np.testing.assert_array_equal(x, 2469.0)


@pytest.mark.once
def test_intermediate_representations_are_those_of_the_current_options(ti_arch: str) -> None:
    text = "import taichi as ti\n\n\n@ti.kernel\ndef f() -> ti.f64:\n    return 0.1 + {{ n }}\n"
    try:
        ti.init(getattr(ti, ti_arch), default_fp=ti.f64, log_level=ti.ERROR, offline_cache=False)
        assert "f64> " in tikgen.from_string(text, n=1).ir("chi")
        assert "cast_value<f32>" not in tikgen.from_string(text, n=1).ir("ast")
    finally:
        init_taichi()


@pytest.mark.once
def test_fields_workspaces_and_baked_shapes_compile_as_well(ti_arch: str) -> None:
    baked = tikgen.build("stencil", dim=1, shape=(4321,))
    assert re.search("43(20|21)", baked.ir("ast"))
    fields = tikgen.build("stencil", dim=1, storage="field", unroll=1)
    assert "1d_ext_arr" not in fields.ir("ast")
    x, y = ti.field(ti.f32, 4322), ti.field(ti.f32, 4322)
    assert re.search("43(21|22)", fields.ir("ast", x, y))
    assert "offloaded" in tikgen.build("reduce", op="sum").ir("chi")


def test_a_kernel_that_declares_nothing_needs_arguments(ti_arch: str) -> None:
    kernel = tikgen.from_string(
        "import taichi as ti\n\n\n@ti.kernel\ndef f(x: ti.types.ndarray(), n: ti.template()):\n"
        "    for i in range(x.shape[0]):\n        x[i] = n\n"
    )
    with pytest.raises(ArgumentError, match=r"'x' is declared without dtype or ndim.*pass"):
        kernel.ir("chi")
    assert "const 4321" in kernel.ir("chi", np.zeros(3, np.int32), 4321)
    with pytest.raises(ArgumentError, match=r"'n' takes .* a plain value.*got object"):
        kernel.ir("chi", np.zeros(3, np.int32), object())


def test_ir_that_does_not_exist_is_refused(ti_arch: str) -> None:
    kernel = tikgen.build("stencil", dim=1)
    with pytest.raises(ArgumentError, match=r"no IR 'pxt'. Did you mean 'ptx'.*It takes python"):
        kernel.ir("pxt")
    with pytest.raises(ArgumentError, match="no IR None"):
        kernel.ir(None)  # type: ignore[arg-type]
    lacking = "spirv" if ti_arch == "cpu" else "asm"
    with pytest.raises(UnsupportedOnArch, match=f"The {lacking} of .* it exists on .*; use arch="):
        kernel.ir(lacking)
    if ti_arch == "cpu":
        with pytest.raises(
            UnsupportedOnArch, match=r"on vulkan: the schedule's loop cannot be 'function'"
        ):
            kernel.ir("chi", arch="vulkan")
    with pytest.raises(UnsupportedOnArch, match="not supported on amdgpu: it does not work here"):
        ir_of(tikgen.from_string(SCALED, factor=2), "chi", arch="amdgpu")


def test_a_kernel_that_taichi_refuses_fails_as_its_launch_does(ti_arch: str) -> None:
    kernel = tikgen.from_string(SCALED, factor=tikgen.Identifier("undefined_thing"))
    with pytest.raises(KernelCompileError) as shown:
        kernel.ir("chi")
    with pytest.raises(KernelCompileError) as launched:
        kernel(np.zeros(3, np.float32))
    assert str(shown.value) == str(launched.value)
    assert "rendered: 10: x[i] = x[i] * undefined_thing" in str(shown.value)


@pytest.mark.skipif(ARCH != "cpu", reason="other archs compile this kernel")
def test_a_kernel_that_kills_the_compiler_is_reported(ti_arch: str) -> None:
    kernel = tikgen.from_string(
        "import taichi as ti\n\n\n@ti.kernel\n"
        "def f(x: ti.types.ndarray(dtype=ti.i8, ndim=1)):\n"
        "    for i in range(x.shape[0]):\n        x[i] = ti.min(x[i], x[0])\n"
    )
    with pytest.raises(KernelCompileError, match="the process that compiled it died"):
        kernel.ir("llvm")


@pytest.mark.skipif(shutil.which("spirv-dis") is None, reason="spirv-dis is not installed")
@pytest.mark.skipif(ARCH != "vulkan", reason="only Vulkan runs SPIR-V")
def test_spirv_is_accepted_by_the_tools_of_khronos(ti_arch: str, tmp_path: Path) -> None:
    init_taichi()  # Taichi makes one module after each ti.init.
    try:
        module = ti.aot.Module(ti.vulkan)
        for name in ("gemm", "scan"):
            module.add_kernel(tikgen.build(name).function)
        module.save(str(tmp_path))
    finally:
        init_taichi()  # And no field after it.
    files = list(tmp_path.rglob("*.spv"))
    assert files
    for file in files:
        command = ["spirv-dis", "--raw-id", "--no-color", str(file)]
        theirs = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        ours = disassemble(np.fromfile(file, np.uint32).tolist())
        assert _without_names(ours) == _without_names(theirs)


def _without_names(text: str) -> list[str]:
    """Return the instructions with ids numbered in their order, whatever their names."""
    numbers: dict[str, str] = {}
    counter = itertools.count()

    def numbered(match: re.Match[str]) -> str:
        return numbers.setdefault(match[0], f"%{next(counter)}")

    lines = [line for line in text.splitlines() if line.strip() and not line.startswith(";")]
    return [re.sub(r"%\w+", numbered, " ".join(line.split())) for line in lines]


def _instruction(opcode: int, *operands: int) -> list[int]:
    return [(len(operands) + 1) << 16 | opcode, *operands]


def test_a_kernel_that_shows_nothing_is_told() -> None:
    kernel = tikgen.build("map", expr="y = 2*x")
    child: Any = SimpleNamespace(send=lambda line: None, reply=lambda seconds: {"text": ""})
    with pytest.raises(KernelCompileError, match="Taichi shows no chi of it"):
        ir.ask(child, kernel, {"kind": "chi"})


def test_spirv_shows_names_numbers_and_unknown_instructions() -> None:
    header = [0x07230203, 0x10300, 0, 9, 0]
    name = int.from_bytes(b"one\0", "little")
    half, minus_two = int(np.float32(0.5).view(np.uint32)), 2**32 - 2
    text = disassemble(
        [
            *header,
            *_instruction(5, 3, name),
            *_instruction(22, 1, 32),
            *_instruction(21, 2, 32, 1),
            *_instruction(43, 1, 3, half),
            *_instruction(43, 2, 4, minus_two),
            *_instruction(129, 1, 5, 3, 3),
            *_instruction(251, 3, 4, 1, 5, 2, 6),
            *_instruction(9999, 7, 8),
            *_instruction(253),
        ]
    )
    assert text.splitlines() == [
        'OpName %one "one"',
        "%1 = OpTypeFloat 32",
        "%2 = OpTypeInt 32 1",
        "%one = OpConstant %1 0.5",
        "%4 = OpConstant %2 -2",
        "%5 = OpFAdd %1 %one %one",
        "OpSwitch %one %4 1 %5 2 %6",
        "Op 9999 7 8",
        "OpReturn",
    ]
    with pytest.raises(TikgenError, match="not a SPIR-V module"):
        disassemble([1, 2, 3])
    with pytest.raises(TikgenError, match="cut off at word 5"):
        disassemble([*header, 5 << 16 | 43, 1])


@pytest.mark.once
def test_the_command_prints_what_the_function_returns(ti_arch: str) -> None:
    def run(*arguments: str) -> Any:
        return CliRunner().invoke(app, ["ir", *arguments, "--arch", ti_arch])

    kernel = tikgen.build("stencil", dim=1, unroll=2)
    shown = run("stencil", "ast", "-p", "dim=1", "-p", "unroll=2")
    assert shown.stdout == kernel.ir("ast")
    assert run("stencil", "python", "-p", "dim=1", "-p", "unroll=2").stdout == kernel.source.text
    assert run("stencil", "bla").exit_code == 2


@pytest.mark.skipif(ARCH not in ("cpu", "cuda"), reason="other archs write no machine code")
def test_a_compiling_process_shows_the_same_code_again(ti_arch: str) -> None:
    kernel = tikgen.build("map", expr="z = 2*x + y")
    kind = "asm" if ti_arch == "cpu" else "ptx"
    job = ir.job_of(kernel, kind, ())
    with ir.compiler(kernel, ti_arch, kind) as process:
        first, second = (ir.ask(process, kernel, job) for _ in range(2))
    assert first.splitlines()[-3:] == second.splitlines()[-3:]
