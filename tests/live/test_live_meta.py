"""``MetaKernelLoader`` does what taichi-meta's README shows, and has none of its faults."""

from __future__ import annotations

import gc
import linecache
import subprocess
import sys
import threading
import weakref

import numpy as np
import pytest

from conftest import init_taichi
from tikgen import errors
from tikgen.live import MetaKernelLoader

pytestmark = pytest.mark.once

# The code blocks of the README of taichi-meta 0.1.1, as they are printed there.
START = """
import taichi as ti
import numpy as np
from taichi_meta import MetaKernelLoader

ti.init(arch=ti.vulkan)

# Initialize the kernel loader
loader = MetaKernelLoader()

# Create a test array
x = ti.ndarray(ti.f32, shape=10)

# Compile and load your first kernel
loader.compile_and_load('''
@ti.kernel
def add_base(x: ti.types.ndarray(), base: ti.f32):
    for i in range(x.shape[0]):
        x[i] += base
''')

# Use the kernel
x.from_numpy(np.arange(10, dtype=np.float32))
loader[None].add_base(x, 5.0)
print(f"Result: {x.to_numpy()}")
# Output: Result: [ 5.  6.  7.  8.  9. 10. 11. 12. 13. 14.]
"""
RELOAD = """
# Hot-reload the kernel with a new implementation
loader.compile_and_load('''
@ti.kernel
def add_base(x: ti.types.ndarray(), base: ti.f32):
    for i in range(x.shape[0]):
        x[i] += 2 * base  # Changed: now adds 2*base
''')

# Use the updated kernel without restarting
x.from_numpy(np.arange(10, dtype=np.float32))
loader[None].add_base(x, 5.0)
print(f"Result: {x.to_numpy()}")
# Output: Result: [ 5.  7.  9. 11. 13. 15. 17. 19. 21. 23.]
"""
INIT = """
loader = MetaKernelLoader()
"""
COMPILE = """
loader.compile_and_load('''
@ti.kernel
def my_kernel(arr: ti.types.ndarray(), value: ti.f32):
    for i in range(arr.shape[0]):
        arr[i] = value * i
''', kernel_id="my_kernel")
"""
GET = """
kernel_module = loader["my_kernel"]
kernel_module.my_kernel(array, 2.5)

# Or use the most recent kernel
kernel_module = loader[None]
"""
CLEAN = """
loader.cleanup_all()
"""
MANY = """
# Load multiple kernels with specific IDs
loader.compile_and_load('''
@ti.kernel
def kernel_a(x: ti.types.ndarray()):
    for i in x:
        x[i] = i * 2
''', kernel_id="doubler")

loader.compile_and_load('''
@ti.kernel  
def kernel_b(x: ti.types.ndarray()):
    for i in x:
        x[i] = i ** 2
''', kernel_id="squarer")

# Access specific kernels
doubler_module = loader["doubler"]
squarer_module = loader["squarer"]

# Update a specific kernel
loader.compile_and_load('''
@ti.kernel
def kernel_a(x: ti.types.ndarray()):
    for i in x:
        x[i] = i * 3  # Now triples instead of doubles
''', kernel_id="doubler")  # Replaces the existing "doubler" kernel
"""  # noqa: W291
JUPYTER = """
# Cell 1: Initial setup
import taichi as ti
from taichi_meta import MetaKernelLoader

ti.init(arch=ti.cpu)
loader = MetaKernelLoader()
data = ti.ndarray(ti.f32, shape=5)

# Cell 2: First kernel version
loader.compile_and_load('''
@ti.kernel
def process(data: ti.types.ndarray()):
    for i in data:
        data[i] = i * 10
''')
loader[None].process(data)
print(data.to_numpy())  # [0., 10., 20., 30., 40.]

# Cell 3: Improved kernel (hot-reload)
loader.compile_and_load('''
@ti.kernel  
def process(data: ti.types.ndarray()):
    for i in data:
        data[i] = ti.sin(i * 0.5)  # Different operation
''')
loader[None].process(data)  
print(data.to_numpy())  # Updated results without restarting kernel
"""  # noqa: W291

