"""The schedules to try: the product of what the template lists, without what it refuses."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from tikgen import engines
from tikgen.errors import ParameterError, TemplateError, TikgenError
from tikgen.pipeline.rendering import Variant, render_variant
from tikgen.template.base import Template
from tikgen.template.blame import as_dict, blamed
from tikgen.template.parameters import ProblemModel, ScheduleModel, make_model, plain
from tikgen.template.rules import ARCH, may_be, neutral_values, rules_of
from tikgen.template.schedules import make_schedule

# Larger products are sampled.
MOST_COMBINATIONS = 50_000
# In larger spaces equal kernels are found only when they come up: rendering takes about 1 ms.
MOST_RENDERED = 2_000

# A value for each schedule parameter, in the order of the model.
Point = tuple[Any, ...]


class Space:
    """The schedules of a problem that tuning tries on an arch, for arrays of some sizes.

    Attributes:
        default: the default schedule.
        points: every schedule of the space, the default first, and one of those that render the
            same code.

    Raises:
        ParameterError: if the default schedule itself is refused.
        TemplateError: if ``schedule_space`` of the template names what does not exist.
    """

    def __init__(
        self, template: Template, problem: ProblemModel, arch: str, sizes: Mapping[str, int]
    ) -> None:
        self.template, self.problem, self.arch = template, problem, arch
        self._names = tuple(template.Schedule.model_fields)
        with blamed(template, "default_schedule()"):
            is_direct = engines.is_direct(engines.steady(arch), arch)  # Which measures.
            chosen = template.default_values(problem, arch, sizes, is_direct)
        model = make_model(template.Schedule, chosen, template.name)
        self.default: Point = tuple(getattr(model, name) for name in self._names)
        with blamed(template, "schedule_space()"):
            listed = as_dict(
                template, "schedule_space()", template.schedule_space(problem, arch, sizes)
            )
        self.axes = self._axes(listed)
        self._is_sampled = math.prod(map(len, self.axes.values())) > MOST_COMBINATIONS
        self._check(self.default)
        combined = dict.fromkeys(map(self._settled, self._combinations()))
        valid = (point for point in combined if self.is_valid(point))
        every = tuple(dict.fromkeys((self.default, *valid)))
        self._known = frozenset(every)
        self._digests: dict[Point, str] = {}
        self.points = self._distinct(every) if len(every) <= MOST_RENDERED else every

    def schedule(self, point: Point) -> dict[str, Any]:
        """Return the schedule parameters by name."""
        return dict(zip(self._names, point, strict=True))

    def point_of(self, schedule: Mapping[str, Any]) -> Point | None:
        """Return the point with these schedule parameters, or None if the template refuses them."""
        try:
            model = make_model(self.template.Schedule, plain(schedule), self.template.name)
        except ParameterError:
            return None
        point = tuple(getattr(model, name) for name in self._names)
        return point if self.is_valid(point) else None

    def variant(self, point: Point) -> Variant:
        """Return the variant with the schedule of a point."""
        return Variant(self.template, self.problem, self._model(point))

    def digest(self, point: Point) -> str:
        """Return the digest of the kernel; points that render the same code are one candidate."""
        if point not in self._digests:
            try:
                self._digests[point] = render_variant(self.variant(point)).digest
            except TikgenError as error:  # Measuring it reports the error.
                self._digests[point] = f"{type(error).__name__}: {point!r}"
        return self._digests[point]

    def is_valid(self, point: Point) -> bool:
        """Return whether the template takes the schedule."""
        try:
            self._check(point)
        except ParameterError:
            return False
        return True

    def __contains__(self, point: Point) -> bool:
        # The best point may lie beside a sample.
        return point in self._known or (self._is_sampled and self.is_valid(point))

    def neighbours(self, point: Point) -> list[Point]:
        """Return the points that differ in one parameter, and by one step if it is a number."""
        found = []
        for name, values in self.axes.items():
            index = self._names.index(name)
            near = values
            if all(type(v) in (int, float) for v in values):
                ranked = sorted(values)
                place = ranked.index(point[index])
                near = tuple(ranked[max(0, place - 1) : place + 2])
            for value in near:
                other = (*point[:index], value, *point[index + 1 :])
                if other != point and other in self:
                    found.append(other)
        return found

    def _distinct(self, points: tuple[Point, ...]) -> tuple[Point, ...]:
        first: dict[str, Point] = {}
        for point in points:
            first.setdefault(self.digest(point), point)
        return tuple(first.values())

    def _axes(self, listed: Mapping[str, Any]) -> dict[str, tuple[Any, ...]]:
        """Return the values of each parameter that is tried, its default among them.

        What rules refuse for this problem and arch, whatever the schedule, is left out.
        """
        axes = {}
        rules, known = rules_of(self.template.Schedule), {**dict(self.problem), ARCH: self.arch}
        for name, values in listed.items():
            if name not in self._names:
                problem = f"schedule_space() names {name!r}, which is no schedule parameter"
                raise TemplateError(self.template.name, problem)
            given = tuple(dict.fromkeys(values))
            self._check_listed(name, given)
            default = self.default[self._names.index(name)]
            if name in rules:
                given = tuple(v for v in given if may_be(rules[name], v, known))
            axes[name] = given if default in given else (default, *given)
        return axes

    def _check_listed(self, name: str, values: Iterable[Any]) -> None:
        """Raise TemplateError if the parameter cannot have a listed value, whatever the rules."""
        for value in values:
            try:
                make_model(self.template.Schedule, {name: value}, self.template.name)
            except ParameterError as error:
                if error.parameter == name:
                    problem = f"schedule_space() lists {name}={value!r:.60}: {error}"
                    raise TemplateError(self.template.name, problem) from None

    def _combinations(self) -> Iterator[Point]:
        axes = [self.axes.get(n, (d,)) for n, d in zip(self._names, self.default, strict=True)]
        if not self._is_sampled:
            yield from itertools.product(*axes)
            return
        rng = random.Random(0)  # The same space in each run, so that tuning can continue.
        for _ in range(MOST_COMBINATIONS):
            yield tuple(rng.choice(values) for values in axes)

    def _settled(self, point: Point) -> Point:
        """Return a point with the neutral values of the parameters that do not apply there."""
        known = {**dict(self.problem), **self.schedule(point), ARCH: self.arch}
        neutral = neutral_values(self.template.Schedule, known, ())
        return tuple(neutral.get(n, v) for n, v in zip(self._names, point, strict=True))

    def _model(self, point: Point) -> ScheduleModel:
        model = make_model(self.template.Schedule, self.schedule(point), self.template.name)
        assert isinstance(model, ScheduleModel)
        return model

    def _check(self, point: Point) -> None:
        """Raise :class:`ParameterError` if the template refuses the schedule."""
        with blamed(self.template, "check()"):
            make_schedule(self.template, self.problem, self.schedule(point), self.arch)
