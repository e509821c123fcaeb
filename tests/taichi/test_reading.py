"""What lets Taichi read kernels in less time changes nothing that it makes of them."""

import subprocess
import sys
import textwrap

import numpy as np
import pytest
import taichi as ti
from hypothesis import given
from hypothesis import strategies as st
from taichi.lang import kernel_impl
from taichi.lang.ast import ast_transformer_utils

import tikgen
from tikgen.taichi.reading import wrapped

LINES = st.text(st.sampled_from("ab-^ \t\n\x0b\x1f\xa0é—"), max_size=90) | st.builds(
    lambda indent, body, end: " " * indent + body + end,
    st.integers(0, 85),
    st.text(st.characters(codec="ascii"), max_size=85),
    st.sampled_from(("", "\n", " \n", "   ")),
)


@given(LINES, st.sampled_from((1, 20, 80)))
def test_lines_are_broken_as_ever(line: str, width: int) -> None:
    assert list(wrapped(line, width)) == textwrap.TextWrapper(width=width).wrap(line)


def test_taichi_uses_it() -> None:
    wrapper = ast_transformer_utils.TextWrapper(width=80)
    wrapped.cache_clear()
    assert wrapper.wrap("x = 1") == wrapper.wrap("x = 1") == ["x = 1"]
    assert wrapped.cache_info().hits == 1


def test_kernels_of_classes_are_known_and_those_of_modules_not_searched(
    ti_arch: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    searched = []
    getframeinfo = kernel_impl.inspect.getframeinfo

    def search(frame: object) -> object:
        searched.append(frame)
        return getframeinfo(frame)

    monkeypatch.setattr(kernel_impl.inspect, "getframeinfo", search)

    @ti.data_oriented
    class Doubler:
        @ti.func
        def twice(self, v):  # type: ignore[no-untyped-def]
            return 2 * v

        @ti.kernel
        def run(self, x: ti.types.ndarray(dtype=ti.f32, ndim=1)):  # type: ignore[valid-type]
            for i in x:
                x[i] = self.twice(x[i])

    x = np.ones(3, np.float32)
    Doubler().run(x)
    assert x.tolist() == [2, 2, 2]
    assert len(searched) >= 2
    searched.clear()
    tikgen.build("map", expr="y = 3*x + 0.125")(x=x, y=x)
    assert x.tolist() == [6.125] * 3
    assert not searched


@pytest.mark.parametrize("imports", ["tikgen, taichi", "taichi, tikgen"])
def test_taichi_searches_for_classes_around_none_of_its_own_functions(imports: str) -> None:
    code = (
        "import inspect\n"
        "found, real = [], inspect.getframeinfo\n"
        "inspect.getframeinfo = lambda frame: found.append(frame) or real(frame)\n"
        f"import {imports}\n"
        "from taichi.lang.kernel_impl import _inside_class\n"
        "print(len(found) == 0, hasattr(_inside_class, '__wrapped__'))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    # What Taichi did before tikgen came cannot be helped.
    assert done.stdout.split()[-2:] == [str(imports.startswith("tikgen")), "True"]
