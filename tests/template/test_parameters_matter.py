"""No parameter is ignored in silence: another value changes the kernel, or is refused by name."""

from __future__ import annotations

import functools
import re
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import tikgen
from some_cases import examples
from tikgen.errors import ParameterError
from tikgen.pipeline.builder import resolve
from tikgen.pipeline.rendering import Variant, render_variant
from tikgen.template.catalogue import find_template
from tikgen.template.parameters import listed_values
from tikgen.template.schedules import fitted
from tikgen.verification.strategies import parameter_strategies

# Other values of parameters whose types list none.
SOME = {"chunks": (1, 2, 64, 1024), "grain": (1, 3, 64), "bins": (1, 3, 64)}
# Constants of bounds that should have been added up.
CHAIN = re.compile(r" [+-] \d+ [+-] \d+(?![\w.]| [*/%])")
BUILT_IN = (
    "gemm",
    "histogram",
    "map",
    "reduce",
    "ring",
    "scan",
    "spmv",
    "stencil",
    "transpose",
    "update",
)


def kernel_of(variant: Variant) -> tuple[Any, ...]:
    return render_variant(variant).digest, variant.arguments, variant.workspace


def others(variant: Variant, name: str) -> tuple[Any, ...]:
    """Return values of a parameter other than the variant's own."""
    template = variant.template
    model = template.Problem if name in template.Problem.model_fields else template.Schedule
    info = next(info for info in template.parameters if info.name == name)
    values = listed_values(model, name) or SOME.get(name, ()) or info.choices
    return tuple(v for v in values if str(v) != str(variant.params[name]))


def means_the_same(variant: Variant, name: str) -> bool:
    """Tell whether two values may say one thing.

    One axis is a row of points, a default may be named, a stencil of one point has no edge, sums
    of small integers in f64 are exact, and what a parameter of `update` is for may not be in the
    equations.
    """
    extent = variant.params.get("dim", len(variant.params.get("perm", ())))
    if variant.template.name == "update" and name in variant.template.Problem.model_fields:
        return True
    if name == "boundary":
        return not any(map(any, variant.params["points"] or [(1,)]))
    if name == "accuracy":
        return not variant.params["dtype"].is_float
    return (name == "loop" and extent == 1) or name == "accumulator"


@pytest.mark.parametrize("name", BUILT_IN)
@settings(
    max_examples=examples(20, 3),
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.generate],
)
@given(data=st.data(), arch=st.sampled_from(("cpu", "vulkan", "cuda")))
def test_every_parameter_matters_or_is_refused(name: str, data: Any, arch: str) -> None:
    template = find_template(name)
    drawn = {n: data.draw(rule, n) for n, rule in parameter_strategies(template).items()}
    try:
        variant = resolve(
            template, arch=arch, **fitted(template, template.adjust(drawn, arch), arch)
        )
    except ParameterError:
        return
    assert not CHAIN.search(render_variant(variant).text)
    known = kernel_of(variant)
    for parameter in variant.params:
        for value in () if means_the_same(variant, parameter) else others(variant, parameter):
            try:
                other = resolve(template, arch=arch, **{**variant.params, parameter: value})
            except ParameterError:
                continue
            assert kernel_of(other) != known, f"{parameter}={value!r} is ignored in {variant!r}"


@settings(max_examples=20, deadline=None, database=None)
@given(
    points=st.dictionaries(
        st.tuples(st.integers(-2, 2), st.integers(-2, 2)), st.sampled_from((0.0, 1.0)), min_size=1
    ),
    loop=st.sampled_from(("rows", "points", "function")),
)
def test_a_boundary_matters_wherever_a_stencil_reaches(points: Any, loop: str) -> None:
    params: dict[str, Any] = {"dim": 2, "points": points, "loop": loop, "unroll": 1}
    params["row_buffer"] = 16 if loop == "function" else 0
    stencil = find_template("stencil")
    kernels = {
        kernel_of(resolve(stencil, arch="cpu", boundary=boundary, **params))
        for boundary in ("interior", "zero", "clamp", "periodic")
    }
    # One point alone: all of them write everything, and only `interior` might not.
    assert len(kernels) == (4 if any(map(any, points)) else 2)


REFUSED: dict[str, tuple[str, dict[str, Any], str]] = {
    "weight_dtype": (
        "histogram",
        {"weight_dtype": "f64"},
        "where weighted=False; it matters only where weighted=True",
    ),
    "count_dtype": (
        "histogram",
        {"weighted": True, "count_dtype": "i64"},
        "must be i32 where weighted=True",
    ),
    "spacing": ("stencil", {"dim": 2, "spacing": (1.0,)}, "one positive number, or 2"),
    "block_dim": ("map", {"expr": "y = x", "loop": "flat", "block_dim": 64}, "loop='flat'"),
    "chunk": ("stencil", {"dim": 3, "chunk": 1024}, "must be 4096"),
    "chunks": ("reduce", {"dim": 2, "axis": 0, "chunks": 8}, "must be 64 where "),
    "grain": ("scan", {"chunks": 1, "grain": 8}, "must be 1 where chunks=1"),
}


@pytest.mark.parametrize("parameter", REFUSED)
def test_what_means_nothing_is_refused(parameter: str) -> None:
    name, params, match = REFUSED[parameter]
    with pytest.raises(ParameterError, match=match) as error:
        tikgen.render(name, arch="cpu", **params)
    assert error.value.parameter == parameter


@pytest.mark.parametrize("schedule", [np.array([1, 2]), [1, 2], 3, "best"], ids=repr)
def test_a_schedule_of_another_type_is_refused(schedule: Any) -> None:
    build: Any = functools.partial(tikgen.build, "map", expr="y = x")
    with pytest.raises(ParameterError, match="takes 'auto', 'tuned' or a dict"):
        build(schedule=schedule)


def test_texts_say_where_0_threads_are_no_choice() -> None:
    for name, said in {
        "map": "0 only where loop is not 'blocks'",
        "spmv": "0 only where lanes=1",
        "histogram": "0 only where bins_in is not 'shared'",
        "transpose": "0 for Taichi's own choice, but not with loop='tiles'",
    }.items():
        info = next(i for i in find_template(name).parameters if i.name == "block_dim")
        assert said in info.meaning
