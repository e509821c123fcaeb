"""Ghost layers for several steps: each point has the bits that an exchange in each step gives."""

from __future__ import annotations

import math
import os
import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ranks
import tikgen
from tikgen.grid.decomposition import Decomposition
from tikgen.grid.domain import Domain
from tikgen.grid.processes import Processes
from tikgen.grid.wide_layers import _regions, backwards, steps_together
from tikgen.program.parts import Swap
from tikgen.template.grid_use import ArrayUse, GridUse

FIELDS = "abcd"


class Counted:
    """Stands for a field of numbers of four bytes."""

    bytes_a_point = 4


def said(count: int, drawn: int, folder: Path) -> list[str]:
    """Return the lines about drawn programs, and another one, on some processes."""
    seed = int.from_bytes(os.urandom(3), "little")
    path = folder / f"said by {count}"
    done = ranks.run(count, "several.py", str(path), str(seed), str(drawn))
    assert done.returncode == 0, done.stderr[-4000:]
    lines = path.read_text(encoding="utf-8").splitlines()
    assert len(lines) == drawn + 1
    assert not [line for line in lines if "nothing differs" not in line]
    assert "exchanged every 4 steps" in lines[0]
    assert "slab by slab" in lines[0]
    return lines


def test_several_steps_give_the_same_bits(tmp_path: Path) -> None:
    said(random.choice((2, 3, 4)), 1, tmp_path)


@pytest.mark.slow
def test_several_steps_of_any_program_give_the_same_bits(tmp_path: Path) -> None:
    lines = [line for count in (2, 6) for line in said(count, 30, tmp_path)]
    assert sum("exchanged every" in line for line in lines) > 20
    assert sum("slab by slab" in line for line in lines) > 2


