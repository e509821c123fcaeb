"""New code for a kernel that is in use."""

from __future__ import annotations

import gc
import linecache
import threading
import weakref

import numpy as np
import pytest

import tikgen
from tikgen.errors import ArgumentError, KernelCompileError, RenderError
from tikgen.pipeline import builder, events
from tikgen.template import catalogue

KERNEL_TEXT = """import taichi as ti


@ti.kernel
def {{ name }}(x: ti.types.ndarray(dtype=ti.f32, ndim=1)):
    for i in range(x.shape[0]):
        x[i] = {{ p.value }}.0
"""
CODE = """from tikgen import Array, DType, ProblemModel, Template, parameter


class Fill(Template):
    \"\"\"Fills an array.\"\"\"

    class Problem(ProblemModel):
        value: int = parameter("What to write.", default=1)
        unused: int = parameter("Does not reach the text.", default=0)

    def arguments(self, p):
        return (Array("x", DType.f32, ("n",), role="out"),)

    def reference(self, p, x):
        return 0 * x + p.value
"""


@pytest.fixture
def template(tmp_path):
    folder = tmp_path / f"fill_{np.random.default_rng().integers(1 << 40)}"
    folder.mkdir()
    (folder / "kernel.py.j2").write_text(KERNEL_TEXT)
    (folder / "template.py").write_text(CODE)
    return tikgen.load_template(folder)


def edited(kernel: tikgen.Kernel, old: str, new: str) -> tikgen.Source:
    """Return the source of a kernel with its text changed, as from an edited template."""
    from tikgen.pipeline.rendering import hashed

    text = kernel.source.text.replace(old, new)
    return hashed(kernel.variant, text, kernel.source.line_map)


def value_of(launch) -> float:
    x = np.full(5, np.nan, "f4")
    launch(x)
    assert len(set(x)) == 1
    return float(x[0])


def test_the_next_call_adopts_the_code_on_offer(ti_arch, template) -> None:
    kernel = tikgen.build(template, value=3)
    assert value_of(kernel) == 3
    told = []
    builder.replace(kernel, edited(kernel, "3.0", "4.0"), told.append)
    assert kernel.is_changing
    assert not told
    assert value_of(kernel) == 4
    assert told == [None]
    assert not kernel.is_changing
    assert "4.0" in kernel.source.text


def test_code_that_does_not_compile_is_not_adopted(ti_arch, template) -> None:
    kernel = tikgen.build(template, value=3)
    assert value_of(kernel) == 3
    text, told = kernel.source.text, []
    builder.replace(kernel, edited(kernel, "3.0", "unknown"), told.append)
    assert value_of(kernel) == 3
    assert kernel.source.text == text
    (error,) = told
    assert isinstance(error, KernelCompileError)
    assert "kernel.py.j2:7" in str(error)
    assert "unknown" in str(error)
    assert tikgen.build(template, value=3) is kernel
    assert value_of(kernel) == 3


def test_code_that_taichi_cannot_read_is_not_adopted(ti_arch, template) -> None:
    kernel, told = tikgen.build(template, value=3), []
    assert value_of(kernel) == 3
    too_long = " + ".join(
        ["3.00000000"] * 1000
    )  # In one line, which Taichi breaks within a number.
    builder.replace(kernel, edited(kernel, "3.0", too_long), told.append)
    assert value_of(kernel) == 3
    assert [type(error) for error in told] == [KernelCompileError]


def test_a_kernel_is_built_for_the_parameters_of_code_that_does_not_work(template) -> None:
    kernel = tikgen.build(template, value=3)
    broken = builder.resolve(template, value=9)
    builder.keep(kernel, broken)
    assert tikgen.build(template, value=9) is kernel
    builder.replace(kernel, edited(kernel, "3.0", "4.0"), print)
    assert tikgen.build(template, value=3) is kernel


def test_replaced_versions_are_freed(ti_arch, template) -> None:
    kernel = tikgen.build(template, value=0)
    bound = kernel.bind(np.zeros(3, "f4"))
    texts, gone = [], []
    for n in range(30):
        gone += [weakref.ref(kernel.loaded), weakref.ref(kernel.loaded.module)]
        texts.append(kernel.source.filename)
        builder.replace(kernel, edited(kernel, f"{n}.0", f"{n + 1}.0"), lambda _: None)
        bound()
    assert value_of(kernel) == 30
    gc.collect()
    assert not any(each() for each in gone)
    assert not set(texts) & linecache.cache.keys()
    assert not [s for s in events.lives if s.file in texts]


def test_code_that_does_not_load_is_not_offered(template) -> None:
    kernel = tikgen.build(template, value=3)
    with pytest.raises(RenderError, match="NameError"):
        builder.replace(kernel, edited(kernel, "@ti.kernel", "missing\n@ti.kernel"), print)
    assert not kernel.is_changing


