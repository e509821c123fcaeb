"""Processes that own no points launch the kernels of the others, and change nothing."""

from __future__ import annotations

import itertools
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

import ranks
import tikgen
from cases import CASES
from tikgen.errors import GridError
from tikgen.grid import grid
from tikgen.grid.binding import own_kernel
from tikgen.grid.decomposition import Decomposition
from tikgen.grid.domain import Domain
from tikgen.grid.processes import Processes
from tikgen.taichi import arrays

NEUTRAL = {"sum": 0, "max": -math.inf, "min": math.inf}


def idle_domain(shape: tuple[int, ...], halo: int) -> Domain:
    """Return the part of the second of two processes, of which the first owns all points."""
    dim = len(shape)
    processes = Processes(cast("Any", SimpleNamespace(rank=1, size=2)))
    return Domain(Decomposition(shape, (1,) * dim, (False,) * dim), processes, (halo,) * dim)


@pytest.mark.usefixtures("ti_arch")
@pytest.mark.parametrize(("name", "halo"), [*zip(CASES, itertools.cycle([0, 3]))])
def test_an_idle_process_computes_nothing(name: str, halo: int) -> None:
    case = CASES[name]
    kernel = case.kernel()
    use = kernel.template.grid_use(kernel.problem)
    assert use is not None
    domain = idle_domain(case.shape, halo)
    extents, given = domain.extents, case.given
    for argument in kernel.signature.arguments:
        if isinstance(argument, tikgen.Array) and argument.name in use.arrays:
            first = use.arrays[argument.name].first_axis
            shape = [n if isinstance(n, int) else 0 for n in argument.shape]
            shape[first : first + use.dim] = extents
            given[argument.name] = np.full(shape, 7, argument.dtype.numpy)
        elif argument.name.startswith("cpml_"):
            sizes = {f"n{axis}": extent for axis, extent in enumerate(extents)}
            shape = [sizes.get(n, n) for n in argument.shape]
            given[argument.name] = np.full(shape, 7, argument.dtype.numpy)
        elif isinstance(argument, tikgen.Array) and argument.name in use.faces:
            given[argument.name] = np.ones(extents[1:], argument.dtype.numpy)
    given |= {n: np.full(1, 7, kernel.problem.dtype.numpy) for n in case.results}
    own_kernel(domain, kernel, domain.part)(**given)
    for array in (*use.arrays, *use.layers):
        assert (given[array] == 7).all()
    for result, operation in use.totals.items():
        neutral = NEUTRAL[operation]
        if operation != "sum" and not kernel.problem.dtype.is_float:
            kind = np.iinfo(kernel.problem.dtype.numpy)
            neutral = kind.min if operation == "max" else kind.max
        assert arrays.to_host(given[result])[0] == neutral


def test_idle_processes_are_refused_where_messages_wait_for_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    transport = SimpleNamespace(
        name="NCCL",
        rank=0,
        size=3,
        needs_own_gpu=True,
        all=lambda value, awaited: [value] * 3,
        all_bytes=lambda own, every, awaited: np.copyto(every, own),
        shared=lambda value: value,
    )
    monkeypatch.setattr(grid, "processes_of", lambda comm: Processes(cast("Any", transport)))
    assert grid.Grid(3).ranks == (3,)
    told = "NCCL carries no messages beside idle .* of 3 processes 2 own points; .* backend gloo"
    with pytest.raises(GridError, match=told):
        grid.Grid(2)


@pytest.mark.parametrize("count", [3, pytest.param(6, marks=pytest.mark.slow)])
def test_idle_processes_take_part(count: int, tmp_path: Path) -> None:
    done = ranks.run(count, "idle.py", str(tmp_path))
    assert done.returncode == 0, done.stderr[-4000:]
    assert done.stdout.count("all is done together") == count, done.stdout
