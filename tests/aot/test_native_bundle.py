"""Native bundles: from C and from ctypes, in Python, for other processors, and what is refused."""

import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import numpy as np
import pytest
import taichi as ti
from typer.testing import CliRunner

import native_samples
import tikgen
from conftest import ARCH
from test_aot_c import run, tool
from tikgen.aot import manifest as m
from tikgen.aot.manifest_reading import decode
from tikgen.aot.native import linking, runtime, targets
from tikgen.aot.native.c_text import native_files, objects_in
from tikgen.aot.native.temporaries import bytes_used
from tikgen.cli import app
from tikgen.engines import native
from tikgen.errors import (
    ArgumentError,
    BundleError,
    ExportError,
    ParameterError,
    UnsupportedOnArch,
)
from tikgen.machine.devices import host_arch

pytest_plugins = ["one_compiler"]
on_cpu = pytest.mark.skipif(ARCH != "cpu", reason="native bundles are for processors")
pytestmark = [on_cpu, pytest.mark.usefixtures("one_compiler")]
pytest.importorskip("llvmlite", reason="llvmlite is an extra: pip install tikgen[fast]")

TESTS = Path(__file__).parent
STRICT = ("-Wall", "-Wextra", "-Werror", "-Wshadow", "-pedantic", "-D_GNU_SOURCE")


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> tikgen.aot.Bundle:
    tool("gcc")
    bundle = native_samples.export(tmp_path_factory.mktemp("native") / "samples")
    assert bundle.ok, bundle.failures
    return bundle


@pytest.fixture
def bundle(shared: tikgen.aot.Bundle, tmp_path: Path) -> tikgen.aot.Bundle:
    """Return a copy that a test may spoil."""
    shutil.copytree(shared.path, tmp_path / "samples")
    return tikgen.aot.Bundle(tmp_path / "samples")


@pytest.fixture
def loaded(shared: tikgen.aot.Bundle) -> Iterator[tikgen.aot.Runtime]:
    with tikgen.aot.load(shared.path) as runtime:
        yield runtime


def objects(bundle: tikgen.aot.Bundle) -> list[Path]:
    return [bundle.path / path for path in objects_in(bundle.manifest, host_arch())]


@pytest.mark.some
@pytest.mark.parametrize("standard", ["c99", "c11"])
def test_the_library_passes_its_checks_in_c(
    standard: str, shared: tikgen.aot.Bundle, tmp_path: Path
) -> None:
    program, folder = tmp_path / "checks", shared.path
    linked = (folder / "lib" / "libsamples.so", f"-Wl,-rpath,{folder / 'lib'}", "-pthread", "-lm")
    options = (f"-std={standard}", *STRICT, "-O1", "-I", folder / "include")
    run(tool("gcc"), *options, TESTS / "native_checks.c", *linked, "-o", program)
    assert "all is well" in run(program)
    assert "taichi" not in run("ldd", program)


def test_a_program_links_object_files(shared: tikgen.aot.Bundle, tmp_path: Path) -> None:
    program, folder = tmp_path / "checks", shared.path
    sources = (TESTS / "native_checks.c", folder / "lib" / "samples.c", *objects(shared))
    options = ("-std=c11", *STRICT, "-I", folder / "include", "-fsanitize=address,undefined")
    run(tool("gcc"), *options, *sources, "-o", program, "-lm", "-pthread")
    assert "all is well" in run(program)


def test_cpp_takes_the_header(shared: tikgen.aot.Bundle, tmp_path: Path) -> None:
    source = tmp_path / "main.cpp"
    source.write_text(
        '#include "samples.h"\nint main() { return samples_total(nullptr, nullptr, 1) - 2; }\n'
    )
    library = shared.path / "lib" / "libsamples.so"
    program, include = tmp_path / "main", shared.path / "include"
    run(tool("g++"), *STRICT, "-I", include, source, library, "-o", program)
    run("env", f"LD_LIBRARY_PATH={library.parent}", program)


@pytest.mark.parametrize("target", ["samples::samples", "samples::objects"])
def test_cmake_finds_the_bundle(target: str, shared: tikgen.aot.Bundle, tmp_path: Path) -> None:
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.16)\nproject(checks C)\n"
        f'find_package(samples REQUIRED PATHS "{shared.path}" NO_DEFAULT_PATH)\n'
        "find_package(Threads REQUIRED)\n"
        f'add_executable(checks "{TESTS}/native_checks.c")\n'
        "target_compile_definitions(checks PRIVATE _GNU_SOURCE)\n"
        f"target_link_libraries(checks PRIVATE {target} Threads::Threads m)\n"
    )
    cmake = tool("cmake")
    run(cmake, "-S", tmp_path, "-B", tmp_path / "build")
    run(cmake, "--build", tmp_path / "build")
    assert "all is well" in run(tmp_path / "build" / "checks")


