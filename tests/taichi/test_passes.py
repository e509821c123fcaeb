"""Long real functions are compiled without the passes of Taichi that take long."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import taichi as ti
from taichi.lang import impl

import tikgen
from conftest import ARCH
from tikgen.taichi import artefacts, passes

pytestmark = [
    pytest.mark.usefixtures("ti_arch"),
    pytest.mark.skipif(ARCH != "cpu", reason="real functions in rows are for cpu"),
]
NAMES = "abcfghmnpq"


def built(equations: int) -> Any:
    """Return a kernel of some coupled equations on a grid of two axes."""
    pairs = itertools.pairwise(NAMES[: equations + 1])
    lines = [f"{c}' = {c} + dt*(lap({c}) - {c}*{d}**2 + dx({c}, along={d}))" for c, d in pairs]
    return tikgen.update(
        "\n".join(lines), dim=2, boundary="periodic", scalars="dt", engine="taichi"
    )


def arrays_for(kernel: Any, rng: np.random.Generator) -> dict[str, Any]:
    """Return fields of 13 x 37 points, and a number for each scalar."""
    return {
        a.name: rng.random((13, 37), np.float32) if hasattr(a, "shape") else 0.1
        for a in kernel.signature.arguments
    }


@pytest.fixture
def levels(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the levels of optimisation at which kernels are compiled from here on."""
    seen = []
    suited_to = passes.suited_to

    @contextlib.contextmanager
    def noted(kernel: Any) -> Iterator[None]:
        with suited_to(kernel):
            seen.append(impl.current_cfg().opt_level)
            yield

    monkeypatch.setattr(passes, "suited_to", noted)
    return seen


@pytest.mark.parametrize(("equations", "level"), [(2, 1), (9, 0)])
def test_long_functions_take_fewer_passes_however_they_are_compiled(
    equations: int, level: int, levels: list[int], rng: np.random.Generator
) -> None:
    kernel = built(equations)
    arrays = arrays_for(kernel, rng)
    expected = kernel.reference(**arrays)
    kernel(**arrays)
    assert levels == [level] and impl.current_cfg().opt_level == 1
    for name, value in zip([f"{c}_next" for c in NAMES[:equations]], expected, strict=True):
        assert np.allclose(arrays[name], value, rtol=1e-4, atol=1e-4)
    artefacts.llvm_text(kernel.function)
    assert set(levels[1:]) == {level} and impl.current_cfg().opt_level == 1


def test_a_failure_of_the_compiler_restores_the_level() -> None:
    kernel = built(9)
    with pytest.raises(ti.TaichiCompilationError), passes.suited_to(kernel.function._primal):
        assert impl.current_cfg().opt_level == 0
        raise ti.TaichiCompilationError
    assert impl.current_cfg().opt_level == 1


def test_the_self_check_of_an_ejected_file_leaves_the_same_passes_out() -> None:
    texts = [built(equations).eject("cpu") for equations in (2, 9)]
    assert ["opt_level=0" in text for text in texts] == [False, True]
