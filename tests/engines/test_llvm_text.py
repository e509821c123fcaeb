"""LLVM text of Taichi: what runs without its runtime, and how a current LLVM reads it."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from tikgen.dtypes import DType
from tikgen.engines import argument_struct, llvm_invariants, llvm_needs, llvm_text

KINDS = [(DType.f32, None), (DType.f64, 2), (DType.u8, 1)]
STRUCT = "{ float, { { i32, i32 }, double* }, { { i32 }, i8* } }"
HEAD = """\
%struct.RuntimeContext.7 = type { i8*, %struct.LLVMRuntime.6*, i32, i64* }
%struct.LLVMRuntime.6 = type { i8*, i8* }

define void @f_kernel_0_serial(%struct.RuntimeContext.7* nocapture %context) local_unnamed_addr #0 {
entry:
"""
TAIL = """
  ret void
}

attributes #0 = { nounwind "target-cpu"="x86-64" "target-features"="+sse2" "tune-cpu"="generic" }
"""
ARGUMENTS = f"  %0 = bitcast %struct.RuntimeContext.7* %context to {STRUCT}**"
RUNTIME = """\
  %1 = getelementptr %struct.RuntimeContext.7, %struct.RuntimeContext.7* %context, i64 0, i32 1
  %2 = load %struct.LLVMRuntime.6*, %struct.LLVMRuntime.6** %1, align 8
"""


# Tasks that were linked may have a type twice, by two names.
RENAMED = """\
  %1 = getelementptr %struct.RuntimeContext.7, %struct.RuntimeContext.7* %context, i64 0, i32 1
  %2 = bitcast %struct.LLVMRuntime.6** %1 to %struct.LLVMRuntime.27**
  %3 = load %struct.LLVMRuntime.27*, %struct.LLVMRuntime.27** %2, align 8
"""


def field(number: int) -> str:
    return (
        f"{RUNTIME}  %3 = getelementptr inbounds %struct.LLVMRuntime.6, "
        f"%struct.LLVMRuntime.6* %2, i64 0, i32 {number}"
    )


def test_the_struct_is_the_same_in_llvm_and_in_c() -> None:
    assert argument_struct.llvm_type(KINDS) == STRUCT
    made = argument_struct.c_type(KINDS)
    packed = made()
    argument_struct.packer(KINDS).pack_into(packed, 0, 1.5, 3, 4, 2**40, 7, 2**41)
    assert packed.a0 == 1.5
    assert (*packed.a1.shape, packed.a1.data) == (3, 4, 2**40)
    assert (*packed.a2.shape, packed.a2.data) == (7, 2**41)
    assert (made.a1.offset, made.a2.offset) == (8, 24)
    assert not argument_struct.problem(KINDS)
    assert argument_struct.problem([]) == "takes no arguments"
    assert argument_struct.problem([(DType.f32, 0)]) == "takes an array without axes"


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (ARGUMENTS, ""),
        (field(14), ""),
        (field(9), ""),
        (f"{field(14)}, i64 0", "uses entry 14 of Taichi's runtime"),
        (f"{field(7)}, i64 0", "uses fields"),
        (field(15), "draws random numbers"),
        (field(4), "prints"),
        (field(2), "uses entry 2 of Taichi's runtime"),
        (RENAMED, ""),
        (f"{RUNTIME}  %3 = phi %struct.LLVMRuntime.6* [ %2, %a ], [ %4, %b.c ]", ""),
        (f"{RUNTIME}  %3 = phi %struct.LLVMRuntime.6* [ null, %a ]", "in an unknown way"),
        (
            f"{RUNTIME}  %3 = bitcast %struct.LLVMRuntime.6* %2 to i8*",
            "uses Taichi's runtime in an unknown way",
        ),
        (f"{RUNTIME}  call void @f(%struct.LLVMRuntime.6* %2)", "calls f of Taichi's runtime"),
        (f"{RUNTIME}  call void @taichi_assert(%struct.LLVMRuntime.6* %2, i1 %4)", "asserts"),
        (RUNTIME.replace("i32 1", "i32 3"), "returns a value"),
        (ARGUMENTS.replace("double", "float"), "takes its arguments as { float, { { i32, i32 }, f"),
    ],
)
def test_what_needs_taichis_runtime_is_told(body: str, problem: str) -> None:
    found = llvm_needs.problem(HEAD + body + TAIL, STRUCT)
    assert problem in found
    assert bool(found) is bool(problem)


CALLER = """\
  %1 = alloca %struct.RuntimeContext.7, align 8
  %2 = getelementptr %struct.RuntimeContext.7, %struct.RuntimeContext.7* %context, i64 0, i32 1
  %3 = load %struct.LLVMRuntime.6*, %struct.LLVMRuntime.6** %2, align 8
  %4 = getelementptr %struct.RuntimeContext.7, %struct.RuntimeContext.7* %1, i64 0, i32 1
  store %struct.LLVMRuntime.6* %3, %struct.LLVMRuntime.6** %4, align 8
  %5 = bitcast %struct.RuntimeContext.7* %1 to { i32 }**
  call fastcc void @points_0(%struct.RuntimeContext.7* nonnull %1)
  ret void
}

