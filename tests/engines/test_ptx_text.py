"""PTX of Taichi: what runs without its runtime, and what the host computes of it."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tikgen.dtypes import DType
from tikgen.engines import direct_cuda, ptx_numbers, ptx_text

# Of Taichi 1.7.4 on a device of capability 8.6 or later.
FOLDER = Path(__file__).parent / "ptx"
TEXTS = sorted(path.stem for path in FOLDER.glob("*.ptx"))
SIZE = 200
SERIAL = """\
.version 7.1
.target sm_86
.address_size 64

.visible .entry f_c1_0_kernel_0_serial(
\t.param .align 8 .b8 f_param_0[32]
)
.maxntid 1, 1, 1
{
\t.reg .b64 %rd<9>;
// %bb.0:
\tld.param.u64 %rd1, [f_param_0];
\tcvta.to.global.u64 %rd2, %rd1;
\tld.param.u64 %rd3, [f_param_0+8];
\tcvta.to.global.u64 %rd4, %rd3;
\tld.global.u64 %rd5, [%rd4+32872];
BODY
\tret;
}
"""
KINDS = [(DType.i32, None), (DType.f32, 1)]


def read(name: str) -> str:
    return (FOLDER / f"{name}.ptx").read_text()


def problem(body: str) -> str:
    return direct_cuda.text_problem(SERIAL.replace("BODY", body), KINDS)


@pytest.mark.parametrize("name", TEXTS)
def test_tasks_take_arguments_by_value(name: str) -> None:
    text = read(name)
    head, tasks = ptx_text.translated(text, SIZE)
    assert [task.name for task in tasks] == re.findall(r"\.entry (\w+)", text)
    known: set[int] = set()
    for task in tasks:
        known |= task.sets
        assert task.reads and task.gets <= known
        # A store to an array needs its address, which is an argument.
        assert any(size == 8 for _, size in task.reads) is not bool(task.sets)
        assert all(map(ptx_numbers.can_run, task.instructions)) or not task.sets
    launched = [task for task in tasks if not task.sets]
    written = ptx_text.written(head, launched, 400)
    assert written.count("_param_0[400]") == len(launched)
    assert "32872" not in written and "[32]" not in written
    # Nothing else of an instruction changed.
    kept = [one.name for task in tasks for one in task.instructions if "param" not in one.name]
    before = [one.name for line in text.splitlines() if (one := ptx_text.instruction(line))]
    assert set(kept) <= set(before)


@pytest.mark.parametrize("name", TEXTS)
def test_nvidia_reads_what_is_written(name: str, tmp_path: Path) -> None:
    if shutil.which("ptxas") is None:
        pytest.skip("ptxas is not there")
    head, tasks = ptx_text.translated(read(name), SIZE)
    path = tmp_path / "kernel.ptx"
    path.write_text(ptx_text.written(head, [task for task in tasks if not task.sets], 400))
    command = ["ptxas", "-arch=sm_86", "-o", str(tmp_path / "kernel.cubin"), str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_every_load_of_an_argument_names_a_parameter() -> None:
    _, (task,) = ptx_text.translated(read("map-0"), SIZE)
    loads = [one for one in task.instructions if one.name.startswith("ld.param")]
    before = re.findall(r"ld\.global\.(\w+)\s+(%\w+), \[%rd2(?:\+(\d+))?\]", read("map-0"))
    assert [(one.name[9:], one.operands[0]) for one in loads] == [b[:2] for b in before]
    places = [ptx_text.address(one.operands[1]) for one in loads]
    assert [place and place[1] for place in places] == [int(b[2] or 0) for b in before]
    assert task.reads == {(0, 4), (16, 8), (32, 8), (40, 4), (48, 8)}


def test_threads_do_several_short_iterations() -> None:
    """Of a plain loop, here a stencil by points and the zeros of a histogram, and of no other."""
    plain = {("stencil-2", 1), ("histogram-0", 0), ("loop-0", 1)}
    for name in TEXTS:
        tasks = ptx_text.translated(read(name), SIZE)[1]
        for number, task in enumerate(tasks):
            assert ptx_text.iterations(task) == (4 if (name, number) in plain else 1)


def test_the_name_of_a_block_is_no_function() -> None:
    comment = "// %bb.5:  // %false_block.i.function_body.exit_crit_edge\n\tret;"
    text = SERIAL.replace("BODY", comment)
    assert direct_cuda.text_problem(text, KINDS) == ""
    other = f"{text}\n.extern .func left();\n"
    assert direct_cuda.text_problem(other, KINDS) == "its PTX is of an unknown form"


def test_numbers_of_a_serial_task_are_computed() -> None:
    _, (serial, task) = ptx_text.translated(read("stencil-0"), 48)
    for shape in ((64, 64, 64), (3, 700, 5), (1, 1, 1), (130, 2, 65)):
        memory = bytearray(np.array([*shape, 0], np.int32).tobytes().ljust(48, b"\0") + bytes(24))
        ptx_numbers.run(serial.instructions, memory)
        total = int.from_bytes(memory[48:52], "little")
        # Blocks of 128 x 2 threads, each of which walks 64 points, of those in the interior.
        inner = [max(0, extent - 2) for extent in shape]
        tiles = -(-inner[0] // 64) * -(-inner[1] // 2) * -(-inner[2] // 128)
        assert total == 256 * tiles
    assert (serial.gets, task.sets) == (frozenset(), frozenset())
    assert task.gets <= serial.sets


def test_the_new_form_does_what_the_old_one_did() -> None:
    body = """\tld.global.u32 %r1, [%rd2];
