"""Real functions: kernels that differ only in them are distinct; failed ones are discarded."""

from __future__ import annotations

import dataclasses
import itertools
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import taichi as ti
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tikgen
from conftest import ARCH, init_taichi
from some_cases import examples
from tikgen.errors import KernelCompileError
from tikgen.live import Loader
from tikgen.live.rebuilding import rebuild

TEXT = """\
import taichi as ti


@ti.real_func
def inner(v: ti.f32) -> ti.f32:
    return {body}


@ti.real_func
def outer(v: ti.f32) -> ti.f32:
    return inner(v) + 1.0


@ti.real_func
def to_and_fro(v: ti.f32, n: ti.i32) -> ti.f32:
    r = {body}
    if n > 0:
        r = fro_and_to(r, n - 1)
    return r


@ti.real_func
def fro_and_to(v: ti.f32, n: ti.i32) -> ti.f32:
    r = v
    if n > 0:
        r = to_and_fro(r, n - 1)
    return r


@ti.real_func
def begin(v: ti.f32) -> ti.f32:
    return to_and_fro(v, 0)


@ti.kernel
def {name}(x: ti.types.ndarray(dtype=ti.f32, ndim=1)):
    for i in range(x.shape[0]):
        x[i] = {call}
"""
CALLS: dict[str, Callable[[float], float]] = {
    "inner(x[i])": lambda v: v,
    "outer(x[i])": lambda v: v + 1,
    # The second of a circle, whose own text is the same whatever the first does.
    "begin(x[i]) * 0.0 + fro_and_to(x[i], 1)": lambda v: v,
}
BODIES = ("v * {c}", "v + {c}", "{c} - v")
CODE = '''\
from tikgen import Array, DType, ProblemModel, Template, parameter


class Called(Template):
    """Calls a real function."""

    class Problem(ProblemModel):
        c: float = parameter("a number", 1.0)

    def arguments(self, p):
        return (Array("x", DType.f32, ("n",), role="inout"),)
'''


@dataclasses.dataclass(frozen=True)
class Case:
    """A text, and what it makes of 3."""

    route: str
    body: str
    constant: int
    call: str

    @property
    def text(self) -> str:
        """Return the text of the module."""
        body = self.body.format(c=f"{self.constant}.0")
        return TEXT.format(body=body, call=self.call, name="called")

    @property
    def expected(self) -> float:
        """Return what the kernel makes of 3."""
        value = {"v * {c}": 3 * self.constant, "v + {c}": 3 + self.constant}
        return CALLS[self.call](value.get(self.body, self.constant - 3))


def cases() -> st.SearchStrategy[Case]:
    routes = st.sampled_from(("template", "from_string", "live", "reload"))
    bodies, calls = st.sampled_from(BODIES), st.sampled_from(list(CALLS))
    return st.builds(Case, routes, bodies, st.integers(2, 9), calls)


@pytest.fixture
def cpu(ti_arch: str) -> Iterator[None]:
    if ti_arch != "cpu":
        pytest.skip("Taichi has real functions on archs that run through LLVM only")
    yield
    init_taichi()


_numbers = itertools.count()


