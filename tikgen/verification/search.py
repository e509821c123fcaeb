"""Draws examples on one arch with hypothesis, and shrinks one that fails."""

from __future__ import annotations

import contextlib
import itertools
import math
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from tikgen import engines
from tikgen.errors import ParameterError, TemplateError
from tikgen.pipeline.builder import resolve
from tikgen.pipeline.evidence import Tally
from tikgen.store import default_store
from tikgen.template.base import Template
from tikgen.verification.case import Case, Outcome
from tikgen.verification.large import Ladder, largest_of
from tikgen.verification.mutation import Mutation
from tikgen.verification.mutation_run import MutationRun, OriginalFailed
from tikgen.verification.process import ArchProcess
from tikgen.verification.report import ArchReport, Failure
from tikgen.verification.strategies import drawn, largest_launch, launches, trials

# After ten examples hypothesis mostly mutates those it has drawn, so that examples are drawn in
# short runs. Each run in turn has options of Taichi of its own.
_RUN = 9
_OPTIONS: tuple[dict[str, Any], ...] = (
    {"offline_cache": False, "fast_math": True},
    {"offline_cache": True, "fast_math": False},
    {"offline_cache": False, "fast_math": False},
    {"offline_cache": True, "fast_math": True},
)
# Further launches, of so many variants, where those so far compared nothing of an output.
_MORE_VARIANTS, _MORE_LAUNCHES = 3, 12
# The part of the elements of an output that a tolerance may leave unchecked without a warning.
_LOOSE = 0.9


@dataclass(frozen=True)
class Limits:
    """Examples, their seed, seconds for shrinking and for a case, mutants, engine or default."""

    max_examples: int
    seed: int
    shrink_seconds: float
    timeout: float
    mutants: int = 0
    engine: str = engines.DEFAULT

    def launched_by(self, arch: str) -> tuple[str, ...]:
        """Return what launches kernels on an arch: by default Taichi, and what users have."""
        usual = engines.steady(arch)
        if self.engine != engines.DEFAULT:
            return (self.engine,)
        return (engines.TAICHI,) if usual == engines.TAICHI else (engines.TAICHI, usual)


class _Wrong(Exception):
    """A case failed."""


class _TimeIsUp(BaseException):
    """Ends hypothesis, which would take any other exception for a failure."""


