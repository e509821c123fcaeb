"""The inside of a part and its sides: each point is in one of them, and none reads too far."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tikgen.grid.decomposition import Decomposition
from tikgen.grid.domain import Domain
from tikgen.grid.processes import Processes
from tikgen.grid.regions import inside_and_sides


@given(st.data())
def test_regions_make_up_a_part(data: st.DataObject) -> None:
    dim = data.draw(st.integers(1, 3))
    reach = [(data.draw(st.integers(0, 3)), data.draw(st.integers(0, 3))) for _ in range(dim)]
    halo = tuple(max(pair) + data.draw(st.integers(0, 1)) for pair in reach)
    ranks = tuple(data.draw(st.integers(1, 3)) for _ in range(dim))
    shape = tuple(
        count * max(1, width) + data.draw(st.integers(0, 9))
        for count, width in zip(ranks, halo, strict=True)
    )
    periodic = tuple(data.draw(st.booleans()) for _ in range(dim))
    rank = data.draw(st.integers(0, math.prod(ranks) - 1))
    transport = SimpleNamespace(rank=rank, size=math.prod(ranks))
    processes = Processes(cast("Any", transport))
    domain = Domain(Decomposition(shape, ranks, periodic), processes, halo)
    regions = inside_and_sides(domain, reach)
    computed = np.zeros(domain.extents, int)
    for number, region in enumerate(regions):
        box = tuple(
            slice(low, n - high) for (low, high, *_), n in zip(region, domain.extents, strict=True)
        )
        computed[box] += 1
        for axis, (low, high, first, points) in enumerate(region):
            assert (first, points) == domain.part[axis][2:]
            for width, ghosts, most in zip(
                (low, high), domain.ghosts[axis], reach[axis], strict=True
            ):
                # A rule holds at a side without ghost points; elsewhere all that is read is there.
                assert width >= most if width else not ghosts
                if not number:  # The inside reads no ghost points.
                    assert width >= ghosts + most or not ghosts
    if regions:
        assert (computed[domain.inner] == 1).all()
        assert computed.sum() == computed[domain.inner].size