class Routes:
    """The ways in which a text becomes a kernel."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.loader = Loader()
        self.reloaded: Any = None

    def kernel(self, case: Case) -> Callable[[Any], Any]:
        """Return a kernel that runs the text of ``case``."""
        if case.route == "from_string":
            return tikgen.from_string(case.text)
        if case.route == "live":
            called: Callable[[Any], Any] = self.loader.load(case.text, "called").called
            return called
        if case.route == "template" or self.reloaded is None:
            return self.built(case, f"t{next(_numbers)}")
        return self.built(case, self.reloaded.template.folder.name)

    def built(self, case: Case, name: str) -> Any:
        """Return the kernel of the template ``name`` with the text of ``case``."""
        folder = self.folder / name
        is_new = not folder.exists()
        folder.mkdir(exist_ok=True)
        (folder / "kernel.py.j2").write_text(case.text.replace("called(", "{{ name }}("))
        (folder / "template.py").write_text(CODE)
        if is_new:
            kernel = tikgen.build(tikgen.load_template(folder))
        else:
            kernel = self.reloaded
            assert rebuild(folder, (), lambda change: None).ok
        if case.route == "reload":
            self.reloaded = kernel
        return kernel


def made_of_three(kernel: Callable[[Any], Any]) -> float:
    x = np.full(3, 3, np.float32)
    kernel(x)
    return float(x[0])


@settings(
    max_examples=int(os.environ.get("TIKGEN_EXAMPLES", examples(6, 2))),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(st.lists(cases(), min_size=2, max_size=6), st.booleans())
def test_texts_that_differ_only_in_real_functions_are_distinct(
    cpu: None, tmp_path: Path, texts: list[Case], offline_cache: bool
) -> None:
    cache = {"offline_cache_file_path": str(tmp_path / "cache")} if offline_cache else {}
    ti.init(ti.cpu, log_level=ti.ERROR, offline_cache=offline_cache, **cache)
    routes = Routes(tmp_path)
    try:
        for case in texts:
            kernel = routes.kernel(case)
            assert made_of_three(kernel) == case.expected, case
            assert ti.cfg.offline_cache is offline_cache
            if isinstance(kernel, tikgen.Kernel):
                x = np.full(3, 3, np.float32)
                kernel.bind(x)()
                assert x[0] == case.expected
    finally:
        routes.loader.cleanup_all()


@pytest.mark.parametrize("call", CALLS)
def test_kernels_that_differ_only_in_constants_are_distinct(cpu: None, call: str) -> None:
    ti.init(ti.cpu, log_level=ti.ERROR, offline_cache=False)
    found = [Case("from_string", "v * {c}", c, call) for c in (2, 3, 5)]
    kernels = [tikgen.from_string(case.text) for case in found]
    assert [made_of_three(kernel) for kernel in kernels] == [case.expected for case in found]


def test_equal_code_is_found_in_the_offline_cache(cpu: None, tmp_path: Path) -> None:
    case = Case("live", "v * {c}", 7, "outer(x[i])")
    caches = []
    for _ in range(
        2
    ):  # A ti.init writes what was compiled before it, as the end of a process does.
        ti.init(ti.cpu, log_level=ti.ERROR, offline_cache_file_path=str(tmp_path))
        with tikgen.trace() as t, Loader() as loader:
            assert made_of_three(loader.load(case.text, "called").called) == 22
        caches += [e.details["cache"] for e in t.events if e.stage == "compile"]
    assert caches == ["compiled", "disk"]


def test_functions_of_another_module_are_compiled_again_after_ti_init(
    cpu: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deep = "import taichi as ti\n@ti.real_func\ndef deep(v: ti.f32) -> ti.f32:\n    return v * 2\n"
    (tmp_path / "real_deep.py").write_text(deep)
    middle = "@ti.real_func\ndef middle(v: ti.f32) -> ti.f32:\n    return real_deep.deep(v)\n"
    (tmp_path / "real_middle.py").write_text(f"import taichi as ti, real_deep\n{middle}")
    monkeypatch.syspath_prepend(tmp_path)
    text = TEXT.replace("import taichi as ti\n", "import taichi as ti, real_middle\n")
    kernel = tikgen.from_string(
        text.format(name="called", body="v", call="real_middle.middle(x[i])")
    )
    for _ in range(3):
        ti.init(ti.cpu, log_level=ti.ERROR, offline_cache=False)
        assert made_of_three(kernel) == 6


def test_a_function_that_failed_to_compile_is_not_called(cpu: None) -> None:
    text = Case("live", "v * {c}", 2, "outer(x[i])").text
    with Loader() as loader:
        module = loader.load(text.replace("v * 2.0", "v * missing"), "called")
        for _ in range(2):
            with pytest.raises(KernelCompileError, match='Name "missing" is not defined'):
                made_of_three(module.called)
        module.missing = 5.0
        assert made_of_three(module.called) == 16


@pytest.mark.skipif(ARCH != "vulkan", reason="cpu and cuda have real functions")
def test_an_arch_without_real_functions_refuses_them(ti_arch: str) -> None:
    text = """
import taichi as ti

@ti.real_func
def store(x: ti.types.ndarray(dtype=ti.f32, ndim=1), i: ti.i32):
    x[i] = 7.0

@ti.kernel
def called(x: ti.types.ndarray(dtype=ti.f32, ndim=1)):
    for i in range(x.shape[0]):
        store(x, i)
"""
    kernel = tikgen.from_string(text)
    with pytest.raises(
        KernelCompileError, match="store is a real function, which vulkan does not support"
    ):
        kernel(np.ones(3, np.float32))
