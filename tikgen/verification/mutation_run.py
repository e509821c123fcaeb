"""Runs the verification against mutants of kernels that passed it."""

from __future__ import annotations

import math
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tikgen.lifecycle.ir import optimised_code
from tikgen.pipeline.builder import build, resolve
from tikgen.pipeline.rendering import Source, render_variant
from tikgen.template.base import Template
from tikgen.verification.case import Case, Outcome
from tikgen.verification.explained import reason_for
from tikgen.verification.mutation import Mutation, Survivor
from tikgen.verification.mutator import Mutant, mutants_of
from tikgen.verification.process import ArchProcess
from tikgen.verification.same_code import is_same_code
from tikgen.verification.shortcuts import other_ways
from tikgen.verification.strategies import drawn, full_launches, launches

# Mutants of one variant, before it is the turn of another one.
_IN_A_ROW = 4
# Launches that a mutant must survive, and how many of them are the largest ones, tried first.
_LAUNCHES, _LARGEST = 120, 6
# Mutants are compared with the kernel as Taichi compiles both by default.
_OPTIONS: dict[str, Any] = {"offline_cache": True, "fast_math": True}
# A mutant hangs that takes this long, or so many times what the kernel itself took.
_LEAST_TIMEOUT, _TIMEOUT_TIMES = 10.0, 10


class OriginalFailed(Exception):
    """Tells of the case in which the kernel itself, unchanged, is wrong."""

    def __init__(self, case: Case, outcome: Outcome) -> None:
        self.case, self.outcome = case, outcome
        super().__init__(outcome.message)


@dataclass(frozen=True)
class _Subject:
    """A variant, the launches that it passes, and the mutants of it that were not tried."""

    source: Source
    cases: tuple[Case, ...]
    mutants: list[Mutant]
    timeout: float