\tadd.s32 %r2, %r1, -5;
\tst.u32 [%rd5], %r2;
\tadd.s64 %rd6, %rd5, 8;
\tst.u32 [%rd6+4], %r1;"""
    assert problem(body) == ""
    _, (task,) = ptx_text.translated(SERIAL.replace("BODY", body), 24)
    memory = bytearray((7).to_bytes(4, "little") + bytes(60))
    ptx_numbers.run(task.instructions, memory)
    assert memory[24:28] == (2).to_bytes(4, "little")
    assert memory[36:40] == (7).to_bytes(4, "little")
    assert task.sets == {0, 12} and task.reads == {(0, 4)}


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("\tld.global.u64 %rd6, [%rd4+8];", "uses Taichi's runtime at 8"),
        ("\tld.global.u64 %rd6, [%rd4+32880];", "takes random numbers"),
        ("\tst.global.u64 [%rd4], %rd1;", "uses Taichi's runtime in an unknown way"),
        ("\tst.global.u32 [%rd2], 3;", "uses its arguments in an unknown way: st.global.u32"),
        ("\tadd.s64 %rd6, %rd2, %rd7;", "uses its arguments in an unknown way: add.s64"),
        ("\tatom.add.s32 %r1, [%rd5], 1;", "uses numbers of another task in an unknown way"),
        ("\tld.param.u64 %rd6, [f_param_0+24];", "in an unknown way: ld.param.u64"),
        ("\tmov.b64 %rd2, %rd7;", "uses its arguments in an unknown way: mov.b64"),
        ("\tst.u64 [%rd7], f_param_0;", "uses its arguments in an unknown way"),
        ("\tld.global.u32 %r1, [%rd2+4];", "reads 4 bytes at 4 of its arguments"),
        ("\tld.u32 %r1, [%rd5];", "uses a number that no task computes"),
        ("\tld.u32 %r1, [%rd7];\n\tst.u32 [%rd5], %r1;", "from more than sizes and scalars"),
        ("\t@%p1 bra $L;\n\tst.u32 [%rd5], 1;", "from more than sizes and scalars"),
        ("\tst.u32 [%rd5+9000], 1;", "uses Taichi's temporaries at 9000"),
        ("\tcall.uni (retval0), vprintf, (param0, param1);", "it prints"),
        ("\tcall.uni (retval0), f, (param0, param1);", "calls f, which is not in its code"),
        ("\tcall.uni\n\tf, \n\t(\n\tparam0\n\t);", "calls f, which is not in its code"),
        ("\tcall (retval0), %rd5, (param0), prototype_0;", "calls %rd5"),
    ],
)
def test_what_needs_taichi_is_refused(body: str, why: str) -> None:
    assert why in problem(body)


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("kernel_0_serial", "kernel_0_struct_for", "has a task of the kind struct_for"),
        ("kernel_0_serial", "kernel_0_range_for", "passes numbers from a parallel task on"),
        (".maxntid 1, 1, 1", "", "declares no block"),
        ("[32]", "[40]", "of an unknown form"),
        (".version 7.1", ".version 7.1\n.version 7.1", "of an unknown form"),
        (".address_size 64", ".extern .func  (.param .b32 f) vprintf", "of an unknown form"),
        (".address_size 64", ".extern .shared .align 16 .b8 s[];", "more shared memory"),
        (".visible", "rubbish", "of an unknown form"),
    ],
)
def test_unknown_forms_are_refused(old: str, new: str, why: str) -> None:
    text = SERIAL.replace("BODY", "\tst.u32 [%rd5], 1;")
    assert direct_cuda.text_problem(text, KINDS) == ""
    assert why in direct_cuda.text_problem(text.replace(old, new, 1), KINDS)


def test_numbers_that_are_set_twice_are_refused() -> None:
    text = SERIAL.replace("BODY", "\tst.u32 [%rd5], 1;")
    entry = text[text.index(".visible") :].replace("kernel_0", "kernel_1")
    assert "more than once" in direct_cuda.text_problem(text + entry, KINDS)


_NUMPY = {
    "add.s32": np.add,
    "sub.s32": np.subtract,
    "mul.lo.s32": np.multiply,
    "min.s32": np.minimum,
    "max.s32": np.maximum,
    "and.b32": np.bitwise_and,
    "or.b32": np.bitwise_or,
    "xor.b32": np.bitwise_xor,
}
_I32 = st.integers(-(2**31), 2**31 - 1)


@given(_I32, _I32, st.sampled_from(sorted(_NUMPY)))
def test_integers_are_those_of_32_bits(a: int, b: int, name: str) -> None:
    with np.errstate(over="ignore"):
        expected = _NUMPY[name](np.int32(a), np.int32(b))
    found = ptx_numbers.run([_made(f"{name} %r3, %r1, %r2;")], bytearray(), {"%r1": a, "%r2": b})
    assert ptx_numbers.value("%r3", found, "s32") == expected


@given(_I32, _I32.filter(bool), st.integers(0, 40))
def test_division_and_shifts_are_those_of_c(a: int, b: int, by: int) -> None:
    lines = ["div.s32 %q, %a, %b;", "rem.s32 %m, %a, %b;", "shr.s32 %r, %a, %n;"]
    lines += ["shl.b32 %l, %a, %n;", "shr.u32 %u, %a, %n;", "mul.wide.s32 %w, %a, %b;"]
    lines += ["mul.hi.s32 %h, %a, %b;", "setp.lt.u32 %p, %a, %b;", "selp.s32 %s, 1, 2, %p;"]
    held = ptx_numbers.run(list(map(_made, lines)), bytearray(), {"%a": a, "%b": b, "%n": by})

    def found(name: str, kind: str = "s32") -> int:
        return ptx_numbers.value(name, held, kind)

    quotient = int(np.fix(np.longdouble(a) / np.longdouble(b)))
    assert ptx_numbers._as("s32", quotient) == found("%q")
    assert found("%m") == a - b * quotient
    assert found("%r") == a >> min(by, 31)
    assert found("%l") == ptx_numbers._as("s32", a << by)
    assert found("%u", "u32") == (a % 2**32) >> by
    assert found("%w", "s64") == a * b
    assert found("%h") == (a * b) >> 32
    assert found("%p", "pred") == (a % 2**32 < b % 2**32) == (found("%s") == 1)


def _made(line: str) -> ptx_text.Instruction:
    made = ptx_text.instruction(line)
    assert made is not None
    assert ptx_numbers.can_run(made)
    return made


@pytest.mark.parametrize(
    "line",
    [
        "add.f32 %f1, %f2, %f3;",
        "bra $L;",
        "ld.global.u32 %r1, [%rd1];",
        "bar.sync 0;",
        "mov.u64 %rd1, __local_depot1;",
    ],
)
def test_the_host_runs_integers_only(line: str) -> None:
    made = ptx_text.instruction(line)
    assert made is not None
    assert not ptx_numbers.can_run(made)


# As LLVM writes a function that it did not inline, and its declaration.
MOST = """\
.func  (.param .b64 func_retval0) max_i64(
\t.param .b64 max_i64_param_0,
\t.param .b64 max_i64_param_1
)
{
\t.reg .b64 \t%rd<4>;

\tld.param.u64 \t%rd1, [max_i64_param_0];
\tld.param.u64 \t%rd2, [max_i64_param_1];
\tmax.s64 \t%rd3, %rd1, %rd2;
\tst.param.b64 \t[func_retval0+0], %rd3;
\tret;
                                        // -- End function
}"""
CALL = """\
\t{ // callseq 0, 0
\t.reg .b32 temp_param_reg;
\t.param .b64 param0;
\tst.param.b64 \t[param0+0], ARGUMENT;
\t.param .b64 param1;
\tst.param.b64 \t[param1+0], 7;
\t.param .b64 retval0;
\tcall.uni (retval0), \n\tmax_i64, \n\t(\n\tparam0, \n\tparam1\n\t);
\tld.param.b64 \t%rd8, [retval0+0];
\t} // callseq 0"""


