"""Tries the points of a space, keeps each outcome at once, and knows the best so far."""

from __future__ import annotations

import dataclasses
import datetime
import math
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from tikgen import records
from tikgen.device import device_name
from tikgen.errors import ParameterError, UnsupportedOnArch
from tikgen.records import TIMED, Record
from tikgen.shapes import bucket
from tikgen.tuning.job import Job, Measurement
from tikgen.tuning.process import MeasuringProcess
from tikgen.tuning.space import Point, Space
from tikgen.verification.case import literal
from tikgen.version import __version__

CONTENDERS = 6
PLAYOFF_ROUNDS = 41
# After an interruption somebody waits.
_DUELS, _DUEL_ROUNDS = 3, 15
# The default schedule has to work out, so that it gets more time than other candidates.
_DEFAULT_SECONDS = 180.0
# A measurement launches the candidate up to six times and the baseline five times at least, all of
# which counts as the candidate's time: one as fast as the baseline must not run out of it.
_LAUNCHES = 16
# What else becomes of a candidate (a crash, a time-out, a refusal) may be the fault of the moment:
# a busy machine, a full memory. It is tried again.
_LASTING = (TIMED, "mismatch", "error")


class Spent(Exception):
    """The time for trying is over."""


@dataclass(eq=False)
class Candidate:
    """What is known of a candidate.

    Attributes:
        point: its schedule.
        record: its latest record.
        score: its time as a fraction of the default's, or where the default has none of that of
            the first candidate that has one; infinite where it has no time itself.
        rounds: for how many rounds it was asked.
    """

    point: Point
    record: Record
    score: float
    rounds: float = math.inf

    def set_ratio(self, ratio: float) -> None:
        """Change the time as a fraction of the default's."""
        self.score = ratio
        self.record = dataclasses.replace(self.record, ratio=ratio)


