"""Bounds and indices of rendered kernels: their constants are added up, in every template."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis.errors import Unsatisfiable

import tikgen
from some_cases import examples
from tikgen.pipeline.builder import resolve
from tikgen.pipeline.rendering import render_variant
from tikgen.template.catalogue import find_template
from tikgen.verification.strategies import drawn, trials

# As in `x.shape[1] - 1 - 1 - 1`; numbers that are data have dtypes, as in `ti.f32(0.5)`.
UNFOLDED = re.compile(r" [+-] \d+ [+-] \d+(?![\w.]| [*/%])")
COUNT = examples(20, 7)


@pytest.mark.some
@pytest.mark.once
@pytest.mark.parametrize("arch", ["cpu", "vulkan"])
@pytest.mark.parametrize("name", tikgen.list_templates())
def test_constants_are_added_up(name: str, arch: str, rng: np.random.Generator) -> None:
    template, seed = find_template(name), int(rng.integers(2**31))
    try:
        found = drawn(trials(template, arch, {}, lambda _: None, lambda _: None), COUNT, seed)
    except Unsatisfiable:
        pytest.skip(f"{name} does not run on {arch}")
    for case, *_ in found:
        text = render_variant(resolve(name, arch=arch, **case.params)).text
        code = [line.partition("#")[0] for line in text.splitlines()]
        assert not list(filter(UNFOLDED.search, code)), case