define internal fastcc void @points_0(%struct.RuntimeContext.7* nocapture readonly %0) #0 {
  %1 = bitcast %struct.RuntimeContext.7* %0 to { i32 }**"""
EXTENTS = f"{ARGUMENTS}\n  %1 = bitcast %struct.RuntimeContext.7* %context to <2 x i32>**"


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (CALLER, ""),
        # Another context than the one that the caller made.
        (CALLER.replace("nonnull %1", "nonnull %context"), "takes its arguments as { i32 }**"),
        # A function that something else may call.
        (CALLER + "\n  store void (i8*)* @points_0, void (i8*)** %2", "takes its arguments as"),
        # A runtime that is stored elsewhere, or is no runtime of a context.
        (CALLER.replace("** %4,", "** %9,"), "in an unknown way"),
        (CALLER.replace("* %1, i64 0, i32 1", "* %context, i64 0, i32 1"), "in an unknown way"),
        (CALLER.replace("* %1, i64 0, i32 1", "* %1, i64 0, i32 3"), "returns a value"),
        (CALLER.replace("alloca %struct.Run", "load %struct.Run"), "in an unknown way"),
        (EXTENTS, ""),
        (EXTENTS.replace("<2 x i32>", "<{ i32 }>"), "takes its arguments as <{ i32 }>**"),
        (EXTENTS.replace(f"{STRUCT}**", "i8*"), "takes its arguments as <2 x i32>**"),
    ],
)
def test_real_functions_that_are_called_run_without_taichi(body: str, problem: str) -> None:
    found = llvm_needs.problem(HEAD + body + TAIL, STRUCT)
    assert problem in found
    assert bool(found) is bool(problem), found


def test_text_without_a_task_is_refused() -> None:
    assert llvm_needs.problem("", STRUCT) == "has no task"


@pytest.mark.parametrize(
    ("typed", "opaque"),
    [
        ("  %0 = load float*, float** %1, align 8", "  %0 = load ptr, ptr %1, align 8"),
        ("  %0 = load { { i32 }, float* }*, i8** %1", "  %0 = load ptr, ptr %1"),
        ("  store <4 x i32> %0, <4 x i32>* %1", "  store <4 x i32> %0, ptr %1"),
        ("  %0 = load void (i8*, i32)*, void (i8*, i32)** %1", "  %0 = load ptr, ptr %1"),
        ("  store [3 x %struct.A.1*]* %0, [3 x %struct.A.1*]** %1", "  store ptr %0, ptr %1"),
        ("; a comment of a * b", "; a comment of a * b"),
    ],
)
def test_pointers_become_opaque(typed: str, opaque: str) -> None:
    translated = llvm_text.translated(HEAD + typed + TAIL)
    assert opaque in translated.splitlines()


def test_the_processor_of_taichis_build_is_forgotten_and_all_tasks_run() -> None:
    text = HEAD + TAIL + (HEAD + TAIL).replace("_0_serial", "_1_range_for")
    translated = llvm_text.translated(text)
    assert "target-cpu" not in translated
    assert "tune-cpu" not in translated
    assert (
        'define void @tikgen_run(ptr %context) "min-legal-vector-width"="256" '
        '"prefer-vector-width"="256" {\n'
        "  call void @f_kernel_0_serial(ptr %context)\n"
        "  call void @f_kernel_1_range_for(ptr %context)\n"
        "  ret void\n}\n"
    ) in translated


WIDE = """
define void @f_kernel_0_serial(%struct.RuntimeContext.7* nocapture %context) local_unnamed_addr #0 {
  %1 = bitcast %struct.RuntimeContext.7* %context to <8 x i64>**
  %2 = load <8 x i64>*, <8 x i64>** %1, align 8
  %3 = load <8 x i64>, <8 x i64>* %2, align 8
  %4 = uitofp <8 x i64> %3 to <8 x double>
  %5 = bitcast <8 x i64>* %2 to <8 x double>*
  store <8 x double> %4, <8 x double>* %5, align 8
  ret void
}

