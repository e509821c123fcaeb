"""The combinations of a sweep: which there are, which are refused, which are the same kernel."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tikgen.errors import GridError, ParameterError, TikgenError, UnsupportedOnArch
from tikgen.pipeline.builder import resolve
from tikgen.pipeline.loaded import check_arch
from tikgen.pipeline.rendering import Variant, render_variant
from tikgen.taichi import runtime
from tikgen.template.arguments import Array
from tikgen.template.base import Cost, Template
from tikgen.template.blame import asked, blamed
from tikgen.template.declarations import value_problem
from tikgen.template.parameters import canonical, make_model
from tikgen.template.shapes import Sizes, sizes_of_shape
from tikgen.tuning.job import Job, RanksJob
from tikgen.tuning.ranks.division import ARCHS, division_of
from tikgen.verification.case import literal

# A larger product is a mistake, or should be several sweeps.
MOST_COMBINATIONS = 100_000
# They come before every parameter.
COLUMNS = ("template", "arch", "shape", "baked")
# Behind these, in sweeps on ranks.
RANKS = "ranks"
# In front of a size symbol it makes the name of a column that is no parameter's.
SIZE = "size_"


@dataclass(frozen=True)
class Combination:
    """One value for each parameter, an arch and a shape, and the job that measures it.

    Attributes:
        cells: what distinguishes it from the others, by column.
        job: what to measure; None where the combination cannot be built.
        work: equal for combinations that run the same code for the same problem and sizes.
        problem: equal for combinations that solve the same problem on the same arrays.
        digest: digest of the source.
        dtype: element type of the first array, which selects the machine's limits.
        cost: least work of a launch, where the template declares it.
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
        ranks: numbers of processes that share a grid; a None where none do.
        launcher: what starts ranks.
    """

    template: Template
    params: Mapping[str, tuple[Any, ...]]
    archs: tuple[str, ...]
    shapes: tuple[Any, ...]
    baked: tuple[bool, ...]
    rounds: int
    seed: int
    ranks: tuple[int | None, ...] = (None,)
    launcher: str = ""
    _digests: dict[str, str] = field(default_factory=dict, repr=False)

    def __len__(self) -> int:
        """Return the number of combinations, refused ones included."""
        count = len(self.archs) * len(self.shapes) * len(self.baked) * len(self.ranks)
        for values in self.params.values():
            count *= len(values)
        return count

    @property
    def axes(self) -> list[str]:
        """Return what was given several values."""
        front: dict[str, tuple[Any, ...]] = {"arch": self.archs, "shape": self.shapes}
        front |= {"baked": self.baked, RANKS: self.ranks}
        return [name for name, values in {**front, **self.params}.items() if len(values) > 1]

    def combinations(self) -> Iterator[Combination]:
        """Yield every combination: archs vary slowest, and the last parameter fastest.

        Shapes that are the same sizes, such as 64 and (64,), give one.
        """
        seen = set()
        front = itertools.product(self.archs, self.shapes, self.baked, self.ranks)
        for arch, shape, baked, ranks in front:
            for values in itertools.product(*self.params.values()):
                params = dict(zip(self.params, values, strict=True))
                found = self._combination(arch, shape, baked, ranks, params)
                known = (arch, found.cells["shape"], baked, ranks, repr(values))
                if known not in seen:
                    seen.add(known)
                    yield found

    def _combination(
        self, arch: str, shape: Any, baked: bool, ranks: int | None, params: dict[str, Any]
    ) -> Combination:
        front = (self.template.name, arch, shape_text(shape), baked)
        cells = dict(zip(COLUMNS, front, strict=True))
        cells |= {RANKS: ranks} if ranks else {}
        cells |= {n: literal(v) for n, v in params.items() if n not in COLUMNS}
        try:
            problem, sizes = self._sizes(shape, params)
            part = self._part(problem, arch, sizes, ranks) if ranks else {}
            variant = resolve(
                self.template, arch=arch, shape=sizes if baked else None, **(params | part)
            )
            check_arch(variant, arch)
            cells |= {"shape": shape_text(tuple(sizes.values()))}
            cells |= {n: literal(v) for n, v in variant.params.items() if n not in COLUMNS}
            cells |= dict.fromkeys(part)  # Each rank has another.
            cells |= {f"{SIZE}{name}": size for name, size in sizes.items()}
            return self._buildable(variant, cells, arch, sizes, ranks)
        except (ParameterError, UnsupportedOnArch, GridError) as error:
            return Combination(cells, kind="refused", message=str(error))
        except TikgenError as error:
            return Combination(cells, kind="error", message=f"{type(error).__name__}: {error}")

    def _sizes(self, shape: Any, params: Mapping[str, Any]) -> tuple[Any, Sizes]:
        """Return a problem, and the sizes of its arrays."""
        template = self.template
        own = {k: v for k, v in params.items() if k in template.Problem.model_fields}
        problem = make_model(template.Problem, own, template.name)
        with blamed(template, "arguments()"):
            arguments = template.arguments(problem)
            symbols = template.size_symbols(problem)
        if type(shape) is int:
            shape = dict.fromkeys(symbols, shape)
        return problem, sizes_of_shape(template.name, symbols, shape, arguments)

    def _part(self, problem: Any, arch: str, sizes: Sizes, ranks: int) -> dict[str, Any]:
        """Return the parameter that makes the kernel of rank 0; refuse what has no such kernel."""
        division = division_of(self.template, problem, sizes)
        if arch not in ARCHS:
            raise UnsupportedOnArch(
                self.template.name, arch, f"kernels on ranks are measured on {' and '.join(ARCHS)}"
            )
        return {"part": division.first_part(ranks)} if ranks > 1 else {}

    def _buildable(
        self,
        variant: Variant,
        cells: dict[str, Any],
        arch: str,
        sizes: Sizes,
        ranks: int | None,
    ) -> Combination:
        if variant.key not in self._digests:
            self._digests[variant.key] = render_variant(variant).digest
        digest = self._digests[variant.key]
        solved, job = variant.problem, self._job(variant, arch, sizes, ranks)
        if ranks:
            whole = dict(solved) | {"part": None}
            solved = make_model(self.template.Problem, whole, self.template.name)
        problem = f"{arch} {canonical(dict(solved))} {sizes}"
        problem += f" on {ranks} ranks {self.launcher}" if ranks else ""
        # Equal code for another problem has another reference and other data.
        what: tuple[Any, ...] = (problem, digest, repr(variant.workspace), self.rounds)
        if ranks:  # The kernels of other ranks may differ where that of rank 0 does not.
            what += (canonical(dict(variant.schedule)),)
        work = hashlib.sha256(json.dumps(what).encode()).hexdigest()
        arrays = (a for a in variant.arguments if isinstance(a, Array))
        dtype = next((a.dtype.value for a in arrays), "")
        return Combination(cells, job, work, problem, digest, dtype, self._cost(solved, sizes))

    def _job(self, variant: Variant, arch: str, sizes: Sizes, ranks: int | None) -> Job:
        if not ranks:
            return Job.of(variant, arch, sizes, seed=self.seed, rounds=self.rounds)
        more = {"ranks": ranks, "launcher": self.launcher, "rounds": self.rounds}
        job = RanksJob.of(variant, arch, sizes, seed=self.seed, **more)
        return replace(job, params={**job.params, "part": None})

    def _cost(self, problem: Any, sizes: Sizes) -> Cost | None:
        given, none = (problem, sizes), (NotImplementedError,)
        try:
            cost: Cost = asked(self.template, "cost()", Cost, "a Cost", *given, passing=none)
        except NotImplementedError:
            return None
        return cost


def space_of(
    template: Template,
    *,
    shape: Any,
    archs: Any,
    baked: Any,
    rounds: int,
    seed: int,
    params: Mapping[str, Any],
    ranks: Any = None,
    launcher: str = "",
    options: Iterable[str] = (),
) -> SweepSpace:
    """Return the product of the arguments of :func:`tikgen.sweep`.

    ``options`` are further names that a sweep takes, for hints in messages.

    Raises:
        ParameterError: if a name is unknown, an axis is empty or has a value that its parameter
            never takes, or there are too many combinations.
    """
    name = template.name
    known = [*template.Problem.model_fields, *template.Schedule.model_fields]
    for given in params:
        if given not in known:
            raise ParameterError.unknown(name, given, [*known, *options])
    problems = {}
    if not isinstance(archs, list | tuple):
        problems["archs"] = f"takes a sequence of archs; got {archs!r}"
    elif unknown := [arch for arch in archs if not runtime.is_arch(arch)]:
        problems["archs"] = f"takes a sequence of {runtime.LISTED_ARCHS}; got {unknown[0]!r}"
    if shape is None or isinstance(shape, str):
        got = "is missing; it" if shape is None else f"is {shape!r}; it"
        problems["shape"] = (
            f"{got} takes the size of each axis, such as (512, 512), one number for all of them, "
            "or a list of shapes"
        )
    if any(type(value) is not bool for value in _axis(name, "baked", baked)):
        problems["baked"] = f"takes True, False or a list; got {baked!r}"
    if ranks is not None:
        wrong = [n for n in _axis(name, RANKS, ranks) if type(n) is not int or n < 1]
        if wrong:
            problems[RANKS] = f"takes a positive integer, or a list of these; got {wrong[0]!r}"
        elif "baked" not in problems and True in _axis(name, "baked", baked):
            problems["baked"] = "is given along with ranks; kernels of a grid take any sizes"
    if problems:
        raise ParameterError(name, problems)
    space = SweepSpace(
        template,
        {key: _axis(name, key, value) for key, value in params.items()},
        _axis(name, "archs", list(archs)),
        _axis(name, "shape", shape),
        _axis(name, "baked", baked),
        rounds,
        seed,
        _axis(name, RANKS, ranks),
        launcher,
    )
    if len(space) > MOST_COMBINATIONS:
        problem = f"give {len(space)} combinations, of at most {MOST_COMBINATIONS}"
        raise ParameterError(name, {"params": problem})
    told = {key: _problem_with(template, key, values) for key, values in space.params.items()}
    if problems := {key: problem for key, problem in told.items() if problem}:
        raise ParameterError(name, problems)
    return space


def none_runs(template: str, messages: Iterable[str]) -> TikgenError:
    """Return the error that explains why no combination runs, by the most frequent reasons."""
    reasons = Counter(messages)
    if len(reasons) == 1:
        return TikgenError(next(iter(reasons)))
    lines = "".join(f"\n  {count} times: {reason}" for reason, count in reasons.most_common(3))
    return TikgenError(f"{template}: none of the {reasons.total()} combinations can run:{lines}")


def shape_text(shape: Any) -> str:
    """Return a shape as text, such as ``64x64x64``."""
    extents = shape.values() if isinstance(shape, Mapping) else shape
    return "x".join(map(str, extents if isinstance(shape, Mapping | list | tuple) else [shape]))


def _problem_with(template: Template, name: str, values: tuple[Any, ...]) -> str:
    """Return why a parameter never has one of some values, empty where it may have each."""
    model = template.Problem if name in template.Problem.model_fields else template.Schedule
    return next(filter(None, (value_problem(model, name, value) for value in values)), "")


def _axis(template: str, name: str, value: Any) -> tuple[Any, ...]:
    """Return the distinct values of an axis: those of a list, else the one value."""
    values = value if isinstance(value, list) else [value]
    if not values:
        raise ParameterError(template, {name: "is an empty list; give it at least one value"})
    # 1, 1.0 and True are equal, but not alike.
    return tuple({repr(v): v for v in values}.values())
