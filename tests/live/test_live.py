"""Hot reload: a text takes effect as a whole or not at all, and old code keeps running."""

from __future__ import annotations

import gc
import inspect
import linecache
import re
import subprocess
import sys
import types
import weakref
from pathlib import Path

import numpy as np
import pytest
import taichi as ti

import tikgen
from conftest import init_taichi
from tikgen import errors
from tikgen.live import Loader
from tikgen.taichi import runtime

ADD = """
@ti.kernel
def add(x: ti.types.ndarray(ndim=1), base: ti.f32):
    for i in range(x.shape[0]):
        x[i] += {} * base
"""


@pytest.fixture
def loader() -> Loader:
    return Loader()


def added(module: types.ModuleType, base: float = 2.0) -> float:
    """Return what the kernel ``add`` of a module adds to random numbers."""
    before = np.random.default_rng().integers(0, 100, 5).astype(np.float32)
    x = before.copy()
    module.add(x, base)
    (found,) = set(x - before)
    return float(found)


@pytest.mark.once
def test_the_documentation_runs_as_printed(ti_arch: str, tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "live.md").read_text(encoding="utf-8")
    section = page.split("\n## Hot reload\n")[1].split("\n## ")[0]
    blocks = re.findall(r"^```python\n(.*?)^```", section, re.DOTALL | re.MULTILINE)
    assert len(blocks) >= 4
    program = "\n".join(blocks).replace("arch=ti.cpu", f"arch=ti.{ti_arch}, enable_fallback=False")
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=200
    )
    assert done.returncode == 0, done.stderr
    printed = [line for line in done.stdout.splitlines() if not line.startswith("[Taichi]")]
    assert printed == re.findall(r"^.*print\(.*\)  # (.*)$", program, re.MULTILINE)


# What is loaded.


def test_a_module_may_have_other_definitions_than_kernels(loader: Loader, ti_arch: str) -> None:
    module = loader.load(
        """
        import dataclasses

        @dataclasses.dataclass
        class Setting:
            factor: float = tm.pi * 0 + 3.0

        setting = Setting()
        table = np.arange(3)

        @ti.func
        def scaled(v):
            return v * 2

        @ti.data_oriented
        class Counter:
            def __init__(self, n):
                self.n = n

            @ti.kernel
            def fill(self, x: ti.types.ndarray(ndim=1)):
                for i in range(x.shape[0]):
                    x[i] = scaled(self.n) + i

        def run(x):
            Counter(int(table[2]) + int(setting.factor)).fill(x)
        """,
        "counter",
    )
    x = np.full(4, np.nan, np.float32)
    module.run(x)
    np.testing.assert_array_equal(x, [10, 11, 12, 13])


def test_jinja2_text_is_rendered_with_its_parameters(loader: Loader, ti_arch: str) -> None:
    text = """
    #% for n in range(count)
    @ti.kernel
    def add_{{ n }}(x: ti.types.ndarray(dtype=ti.{{ dtype }}, ndim=1)):
        for i in range(x.shape[0]):
            x[i] += ti.{{ dtype }}({{ n + 1 }})

    #% endfor
    """
    module = loader.load(text, "adders", count=2, dtype="i32")
    x = np.zeros(3, np.int32)
    module.add_0(x)
    module.add_1(x)
    np.testing.assert_array_equal(x, 3)
    assert loader.load(text, "adders", count=2, dtype="i32") is module
    assert loader.load(text, "adders", count=3, dtype="i32") is not module
    with pytest.raises(tikgen.TikgenError, match="parameter 'dtype'"):
        loader.load(text, "adders", count=2, dtype="f32)\nimport os")
    with pytest.raises(errors.RenderError, match=r"adders/kernel.py.j2:2: #% for n in range\(oops"):
        loader.load(text.replace("count", "oops"), "adders", oops="name")


def test_identical_text_is_a_look_up(loader: Loader) -> None:
    text = "made = object()"
    first, unnamed = loader.load(text, "a"), loader.load(text)
    assert loader.load(str(text), "a") is first
    assert loader.load(text) is unnamed
    assert list(loader) == ["a", "kernel_0"]
    assert loader.load(text + " ", "a").made is not first.made
    assert [v.number for v in loader.history("a")] == [1, 2]
    assert loader[None] is loader["a"]


def test_default_ids_do_not_replace_those_of_the_user(loader: Loader) -> None:
    mine = loader.load("mine = 1", "kernel_0")
    other = loader.load("mine = 2")
    assert list(loader) == ["kernel_0", "kernel_1"]
    assert (loader["kernel_0"], loader["kernel_1"]) == (mine, other)