def test_ctypes_needs_neither_tikgen_nor_taichi(shared: tikgen.aot.Bundle) -> None:
    script = """
import ctypes, sys
library = ctypes.CDLL(sys.argv[1])
numbers = ctypes.c_float * 5
x, y, z = numbers(1, 2, 3, 4, 5), numbers(*[1] * 5), numbers(*[float("nan")] * 5)
take = library.samples_axpy
take.argtypes = [ctypes.c_float, *[ctypes.c_void_p] * 3, ctypes.c_int64]
assert take(2.0, x, y, z, 5) == 0
assert list(z) == [3, 5, 7, 9, 11]
assert take(2.0, x, y, z, 0) == 1
assert not {"taichi", "tikgen", "numpy"} & sys.modules.keys()

import _ctypes, os
many = (ctypes.c_float * 100000)()
library.samples_use_threads(3)
assert take(2.0, many, many, (ctypes.c_float * 100000)(), 100000) == 0
assert len(os.listdir("/proc/self/task")) == 3
_ctypes.dlclose(library._handle)
assert len(os.listdir("/proc/self/task")) == 1
"""
    run(sys.executable, "-I", "-c", script, shared.path / "lib" / "libsamples.so")


def test_loading_imports_no_taichi(shared: tikgen.aot.Bundle) -> None:
    script = """
import sys
import numpy as np
import tikgen.aot
x = np.arange(5, dtype=np.float32)
total = np.full(1, np.nan, np.float32)
with tikgen.aot.load(sys.argv[1]) as runtime:
    runtime.total(x, total)
assert total[0] == 10
assert "taichi" not in sys.modules
maps = open("/proc/self/maps").read() if sys.platform == "linux" else ""
assert "taichi" not in maps
"""
    run(sys.executable, "-c", script, shared.path)


def test_a_runtime_checks_selects_and_binds(loaded: tikgen.aot.Runtime) -> None:
    x, y, z = (np.full(9, value, np.float32) for value in (1, 2, np.nan))
    loaded.axpy(np.float32(3), x, y, z)
    assert (z == 5).all()
    askew = np.zeros(37, np.uint8)[1:].view(np.float32)
    for call in (loaded.axpy, loaded.kernels["axpy"].bind(1.0, x, askew, z)):
        with pytest.raises(ArgumentError, match=r"^axpy: argument 'y' is not aligned .*y\.copy"):
            call(1.0, x, askew, z) if call is loaded.axpy else call()
    on_device = loaded.zeros(9, "f32")
    step = loaded.select("map_z_a_x_y", 2.0, x, y, on_device).bind(a=2, x=x, y=y, z=on_device)
    step()
    assert (on_device.to_numpy() == 4).all()
    on_device.close()
    with pytest.raises(ArgumentError, match="closed"):
        step()
    with pytest.raises(ArgumentError, match="takes shape"):
        loaded.axpy(1.0, x, y[:5].copy(), z)
    with pytest.raises(ArgumentError, match="share memory"):
        loaded.total(x, x[:1])
    half = np.array([1, 2], np.float16)
    doubled = np.full_like(half, np.nan)
    loaded.half(65504.5, half, doubled)
    assert doubled.tolist() == [65504.0, np.inf]
    vectors = np.arange(6, dtype=np.float32).reshape(2, 3)
    weighed = np.full((2, 3), np.nan, np.float32)
    loaded.weigh(vectors, weighed, 3)
    np.testing.assert_array_equal(weighed[:, 1], vectors @ [1, 2, 3])
    assert np.isnan(weighed[:, 0]).all()
    kernel = loaded.kernels["axpy"]
    assert f"on {host_arch()}" in repr(kernel)
    assert kernel.prepare()(2.0, *(a.ctypes.data for a in (x, y, z)), 9) == 0
    assert (z == 4).all()
    bound = kernel.bind(2.0, x, y, z)
    with pytest.raises(ValueError, match="cannot resize"):
        z.resize(1, refcheck=False)
    loaded.close()
    for use in (bound, lambda: loaded.total(x, y[:1])):
        with pytest.raises(BundleError, match="is closed"):
            use()