ADD = """
@ti.kernel
def add(x: ti.types.ndarray(ndim=1)):
    for i in range(x.shape[0]):
        x[i] += {}
"""

# So that no other arch takes over, and the user's cache of compiled kernels stays as it is.
OPTIONS = "enable_fallback=False, offline_cache=False"


def run_block(text: str, names: dict[str, object], arch: str) -> None:
    """Run a block as it is printed, but for the import and the arch, which the process names."""
    text = text.replace("from taichi_meta import", "from tikgen.live import")
    for named in ("vulkan", "cpu"):
        text = text.replace(f"arch=ti.{named})", f"arch=ti.{arch}, {OPTIONS})")
    exec(compile(text, "README.md", "exec"), names)


def added(module: object) -> int:
    x = np.zeros(3, np.int32)
    module.add(x)  # type: ignore[attr-defined]
    return int(x[0])


@pytest.fixture
def loader() -> MetaKernelLoader:
    return MetaKernelLoader()


def test_every_block_of_the_readme_runs(ti_arch: str, capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, object] = {}
    run_block(START, names, ti_arch)
    run_block(RELOAD, names, ti_arch)
    run_block(INIT + COMPILE, names, ti_arch)
    run_block("array = ti.ndarray(ti.f32, shape=4)", names, ti_arch)  # Which the README leaves out.
    run_block(GET, names, ti_arch)
    np.testing.assert_array_equal(names["array"].to_numpy(), [0, 2.5, 5, 7.5])  # type: ignore[attr-defined]
    run_block("assert kernel_module is loader['my_kernel']" + CLEAN, names, ti_arch)
    run_block("assert loader.current_kernel_id is None" + MANY, names, ti_arch)
    run_block(
        "for module, factor in ((doubler_module, 2), (loader['doubler'], 3)):\n"
        "    module.kernel_a(array)\n"
        "    assert (array.to_numpy() == factor * np.arange(4)).all()\n"
        "squarer_module.kernel_b(array)\n"
        "assert (array.to_numpy() == np.arange(4) ** 2).all()\n",
        names,
        ti_arch,
    )
    run_block(JUPYTER, names, ti_arch)
    np.testing.assert_allclose(
        names["data"].to_numpy(),  # type: ignore[attr-defined]
        np.sin(np.arange(5) * 0.5),
        atol=1e-6,
    )
    init_taichi()
    printed = capsys.readouterr().out
    assert "Result: [ 5.  6.  7.  8.  9. 10. 11. 12. 13. 14.]" in printed
    # What the kernel computes; the comment in the README is wrong, there and with taichi-meta.
    assert "Result: [10. 11. 12. 13. 14. 15. 16. 17. 18. 19.]" in printed
    assert "[ 0. 10. 20. 30. 40.]" in printed


def test_its_attributes_are_those_of_taichi_meta(loader: MetaKernelLoader) -> None:
    assert (loader.kernel_counter, loader.current_kernel_id) == (0, None)
    module = loader.compile_and_load("a = 1")
    other = loader.compile_and_load(kernel_code="a = 2", kernel_id="mine")
    assert (loader.kernel_counter, loader.current_kernel_id) == (1, "mine")
    assert list(loader.kernel_cache.items()) == [("kernel_0", module), ("mine", other)]
    assert loader[None] is other
    for id in ("absent", 7):
        with pytest.raises(ValueError, match="is not loaded"):
            loader[id]  # type: ignore[index]
    loader.cleanup_all()
    assert (loader.kernel_counter, loader.current_kernel_id) == (1, None)
    assert not loader.kernel_cache
    with pytest.raises(ValueError, match="nothing is loaded"):
        loader[None]


