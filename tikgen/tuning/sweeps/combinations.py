"""The combinations of a sweep: which there are, which are refused, which are the same kernel."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tikgen.errors import ParameterError, TikgenError, UnsupportedOnArch
from tikgen.pipeline.builder import resolve
from tikgen.pipeline.loaded import check_arch
from tikgen.pipeline.rendering import Variant, render_variant
from tikgen.taichi import runtime
from tikgen.template.arguments import Array
from tikgen.template.base import Cost, Template
from tikgen.template.parameters import canonical, make_model
from tikgen.template.shapes import Sizes, sizes_of_shape
from tikgen.tuning.job import Job
from tikgen.verification.case import literal
from tikgen.verification.diagnosis import blamed

# Beyond that a product is a mistake, or should be several sweeps.
MOST_COMBINATIONS = 100_000

# They come before every parameter.
COLUMNS = ("template", "arch", "shape", "baked")
# In front of a size symbol it makes the name of a column, which thus is no parameter's.
SIZE = "size_"

Axes = Mapping[str, tuple[Any, ...]]


@dataclass(frozen=True)
class Combination:
    """One value for each parameter, an arch and a shape, and the job that measures it.

    Attributes:
        cells: what tells it from the others, by column.
        job: what to measure; None where the combination cannot be built.
        work: equal for combinations that run the same code for the same problem and sizes.
        problem: equal for combinations that solve the same problem on the same arrays.
        digest: digest of the source.
        dtype: element type of the first array, by which the machine's limits are chosen.
        cost: least work of a launch, where the template tells.
        kind: ``"refused"`` or ``"error"`` where there is no job.
        message: why there is no job.
    """

    cells: Mapping[str, Any]
    job: Job | None = None
    work: str = ""
    problem: str = ""
    digest: str = ""
    dtype: str = ""
    cost: Cost | None = None
    kind: str = ""
    message: str = ""


@dataclass(frozen=True)
class SweepSpace:
    """The cartesian product of the axes of a sweep.

    Attributes:
        template: the template.
        params: values of each parameter that was given.
        archs: archs to run on.
        shapes: shapes of the arrays, each a number, a tuple or a dict.
        baked: whether sizes are baked in, one or both.
        rounds: how often a batch of launches is timed.
        seed: seed of the random data.
    """

    template: Template
    params: Axes
    archs: tuple[str, ...]
    shapes: tuple[Any, ...]
    baked: tuple[bool, ...]
    rounds: int
    seed: int
    _rendered: dict[str, str] = field(default_factory=dict, repr=False)

    def __len__(self) -> int:
        """Return the number of combinations, refused ones included."""
        count = len(self.archs) * len(self.shapes) * len(self.baked)
        for values in self.params.values():
            count *= len(values)
        return count

    @property
    def axes(self) -> list[str]:
        """Return what was given several values."""
        front = {"arch": self.archs, "shape": self.shapes, "baked": self.baked}
        return [name for name, values in {**front, **self.params}.items() if len(values) > 1]

    def combinations(self) -> Iterator[Combination]:
        """Yield every combination: archs vary slowest, and the last parameter fastest."""
        for arch, shape, baked in itertools.product(self.archs, self.shapes, self.baked):
            for values in itertools.product(*self.params.values()):
                yield self._combination(arch, shape, baked, dict(zip(self.params, values)))  # noqa: B905

    def _combination(
        self, arch: str, shape: Any, baked: bool, params: dict[str, Any]
    ) -> Combination:
        front = (self.template.name, arch, shape_text(shape), baked)
        cells = dict(zip(COLUMNS, front, strict=True))
        cells |= {name: literal(value) for name, value in params.items()}
        try:
            sizes = self._sizes(shape, params)
            variant = resolve(self.template, arch=arch, shape=sizes if baked else None, **params)
            check_arch(variant, arch)
            cells |= {"shape": shape_text(tuple(sizes.values()))}
            cells |= {name: literal(value) for name, value in variant.params.items()}
            cells |= {f"{SIZE}{name}": size for name, size in sizes.items()}
            return self._buildable(variant, cells, arch, sizes)
        except (ParameterError, UnsupportedOnArch) as error:
            return Combination(cells, kind="refused", message=str(error))
        except TikgenError as error:
            return Combination(cells, kind="error", message=f"{type(error).__name__}: {error}")

    def _sizes(self, shape: Any, params: Mapping[str, Any]) -> Sizes:
        template = self.template
        own = {k: v for k, v in params.items() if k in template.Problem.model_fields}
        problem = make_model(template.Problem, own, template.name)
        with blamed(template, "arguments()"):
            arguments = template.arguments(problem)
            symbols = template.size_symbols(problem)
        if type(shape) is int:
            shape = dict.fromkeys(symbols, shape)
        return sizes_of_shape(template.name, symbols, shape, arguments)

    def _buildable(
        self, variant: Variant, cells: dict[str, Any], arch: str, sizes: Sizes
    ) -> Combination:
        if variant.key not in self._rendered:
            self._rendered[variant.key] = render_variant(variant).digest
        digest = self._rendered[variant.key]
        job = Job.of(variant, arch, sizes, seed=self.seed, rounds=self.rounds)
        problem = f"{arch} {canonical(dict(variant.problem))} {sizes}"
        # Equal code for another problem is held against another reference, on other data.
        what = (problem, digest, repr(variant.workspace), self.rounds)
        work = hashlib.sha256(json.dumps(what).encode()).hexdigest()
        arrays = (a for a in variant.arguments if isinstance(a, Array))
        dtype = next((a.dtype.value for a in arrays), "")
        return Combination(cells, job, work, problem, digest, dtype, self._cost(variant, sizes))

    def _cost(self, variant: Variant, sizes: Sizes) -> Cost | None:
        try:
            with blamed(self.template, "cost()"):
                return self.template.cost(variant.problem, sizes)
        except TikgenError as error:
            if isinstance(error.__cause__, NotImplementedError):
                return None
            raise


def space_of(
    template: Template,
    *,
    shape: Any,
    archs: Any,
    baked: Any,
    rounds: int,
    seed: int,
    params: Mapping[str, Any],
    options: Iterable[str] = (),
) -> SweepSpace:
    """Return the product of what was given; each list is an axis, all else is one value.

    Args:
        template: the template.
        shape: one shape or a list of them.
        archs: the archs.
        baked: whether sizes are baked in, or a list of both.
        rounds: how often a batch of launches is timed.
        seed: seed of the random data.
        params: problem and schedule parameters.
        options: further names that a sweep takes, for hints in messages.

    Raises:
        ParameterError: if a name is unknown, an axis is empty, or there are far too many
            combinations.
    """
    name = template.name
    known = [*template.Problem.model_fields, *template.Schedule.model_fields]
    for given in params:
        if given not in known:
            raise ParameterError.unknown(name, given, [*known, *options])
    if isinstance(archs, str) or not isinstance(archs, list | tuple):
        raise ParameterError(name, {"archs": f"takes a sequence of archs; got {archs!r}"})
    for arch in archs:
        if arch not in runtime.ARCHS:
            takes = ", ".join(runtime.ARCHS)
            raise ParameterError(name, {"archs": f"takes a sequence of {takes}; got {arch!r}"})
    if shape is None:
        raise ParameterError(
            name,
            {
                "shape": "is missing; it takes the size of each axis, such as (512, 512), "
                "one number for all of them, or a list of shapes"
            },
        )
    axes = {key: _axis(name, key, value) for key, value in params.items()}
    baked_axis = _axis(name, "baked", baked)
    if any(type(value) is not bool for value in baked_axis):
        raise ParameterError(name, {"baked": f"takes True, False or a list; got {baked!r}"})
    space = SweepSpace(
        template,
        axes,
        _axis(name, "archs", list(archs)),
        _axis(name, "shape", shape),
        baked_axis,
        rounds,
        seed,
    )
    if len(space) > MOST_COMBINATIONS:
        raise ParameterError(
            name, {"params": f"give {len(space)} combinations; at most {MOST_COMBINATIONS} go"}
        )
    return space


def check_some_buildable(template: str, combinations: Iterable[Combination]) -> None:
    """Raise where no combination can be built, with the reasons and how often each holds.

    Raises:
        TikgenError: naming at most three reasons.
    """
    found = tuple(combinations)
    if all(combination.job is None for combination in found):
        raise none_runs(template, [combination.message for combination in found])


def none_runs(template: str, messages: Iterable[str]) -> TikgenError:
    """Return the error that says why each combination was refused, the main reasons first."""
    reasons = Counter(messages)
    if len(reasons) == 1:
        return TikgenError(next(iter(reasons)))
    shown = reasons.most_common(3)
    lines = "".join(f"\n  {count} times: {reason}" for reason, count in shown)
    return TikgenError(
        f"{template}: none of the {sum(reasons.values())} combinations can run:{lines}"
    )


def shape_text(shape: Any) -> str:
    """Return a shape as text, such as ``64x64x64``."""
    if isinstance(shape, Mapping):
        return "x".join(map(str, shape.values()))
    return "x".join(map(str, shape)) if isinstance(shape, list | tuple) else str(shape)


def _axis(template: str, name: str, value: Any) -> tuple[Any, ...]:
    """Return the distinct values of an axis: those of a list, else the one value."""
    values = value if isinstance(value, list) else [value]
    if not values:
        raise ParameterError(template, {name: "is an empty list; give it a value at least"})
    # 1, 1.0 and True are equal, and not alike.
    return tuple({repr(v): v for v in values}.values())