def test_a_status_of_the_library_is_an_error(loaded: tikgen.aot.Runtime) -> None:
    check = loaded.kernels["axpy"]._check
    with pytest.raises(MemoryError, match="axpy: there is not enough memory for its scratch"):
        check(runtime._OUT_OF_MEMORY)
    with pytest.raises(UnsupportedOnArch, match=f"axpy is not supported on {host_arch()}"):
        check(runtime._NOT_SUPPORTED)
    with pytest.raises(ArgumentError, match="axpy: "):
        check(1)


def test_a_library_that_another_bundle_had_is_loaded_anew(
    shared: tikgen.aot.Bundle, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = dict.fromkeys(map(str, (shared.path / "lib").glob("*.so")), "of another bundle")
    monkeypatch.setattr(runtime, "_loaded", held)
    x, total = np.ones(100, np.float32), np.zeros(1, np.float32)
    with tikgen.aot.load(shared.path) as anew:
        anew.total(x, total)
    assert total[0] == 100
    monkeypatch.setattr(shutil, "copy", lambda *_: str(shared.path / "manifest.json"))
    with pytest.raises(BundleError, match="has a library that cannot be loaded"):
        tikgen.aot.load(shared.path)


def test_a_manifest_of_another_name_is_refused(bundle: tikgen.aot.Bundle) -> None:
    path = bundle.path / "manifest.json"
    path.write_text(path.read_text().replace('"name": "samples"', '"name": "other"', 1))
    with pytest.raises(BundleError, match="functions than its library, which lacks other_problem"):
        tikgen.aot.load(bundle.path)


@pytest.mark.slow
def test_an_archive_loads_like_a_folder(shared: tikgen.aot.Bundle, tmp_path: Path) -> None:
    packed = native_samples.export(tmp_path / "samples.zip")
    assert packed.verify() == ()
    x, total = np.ones(100, np.float32), np.zeros(1, np.float32)
    with packed.load() as runtime:
        runtime.total(x, total)
    assert total[0] == 100


@pytest.mark.slow
def test_a_bundle_that_was_replaced_is_loaded_anew(tmp_path: Path) -> None:
    x, y = np.ones(3, np.float32), np.zeros(3, np.float32)
    for factor in (2, 3):
        kernel = native_samples.verified("map", expr=f"y = {factor}*x")
        bundle = tikgen.aot.export({"scale": kernel}, tmp_path / "b", native=True, examples=1)
        with bundle.load() as runtime:
            runtime.scale(x, y)
        assert (y == factor).all()


def test_the_manifest_says_what_the_code_is_for(shared: tikgen.aot.Bundle) -> None:
    said = json.loads((shared.path / "manifest.json").read_text())
    assert said["format"] == m.FORMAT == 2
    here = said["native"][host_arch()]
    assert here["library"] == "lib/libsamples.so"
    assert here["cpu"] == {"x64": "x86-64-v3", "arm64": "generic"}[host_arch()]
    build = said["kernels"]["axpy"]["builds"][host_arch()]
    assert build["proof"]["against"] == "reference"
    assert build["entry"] == targets.symbol_of(build["digest"])
    assert said["kernels"]["wide"]["builds"][host_arch()]["proof"]["against"] == "jit"


@pytest.mark.slow
def test_unchanged_code_is_reused_unless_the_processor_differs(bundle: tikgen.aot.Bundle) -> None:
    assert len(native_samples.export(bundle.path).reused) == 6
    other = {"x64": "x86-64-v2", "arm64": "host"}[host_arch()]
    again = native_samples.export(bundle.path, target_cpu=other)
    assert again.ok, again.failures
    assert again.reused == ()


def test_a_changed_byte_is_found(bundle: tikgen.aot.Bundle) -> None:
    assert bundle.verify() == ()
    library = bundle.path / "lib" / "libsamples.so"
    for path in (objects(bundle)[0], library):
        content = path.read_bytes()
        path.write_bytes(content[:100] + bytes([content[100] ^ 1]) + content[101:])
        assert path.name in " ".join(bundle.verify())
    with pytest.raises(BundleError, match=r"libsamples\.so that differs from the file"):
        bundle.load()


def test_proofs_are_repeated(bundle: tikgen.aot.Bundle) -> None:
    assert bundle.verify(prove=True) == ()


def test_a_processor_without_the_instructions_gets_a_status(
    shared: tikgen.aot.Bundle, tmp_path: Path
) -> None:
    if host_arch() != "x64":
        pytest.skip("looks for instructions of x64")
    here = msgspec.structs.replace(shared.manifest.native["x64"], needed=("xop",))
    assert "xop" not in Path("/proc/cpuinfo").read_text().split()
    manifest = msgspec.structs.replace(shared.manifest, native={"x64": here})
    shutil.copytree(shared.path, tmp_path / "samples")
    for path, text in native_files(manifest).items():
        (tmp_path / "samples" / path).write_text(text)
    source = tmp_path / "main.c"
    source.write_text(
        '#include "samples.h"\nint main(void) { float x = 1, y = 2;\n'
        "return samples_total(&x, &y, 1) != SAMPLES_NOT_SUPPORTED || y != 2; }\n"
    )
    folder, program = tmp_path / "samples", tmp_path / "main"
    run(
        *(tool("gcc"), "-I", folder / "include", source, folder / "lib" / "samples.c"),
        *(*objects(shared), "-o", program, "-lm", "-pthread"),
    )
    run(program)


def test_object_files_for_arm64_are_made_anywhere(tmp_path: Path) -> None:
    kernel = native_samples.verified("stencil", dim=2)
    path = tmp_path / "cross"
    if host_arch() == "arm64":
        pytest.skip("this is such a machine")
    bundle = tikgen.aot.export({"lap": kernel}, path, ["arm64", "cpu"], native=True, examples=1)
    assert bundle.ok, bundle.failures
    said = bundle.manifest.kernels["lap"].builds
    assert said["arm64"].proof is None and said[host_arch()].proof is not None
    made = path / objects_in(bundle.manifest, "arm64")[0]
    header = made.read_bytes()[:20]
    assert header[:4] == b"\x7fELF" and int.from_bytes(header[18:20], "little") == 183
    with pytest.raises(UnsupportedOnArch, match="arm64"):
        bundle.load("arm64")
    text = (path / "lib" / "cross.c").read_text()
    assert "defined(__aarch64__)" in text and said["arm64"].entry in text
    dump = shutil.which("llvm-objdump")
    if dump is None:
        pytest.skip("llvm-objdump is missing: the instructions were not read")
    shown = run(dump, "-d", "-t", made)
    assert "aarch64" in shown and said["arm64"].entry in shown
    assert "fadd" in shown or "fmla" in shown or "fmadd" in shown


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"archs": ["cuda"]}, UnsupportedOnArch, "code for processors, x64 or arm64"),
        ({"archs": ["vulkan", "cpu"]}, UnsupportedOnArch, "vulkan"),
        ({"target_cpu": "pentium"}, ParameterError, "takes .*host.*; got 'pentium'"),
        ({"target_cpu": 3}, ParameterError, "target_cpu"),
        ({"target_cpu": "host", "native": False}, ParameterError, "needs native=True"),
        ({"library": False, "native": False}, ParameterError, "needs native=True"),
    ],
)
def test_settings_that_cannot_be(
    settings: dict[str, object], error: type[Exception], message: str, tmp_path: Path
) -> None:
    kernel = native_samples.verified("map", expr="y = 2*x")
    with pytest.raises(error, match=message):
        tikgen.aot.export(kernel, tmp_path / "b", **{"native": True, **settings})
    assert not (tmp_path / "b").exists()