def test_loaders_share_nothing(ti_arch: str) -> None:
    one, two = Loader(), Loader()
    one.load(ADD.format(1))
    two.load(ADD.format(10))
    assert added(one["kernel_0"]) == 2
    assert added(two["kernel_0"]) == 20
    assert one["kernel_0"].__file__ != two["kernel_0"].__file__


# Old code.


def test_an_old_kernel_keeps_running_the_old_code(loader: Loader, ti_arch: str) -> None:
    old = loader.load(ADD.format(1), "k")
    held = loader.load(ADD.format(2), "k").add
    new = loader.load(ADD.format(3), "k")
    linecache.clearcache()
    gc.collect()
    for _ in range(2):  # Neither was launched so far: the old text is compiled now.
        assert [added(old), added(types.SimpleNamespace(add=held)), added(new)] == [2, 4, 6]
        x = ti.ndarray(ti.i32, 3)  # Another instance.
        old.add(x, 5.0)
        np.testing.assert_array_equal(x.to_numpy(), 5)
        init_taichi()


def test_real_functions_survive_ti_init(loader: Loader, ti_arch: str) -> None:
    if ti_arch != "cpu":
        pytest.skip("Taichi has real functions on archs that run through LLVM only")
    module = loader.load(
        """
        @ti.experimental.real_func
        def twice(v: ti.f32) -> ti.f32:
            return v * 2

        @ti.kernel
        def add(x: ti.types.ndarray(dtype=ti.f32, ndim=1), base: ti.f32):
            for i in range(x.shape[0]):
                x[i] += twice(base)
        """
    )
    assert added(module, 3.0) == 6
    init_taichi()
    assert added(module, 4.0) == 8


def test_the_text_of_a_module_can_be_read_while_a_function_of_it_lives(loader: Loader) -> None:
    held = loader.load("def f():\n    return 1\n", "k").f
    filename = held.__code__.co_filename
    loader.cleanup_all()
    assert inspect.getsource(held) == "def f():\n    return 1\n"
    linecache.clearcache()
    assert inspect.getsource(held) == "def f():\n    return 1\n"
    assert held.__module__ in sys.modules
    name = held.__module__
    del held
    gc.collect()
    assert name not in sys.modules
    assert filename not in linecache.cache


def test_reloads_leave_no_python_objects(loader: Loader, ti_arch: str) -> None:
    def traces() -> tuple[int, ...]:
        handles = [k for k in runtime.epoch().kernels if isinstance(k, weakref.ref)]
        return (
            sum(name.startswith("tikgen-live:k:") for name in linecache.cache),
            sum(name.startswith("tikgen_rendered.tikgen-live_k_") for name in sys.modules),
            sum(handle() is None for handle in handles),
        )

    gc.collect()
    before = traces()[:2]
    gone = []
    for n in range(500):
        module = loader.load(ADD.format(n), "k")
        if n % 100 == 0:
            assert added(module, 1.0) == n
        gone += [weakref.ref(each) for each in (module, module.add, module.add._primal)]
    del module
    del loader["k"]
    assert sum(each() is not None for each in gone) == 0
    loader.load(ADD.format(1), "other")
    assert traces() == (*before, 0)


@pytest.mark.parametrize(
    "data",
    [
        "held = np.zeros(10_000_000).view(Held)",
        "held = Held((2,)); held.inner = [{'a': np.zeros(10_000_000)}]",
        "held = Held((2,)); text = 'x' * 80_000_000",
        "held = Held((2,)); array = ti.ndarray(ti.f32, 20_000_000)",
    ],
)
def test_large_modules_are_collected_immediately(loader: Loader, ti_arch: str, data: str) -> None:
    gone = []
    for n in range(4):
        text = f"class Held(np.ndarray):\n    pass\n\n{data}\n" + ADD.format(n)
        gone.append(weakref.ref(loader.load(text, "k").held))
    assert [each() is not None for each in gone] == [False] * 3 + [True]


