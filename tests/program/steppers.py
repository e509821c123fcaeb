"""What steps of programs can be on an arch: launches from Python, native code, graphs."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from conftest import ARCH
from tikgen import engines
from tikgen.program import steppers
from tikgen.program.graphs import GraphStepper
from tikgen.program.launchers import Launchers
from tikgen.taichi import arrays

# Whether steps run natively: in native code on cpu, as graphs on cuda.
NATIVE = (False, True) if ARCH in ("cpu", "cuda") else (False,)
stepped = pytest.mark.parametrize("native", NATIVE)


def record(launches: Sequence[Callable[[], object]]) -> Callable[[], object]:
    """Return a function that repeats some launches, as a CUDA graph does."""
    assert len(launches) > 1

    def run() -> None:
        for launch in launches:
            launch()

    return run


@contextlib.contextmanager
def graphs_on_cpu() -> Iterator[None]:
    """Have programs that run natively do what they do on cuda, with launches by direct-cpu."""

    def made(plan: Any, *_: Any, **__: Any) -> GraphStepper:
        return GraphStepper(plan, Launchers(engines.DIRECT_CPU), record, lambda: None)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(steppers, "NativeStepper", made)
        patch.setattr(arrays, "is_copied", lambda array: False)
        yield