def test_what_is_missing_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = native_samples.verified("map", expr="y = 2*x")

    def refused() -> str:
        with pytest.raises(ExportError) as found:
            tikgen.aot.export(kernel, tmp_path / "b", native=True)
        assert not (tmp_path / "b").exists()
        return str(found.value)

    monkeypatch.setenv("CC", "no-such-compiler")
    assert "install gcc or clang" in refused()
    monkeypatch.setenv("CC", "'")
    assert """the variable CC is "'", which is no command (No closing quotation)""" in refused()
    monkeypatch.setenv("CC", f"{sys.executable} -c 'raise SystemExit(\"cannot compile\")'")
    assert "exit status 1: cannot compile" in refused()
    monkeypatch.setenv("CC", str(Path(sys.executable).resolve()))
    monkeypatch.setattr(linking, "_MOST_SECONDS", 0.0)
    assert "failed: " in refused()
    monkeypatch.setattr(native, "problem", lambda: "llvmlite is missing; pip install tikgen[fast]")
    assert "pip install tikgen[fast]" in refused()


def test_object_files_need_no_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linking, "compiler", lambda: pytest.fail("was looked for"))
    kernel = native_samples.verified("map", expr="y = 2*x")
    bundle = tikgen.aot.export({"f": kernel}, tmp_path / "b", native=True, library=False)
    assert bundle.ok and bundle.verify() == ()
    assert bundle.manifest.kernels["f"].builds[host_arch()].proof is None
    assert (bundle.path / objects_in(bundle.manifest, host_arch())[0]).exists()
    with pytest.raises(UnsupportedOnArch, match="object files only"):
        bundle.load()