class MutationRun:
    """Tries mutants of variants that passed, one at a time.

    Args:
        template: the template.
        passed: cases that passed, whose variants are mutated.
        count: how many mutants to count.
        seed: seed of what is drawn.
        process: runs them; it works on the arch of ``passed``.
        on_progress: told how many mutants were counted.
    """

    def __init__(
        self,
        template: Template,
        passed: Sequence[Case],
        count: int,
        seed: int,
        process: ArchProcess,
        on_progress: Callable[[int], None] = lambda done: None,
    ) -> None:
        self._template, self._count, self._seed = template, count, seed
        self._process, self._on_progress = process, on_progress
        self._random = random.Random(f"{seed}-mutants")
        by_params = {repr(case.params): case for case in passed}
        # The first one drawn is the simplest: a single part, bin or step, where little counts.
        simplest = next(iter(by_params.values()))
        self._variants = [by_params[key] for key in sorted(by_params)]
        self._random.shuffle(self._variants)
        self._variants.remove(simplest)
        self._variants.append(simplest)
        self._killed: Counter[str] = Counter()
        self._kinds: dict[str, tuple[int, int]] = {}
        self._lines: Counter[str] = Counter()
        self._survivors: list[Survivor] = []
        self._invalid = self._equal = 0
        # The code of the variants with survivors, by digest.
        self._optimised: dict[str, str | None] = {}

    def run(self) -> Mutation:
        """Return the outcome of the mutants.

        Raises:
            OriginalFailed: if the kernel itself fails in one of the launches.
        """
        began = time.monotonic()
        used = set()
        for subject, mutant in self._chosen():
            used.add(subject.source.digest)
            self._try(subject, mutant)
            self._on_progress(self._counted)
            if self._counted == self._count:
                break
        return Mutation(
            seed=self._seed,
            killed=dict(self._killed),
            survivors=tuple(self._survivors),
            invalid=self._invalid,
            equal=self._equal,
            variants=len(used),
            kinds=dict(sorted(self._kinds.items())),
            seconds=time.monotonic() - began,
        )

    @property
    def _counted(self) -> int:
        return sum(self._killed.values()) + len(self._survivors)

    def _chosen(self) -> Iterator[tuple[_Subject, Mutant]]:
        """Yield mutants, a few of each variant in turn, until all of them were tried."""
        subjects: list[_Subject] = []
        digests: set[str] = set()
        for case in self._variants:
            subject = self._subject(case)
            if subject.source.digest not in digests:
                digests.add(subject.source.digest)
                subjects.append(subject)
                yield from self._some(subject)
        while any(subject.mutants for subject in subjects):
            for subject in subjects:
                yield from self._some(subject)

    def _some(self, subject: _Subject) -> Iterator[tuple[_Subject, Mutant]]:
        for _ in range(_IN_A_ROW):
            if subject.mutants:
                yield subject, self._pick(subject)

    def _pick(self, subject: _Subject) -> Mutant:
        """Take the mutant of the kind, and of the template's line, that came up least so far."""

        def rank(mutant: Mutant) -> tuple[int, int, float]:
            place = subject.source.template_line(mutant.line)
            tried = self._kinds.get(mutant.kind, (0, 0))[1]
            return tried, self._lines[place], self._random.random()

        mutant = min(subject.mutants, key=rank)
        subject.mutants.remove(mutant)
        self._lines[subject.source.template_line(mutant.line)] += 1
        return mutant

    def _subject(self, case: Case) -> _Subject:
        variant = resolve(self._template, arch=case.arch, **case.params)
        source = render_variant(variant)
        seed = self._random.getrandbits(32)
        plain = [
            replace(case, **{**launch, "baked": False}, **_OPTIONS)
            for launch in drawn(launches(self._template, variant, case.arch), _LAUNCHES, seed)
        ]
        full = [
            replace(case, **launch, **_OPTIONS)
            for launch in full_launches(self._template, variant, case.arch)
        ]
        # What is large shows most; NumPy's arrays show writes outside of them as well.
        large = sorted(
            plain, key=lambda c: (-math.prod(c.sizes.values()), c.container == "ndarray")
        )
        large = large[:_LARGEST]
        # What fills every part takes seconds: it is for mutants that survive all others.
        cases = large + [c for c in plain if c not in large] + full
        slowest = 0.0
        # Mutants that ran before may have damaged the memory of the process.
        self._process.stop()
        for each in cases:
            began = time.monotonic()
            outcome = self._process.run(each)
            slowest = max(slowest, time.monotonic() - began)
            if outcome.kind != "passed":
                raise OriginalFailed(each, outcome)
        timeout = max(_LEAST_TIMEOUT, _TIMEOUT_TIMES * slowest)
        return _Subject(source, tuple(cases), mutants_of(source.text), timeout)

    def _try(self, subject: _Subject, mutant: Mutant) -> None:
        try:
            if is_same_code(mutant.text, subject.source.text):
                self._equal += 1
                return
        except SyntaxError:
            self._invalid += 1
            return
        outcome = self._outcome(subject, mutant.text)
        if outcome.kind == "invalid":
            self._invalid += 1
            return
        killed = outcome.kind != "passed"
        if not killed and (
            self._compiles_alike(subject, mutant) or self._is_shortcut(subject, mutant)
        ):
            self._equal += 1
            return
        before = self._kinds.get(mutant.kind, (0, 0))
        self._kinds[mutant.kind] = (before[0] + killed, before[1] + 1)
        if killed:
            self._killed[outcome.kind] += 1
        else:
            place = subject.source.template_line(mutant.line)
            params: Mapping[str, Any] = subject.cases[0].params
            reason = reason_for(self._template, place, mutant.kind)
            diff = mutant.diff(subject.source.text)
            self._survivors.append(Survivor(mutant.kind, place, diff, params, reason))

    def _compiles_alike(self, subject: _Subject, mutant: Mutant) -> bool:
        case, digest = subject.cases[0], subject.source.digest
        kernel = build(self._template, arch=case.arch, **case.params)
        if digest not in self._optimised:
            self._optimised[digest] = optimised_code(kernel, case.arch)
        code = self._optimised[digest]
        return code is not None and code == optimised_code(kernel, case.arch, mutant.text)

    def _is_shortcut(self, subject: _Subject, mutant: Mutant) -> bool:
        """Tell whether the mutant only goes another way more often, which is always right."""
        ways = other_ways(subject.source.text, mutant.text)
        if ways is None:
            return False
        always, without = (self._outcome(subject, text).kind for text in ways)
        return always == "passed" and without not in ("passed", "invalid")

    def _outcome(self, subject: _Subject, text: str) -> Outcome:
        """Return the outcome of the first launch that a text does not pass, or of the last."""
        outcome = Outcome("passed")
        for case in subject.cases:
            changed = replace(case, text=text)
            outcome = self._process.run(changed, subject.timeout)
            if outcome.kind == "crash":
                # Another mutant may have damaged the memory; this is in a new process.
                outcome = self._process.run(changed, subject.timeout)
            if outcome.kind != "passed":
                break
        return outcome
