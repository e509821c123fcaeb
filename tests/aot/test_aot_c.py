"""Bundles from C, C++ and CMake: the examples match NumPy, headers compile, errors are reported."""

import hashlib
import itertools
import os
import random
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
import taichi as ti

import tikgen
from conftest import ARCH
from test_aot_export import with_evidence
from tikgen.aot import manifest as m
from tikgen.aot.c.entries import C_TYPES
from tikgen.aot.c.files import c_files
from tikgen.aot.c.identifiers import prefix_of
from tikgen.aot.manifest_reading import decode
from tikgen.aot.native.c_text import native_files
from tikgen.machine.devices import host_arch

pytest_plugins = ["one_compiler"]
TESTS = Path(__file__).parent
EXAMPLES = TESTS.parents[1] / "examples"
C_API = Path(ti.__path__[0]) / "_lib" / "c_api"
BUNDLE_ARCH = {"cpu": "x64"}.get(ARCH, ARCH)
DTYPES = ["i8", "i32", "i64", "f16", "f32"]
STRICT = (
    "-Wall",
    "-Wextra",
    "-Werror",
    "-Wshadow",
    "-pedantic",
    "-isystem",
    str(C_API / "include"),
)
LINK = ("-L", str(C_API / "lib"), "-ltaichi_c_api", "-lm", f"-Wl,-rpath,{C_API / 'lib'}")


def tool(name: str) -> str:
    """Return a tool, or skip the test where it is missing, which CI may not."""
    found = shutil.which(
        name, path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    )
    if found is None:
        if os.environ.get("CI") == "true":
            pytest.fail(f"{name} is missing")
        pytest.skip(f"{name} is missing")
    return found


def run(*command: object, cwd: Path | None = None) -> str:
    """Run a command that must succeed, with nothing of Taichi's in its environment."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("TI_")}
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=300,
        check=False,
    )
    said = done.stdout[-4000:] + done.stderr[-4000:]
    assert done.returncode == 0, f"{command} gave {done.returncode}\n{said}"
    return done.stdout


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder that the export script of the examples wrote."""
    folder = tmp_path_factory.mktemp("heat")
    text = (EXAMPLES / "aot_c" / "export.py").read_text(encoding="utf-8")
    quick = text.replace("verify=True", "verify=True, max_examples=1")
    assert quick != text
    run(sys.executable, "-c", quick, folder, BUNDLE_ARCH)
    return folder


@pytest.mark.arch
def test_the_c_example_builds_with_gcc_and_matches_numpy(exported: Path, tmp_path: Path) -> None:
    program, source = tmp_path / "heat_c", EXAMPLES / "aot_c" / "main.c"
    include = exported / "heat" / "include"
    run(tool("gcc"), "-std=c99", *STRICT, "-O2", "-I", include, source, "-o", program, *LINK)
    assert "100 steps" in run(program, BUNDLE_ARCH, cwd=exported)


@pytest.mark.arch
@pytest.mark.once
@pytest.mark.parametrize("language", ["c", "cpp"])
def test_an_example_builds_with_cmake_and_matches_numpy(
    language: str, exported: Path, tmp_path: Path
) -> None:
    source = EXAMPLES / f"aot_{language}"
    python = f"Python3_EXECUTABLE={sys.executable}"
    cmake = tool("cmake")
    tool({"c": "gcc", "cpp": "g++"}[language])
    run(cmake, "-S", source, "-B", tmp_path, "-D", f"EXPORTED={exported}", "-D", python)
    run(cmake, "--build", tmp_path)
    assert "100 steps" in run(tmp_path / f"heat_{language}", BUNDLE_ARCH, cwd=exported)