# Each fault that taichi-meta 0.1.1 has.


def test_a_failed_reload_leaves_the_good_one(loader: MetaKernelLoader, ti_arch: str) -> None:
    module = loader.compile_and_load(ADD.format(1), "k")
    lines = linecache.getlines(str(module.__file__))
    for bad in ("def (", "raise KeyError(1)"):
        with pytest.raises(errors.TikgenError, match="Version 1 of 'k' is still in force"):
            loader.compile_and_load(bad, "k")
    assert loader["k"] is module
    assert (
        linecache.getlines(str(module.__file__)) == lines == [*ADD.format(1).splitlines(True), "\n"]
    )
    assert added(module) == 1


def test_an_old_module_does_not_run_new_text(loader: MetaKernelLoader, ti_arch: str) -> None:
    old = loader.compile_and_load(ADD.format(1), "k")
    new = loader.compile_and_load(ADD.format(2), "k")
    assert (added(old), added(new)) == (1, 2)


def test_two_loaders_do_not_run_each_others_kernels(ti_arch: str) -> None:
    one, two = MetaKernelLoader(), MetaKernelLoader()
    one.compile_and_load(ADD.format(1))
    two.compile_and_load(ADD.format(2))
    assert (added(one["kernel_0"]), added(two["kernel_0"])) == (1, 2)


def test_an_id_that_is_made_up_overwrites_none(loader: MetaKernelLoader) -> None:
    loader.compile_and_load("a = 1", "kernel_0")
    loader.compile_and_load("a = 2")
    assert loader["kernel_0"].a == 1


def test_no_id_shadows_the_standard_library(loader: MetaKernelLoader) -> None:
    import json

    with pytest.raises(errors.InvalidId):
        loader.compile_and_load("a = 1", "json")
    assert sys.modules["json"] is json


@pytest.mark.parametrize("source", [None, b"a = 1", 7])
def test_only_text_is_a_source(loader: MetaKernelLoader, source: object) -> None:
    with pytest.raises(errors.InvalidText, match="it takes a str"):
        loader.compile_and_load(source)  # type: ignore[arg-type]


def test_an_indented_block_is_fine(loader: MetaKernelLoader, ti_arch: str) -> None:
    text = "".join(f"    {line}\n" for line in ADD.format(3).splitlines())
    assert added(loader.compile_and_load(text)) == 3


def test_line_numbers_are_those_of_the_text(loader: MetaKernelLoader, ti_arch: str) -> None:
    with pytest.raises(errors.InvalidText, match="line 3: b = \\("):
        loader.compile_and_load("\na = 1\nb = (")
    module = loader.compile_and_load(ADD.format("nothing"))
    with pytest.raises(errors.KernelCompileError, match="line 5, in add"):
        added(module)
    module = loader.compile_and_load("def f():\n    return 1 / 0\n")
    with pytest.raises(ZeroDivisionError) as caught:
        module.f()
    assert caught.traceback[-1].lineno == 1  # Counted from 0.


def test_clearcache_before_the_first_launch_is_fine(loader: MetaKernelLoader, ti_arch: str) -> None:
    module = loader.compile_and_load(ADD.format(4))
    linecache.clearcache()
    assert added(module) == 4


