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
from tikgen.errors import UnsupportedOnArch
from tikgen.records import TIMED, Record
from tikgen.shapes import bucket
from tikgen.tuning.job import Job, Measurement
from tikgen.tuning.process import MeasuringProcess
from tikgen.tuning.space import Point, Space
from tikgen.verification.case import literal
from tikgen.version import __version__

CONTENDERS = 6
PLAYOFF_ROUNDS = 41
# The default schedule has to work out, so that it gets more time than other candidates.
_DEFAULT_SECONDS = 180.0


class Spent(Exception):
    """The time for trying is over."""


@dataclass
class Candidate:
    """What is known of a candidate: its latest record, and for how many rounds it was asked."""

    point: Point
    record: Record
    rounds: float = math.inf

    @property
    def score(self) -> float:
        """Return the time as a fraction of the default's, infinite where there is none."""
        if self.record.kind != TIMED:
            return math.inf
        return self.record.ratio or 1.0


class Session:
    """One tuning: what was measured before, what is measured now, and the incumbent.

    Args:
        space: the schedules to try.
        sizes: value of each size symbol.
        seed: seed of the random data.
        process: where candidates are measured.
        until: when trying ends, on the clock ``time.monotonic``.
        fresh: whether earlier records do not count.
        on_record: told of each record as it is kept.
    """

    def __init__(
        self,
        space: Space,
        sizes: Mapping[str, int],
        seed: int,
        process: MeasuringProcess,
        until: float,
        fresh: bool,
        on_record: Callable[[Record], None],
    ) -> None:
        self.space, self.sizes, self.seed = space, dict(sizes), seed
        self.measured = 0
        self._process, self._until, self._on_record = process, until, on_record
        # By digest: points that render the same code are one candidate.
        self._candidates: dict[str, Candidate] = {}
        self._incumbent: Candidate | None = None
        for record in () if fresh else self._earlier():
            point = space.point_of(record.schedule)
            if point is not None:
                self._note(Candidate(point, record))

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
        """Measure the default schedule, unless that was done before."""
        if self.default is None:
            limit = self._process.timeout
            self._process.timeout = max(limit, _DEFAULT_SECONDS)
            self._measure(self.space.default, PLAYOFF_ROUNDS, None)
            self._process.timeout = limit

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
        if time.monotonic() >= self._until:
            raise Spent
        return self._measure(point, rounds, self._incumbent).score

    def playoff(self) -> None:
        """Measure the best few candidates again, for longer, each against the winner so far.

        The winner then meets the default schedule, and every ratio is scaled by what comes of it:
        until then they came by way of whichever candidate was the best at the time. Does nothing
        where nothing was measured.
        """
        ranked = sorted(self._candidates.values(), key=lambda c: c.score)
        contenders = [c for c in ranked[:CONTENDERS] if c.score < math.inf]
        if not self.measured or not contenders:
            return
        champion, *others = contenders
        for other in others:
            self._measure(other.point, PLAYOFF_ROUNDS, champion)
            champion = min(champion, other, key=lambda c: c.score)
        default = self.default
        if default is not None and default.score < math.inf:
            before = champion.score
            default.record = dataclasses.replace(default.record, ratio=1.0)
            if champion is not default:
                found = self._measure(champion.point, PLAYOFF_ROUNDS, default)
                if found.score < math.inf:
                    seconds = found.record.seconds / found.score
                    default.record = dataclasses.replace(default.record, seconds=seconds)
            self._scale(champion.score / before, {id(champion), id(default)})
        self._incumbent = min(self._candidates.values(), key=lambda c: c.score)

    def _scale(self, factor: float, but: set[int]) -> None:
        """Scale the ratios of all candidates but those with these ids."""
        for candidate in self._candidates.values():
            if candidate.score < math.inf and id(candidate) not in but and factor < math.inf:
                ratio = candidate.score * factor
                candidate.record = dataclasses.replace(candidate.record, ratio=ratio)
        records.keep_all(c.record for c in self._candidates.values())

    def _measure(self, point: Point, rounds: int, baseline: Candidate | None) -> Candidate:
        """Measure a point in turn with another one, and keep what came of it.

        Raises:
            UnsupportedOnArch: if the arch does not work here.
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
        found = self._process.run(job, beside)
        ratio = found.ratio * (baseline.score if baseline is not None else 1.0)
        record = self._record(point, found, ratio)
        candidate = self._note(Candidate(point, record, rounds))
        self.measured += 1
        records.keep(record)
        self._on_record(record)
        return candidate

    def _note(self, candidate: Candidate) -> Candidate:
        """Take a candidate up, in place of what was known of it; return the one that is kept."""
        digest = self.space.digest(candidate.point)
        known = self._candidates.setdefault(digest, candidate)
        known.record, known.rounds = candidate.record, candidate.rounds
        if known is self._incumbent and known.score == math.inf:
            self._incumbent = None
        if known.score < (self._incumbent.score if self._incumbent else math.inf):
            self._incumbent = known
        return known

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
            ratio=ratio if found.ok else 0.0,
            message=found.message,
            when=now.isoformat(timespec="seconds"),
        )

    def _earlier(self) -> Iterable[Record]:
        """Return the records of shapes that count as alike, in the order of their first trial."""
        space = self.space
        found = records.records_for(space.template, space.problem, space.arch)
        return [r for r in found if bucket(r.sizes) == bucket(self.sizes)]