attributes #0 = { nounwind "min-legal-vector-width"="0" "tune-cpu"="generic" }
"""


@pytest.mark.process
@pytest.mark.parametrize("cpu", ["x86-64", "haswell", "skylake-avx512", "sapphirerapids", "znver4"])
def test_vectors_of_any_processor_become_numbers(cpu: str) -> None:
    """LLVM ended the process at vectors of 512 bits of a Xeon whose flaws are left out."""
    pytest.importorskip("llvmlite", reason="llvmlite is an extra: pip install tikgen[fast]")
    script = (
        "import sys\nfrom tikgen.engines import llvm_text, native\n"
        "text = llvm_text.translated(sys.stdin.read())\n"
        f"native.object_code_for(text, 'x86_64-unknown-linux-gnu', {cpu!r}, '')\n"
    )
    text = HEAD.partition("\ndefine")[0] + WIDE
    subprocess.run([sys.executable, "-c", script], input=text, text=True, check=True, timeout=120)


BODY = """
define internal void @function_body.1(ptr nocapture readonly %0, ptr nocapture %1, i32 %2) #2 {
entry:
  %3 = bitcast ptr %0 to ptr
  %4 = load ptr, ptr %3, align 8
  %5 = getelementptr { i32, ptr }, ptr %4, i64 0, i32 1
  %6 = load ptr, ptr %5, align 8
  %7 = getelementptr float, ptr %6, i64 3
  %8 = load float, ptr %7, align 4
  %9 = getelementptr inbounds %struct.RuntimeContext.7, ptr %0, i64 0, i32 1
  %10 = load ptr, ptr %9, align 8
  %11 = getelementptr inbounds %struct.LLVMRuntime.6, ptr %10, i64 0, i32 14
  %12 = load ptr, ptr %11, align 8
  %13 = getelementptr i8, ptr %12, i64 8
  %14 = load i32, ptr %13, align 4
  %15 = getelementptr inbounds %struct.RuntimeContext.7, ptr %0, i64 0, i32 3
  %16 = load ptr, ptr %15, align 8
  %17 = alloca %struct.RuntimeContext.7, align 8
  %18 = load ptr, ptr %17, align 8
  %19 = load float, ptr %18, align 4
  ret void
}
"""


@pytest.mark.parametrize(
    ("text", "noted"),
    [
        (BODY, {4, 6, 10, 12, 14}),
        # Numbers that the loop changes itself, or hands on.
        (BODY.replace("  ret", "  store i32 1, ptr %13, align 4\n  ret"), {4, 6, 10, 12}),
        (
            BODY.replace("  ret", "  %20 = atomicrmw add ptr %13, i32 1 seq_cst\n  ret"),
            {4, 6, 10, 12},
        ),
        (BODY.replace("  ret", "  call void @f(ptr %13)\n  ret"), {4, 6, 10, 12}),
        # A task writes them, and is in one function with the tasks that read them.
        (BODY.replace("internal void @function_body.1", "void @k_kernel_1_range"), {4, 6, 10, 12}),
        # A real function, whose caller made its context, and may make another.
        (BODY.replace("function_body.1", "points_0"), set()),
        (BODY.replace("function_body.1", "function_body_0"), set()),
        (BODY.replace("function_body.1", "my_kernel_1_range_0"), set()),
    ],
)
def test_what_nothing_changes_in_a_launch_is_noted(text: str, noted: set[int]) -> None:
    found = llvm_invariants.noted(text)
    assert set(map(int, re.findall(r"%(\d+) = load [^\n]*, !invariant.load !", found))) == noted
    # What they lead to can be read at any time: context, arguments, runtime and numbers, no array.
    readable = r"%(\d+) = load ptr, [^\n]*, !dereferenceable !\d+, !align !"
    assert set(map(int, re.findall(readable, found))) == noted & {4, 10, 12}
    assert ("(ptr align 8 dereferenceable(32) " in found) is bool(noted)
    found = found.replace("align 8 dereferenceable(32) ", "")
    notes = r", !(?:invariant\.load|dereferenceable|align) !\d+|^!\d+ = !\{[^}]*\}\n"
    assert re.sub(notes, "", found, flags=re.MULTILINE) == text
