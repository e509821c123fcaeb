"""Runs PTX on a processor: tasks without barriers become C, one thread after the other."""

from __future__ import annotations

import ctypes
import re
import struct
import subprocess
from pathlib import Path

from tikgen.engines import ptx_text
from tikgen.engines.ptx_text import Instruction

_C = {
    f"{sign}{bits}": f"{'' if sign == 's' else 'u'}int{bits}_t"
    for bits in (8, 16, 32, 64)
    for sign in "sub"
}
_C |= {"f32": "float", "f64": "double"}
_ENTRY = re.compile(
    r"\.visible \.entry (\w+)\(\s*\.param \.align \d+ \.b8 (\w+)\[\d+\]\s*\)(.*?)^\}", re.S | re.M
)
# Those of LLVM, and those of divisions by multiplication.
_REGISTER = r"%((?:p|r|rd|f|fd|rs)\d+|factor|shift|sign|quotient|product)\b"
_OPERATORS = {"add": "+", "sub": "-", "mul": "*", "and": "&", "or": "|", "xor": "^", "div": "/"}
_OPERATORS |= {"rem": "%", "shl": "<<", "shr": ">>"}
_TESTS = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}
_HEAD = """\
#include <math.h>
#include <stdint.h>
#include <string.h>
static float to_f32(uint64_t x) { uint32_t y = x; float f; memcpy(&f, &y, 4); return f; }
static uint64_t of_f32(float f) { uint32_t y; memcpy(&y, &f, 4); return y; }
static double to_f64(uint64_t x) { double f; memcpy(&f, &x, 8); return f; }
static uint64_t of_f64(double f) { uint64_t y; memcpy(&y, &f, 8); return y; }
"""
_FUNCTION = """\
static void thread_of_{name}(
    uint8_t *param, uint32_t tid, uint32_t ntid, uint32_t ctaid, uint32_t nctaid) {{
  uint64_t {registers};
{lines}
}}
void {name}(uint8_t *param, uint32_t ntid, uint32_t nctaid) {{
  for (uint32_t block = 0; block < nctaid; block++)
    for (uint32_t thread = 0; thread < ntid; thread++)
      thread_of_{name}(param, thread, ntid, block, nctaid);
}}
"""


def library(text: str, folder: Path) -> ctypes.CDLL:
    """Return a library with a function for each entry of a text."""
    number = len(list(folder.iterdir()))
    source, made = folder / f"ptx{number}.c", folder / f"ptx{number}.so"
    functions = [_function(*found.groups()) for found in _ENTRY.finditer(text)]
    source.write_text(_HEAD + "\n".join(functions))
    command = ["gcc", "-O1", "-w", "-ffp-contract=off", "-shared", "-fPIC", "-o", str(made)]
    subprocess.run([*command, str(source), "-lm"], check=True)
    return ctypes.CDLL(str(made))


def _function(name: str, param: str, body: str) -> str:
    registers = sorted(set(re.findall(_REGISTER, body)))
    lines = []
    for line in body.splitlines():
        if label := re.match(r"(\$\w+):", line):
            lines.append(f"  {label[1].replace('$', 'L')}:;")
        made = ptx_text.instruction(line)
        if made is not None and not made.name.startswith("."):
            guard, found = made.guard, _statement(made, param)
            test = f"if ({guard.replace('%', 'r_')}) " if guard else ""
            lines.append(f"  {test}{{ {found}; }}")
    named = ", ".join(f"r_{name} = 0" for name in registers)
    return _FUNCTION.format(name=name, registers=named, lines="\n".join(lines))


def _statement(made: Instruction, param: str) -> str:
    _, name, (*operands,) = made
    first, *parts = name.split(".")
    kind = parts[-1] if parts else ""
    if first == "ret":
        return "return"
    if first == "bra":
        return f"goto {operands[0].replace('$', 'L')}"
    result, *sources = operands
    if first == "st":
        return f"*({_plain(kind)} *){_address(result, param)} = {_bits(sources[0], kind)}"
    to = f"r_{result[1:]}"
    if first == "ld":
        return f"{to} = *({_plain(kind)} *){_address(sources[0], param)}"
    if first == "mov" and sources[0] == param:
        return f"{to} = (uint64_t)param"
    if first == "mov" or first == "cvta":
        return f"{to} = {_bits(sources[0], kind)}"
    values = [_value(source, kind) for source in sources]
    if first == "setp":
        return f"{to} = {values[0]} {_TESTS[parts[0]]} {values[1]}"
    if first == "selp":
        return _set(to, kind, f"{_bits(sources[2], 'pred')} ? {values[0]} : {values[1]}")
    if first == "fma":
        return _set(to, kind, f"fma{'f' * (kind == 'f32')}({', '.join(values)})")
    if first in ("min", "max"):
        test = "<" if first == "min" else ">"
        return _set(to, kind, f"{values[0]} {test} {values[1]} ? {values[0]} : {values[1]}")
    if first in ("neg", "not"):
        sign = "!" if kind == "pred" else "-" if first == "neg" else "~"
        return _set(to, kind, f"{sign}{values[0]}")
    if first == "abs":
        return _set(to, kind, f"{values[0]} < 0 ? -{values[0]} : {values[0]}")
    if first == "cvt":
        return _set(to, parts[-2], values[0])
    wide = kind if kind == "pred" else f"{kind[0]}{2 * int(kind[1:])}"
    if "wide" in parts or "hi" in parts:
        product = f"({_C[wide]}){values[0]} * ({_C[wide]}){values[1]}"
        product += f" + {_value(sources[2], wide)}" if first == "mad" else ""
        return (
            _set(to, wide, product)
            if "wide" in parts
            else _set(to, kind, f"({product}) >> {kind[1:]}")
        )
    if first == "mad":
        return _set(to, kind, f"{values[0]} * {values[1]} + {values[2]}")
    if first in ("shl", "shr"):
        values[1] = _value(sources[1], "u32")
    return _set(to, kind, f"{values[0]} {_OPERATORS[first]} {values[1]}")


def _plain(kind: str) -> str:
    return f"uint{kind[1:]}_t"


def _address(operand: str, param: str) -> str:
    found = ptx_text.address(operand)
    assert found is not None
    base = "(uint64_t)param" if found[0] == param else f"r_{found[0][1:]}"
    return f"({base} + ({found[1]}))"


def _bits(operand: str, kind: str) -> str:
    """Return the bits of an operand."""
    if operand.startswith("%") and "." not in operand:
        return f"r_{operand[1:]}"
    value = _value(operand, kind)
    return f"of_{kind}({value})" if kind in ("f32", "f64") else value


def _value(operand: str, kind: str) -> str:
    """Return the value of an operand as a kind."""
    if operand.startswith("%"):
        register = operand[1:].split(".")[0] if "." in operand else f"r_{operand[1:]}"
        if kind in ("f32", "f64"):
            return f"to_{kind}({register})"
        return register if kind == "pred" else f"(({_C[kind]}){register})"
    if operand[:2] in ("0f", "0d"):
        form = ">f" if operand[1] == "f" else ">d"
        return float(struct.unpack(form, bytes.fromhex(operand[2:]))[0]).hex()
    return str(int(operand != "0")) if kind == "pred" else f"(({_C[kind]}){operand}LL)"


def _set(to: str, kind: str, value: str) -> str:
    if kind in ("f32", "f64"):
        return f"{to} = of_{kind}({value})"
    return f"{to} = {value}" if kind == "pred" else f"{to} = ({_C[kind]})({value})"