@pytest.mark.parametrize("is_behind", [False, True])
def test_functions_of_the_code_may_be_called(is_behind: bool) -> None:
    declared = MOST.partition("\n{")[0].replace("max_i64(", "max_i64\n(") + "\n;\n"
    body = SERIAL.replace("BODY", CALL.replace("ARGUMENT", "5"))
    before, entry = body[: body.index(".visible")], body[body.index(".visible") :]
    unused = MOST.replace("max_i64", "min_i64")
    text = (
        before + declared + "\n".join([entry, MOST, unused] if is_behind else [MOST, unused, entry])
    )
    assert direct_cuda.text_problem(text, KINDS) == ""
    head, (task,) = ptx_text.translated(text, SIZE)
    made = ptx_text.written(head, [task], SIZE)
    assert made.count(MOST) == made.count(declared) == made.count(".entry") == 1
    assert made.index(declared) < made.index(MOST) < made.index(".entry")
    assert "min_i64" not in made
    assert CALL.replace("ARGUMENT", "5") in made
    assert "call" in [one.name for one in task.instructions]


@pytest.mark.parametrize(
    ("argument", "further", "why"),
    [
        ("%rd1", "", "calls a function with its arguments, as real functions are"),
        ("%rd4", "", "calls a function with Taichi's runtime, as real functions are"),
        ("%rd5", "", "calls a function with numbers of another task"),
        ("5", "\n\tst.u64 [%rd5], %rd8;", "from more than sizes and scalars"),
    ],
)
def test_functions_take_nothing_of_taichis(argument: str, further: str, why: str) -> None:
    body = CALL.replace("ARGUMENT", argument) + further
    text = SERIAL.replace(".visible", f"{MOST}\n.visible").replace("BODY", body)
    assert why in direct_cuda.text_problem(text, KINDS)