def domain_of(
    shape: Sequence[int],
    counts: Sequence[int],
    halo: Sequence[int] | None,
    rank: int | None = None,
) -> Domain:
    """Return what a process, by default that in the middle, has of a periodic grid."""
    count = math.prod(counts)
    transport = SimpleNamespace(rank=count // 2 if rank is None else rank, size=count)
    decomposition = Decomposition(tuple(shape), tuple(counts), (True,) * len(shape))
    processes = Processes(cast("Any", transport))
    halos = halo and tuple(halo)
    return Domain(decomposition, processes, halos, overlaps=True, cache=100_000)


def uses(dim: int, fields: int) -> st.SearchStrategy[GridUse]:
    """Return kernels that read and write some of a number of fields."""
    sides = st.tuples(st.integers(0, 2), st.integers(0, 2))
    reach = st.tuples(*[sides] * dim)
    nowhere = ((0, 0),) * dim
    use = st.one_of(
        reach.map(lambda found: ArrayUse(0, found, False, (), False)),
        st.booleans().map(lambda whole: ArrayUse(0, nowhere, False, (), True, whole)),
    )
    taken = st.dictionaries(st.sampled_from(range(fields)), use, min_size=1)
    return taken.map(lambda found: GridUse(dim, cast("Any", found), {}, {}))


@given(st.data())
def test_what_a_kernel_reads_is_there(data: st.DataObject) -> None:
    dim, fields = data.draw(st.integers(1, 2)), data.draw(st.integers(1, 4))
    counts = [data.draw(st.integers(1, 3)) for _ in range(dim)]
    domain = domain_of([count * 60 for count in counts], counts, [30] * dim)
    names: Any = FIELDS[:fields]
    pairs = st.lists(st.sampled_from(names), min_size=2, max_size=2, unique=True)
    swaps = pairs.map(lambda pair: Swap((tuple(pair),))) if fields > 1 else st.nothing()
    steps = uses(dim, fields).map(lambda use: SimpleNamespace(use=use, arguments=names))
    parts: Any = data.draw(st.lists(st.one_of(steps, swaps), min_size=1, max_size=8))
    widths, needs = backwards(domain.divided, parts)
    # How many ghost points of each field hold what the neighbours have, on both sides of each axis.
    there = {name: np.array(needs.get(name, ((0, 0),) * dim)) for name in names}
    divided = np.array(domain.divided)[:, None]
    for part, own in zip(parts, map(np.array, widths), strict=True):
        if isinstance(part, Swap):
            for one, other in part.pairs:
                there[one], there[other] = there[other], there[one]
            continue
        assert not own[~divided[:, 0]].any()
        for number, use in part.use.arrays.items():
            if not use.is_covered:
                assert (there[names[number]] >= (own + use.reach) * divided).all()
        for number, use in part.use.arrays.items():
            if use.written:
                there[names[number]] = own


@given(st.data())
def test_nothing_is_written_that_is_being_sent(data: st.DataObject) -> None:
    dim = data.draw(st.integers(1, 2))
    counts = [data.draw(st.integers(1, 3)) for _ in range(dim)]
    domain = domain_of(
        [count * data.draw(st.integers(12, 40)) for count in counts], counts, [9] * dim
    )
    fields: Any = FIELDS[:3]
    step: Any = SimpleNamespace(use=data.draw(uses(dim, 3)), arguments=fields)
    widths, needs = backwards(domain.divided, [step] * data.draw(st.integers(1, 4)))
    regions = _regions(domain, step, widths[0], needs)
    computed = np.zeros(domain.extents, int)
    for region in regions:
        box = tuple(
            slice(low, n - high) for (low, high, *_), n in zip(region, domain.extents, strict=True)
        )
        computed[box] += 1
    if regions:
        (inside, *_), found = regions, computed[computed > 0]
        assert (found == 1).all()
        for number, use in step.use.arrays.items():
            for axis, (low, high) in enumerate(needs[fields[number]] if use.written else ()):
                # The lower neighbour takes as many of the lowest points as its upper layer has.
                below, above = domain.ghosts[axis]
                assert not below or inside[axis][0] >= below + high
                assert not above or inside[axis][1] >= above + low


@given(st.data())
def test_all_processes_choose_the_same(data: st.DataObject) -> None:
    is_host = data.draw(st.booleans())
    dim = data.draw(st.integers(1, 3))
    counts = [data.draw(st.integers(1, 3)) for _ in range(dim)]
    shape = [
        count * data.draw(st.integers(6, 400)) + data.draw(st.integers(0, 2)) for count in counts
    ]
    fields: Any = [Counted(), Counted(), Counted()]
    use = uses(dim, 3).map(lambda use: replace(use, indexed=frozenset()))
    steps: Any = [SimpleNamespace(use=data.draw(use), arguments=fields) for _ in range(2)]
    chosen = set()
    for rank in range(math.prod(counts)):
        domain = domain_of(shape, counts, None, rank)
        domain.__dict__["memory"] = SimpleNamespace(is_host=is_host)
        for step in steps:
            reach = [max(max(use.reach[n]) for use in step.use.arrays.values()) for n in range(dim)]
            domain.take(reach, "kernel")
        chosen.add((domain.halo, steps_together(domain, steps)))
    assert len(chosen) == 1


@pytest.mark.parametrize(("points", "steps"), [(32, 1), (64, 8)])
def test_grids_that_do_not_fit_the_cache_have_layers_for_slabs(points: int, steps: int) -> None:
    domain = domain_of((2 * points, 32, 8), (2, 1, 1), None)  # 8 bytes a point, 100 kB of cache.
    domain.__dict__["memory"] = SimpleNamespace(is_host=True)
    domain.take([1, 1, 1], "kernel")
    assert (domain.halo[0], domain.exchange_every, domain.are_for_cache) == (
        steps,
        steps,
        steps > 1,
    )


@pytest.mark.parametrize(("reach", "steps"), [(1, 4), (4, 1)])
def test_fewer_exchanges_must_not_send_more(reach: int, steps: int) -> None:
    domain = domain_of((512, 256, 256), (2, 1, 1), None)
    domain.__dict__["memory"] = SimpleNamespace(is_host=False)
    domain.take([reach] * 3, "kernel")
    read = ArrayUse(0, ((reach, reach),) * 3, False, (), False)
    # The heat equation, and the wave equation in place.
    written = ArrayUse(0, ((0, 0),) * 3, False, (), True, is_covered=reach == 1)
    use = GridUse(3, {"u": read, "v": written}, {}, {}, indexed=frozenset())
    fields: Any = {"u": Counted(), "v": Counted()}
    parts: Any = [SimpleNamespace(use=use, arguments=fields), Swap(((fields["u"], fields["v"]),))]
    assert (domain.halo[0], steps_together(domain, parts)) == (reach * steps, steps)


@pytest.mark.parametrize("given", [0, 1.5, True, "2"])
def test_a_wrong_number_of_steps_is_refused(given: Any) -> None:
    with pytest.raises(tikgen.errors.GridError, match="exchange_every takes a whole number of 1"):
        tikgen.Grid((8, 8), exchange_every=given)