def test_code_with_other_arguments_waits_for_them(ti_arch, template) -> None:
    kernel = tikgen.build(template, value=3)
    assert value_of(kernel) == 3
    told = []
    builder.replace(kernel, edited(kernel, "x[i] = 3.0", "x[i] = 5.0"), told.append)
    with pytest.raises(ArgumentError):
        kernel(np.ones((2, 2), "f4"))
    assert [type(error) for error in told] == [ArgumentError]
    assert value_of(kernel) == 5
    assert told[1:] == [None]


def test_a_bound_kernel_adopts_new_code(ti_arch, template) -> None:
    kernel, x = tikgen.build(template, value=3), np.full(5, np.nan, "f4")
    bound = kernel.bind(x)
    bound()
    assert set(x) == {3}
    builder.replace(kernel, edited(kernel, "3.0", "4.0"), lambda _: None)
    bound()
    assert set(x) == {4}
    builder.replace(kernel, edited(kernel, "4.0", "unknown"), lambda _: None)
    x[:] = np.nan
    bound()
    assert set(x) == {4}


@pytest.mark.parametrize("given", [{}, {"schedule": {}}], ids=["any size", "one schedule"])
def test_bind_adopts_the_code_on_offer(ti_arch, template, given) -> None:
    kernel = tikgen.build(template, value=5, **given)
    assert value_of(kernel) == 5
    told = []
    kernel.offer(builder.load_source(edited(kernel, "5.0", "6.0")), told.append)
    x = np.zeros(5, "f4")
    bound = kernel.bind(x)
    assert told == [None]
    bound()
    assert set(x) == {6.0}
    kernel.offer(builder.load_source(edited(kernel, "6.0", "7.0")), told.append)
    kernel.take_offer((x,), {})
    assert value_of(kernel) == 7


def test_a_bound_kernel_keeps_the_code_whose_arguments_it_has(ti_arch, template) -> None:
    kernel, x = tikgen.build(template, value=3), np.full(5, np.nan, "f4")
    bound = kernel.bind(x)
    folder = template.folder
    (folder / "template.py").write_text(
        CODE.replace('role="out"),)', 'role="out"), Array("y", DType.f32, ("n",), role="in"))')
    )
    text = KERNEL_TEXT.replace("ndim=1)):", "ndim=1), y: ti.types.ndarray(dtype=ti.f32, ndim=1)):")
    (folder / "kernel.py.j2").write_text(text.replace("{{ p.value }}.0", "y[i]"))
    source = tikgen.render(catalogue.reload_template(folder), value=3)
    builder.replace(kernel, source, lambda _: None)
    bound()
    assert set(x) == {3}  # The old code serves until someone gives what the new takes.
    kernel(x, np.full(5, 8, "f4"))
    assert set(x) == {8}
    with pytest.raises(ArgumentError, match="argument y is missing"):
        kernel(x)
    for _ in range(2):
        x[:] = np.nan
        bound()
        assert set(x) == {3}
    builder.replace(kernel, edited(kernel, "y[i]", "y[i] + 1"), lambda _: None)
    kernel(x, np.full(5, 8, "f4"))
    bound()
    assert set(x) == {3}
    builder.clear()
    with pytest.raises(ArgumentError, match="unloaded"):
        bound()


def test_another_parameter_set_of_equal_code_gets_its_own_kernel(ti_arch, template) -> None:
    kernel = tikgen.build(template, value=3)
    assert tikgen.build(template, value=3, unused=7) is kernel
    builder.replace(kernel, edited(kernel, "3.0", "4.0"), lambda _: None)
    other = tikgen.build(template, value=3, unused=7)
    assert other is not kernel
    assert (value_of(kernel), value_of(other)) == (4, 3)


def test_running_threads_see_one_version_or_the_other(ti_arch, template) -> None:
    kernel = tikgen.build(template, value=0)
    bound_array = np.zeros(64, "f4")
    bound = kernel.bind(bound_array)
    bound()
    seen, wrong, stop = set(), [], threading.Event()

    def work() -> None:
        x = np.zeros(64, "f4")
        while not stop.is_set():
            kernel(x)
            if len(set(x)) != 1:
                wrong.append(x.copy())
            seen.add(float(x[0]))

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        for version in range(1, 6):
            taken = threading.Event()
            source = edited(kernel, f"{version - 1}.0", f"{version}.0")
            builder.replace(kernel, source, lambda _, taken=taken: taken.set())
            assert taken.wait(60)
            bound()
            assert set(bound_array) == {version}
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert not wrong
    assert seen <= {0, 1, 2, 3, 4, 5}
    assert value_of(kernel) == 5