class Search:
    """Searches on one arch for a case that fails.

    Args:
        template: the template.
        arch: the arch.
        fixed: parameters that are not drawn.
        limits: how long to search.
        on_progress: called with the number of examples, and whether a failure is being shrunk.
        on_mutants: called with the number of mutants that were counted.
    """

    def __init__(
        self,
        template: Template,
        arch: str,
        fixed: Mapping[str, Any],
        limits: Limits,
        on_progress: Callable[[int, bool], None] = lambda drawn, shrinking: None,
        on_mutants: Callable[[int], None] = lambda done: None,
    ) -> None:
        _keep_files_in_store()
        self.template, self.arch, self.fixed = template, arch, fixed
        self.limits = limits
        # By digest and engine.
        self.tallies: dict[tuple[str, str], Tally] = {}
        self._on_progress, self._on_mutants = on_progress, on_mutants
        self._process = ArchProcess(arch, limits.timeout)
        self._skipped: Counter[str] = Counter()
        self._invalid: ParameterError | None = None
        self._outcomes: dict[str, Outcome] = {}
        self._failing: tuple[Case, Outcome] | None = None
        self._shrink_until = float("inf")
        self._drawn = 0
        self._options = _OPTIONS[0]
        self._cases = trials(
            template,
            arch,
            fixed,
            self._note_unsupported,
            self._note_invalid,
            self._note_drawn,
            limits.launched_by(arch),
        )
        self._values_drawn: dict[str, dict[str, Any]] = {}
        self._ladder = Ladder(template)

    def run(self) -> ArchReport:
        """Search until an example fails or all agree, and return the report.

        Raises:
            ParameterError: if the fixed parameters allow no variant at all.
            TemplateError: if the template fails while examples are drawn.
        """
        began = time.monotonic()
        with self._process:
            absent = self._process.start()
            if absent:
                return ArchReport(self.arch, absent=absent, seconds=time.monotonic() - began)
            self._explore()
            if self._failing is None:
                self._look_for_uncompared()
            mutation = self._mutate()
        passed = {digest for (digest, _), tally in self.tallies.items() if tally.passed}
        constant = self._never_varied()
        pinned = [name for name in constant if self._is_pinned(name)]
        if not self._outcomes and not self._skipped and self._invalid is not None:
            raise self._invalid
        largest, elements = largest_of(self._outcomes)
        return ArchReport(
            self.arch,
            examples=sum(o.kind == "passed" for o in self._outcomes.values()),
            launched=dict(Counter(o.engine for o in self._outcomes.values() if o.engine)),
            variants=len(passed),
            skipped=dict(self._skipped),
            worst=max((o.worst for o in self._outcomes.values() if o.ok), default=0.0),
            error=max((o.error for o in self._outcomes.values() if o.ok), default=0.0),
            seconds=time.monotonic() - began,
            failure=Failure(*self._failing) if self._failing else None,
            never_varied=tuple(n for n in constant if n not in pinned),
            pinned=tuple(pinned),
            mutation=mutation,
            largest=largest,
            elements=elements,
            loose=self._loose(),
        )

    def _explore(self) -> None:
        """Draw examples, in runs, until there are enough, one fails or no others are found."""
        most = min(_RUN, -(-self.limits.max_examples // 2))
        for run in itertools.count():
            missing = self.limits.max_examples - self._drawn
            before = len(self._outcomes)
            self._options = _OPTIONS[run % len(_OPTIONS)]
            self._draw(min(missing, most) + 1, f"{self.limits.seed}-{run}")
            if self._failing or self._drawn >= self.limits.max_examples:
                return
            if len(self._outcomes) == before:
                return

    def _draw(self, count: int, seed: str) -> None:
        """Draw ``count`` examples, the simplest one first, and shrink the one that fails."""
        import hypothesis
        from hypothesis import HealthCheck, Phase, Verbosity
        from hypothesis.errors import Flaky, Unsatisfiable

        @hypothesis.seed(seed)
        @hypothesis.settings(
            max_examples=count,
            phases=(Phase.generate, Phase.shrink),
            suppress_health_check=list(HealthCheck),
            verbosity=Verbosity.quiet,
            database=None,
            deadline=None,
            derandomize=False,
            print_blob=False,
            report_multiple_bugs=False,
        )
        @hypothesis.given(self._cases)
        def examples_agree(cases: tuple[Case, ...]) -> None:
            if time.monotonic() >= self._shrink_until:
                raise _TimeIsUp
            before = len(self._outcomes)
            for case in (replace(case, **self._options) for case in cases):
                if case.large:
                    self._ladder.climb(case, self._check)
                else:
                    self._check(case)
            self._drawn += len(self._outcomes) > before
            self._on_progress(self._drawn, self._failing is not None)

        try:
            examples_agree()
        except (_Wrong, _TimeIsUp, Unsatisfiable):
            pass
        except TemplateError:
            if self._failing is None:  # Else it was raised while shrinking.
                raise
        except Flaky as error:
            self._take_flaky(error)

    def _take_flaky(self, error: Exception) -> None:
        """Launch again what failed when it was drawn, and not when the same was to be drawn."""
        if self._failing is None:
            problem = "its methods draw other variants from the same random numbers"
            raise TemplateError(self.template.name, f"cannot be verified: {problem}") from error
        case, outcome = self._failing
        if self._process.run(case).ok:
            message = f"{outcome.message}; this did not happen again"
            self._failing = case, replace(outcome, message=message)

    def _check(self, case: Case) -> None:
        """Run a case unless that was done before, and raise if it fails."""
        outcome = self._outcomes.get(case.line)
        if outcome is None:
            if time.monotonic() > self._shrink_until:
                return  # What was not tried in time counts as agreeing.
            outcome = self._outcomes[case.line] = self._process.run(case)
            self._note(case, outcome)
        if not outcome.ok:
            self._failing = (case, outcome)
            raise _Wrong

    def _note(self, case: Case, outcome: Outcome) -> None:
        if outcome.kind == "skipped":
            self._skipped[outcome.message] += 1
        if outcome.digest:
            by = outcome.engine or engines.timed_by(case.engine, self.arch)
            tally = self.tallies.setdefault((outcome.digest, by), Tally(case.params))
            tally.add(outcome.ok, outcome.worst, case.fast_math)
        if outcome.kind == "passed":
            self._ladder.note(case, outcome)
        if not outcome.ok and self._failing is None:
            self._shrink_until = time.monotonic() + self.limits.shrink_seconds
            self._on_progress(self._drawn, True)

    def _look_for_uncompared(self) -> None:
        """Fail if no launch compared a single element of some output, nor do further ones."""
        for name in self._never_compared():
            with contextlib.suppress(_Wrong):
                self._launch_until_compared(name)
            if self._failing:
                return
        blank = self._never_compared()
        message = (
            f"no element of {', '.join(blank)} was compared in any launch: "
            "tolerance() allows it an infinite error everywhere"
        )
        for line, outcome in self._outcomes.items():
            if not outcome.compared.keys().isdisjoint(blank):
                self.tallies[outcome.digest, outcome.engine].passed = False
                self._failing = (Case.from_line(line), Outcome("uncompared", message))

    def _launch_until_compared(self, name: str) -> None:
        """Launch variants that have an output with other sizes, until an element is compared."""
        with_it = [Case.from_line(li) for li, o in self._outcomes.items() if name in o.compared]
        variants = {repr(case.params): case for case in with_it}
        for case in list(variants.values())[:_MORE_VARIANTS]:
            variant = resolve(self.template, arch=self.arch, **case.params)
            further = drawn(
                launches(self.template, variant, self.arch), _MORE_LAUNCHES, self.limits.seed
            )
            # A few examples may all be too small to compare anything.
            further.sort(key=lambda one: -math.prod(one["sizes"].values()))
            for launch in [largest_launch(self.template, variant, self.arch), *further]:
                changed = replace(case, **{**launch, "baked": False})
                self._check(changed)
                if self._outcomes[changed.line].compared.get(name):
                    return

    def _never_compared(self) -> list[str]:
        """Return the outputs of which no launch compared an element."""
        compared: Counter[str] = Counter()
        for outcome in self._outcomes.values():
            compared.update(outcome.compared)
        return [name for name, count in compared.items() if not count]

    def _loose(self) -> tuple[str, ...]:
        """Return the outputs of which nearly all elements could be zero within the tolerance."""
        nonzero: Counter[str] = Counter()
        loose: Counter[str] = Counter()
        for outcome in self._outcomes.values():
            nonzero.update(outcome.nonzero)
            loose.update(outcome.loose)
        return tuple(name for name in nonzero if loose[name] > _LOOSE * nonzero[name])

    def _mutate(self) -> Mutation | None:
        """Run mutants of what passed, if they are wanted and nothing failed."""
        passed = [Case.from_line(li) for li, o in self._outcomes.items() if o.kind == "passed"]
        if self._failing or not (passed and self.limits.mutants):
            return None
        run = MutationRun(
            self.template,
            passed,
            self.limits.mutants,
            self.limits.seed,
            self._process,
            self._on_mutants,
        )
        try:
            return run.run()
        except OriginalFailed as failure:
            self._failing = (failure.case, failure.outcome)
            return None

    def _never_varied(self) -> list[str]:
        """Return the parameters that were not fixed, and had a single value in all launches."""
        single = [info.name for info in self.template.parameters if len(info.choices) == 1]
        seen: dict[str, set[str]] = {
            name: set()
            for model in (self.template.Problem, self.template.Schedule)
            for name in model.model_fields
            if name not in self.fixed and name not in single
        }
        for line, outcome in self._outcomes.items():
            if outcome.digest:
                params = Case.from_line(line).params
                for name, values in seen.items():
                    values.add(repr(params[name]))
        return [name for name, values in seen.items() if len(values) < 2]

    def _is_pinned(self, name: str) -> bool:
        """Return whether other values were drawn, and the template allowed none of them."""
        others = self._values_drawn.get(name, {})
        if len(others) < 2 or name in self.template.Schedule.model_fields:
            return len(others) > 1
        lines = [line for line, outcome in self._outcomes.items() if outcome.digest]
        variants = {repr(params): params for params in (Case.from_line(li).params for li in lines)}
        return not any(
            self._is_allowed(params, name, value)
            for params in variants.values()
            for value in others.values()
            if repr(value) != repr(params[name])
        )

    def _is_allowed(self, params: Mapping[str, Any], name: str, value: Any) -> bool:
        """Return whether the problem of a variant may have another value."""
        problem = {k: params[k] for k in self.template.Problem.model_fields}
        try:
            resolve(self.template, arch=self.arch, **problem | {name: value})
        except ParameterError:
            return False
        return True

    def _note_unsupported(self, reason: str) -> None:
        self._skipped[reason] += 1

    def _note_drawn(self, chosen: Mapping[str, Any]) -> None:
        for name, value in chosen.items():
            self._values_drawn.setdefault(name, {})[repr(value)] = value

    def _note_invalid(self, error: ParameterError) -> None:
        self._invalid = error


def _keep_files_in_store() -> None:
    """Let hypothesis keep its files in the store, unless the program itself uses hypothesis."""
    if "hypothesis" not in sys.modules:
        from hypothesis import configuration

        configuration.set_hypothesis_home_dir(default_store().folder / "hypothesis")
