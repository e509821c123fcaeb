"""Sizes that functions of native bundles get: whatever they are, no sum of them overflows."""

import subprocess
from pathlib import Path

import pytest

from test_aot_c import tool
from tikgen.aot import manifest as m
from tikgen.aot.native.c_text import native_files
from tikgen.machine.devices import host_arch

pytestmark = pytest.mark.skipif(host_arch() != "x64", reason="compiles for this processor")
PROGRAM = """
#include "box.h"
#include <stdio.h>

void box_code(void *context) { (void)context; }
const int64_t box_code_temporaries = 0;

int main(void) {
  const int64_t sizes[] = {INT64_MIN, -1, 0, INT32_MAX, (int64_t)INT32_MAX + 1, INT64_MAX, 7};
  static float x[8];
  unsigned i;
  for (i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    printf("%d ", box_shrink(x, sizes[i]));
  }
  printf("%d", box_nothing(1.0f));
  return 0;
}
"""


def test_extents_are_computed_from_sizes_that_were_checked(tmp_path: Path):
    build = m.Build(module="x64/all", entry="box_code", digest="")
    x = m.Argument(name="x", kind="array", dtype="f32", shape=("n + 1",), role="out")
    arguments = {"shrink": (x,), "nothing": (m.Argument(name="a", kind="scalar", dtype="f32"),)}
    manifest = m.Manifest(
        format=m.FORMAT,
        name="box",
        archs=("x64",),
        tikgen="0.1.0",
        taichi="1.7.4",
        kernels={
            name: m.Kernel(name=name, family="g", arguments=taken, builds={"x64": build})
            for name, taken in arguments.items()
        },
        files={"x64/all/code": m.File("0" * 64, 7)},
        native={"x64": m.Native(cpu="x86-64", triple="x86_64-unknown-linux-gnu")},
    )
    files = native_files(manifest)
    for path in ("include/box.h", "lib/box.c"):
        (tmp_path / path).parent.mkdir()
        (tmp_path / path).write_text(files[path])
    (tmp_path / "main.c").write_text(PROGRAM)
    options = ("-std=c11", "-Wall", "-Wextra", "-Werror", "-Wshadow", "-pedantic", "-ftrapv")
    command = (tool("gcc"), *options, "-I", "include", "main.c", "lib/box.c", "-pthread")
    subprocess.run([*command, "-o", "main"], cwd=tmp_path, check=True)
    done = subprocess.run([tmp_path / "main"], capture_output=True, text=True, check=True)
    assert done.stdout == "1 1 1 1 1 1 0 0"