class Session:
    """One tuning: what was measured before, what is measured now, and the incumbent.

    Args:
        space: the schedules to try.
        sizes: value of each size symbol.
        seed: seed of the random data.
        process: where candidates are measured.
        until: when trying ends, on the clock ``time.monotonic``.
        end: when the comparison of the best ends.
        fresh: whether earlier records do not count, and go once the default was measured.
        on_record: told of each record as it is kept.
    """

    def __init__(
        self,
        space: Space,
        sizes: Mapping[str, int],
        seed: int,
        process: MeasuringProcess,
        until: float,
        end: float,
        fresh: bool,
        on_record: Callable[[Record], None],
    ) -> None:
        self.space, self.sizes, self.seed = space, dict(sizes), seed
        self.measured = 0
        self._process, self._on_record = process, on_record
        self._limit = process.timeout
        self._until, self._end, self._fresh = until, end, fresh
        # What the longest timing took, and another one may take as well.
        self._longest = 0.0
        # By digest: points that render the same code are one candidate.
        self._candidates: dict[str, Candidate] = {}
        self._incumbent: Candidate | None = None
        for record in () if fresh else self._earlier():
            point = space.point_of(record.schedule)
            if point is not None:
                score = record.ratio if record.kind == TIMED else math.inf
                self._note(Candidate(point, record, score))

    @property
    def candidates(self) -> tuple[Candidate, ...]:
        """Return what is known of each candidate, in the order in which they were first tried."""
        return tuple(self._candidates.values())

    @property
    def best(self) -> Candidate | None:
        """Return the fastest candidate so far, if any has a time."""
        return self._incumbent

    @property
    def default(self) -> Candidate | None:
        """Return what is known of the default schedule."""
        return self._candidates.get(self.space.digest(self.space.default))

    def try_default(self) -> None:
        """Measure the default schedule, unless that was done before.

        Where an earlier search ended before its playoff, its best one meets the default anew: a
        lucky moment may have made it the best, and others would be held against it.

        Raises:
            ParameterError: if the process refuses it, as where a GPU cannot hold the arrays.
        """
        if self.default is None or self.default.score == math.inf:
            self._measure(self.space.default, PLAYOFF_ROUNDS, self._incumbent)
            if self._fresh:
                self._forget_earlier()
        elif self._incumbent not in (None, self.default) and not self._is_settled():
            self._measure(self._incumbent.point, PLAYOFF_ROUNDS, self.default)

    def attempt(self, point: Point, rounds: int) -> float:
        """Return the time of a point over that of the default, infinite where it has none.

        It is measured unless it was before, for as many rounds and in turn with the best so far.

        Raises:
            Spent: if the time for trying is over.
        """
        known = self._candidates.get(self.space.digest(point))
        if known is not None and (
            known.rounds >= rounds or known is self._incumbent or known.score == math.inf
        ):
            return known.score
        if time.monotonic() + self._longest >= self._until:
            raise Spent
        return self._measure(point, rounds, self._incumbent).score

    def playoff(self) -> None:
        """Measure the best few candidates again, for longer, each against the winner so far.

        The winner then meets the default schedule, and every ratio is scaled by what comes of it:
        until then they came by way of whichever candidate was the best at the time. Does nothing
        where that was done and nothing was measured since; leaves out the last ones where there
        is no time for them.
        """
        ranked = sorted(self._candidates.values(), key=lambda c: c.score)
        contenders = [c for c in ranked[:CONTENDERS] if c.score < math.inf]
        if not contenders or (not self.measured and self._is_settled()):
            return
        champion, *others = contenders
        for other in others:
            if time.monotonic() + 2 * self._longest >= self._end:
                break  # The last measurement below needs its time as well.
            self._measure(other.point, PLAYOFF_ROUNDS, champion)
            champion = min(champion, other, key=lambda c: c.score)
        default = self.default
        if default is not None and default.score < math.inf:
            before = champion.score
            default.set_ratio(1.0)
            if champion is not default:
                found = self._measure(champion.point, PLAYOFF_ROUNDS, default)
                if found.score < math.inf:
                    seconds = found.record.seconds / found.score
                    default.record = dataclasses.replace(default.record, seconds=seconds)
            self._scale(champion.score / before, (champion, default))
        self._incumbent = min(self._candidates.values(), key=lambda c: c.score)

    def settle(self) -> None:
        """Let the best candidate meet the default, where a search ended before its playoff.

        What else claims to be faster than what then is the best, did so beside a candidate that
        may have had a lucky moment: until it is measured again it counts as no faster.
        """
        default = self.default
        if default is None or default.score == math.inf or self._is_settled():
            return
        met = [default]
        while self._incumbent is not None and self._incumbent not in met and len(met) <= _DUELS:
            met.append(self._measure(self._incumbent.point, _DUEL_ROUNDS, default))
        proven = min(met, key=lambda c: c.score)
        for candidate in self._candidates.values():
            if candidate.score < proven.score:
                candidate.set_ratio(math.nextafter(proven.score, math.inf))
        self._incumbent = proven
        records.keep_all(c.record for c in self._candidates.values())

    def _scale(self, factor: float, but: tuple[Candidate, ...]) -> None:
        """Scale the ratios of all candidates but these."""
        for candidate in self._candidates.values():
            if candidate.score < math.inf and candidate not in but and factor < math.inf:
                candidate.set_ratio(candidate.score * factor)
        records.keep_all(c.record for c in self._candidates.values())

    def _measure(self, point: Point, rounds: int, baseline: Candidate | None) -> Candidate:
        """Measure a point in turn with another one, and keep what came of it.

        Raises:
            UnsupportedOnArch: if the arch does not work here.
            ParameterError: if it is the default, measured first, and the process refuses it.
        """
        space = self.space
        absent = "" if self._process.is_running else self._process.start()
        if absent:
            problem = f"it does not work on this machine: {absent}"
            raise UnsupportedOnArch(space.template.name, space.arch, problem)
        job = Job.of(space.variant(point), space.arch, self.sizes, seed=self.seed, rounds=rounds)
        beside = None
        if baseline is not None:
            variant = space.variant(baseline.point)
            beside = Job.of(variant, space.arch, self.sizes, seed=self.seed)
        is_default = space.digest(point) == space.digest(space.default)
        slowest = baseline.record.seconds if baseline is not None else 0.0
        limit = max(self._limit, _DEFAULT_SECONDS) if is_default else self._limit
        self._process.timeout = limit + _LAUNCHES * slowest
        began = time.monotonic()
        found = self._process.run(job, beside)
        if is_default and found.kind == "refused" and not self.measured:
            problem = f"cannot be tuned, for the default schedule is refused: {found.message}"
            raise ParameterError(space.template.name, {"shape": problem})
        if found.ok and self.measured:  # The first one makes the data, too.
            timing = time.monotonic() - began - found.compile_seconds - found.verify_seconds
            self._longest = max(self._longest, timing)
        score = math.inf
        if found.ok:
            score = found.ratio * (baseline.score if baseline is not None else 1.0)
        # A ratio refers to the default, by way of the baseline, or there is none.
        has_ratio = is_default if baseline is None else baseline.record.ratio > 0
        record = self._record(point, found, score if found.ok and has_ratio else 0.0)
        candidate = self._note(Candidate(point, record, score, rounds))
        self.measured += 1
        records.keep(record)
        self._on_record(record)
        return candidate

    def _note(self, candidate: Candidate) -> Candidate:
        """Take a candidate up, in place of what was known of it; return the one that is kept."""
        digest = self.space.digest(candidate.point)
        known = self._candidates.setdefault(digest, candidate)
        known.record, known.rounds = candidate.record, candidate.rounds
        known.score = candidate.score
        best = self._incumbent
        self._incumbent = _best_of(self._candidates.values() if known is best else (best, known))
        return known

    def _is_settled(self) -> bool:
        """Tell whether the best candidate and the default come from one playoff.

        That leaves them with times in the very proportion of their ratios, which medians of other
        measurements never have.
        """
        best, default = self._incumbent, self.default
        if best is None or default is None:
            return False
        expected = best.score * default.record.seconds
        return default.score == 1.0 and math.isclose(best.record.seconds, expected)

    def _record(self, point: Point, found: Measurement, ratio: float) -> Record:
        space = self.space
        now = datetime.datetime.now(datetime.timezone.utc)
        return Record(
            template=space.template.name,
            fingerprint=space.template.fingerprint,
            problem=records.problem_text(space.problem),
            arch=space.arch,
            device=device_name(space.arch),
            taichi=records.taichi_version(),
            tikgen=__version__,
            sizes=self.sizes,
            schedule=literal(space.schedule(point)),
            kind=found.kind,
            seconds=found.seconds,
            spread=found.spread,
            rounds=found.rounds,
            ratio=ratio,
            message=found.message,
            when=now.isoformat(timespec="seconds"),
        )

    def _earlier(self) -> Iterable[Record]:
        """Return the records that count, of shapes that are alike, in the order of first trials.

        A time without a ratio, which a person may have written, says nothing beside the others.
        """
        space = self.space
        found = records.records_for(space.template, space.problem, space.arch)
        return [
            r
            for r in found
            if bucket(r.sizes) == bucket(self.sizes)
            and r.kind in _LASTING
            and (r.ratio > 0 or r.kind != TIMED)
        ]

    def _forget_earlier(self) -> None:
        """Remove earlier records from the store, whose ratios are of another day."""
        if self.default is None or self.default.score == math.inf:
            return
        problem, arch = records.problem_text(self.space.problem), self.space.arch
        outdated = {r.candidate for r in self._earlier()} - {self.default.record.candidate}
        records.forget(lambda r: r.candidate in outdated and (r.problem, r.arch) == (problem, arch))


def _best_of(candidates: Iterable[Candidate | None]) -> Candidate | None:
    timed = [c for c in candidates if c is not None and c.score < math.inf]
    return min(timed, key=lambda c: c.score, default=None)