# A text that does not work.


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is empty"),
        (" \n\t", "is empty"),
        (None, "is of type NoneType; it takes a str"),
        (b"x = 1", "is of type bytes; it takes a str; decode them first"),
        (7, "is of type int"),
        ("x = 1\n" * 2_000_000, "has 12,000,000 characters; it takes at most 1,000,000"),
        ("x = 1\ny = '\0'", r"has the character '\\x00' in line 2"),
        ("x = '\u2028'", r"has the character '\\u2028' in line 1"),
        ("x = '\ud800'", "half of a surrogate pair"),
        ("x = 1\ny = (2\n", "is not Python: '\\(' was never closed\n  line 2: y = \\(2"),
        ("    x = 1\n      y = 2\n", "unexpected indent\n  line 2: y = 2"),
        ("x = 1\n#" + "-" * 10_000, "has 10,001 characters in line 2"),
        # Python 3.13 parses it.
        ("x = " + "+".join(["1.0"] * 5_000), "nests too deeply|has 20,003 characters in line 1"),
        ("x = " + "-" * 20_000 + "1", "nests too deeply"),
        ("from __future__ import (\n    annotations,\n)", "`from __future__ import annotations`"),
        ("x = 1\nraise OSError('no')", "OSError: no\n.*\n  rendered: 2: raise OSError"),
        ("@ti.kernel\ndef k(x):\n    pass", "parameters must be type annotated"),
        ("x = 1\nraise SystemExit(3)", "SystemExit: 3\n.*\n  rendered: 2: raise SystemExit"),
        ("#% for n in range(3)\nx = 1", "Unexpected end of template"),
    ],
)
def test_a_bad_text_is_refused_and_the_old_one_stays(loader: Loader, text: str, said: str) -> None:
    with pytest.raises(tikgen.TikgenError, match=said) as caught:
        loader.load(text, "k")
    assert "still current" not in str(caught.value)
    assert "k" not in loader
    module = loader.load("def f():\n    return 1\n", "k")
    with pytest.raises(tikgen.TikgenError, match=said) as caught:
        loader.load(text, "k")
    assert f"Version {loader.history('k')[0].number} of 'k' is still current." in str(caught.value)
    assert loader["k"] is module
    assert inspect.getsource(module.f) == "def f():\n    return 1\n"


def test_a_kernel_that_cannot_be_compiled_restores_the_previous_version(
    loader: Loader, ti_arch: str
) -> None:
    good = loader.load(ADD.format(1), "k")
    bad = loader.load(ADD.format("undefined"), "k")
    assert loader["k"] is bad
    with pytest.raises(errors.KernelCompileError) as caught:
        added(bad)
    said = str(caught.value)
    assert f'File "{bad.__file__}", line 5, in add:' in said
    assert "x[i] += undefined * base\n" in said
    assert "^^^^^^^^^" in said
    assert said.endswith("Version 1 of 'k' is current again.")
    assert loader["k"] is good
    assert added(loader["k"]) == 2
    assert [v.state for v in loader.history("k")] == ["current", "failed"]
    with pytest.raises(errors.KernelCompileError) as caught:
        added(bad)
    assert "current again" not in str(caught.value)


@pytest.mark.once
def test_an_expression_too_deep_for_taichi_is_refused(loader: Loader, ti_arch: str) -> None:
    good = loader.load(ADD.format(1), "k")
    bad = loader.load(ADD.format("\\\n    +".join(["base"] * 1000)), "k")
    with pytest.raises(errors.KernelCompileError, match=r"nests too deeply.*\n.*Version 1 of"):
        added(bad)
    assert added(good) == 2


def test_a_freed_version_is_executed_again(loader: Loader, ti_arch: str) -> None:
    loader.load(ADD.format(7), "k")
    loader.load(ADD.format("undefined"), "k")
    gc.collect()
    with pytest.raises(errors.KernelCompileError, match="Version 1 of 'k' is current again"):
        added(loader["k"])
    assert added(loader["k"]) == 14


def test_mistakes_of_the_caller_restore_nothing(loader: Loader, ti_arch: str) -> None:
    text = ADD.replace("ndim=1", "dtype=ti.f32, ndim=1")
    loader.load(text.format(1), "k")
    module = loader.load(text.format(2), "k")
    with pytest.raises(ValueError, match="required array has dtype=f32"):
        module.add(np.zeros(3, np.float64), 1.0)
    assert added(module) == 4
    static = "@ti.kernel\ndef k(n: ti.template()):\n    ti.static_assert(n < {})\n"
    loader.load(static.format(5), "s")
    module = loader.load(static.format(3), "s")
    module.k(2)
    with pytest.raises(errors.KernelCompileError, match="static_assert"):
        module.k(4)
    assert loader["s"] is module


def test_a_check_is_called_before_the_text_takes_effect(loader: Loader, ti_arch: str) -> None:
    good = loader.load(ADD.format(1), "k", check=lambda module: added(module) == 2)
    with pytest.raises(errors.CheckFailed, match="it returned False\nVersion 1 of 'k' is still"):
        loader.load(ADD.format(2), "k", check=lambda module: added(module) == 2)

    def assert_nothing(module: types.ModuleType) -> None:
        raise AssertionError("no good")

    with pytest.raises(errors.CheckFailed, match="AssertionError: no good") as caught:
        loader.load(ADD.format(3), "k", check=assert_nothing)
    assert isinstance(caught.value.__cause__, AssertionError)
    with pytest.raises(errors.KernelCompileError, match="Version 1 of 'k' is still current"):
        loader.load(ADD.format("undefined"), "k", check=added)
    assert loader["k"] is good
    assert [v.state for v in loader.history("k")] == ["current", "failed", "failed", "failed"]
    assert "no good" in loader.history("k")[2].error