def test_threads_get_the_modules_that_they_made(loader: MetaKernelLoader) -> None:
    wrong = []

    def work(n: int) -> None:
        for k in range(50):
            if loader.compile_and_load(f"a = ({n}, {k})", "k").a != (n, k):
                wrong.append((n, k))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_modules_that_hold_80_megabytes_are_freed() -> None:
    code = (
        "import gc, psutil\n"
        "from tikgen.live import MetaKernelLoader\n"
        "gc.disable()\n"
        "loader, used = MetaKernelLoader(), lambda: psutil.Process().memory_info().rss / 1e6\n"
        "text = 'big = np.ones(10_000_000)\\n@ti.kernel\\ndef k(x: ti.i32):\\n    y = x + {}\\n'\n"
        "loader.compile_and_load(text.format('small').replace('10_000_000', '10'), 'k')\n"
        "before = used()\n"
        "for n in range(10):\n    loader.compile_and_load(text.format(n), 'k')\n"
        "print(used() - before)\n"
        "loader.cleanup_all()\n"
        "print(used() - before)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 0, done.stderr
    loaded, cleaned = map(float, done.stdout.split()[-2:])
    assert 75 < loaded < 100
    assert cleaned < 20


def test_identical_source_is_not_compiled_again(loader: MetaKernelLoader) -> None:
    module = loader.compile_and_load(ADD.format(5), "k")
    assert loader.compile_and_load(ADD.format(5), "k") is module
    assert len(loader.history("k")) == 1


def test_cleaning_up_leaves_nothing(loader: MetaKernelLoader, ti_arch: str) -> None:
    module = loader.compile_and_load(ADD.format(6))
    assert added(module) == 6
    gone = [weakref.ref(module), weakref.ref(module.add)]
    del module
    loader.cleanup_all()
    gc.collect()
    assert [each() for each in gone] == [None, None]


LIB = """
@ti.func
def sq(v):
    return v * {factor}

@ti.real_func
def real(v: ti.f32) -> ti.f32:
    return v * {factor}
"""
USER = """
{imports}

@ti.kernel
def run(x: ti.types.ndarray(dtype=ti.f32, ndim=1)):
    for i in range(x.shape[0]):
        x[i] = {call}(x[i])
"""


def made_of_one(module) -> float:
    x = np.ones(3, np.float32)
    module.run(x)
    return float(x[0])


@pytest.mark.parametrize(
    ("imports", "call"),
    [("from lib import sq", "sq"), ("import lib", "lib.sq"), ("from lib import sq as f", "f")],
)
def test_modules_import_each_other_by_id(ti_arch, imports, call) -> None:
    known = set(sys.modules)
    with MetaKernelLoader() as loader:
        loader.compile_and_load(LIB.format(factor=3), "lib")
        user = loader.compile_and_load(USER.format(imports=imports, call=call), "user")
        assert made_of_one(user) == 3
        loader.compile_and_load(LIB.format(factor=5), "lib")
        assert made_of_one(user) == 3  # As it was imported.
        again = loader.compile_and_load(USER.format(imports=imports, call=call), "again")
        assert made_of_one(again) == 5
        assert "lib" not in sys.modules
        with pytest.raises(ModuleNotFoundError):
            __import__("lib")
        with MetaKernelLoader() as other, pytest.raises(errors.RenderError, match="No module"):
            other.compile_and_load("import lib", "x")
        with pytest.raises(errors.RenderError, match="cannot import name 'cube'"):
            loader.compile_and_load("from lib import cube", "x")
        del user, again
    gc.collect()
    assert not [name for name in set(sys.modules) - known if name.startswith("tikgen_rendered")]


def test_real_functions_of_an_imported_module_are_told_apart(ti_arch) -> None:
    if ti_arch != "cpu":
        pytest.skip("Taichi has real functions on archs that run through LLVM only")
    with MetaKernelLoader() as loader:
        for factor in (2, 3, 5):
            loader.compile_and_load(LIB.format(factor=factor), "lib")
            user = USER.format(imports="from lib import real", call="real")
            assert made_of_one(loader.compile_and_load(user, f"user{factor}")) == factor


def test_no_id_hides_the_standard_library() -> None:
    with MetaKernelLoader() as loader:
        with pytest.raises(errors.InvalidId):
            loader.compile_and_load("dumps = 1", "json")
        loader.compile_and_load("dumps = 1", "json_kernel")
        module = loader.compile_and_load("import json, os.path\nfrom xml import dom", "user")
        assert module.json is __import__("json")
        assert module.os is __import__("os")
