"""Functions of families in C: a scalar reaches each member as the caller gave it, or is refused."""

import subprocess
from pathlib import Path

import pytest

from test_aot_c import tool
from tikgen.aot import manifest as m
from tikgen.aot.c.entries import C_TYPES, Entries
from tikgen.aot.c.selectors import Member, selectors

# Pairs of dtypes in a family, numbers for its function in C, and what it passes to the members.
GIVEN = {
    ("i64", "f32"): {
        "INT64_C(9007199254740993)": (None, "9007199254740992"),
        "INT64_C(9007199254740991)": ("9007199254740991", "9007199254740992"),
        "-INT64_C(9007199254740993)": (None, "-9007199254740992"),
        "-INT64_C(9007199254740991)": ("-9007199254740991", "-9007199254740992"),
        "1.75": (None, "2"),
        "1e300": (None, "inf"),
    },
    ("u64", "f64"): {
        "UINT64_C(9007199254740993)": (None, "9007199254740992"),
        "UINT64_C(9007199254740991)": ("9007199254740991", "9007199254740991"),
        "-1": (None, "-1"),
    },
    ("i32", "f64"): {"INT32_MIN": ("-2147483648",) * 2, "2147483648.0": (None, "2147483648")},
    ("i64", "u64"): {
        "-1": ("-1", None),
        "INT64_MIN": ("-9223372036854775808", None),
        "INT64_MAX": ("9223372036854775807",) * 2,
    },
    ("i8", "u64"): {"-1": ("-1", None), "128": (None, "128")},
    ("u8", "u64"): {"UINT64_MAX": (None, "18446744073709551615"), "255": ("255", "255")},
}


def _members(dtypes: tuple[str, ...]) -> tuple[str, list[Member]]:
    """Return the C type of the scalar in the function of a family, and the members."""
    build = m.Build(module="x64/all", entry="x", digest="")
    kernels = {
        dtype: m.Kernel(
            name=dtype,
            family="f",
            arguments=(
                m.Argument(name="x", kind="array", dtype=dtype, shape=("n",), role="out"),
                m.Argument(name="a", kind="scalar", dtype=dtype),
            ),
            builds={"x64": build},
        )
        for dtype in dtypes
    }
    manifest = m.Manifest(
        format=m.FORMAT,
        name="box",
        archs=("x64",),
        tikgen="0.1.0",
        taichi="1.7.4",
        kernels=kernels,
        files={"x64/all/code": m.File("0" * 64, 7)},
    )
    [selector] = selectors(manifest, "box", Entries(manifest, "box", set(), ""))
    by_name = {member.kernel.name: member for member in selector.members}
    return selector.scalars["a"], [by_name[dtype] for dtype in dtypes]


def _printed(dtype: str) -> str:
    if dtype[0] == "f":
        return 'printf("%.0f\\n", (double)(a))'
    return f'printf("%" PRI{"d" if dtype[0] == "i" else "u"}64 "\\n", (int64_t)(a))'


@pytest.mark.parametrize("dtypes", GIVEN, ids="-".join)
def test_scalars_of_a_family_are_exact_or_refused(dtypes, tmp_path: Path):
    wide, members = _members(dtypes)
    lines = ["#include <inttypes.h>", "#include <stdint.h>", "#include <stdio.h>"]
    for member in members:
        dtype = member.kernel.name
        lines += [f"static void show_{dtype}({C_TYPES[dtype]} a) {{ {_printed(dtype)}; }}"]
        lines += [f"static void select_{dtype}({wide} a) {{"]
        lines += [f'  if ({c.condition}) {{ puts("refused"); return; }}' for c in member.checks]
        lines += [f"  show_{dtype}({member.arguments.rpartition(', ')[2]});", "}"]
    lines += ["int main(void) {"]
    lines += [f"  select_{dtype}({number});" for number in GIVEN[dtypes] for dtype in dtypes]
    (tmp_path / "family.c").write_text("\n".join([*lines, "  return 0;", "}\n"]))
    options = ("-std=c99", "-Wall", "-Wextra", "-pedantic", "-Wno-overflow", "-o", "family")
    subprocess.run([tool("gcc"), *options, "family.c"], cwd=tmp_path, check=True)
    out = subprocess.run([tmp_path / "family"], capture_output=True, text=True, check=True)
    expected = [taken or "refused" for both in GIVEN[dtypes].values() for taken in both]
    assert out.stdout.split() == expected


def test_a_refusal_names_the_function_that_takes_all_integers():
    _, [member, _] = _members(("i64", "f32"))
    [check] = member.checks
    assert check.problem == "does not fit i64, or 53 bits; i64 takes all of i64"