def test_kernels_that_need_taichi_are_refused_by_name(tmp_path: Path, ti_arch: str) -> None:
    array = ti.types.ndarray(dtype=ti.f32, ndim=1)
    heat = ti.field(ti.f32, 8)

    @ti.kernel
    def loud(x: array):
        for i in range(x.shape[0]):
            print(x[i])

    @ti.kernel
    def random(x: array):
        for i in range(x.shape[0]):
            x[i] = ti.random()

    @ti.kernel
    def warm(by: ti.f32):
        for i in heat:
            heat[i] += by

    fine = native_samples.verified("map", expr="y = 2*x")
    kernels = {"fine": fine, "loud": loud, "random": random, "warm": warm}
    bundle = tikgen.aot.export(kernels, tmp_path / "b", native=True, examples=1)
    assert bundle.kernels == ("fine",)
    said = {failure.name: failure.problem for failure in bundle.failures}
    assert "the engine direct-cpu cannot take it" in said["loud"]
    assert "it draws random numbers" in said["random"]
    assert "it uses fields" in said["warm"]
    with pytest.raises(ExportError, match=r"warm on .*it uses fields"):
        tikgen.aot.export(warm, tmp_path / "c", native=True)


def test_graphs_are_refused(bundle: tikgen.aot.Bundle, tmp_path: Path) -> None:
    kernel = native_samples.verified("map", expr="y = 2*x")
    with pytest.raises(ExportError, match="has no graphs; call its functions in turn"):
        tikgen.aot.export(kernel, tmp_path / "b", native=True, graphs={"g": [(kernel, "x", "y")]})
    with pytest.raises(ExportError, match="has no graphs"):
        bundle.add_graph("g", [("total", "x", "y")])


def test_a_manifest_that_lies_about_processors_is_refused(shared: tikgen.aot.Bundle) -> None:
    said = json.loads((shared.path / "manifest.json").read_text())
    for changed in (
        {"sparc": said["native"][host_arch()]},
        {host_arch(): {"cpu": 'x"); system("', "triple": "t"}},
        {host_arch(): {"cpu": "x", "triple": "t", "library": "../lib.so"}},
    ):
        with pytest.raises(BundleError):
            decode(json.dumps({**said, "native": changed}).encode(), "b")


def test_the_command_exports_shows_and_runs(tmp_path: Path) -> None:
    def command(*arguments: object, code: int = 0) -> str:
        result = CliRunner().invoke(app, list(map(str, arguments)))
        assert result.exit_code == code, result.output
        return " ".join(result.output.replace("│", " ").split())

    path = tmp_path / "two"
    native_samples.verified("map", expr="y = 2*x")
    shown = command("export", "map", "expr=y = 2*x", "--native", "--examples", 1, "--to", path)
    assert f"native {host_arch()} (" in shown
    assert "proved again on" in command("bundle", "verify", path, "--prove")
    ran = command("bundle", "run", path, "map_y_2_x_dim1_f32", "x=random:100", "y=zeros:100")
    assert "per launch" in ran
    wrong = command("export", "map", "--to", tmp_path / "x", "--objects", code=2)
    assert "need --native" in wrong


@pytest.mark.parametrize(
    ("use", "size"),
    [
        ("", 64),
        ("  %c = getelementptr inbounds i8, i8* %b, i64 24\n  store i8 %v, i8* %c, align 1\n", 88),
        ("  %c = getelementptr i8, i8* %b, i64 %i\n", 4096),
        ("  call void @f(i8* %b)\n", 4096),
        ("  store i8* %b, i8** %q, align 8\n", 4096),
        ("  call void @f(i8** %a)\n", 4096),
    ],
)
def test_temporaries_have_the_room_that_the_code_uses(use: str, size: int) -> None:
    struct = "%struct.LLVMRuntime"
    text = (
        f"define void @k() {{\n  %a = getelementptr {struct}, {struct}* %r, i64 0, i32 14\n"
        f"  %b = load i8*, i8** %a, align 8\n{use}  ret void\n}}\n"
    )
    assert bytes_used(text, 4096) == size
    assert bytes_used("define void @k() {\n  ret void\n}\n", 4096) == 0