def test_cmake_reports_where_it_looked_for_taichi(exported: Path, tmp_path: Path) -> None:
    nowhere = tmp_path / "nowhere"
    tool("gcc")
    done = subprocess.run(
        [
            tool("cmake"),
            *("-S", EXAMPLES / "aot_c", "-B", tmp_path, "-D", f"EXPORTED={exported}"),
            *("-D", f"TAICHI_C_API_INSTALL_DIR={nowhere}"),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    assert str(nowhere) in done.stderr
    assert "TAICHI_C_API_INSTALL_DIR" in done.stderr


def filler(dtype: Any) -> Any:
    """Return a kernel for arrays and scalars of a dtype."""

    @ti.kernel
    def fill(value: dtype, first: ti.i32, values: ti.types.ndarray(dtype=dtype, ndim=1)):
        for i in range(values.shape[0]):
            if i >= first:
                values[i] = value

    return fill


N1 = ti.types.ndarray(dtype=ti.f32, ndim=1)


@ti.kernel
def fill(value: ti.f32, first: ti.i32, values: ti.types.ndarray(dtype=ti.f32, ndim=2)):
    for i, j in ti.ndrange(values.shape[0], values.shape[1]):
        if i >= first:
            values[i, j] = value


# For the other dtypes, as one kernel takes less time to export than six.
@ti.kernel
def fill_rest(
    i16: ti.i16,
    u8: ti.u8,
    u16: ti.u16,
    u32: ti.u32,
    u64: ti.u64,
    f64: ti.f64,
    i16s: ti.types.ndarray(dtype=ti.i16, ndim=1),
    u8s: ti.types.ndarray(dtype=ti.u8, ndim=1),
    u16s: ti.types.ndarray(dtype=ti.u16, ndim=1),
    u32s: ti.types.ndarray(dtype=ti.u32, ndim=1),
    u64s: ti.types.ndarray(dtype=ti.u64, ndim=1),
    f64s: ti.types.ndarray(dtype=ti.f64, ndim=1),
):
    for i in range(i16s.shape[0]):
        i16s[i] = i16
    for i in range(u8s.shape[0]):
        u8s[i] = u8
    for i in range(u16s.shape[0]):
        u16s[i] = u16
    for i in range(u32s.shape[0]):
        u32s[i] = u32
    for i in range(u64s.shape[0]):
        u64s[i] = u64
    for i in range(f64s.shape[0]):
        f64s[i] = f64


@ti.kernel
def double(int: ti.types.ndarray(dtype=ti.types.vector(3, ti.f32), ndim=1), bundle: N1):
    for i in range(bundle.shape[0]):
        bundle[i] = 2.0 * int[i].sum()


# References, as Taichi would start anew to prove each kernel without one.


def filled(value: Any, first: int, values: Any) -> dict[str, Any]:
    values[np.arange(len(values)) >= first] = value
    return {"values": values}


def all_filled(*given: Any) -> dict[str, Any]:
    for value, values in zip(given[:6], given[6:], strict=True):
        values[:] = value
    return dict(zip(("i16s", "u8s", "u16s", "u32s", "u64s", "f64s"), given[6:], strict=True))


@pytest.fixture(scope="module")
def box(tmp_path_factory: pytest.TempPathFactory, one_compiler: None) -> Path:
    """Return a bundle with a bit of everything."""
    from conftest import init_taichi

    init_taichi()
    state = ti.field(ti.i32, shape=(3, 2))

    @ti.kernel
    def advance(by: ti.i32):
        for i, j in ti.ndrange(3, 2):
            state[i, j] += by

    module = tikgen.aot.Module([BUNDLE_ARCH])
    for dtype in DTYPES:
        module.add_kernel(filler(getattr(ti, dtype)), name=f"fill_{dtype}", reference=filled)
    module.add_kernel(fill_rest, reference=all_filled)
    module.add_kernel(double)
    module.add_field("state", state)
    module.add_kernel(advance)
    module.add_kernel(fill, name="fill_plane", reference=filled)
    for shape in (None, (10,)):
        step = tikgen.build("stencil", dim=1, dtype="f32", update=True, shape=shape)
        module.add_kernel(with_evidence(step))
    module.add_kernel(with_evidence(tikgen.build("reduce", dtype="f32", dim=1)))
    steps = [
        ("stencil_dim1_f32_order2_interior_update", {"x": "u", "y": "half_way", "scale": 0.25}),
        ("stencil_dim1_f32_order2_interior_update", {"x": "half_way", "y": "v", "scale": "share"}),
    ]
    module.add_graph("two_steps", steps, temporaries=["half_way"])
    bundle = module.save(tmp_path_factory.mktemp("bundles") / "box", examples=1)
    assert not bundle.failures, bundle.failures
    return Path(bundle.path)


@pytest.fixture(scope="module")
def checks(box: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the program that checks the header, compiled from two files without a warning."""
    program = tmp_path_factory.mktemp("checks") / "checks"
    sources = (TESTS / "aot_c_checks.c", TESTS / "aot_c_other.c")
    sanitize = ("-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
    run(
        *(tool("gcc"), "-std=c99", *STRICT, *sanitize, "-I", box / "include"),
        *(*sources, "-o", program, *LINK),
    )
    return program


@pytest.mark.arch
@pytest.mark.once
def test_the_header_works_from_c(box: Path, checks: Path) -> None:
    seed = random.randrange(10**6)
    run("env", "ASAN_OPTIONS=detect_leaks=0:protect_shadow_gap=0", checks, box, BUNDLE_ARCH, seed)


@pytest.fixture(scope="module")
def wrapper_checks(box: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the program that checks the wrapper, compiled without a warning."""
    program = tmp_path_factory.mktemp("wrapper") / "checks"
    run(
        *(tool("g++"), "-std=c++17", *STRICT, "-I", box / "include"),
        *(TESTS / "aot_cpp_checks.cpp", "-o", program, *LINK),
    )
    return program


@pytest.mark.arch
@pytest.mark.once
def test_the_wrapper_works_from_cpp(box: Path, wrapper_checks: Path) -> None:
    run(wrapper_checks, box, BUNDLE_ARCH)


def missing(file: Path) -> str:
    file.unlink()
    return f"lacks the file {BUNDLE_ARCH}/fill_f32/{file.name}; export it again"


def shorter(file: Path) -> str:
    size = file.stat().st_size
    os.truncate(file, size - 1)
    return f"has a file {BUNDLE_ARCH}/fill_f32/{file.name} that has {size - 1} bytes in place of"


def changed_by_a_bit(file: Path) -> str:
    data = bytearray(file.read_bytes())
    data[random.randrange(len(data))] ^= 1 << random.randrange(8)
    file.write_bytes(data)
    return f"has a file {BUNDLE_ARCH}/fill_f32/{file.name} that differs from the file of its header"


@pytest.mark.arch
@pytest.mark.parametrize("damage", [missing, shorter, changed_by_a_bit])
def test_a_damaged_module_is_an_error_and_no_crash(
    damage: Callable[[Path], str], box: Path, checks: Path, wrapper_checks: Path, tmp_path: Path
) -> None:
    damaged = tmp_path / "box"
    shutil.copytree(box, damaged)
    message = damage(random.choice(sorted((damaged / BUNDLE_ARCH / "fill_f32").iterdir())))
    run(
        "env",
        "ASAN_OPTIONS=detect_leaks=0:protect_shadow_gap=0",
        checks,
        damaged,
        BUNDLE_ARCH,
        "damaged",
        message,
    )
    run(wrapper_checks, damaged, BUNDLE_ARCH, message)


DIGESTS = """
#include "none.h"
int main(int count, char **paths) {
  int i;
  for (i = 1; i < count; i++) {
    FILE *file = fopen(paths[i], "rb");
    char digest[65];
    uint64_t size;
    none_digest_(file, &size, digest);
    fclose(file);
    printf("%s %llu %s\\n", paths[i], (unsigned long long)size, digest);
  }
  return 0;
}
"""


def test_digests_of_files_of_any_size(tmp_path: Path) -> None:
    write_headers(tmp_path, NO_KERNELS)
    (tmp_path / "digests.c").write_text(DIGESTS)
    run(
        *(tool("gcc"), "-std=c99", *STRICT, "-fsanitize=undefined", "-I", tmp_path / "include"),
        *(tmp_path / "digests.c", "-o", tmp_path / "digests", *LINK),
    )
    said = []
    for size in (0, 1, 55, 56, 57, 63, 64, 65, 119, 120, 127, 128, 100_003):
        (tmp_path / str(size)).write_bytes(data := os.urandom(size))
        said.append(f"{size} {size} {hashlib.sha256(data).hexdigest()}")
    sizes = [line.split()[0] for line in said]
    assert run(tmp_path / "digests", *sizes, cwd=tmp_path).splitlines() == said


def hostile_manifest() -> m.Manifest:
    """Return a manifest whose names are taken in C, C++ or by the header itself."""
    names = ("open", "class", "wait", "get", "bundle", "array", "linux", "template", "fill_")
    names += ("Bundle", "Array", "Error", "Half", "DType", "TiArch", "std")
    scalars = ("int", "bundle", "arrays", "scalars", "check", "this", "NULL", "new", "get")
    arguments = tuple(
        m.Argument(name=name, kind="scalar", dtype=dtype)
        for name, dtype in zip(scalars, C_TYPES, strict=False)
    )
    empty = m.Argument(name="void", kind="array", dtype="f16", shape=())
    builds = {
        arch: m.Build(module=f"{arch}/all", entry="x", digest="", capabilities=capabilities)
        for arch, capabilities in (("cuda", ()), ("vulkan", ("spirv_has_int64",)), ("x64", ()))
    }
    kernels = {
        name: m.Kernel(name=name, family="do", arguments=(*arguments, empty), builds=builds)
        for name in names
    }
    nothing = m.Kernel(name="nothing", family="nothing")
    return m.Manifest(
        format=m.FORMAT,
        name="ti",
        archs=("x64", "vulkan", "cuda"),
        tikgen="0.1.0",
        taichi="1.7.4",
        kernels=kernels | {"nothing": nothing},
        fields={"u": m.Field(name="u", dtype="f64", shape=(2,), element=(3, 3))},
        files={f"{arch}/all/code": m.File("0" * 64, 7) for arch in builds},
    )


def wordy_manifest(
    files: Callable[[m.Manifest], dict[str, str]], name: str = "box", **native: Any
) -> m.Manifest:
    """Return a manifest of kernels with all words as arguments that their files in C have."""
    arguments = (
        m.Argument(name="x", kind="array", dtype="f64", shape=("n",), role="out"),
        m.Argument(name="a", kind="scalar", dtype="f64"),
        m.Argument(name="b", kind="scalar", dtype="f16"),
    )
    build = m.Build(module="x64/all", entry="x", digest="")
    kernel = m.Kernel(name="f", family="g", arguments=arguments, builds={"x64": build})
    manifest = m.Manifest(
        format=m.FORMAT,
        name=name,
        archs=("x64",),
        tikgen="0.1.0",
        taichi="1.7.4",
        kernels={"f": kernel},
        files={"x64/all/code": m.File("0" * 64, 7)},
        **native,
    )
    found = {"NAME", "NAME_array", "INT32_MAX", "free", f"{name}_check_", f"{name.upper()}_OK"}
    for path, text in files(manifest).items():
        if path.endswith((".h", ".hpp", ".c")):
            found |= set(re.findall(r"\b[A-Za-z]\w*", text))
    # Each word as a number and as an array whose size is a word too.
    words = sorted(found - {"x", "a", "b"})
    numbers = [
        m.Argument(name=word, kind="scalar", dtype=dtype)
        for word, dtype in zip(words, itertools.cycle(C_TYPES))
    ]
    arrays = [
        m.Argument(name=word, kind="array", dtype=dtype, shape=(size,), role="out")
        for word, dtype, size in zip(words, itertools.cycle(C_TYPES), words[::-1])
    ]
    kernels = {
        name: m.Kernel(name=name, family="g", arguments=tuple(taken), builds={"x64": build})
        for name, taken in (
            ("f", [*numbers, arguments[0]]),
            ("h", [*arrays, arguments[1]]),
        )
    }
    return msgspec.structs.replace(manifest, kernels=kernels)


NO_KERNELS = m.Manifest(
    format=m.FORMAT, name="none", archs=("vulkan",), tikgen="0.1.0", taichi="1.7.4"
)


def write_headers(folder: Path, manifest: m.Manifest) -> None:
    for path, text in c_files(manifest).items():
        (folder / path).parent.mkdir(exist_ok=True)
        (folder / path).write_text(text)


@pytest.mark.some
@pytest.mark.parametrize("language", ["c", "c++"])
@pytest.mark.parametrize("kind", ["hostile", "wordy", "empty"])
def test_headers_compile_whatever_the_names(language: str, kind: str, tmp_path: Path) -> None:
    manifest = NO_KERNELS
    if kind != "empty":
        manifest = hostile_manifest() if kind == "hostile" else wordy_manifest(c_files)
    write_headers(tmp_path, manifest)
    standard, compiler, suffix = ("c99", "gcc", "h") if language == "c" else ("c++17", "g++", "hpp")
    source = tmp_path / f"all.{'c' if language == 'c' else 'cpp'}"
    source.write_text(f'#include "{manifest.name}.{suffix}"\nint main(void) {{ return 0; }}\n')
    # A number may have the name of a type or a table, which its function does not use.
    options = (f"-std={standard}", *STRICT, *(["-Wno-shadow"] if kind == "wordy" else []))
    run(tool(compiler), *options, "-fsyntax-only", "-I", tmp_path / "include", source)


@pytest.mark.skipif(host_arch() != "x64", reason="compiles for this processor")
def test_native_files_compile_whatever_the_names(tmp_path: Path) -> None:
    target = m.Native(cpu="x86-64", triple="x86_64-unknown-linux-gnu")
    files = native_files(wordy_manifest(native_files, native={"x64": target}))
    for path in ("include/box.h", "lib/box.c"):
        (tmp_path / path).parent.mkdir()
        (tmp_path / path).write_text(files[path])
    run(tool("gcc"), "-std=c11", *STRICT, "-fsyntax-only", tmp_path / "lib" / "box.c")
    run(tool("g++"), *STRICT, "-fsyntax-only", "-x", "c++", tmp_path / "include" / "box.h")


def test_a_prefix_never_is_one_of_taichi() -> None:
    assert prefix_of("heat") == "heat"
    assert prefix_of("ti") != "ti"
    assert prefix_of("double") != "double"


def test_the_same_manifest_gives_the_same_text() -> None:
    manifest = hostile_manifest()
    assert c_files(manifest) == c_files(decode(m.encode(manifest), "x"))