def test_taichi_that_is_not_initialised_is_named(ti_arch: str, loader: Loader) -> None:
    module = loader.load(ADD.format(1))
    ti.reset()
    try:
        with pytest.raises(errors.TaichiNotInitialised):
            added(module)
    finally:
        init_taichi()
    assert added(module) == 2


# Versions.


def test_rollback_goes_from_version_to_version(loader: Loader, ti_arch: str) -> None:
    first = loader.load(ADD.format(1), "k")
    for n in (2, 3):
        loader.load(ADD.format(n), "k")
    gc.collect()
    assert added(loader.rollback("k")) == 4
    assert added(loader["k"]) == 4
    loader.load(ADD.format(9), "k")
    assert added(loader.rollback("k")) == 4  # Not the one that was withdrawn.
    assert loader.rollback("k") is first
    states = [v.state for v in loader.history("k")]
    assert states == ["current", "withdrawn", "withdrawn", "withdrawn"]
    with pytest.raises(errors.NoEarlierVersion, match="'k' has no version before 1"):
        loader.rollback("k")
    assert loader["k"] is first


def test_a_version_that_cannot_be_executed_again_leaves_the_new_one(
    loader: Loader, ti_arch: str, tmp_path: Path
) -> None:
    data = tmp_path / "data.txt"
    data.write_text("1")
    loader.load(f"n = int(open({str(data)!r}).read())\n" + ADD.format(1), "k")
    bad = loader.load(ADD.format("undefined"), "k")
    gc.collect()
    data.unlink()
    with pytest.raises(
        errors.RenderError, match=r"FileNotFoundError(.|\n)*Version 2 of 'k' is still"
    ):
        loader.rollback("k")
    with pytest.raises(errors.KernelCompileError, match="Version 1 could not be loaded again"):
        added(bad)
    assert loader["k"] is bad
    data.write_text("7")
    assert loader.rollback("k").n == 7


def test_history_keeps_the_last_twenty_texts(loader: Loader) -> None:
    for n in range(30):
        loader.load(f"n = {n}", "k", check=lambda module: module.n == 0 or None)
    versions = loader.history("k")
    assert [v.number for v in versions] == list(range(11, 31))
    assert versions[-1].text == "n = 29"
    assert [v.state for v in versions] == ["retired"] * 19 + ["current"]
    assert versions[0].loaded_at <= versions[-1].loaded_at
    assert len({v.digest for v in versions}) == 20
    for _ in range(25):
        with pytest.raises(errors.CheckFailed):
            loader.load("bad = True", "k", check=lambda module: False)
    assert [v.number for v in loader.history("k") if v.state == "current"] == [30]


def test_a_loader_is_a_collection_of_ids(loader: Loader) -> None:
    with loader:
        for id in ("a", "b", "c"):
            loader.load(f"name = {id!r}", id)
        loader.load("name = 'new'", "a")
        assert list(loader) == ["b", "c", "a"]
        assert loader[None].name == "new"
        assert len(loader) == 3
        assert "b" in loader
        assert 7 not in loader
        assert repr(loader) == "<Loader of b (version 1), c (version 1), a (version 2)>"
        del loader["a"]
        assert loader[None].name == "c"
        with pytest.raises(errors.UnknownId, match=r"'a' is not loaded\. It has 'b', 'c'"):
            loader["a"]
        assert loader.load("name = 'again'", "a").__file__.endswith(".3")
    assert len(loader) == 0
    with pytest.raises(errors.UnknownId, match="nothing is loaded"):
        loader[None]
    with pytest.raises(ValueError, match="Did you mean 'kernel'"):
        loader.load("x = 1", "kernel")
        loader.rollback("kernl")


@pytest.mark.parametrize(
    ("id", "said"),
    [
        (7, "is of type int; an id is a str"),
        (b"k", "is of type bytes"),
        (["k"], "is of type list"),
        ("", "is no name"),
        ("a/b", "is no name"),
        ("a:b", "is no name"),
        ("k\n", "is no name"),
        ("k" * 1000, "is no name"),
        ("json", "is the name of an installed module; take 'json_kernel'"),
        ("taichi.math", "is the name of an installed module"),
        ("pydantic_core", "is the name of an installed module"),
    ],
)
def test_ids_that_cannot_name_a_module_are_refused(loader: Loader, id: object, said: str) -> None:
    with pytest.raises(errors.InvalidId, match=said):
        loader.load("x = 1", id)  # type: ignore[arg-type]
    assert len(loader) == 0


def test_a_folder_beside_the_script_is_not_an_installed_module(
    loader: Loader, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "blur").mkdir()
    monkeypatch.syspath_prepend(str(tmp_path))
    assert loader.load("x = 1", "blur").x == 1
