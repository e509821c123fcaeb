"""Tries the points of a space, keeps each outcome at once, and knows the best so far."""

from __future__ import annotations

import dataclasses
import datetime
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from tikgen.errors import ParameterError, UnsupportedOnArch
from tikgen.machine.devices import device_name
from tikgen.pipeline import records
from tikgen.pipeline.records import TIMED, Record
from tikgen.template.shapes import bucket
from tikgen.tuning.candidate import Candidate, best_of
from tikgen.tuning.final import (
    LEAST_PROCESSES,
    LEAST_ROUNDS,
    MOST_PROCESSES,
    PROCESSES,
    ROUNDS,
    Verdict,
    judge,
    pooled,
)
from tikgen.tuning.given_data import DataFolder
from tikgen.tuning.job import Job, Measurement
from tikgen.tuning.process import MeasuringProcess
from tikgen.tuning.space import Point, Space
from tikgen.verification.case import literal
from tikgen.version import __version__

CONTENDERS = 6
PLAYOFF_ROUNDS = 41
# So many of them may meet the default, one after the other, until one is faster.
FINALISTS = 3
# After an interruption somebody waits.
_HASTY_ROUNDS = 15
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
        data: where a user's own data is, if there is any.
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
        data: DataFolder | None = None,
    ) -> None:
        self.space, self.sizes, self.seed = space, dict(sizes), seed
        self.measured = 0
        self._process, self._on_record = process, on_record
        self._limit = process.timeout
        self._until, self._end, self._fresh = until, end, fresh
        self._data = data or DataFolder()
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
    def leader(self) -> Candidate | None:
        """Return what seems to be the fastest candidate so far, if any has a time."""
        return self._incumbent

    @property
    def best(self) -> Candidate | None:
        """Return the candidate that was proven to be faster than the default, else that.

        Where the default has no time, it is what seems to be the fastest, if any has one.
        """
        default, leader = self.default, self._incumbent
        if default is None or default.score == math.inf or leader is None:
            return leader
        return leader if leader.record.is_proven else default

    @property
    def default(self) -> Candidate | None:
        """Return what is known of the default schedule."""
        return self._candidates.get(self.space.digest(self.space.default))

    def try_default(self) -> None:
        """Measure the default schedule, unless that was done before.

        Where an earlier search ended before its best one was proven, that one is measured anew
        beside the default: a lucky moment may have made it the best, and others would be held
        against it.

        Raises:
            ParameterError: if the process refuses it, as where a GPU cannot hold the arrays.
        """
        if self.default is None or self.default.score == math.inf:
            default = self._measure(self.space.default, PLAYOFF_ROUNDS, self._incumbent)
            if default.score == 1.0:
                default.set_ratio(1.0, 1.0, 1.0)
                records.keep(default.record)
            self._forget_outdated()
        elif self._incumbent not in (None, self.default) and not self._is_settled():
            self._measure(self._incumbent.point, PLAYOFF_ROUNDS, self.default)

    def attempt(self, point: Point, rounds: int) -> float:
        """Return the time of a point over that of the default, infinite where it has none.

        It is measured unless it was before, for as many rounds and in turn with the best so far.
        What then seems to be better has to show it a second time, for only that counts: a lucky
        moment would make it what all later ones are held against.

        Raises:
            Spent: if the time for trying is over.
        """
        known = self._candidates.get(self.space.digest(point))
        best = self._incumbent
        if known is not None and (
            known.rounds >= rounds or known is best or known.score == math.inf
        ):
            return known.score
        if not self._has_time(1, self._until):
            raise Spent
        found = self._measure(point, rounds, best)
        if best is not None and found is not best and found is self._incumbent:
            if not self._has_time(1, self._end):
                raise Spent
            self._measure(point, 2 * rounds + 1, best)
        return found.score

    def playoff(self) -> None:
        """Measure the best few candidates again, and prove that the winner beats the default.

        They are measured for longer, each against the winner so far, which then meets the default
        schedule. Every ratio is scaled by what comes of it: until then they came by way of
        whichever candidate was the best at the time. Does nothing where that was done and nothing
        was measured since; leaves out the last ones where there is no time for them.
        """
        ranked = sorted(self._candidates.values(), key=lambda c: c.score)
        contenders = [c for c in ranked[:CONTENDERS] if c.score < math.inf]
        if not contenders or (not self.measured and self._is_settled()):
            return
        champion, *others = contenders
        met = [champion]
        for other in others:
            if not self._has_time(1 + LEAST_PROCESSES, self._end):
                break  # The last measurements below need their time as well.
            met.append(self._measure(other.point, PLAYOFF_ROUNDS, champion))
            champion = min(champion, other, key=lambda c: c.score)
        self._prove(met, PROCESSES, ROUNDS, champion)

    def settle(self) -> None:
        """Let the best candidates meet the default in haste, where a search was interrupted."""
        if not self._is_settled():
            self._prove(self.candidates, 1, _HASTY_ROUNDS)

    def _prove(
        self,
        candidates: Sequence[Candidate],
        processes: int,
        rounds: int,
        champion: Candidate | None = None,
    ) -> None:
        """Let candidates meet the default, the best first, while one may be better than another.

        The best of those that are faster beyond doubt, else the default, is the best from then
        on. Its ratio is the one that is told, with its interval; no other candidate has one.

        Args:
            candidates: who may meet the default.
            processes: in how many processes each meets it.
            rounds: for how many rounds in each.
            champion: the best of them, if the others were measured beside it: what comes of it
                holds for them.
        """
        default = self.default
        if default is None or default.score == math.inf:
            return
        ranked = sorted(candidates, key=lambda c: c.score)
        finalists = [c for c in ranked if c.score < default.score][:FINALISTS]
        default.set_ratio(1.0, 1.0, 1.0)
        winner = default
        for number, candidate in enumerate(finalists):
            before = candidate.score
            if before >= winner.score or (number and not self._has_time(1, self._end)):
                break
            verdict = self._final(candidate, default, processes, rounds)
            if candidate is champion and candidate.score < math.inf:
                self._scale(candidate.score / before, (candidate, default))
            if verdict is not None and verdict.is_faster and verdict.ratio < winner.score:
                winner, proven = candidate, verdict
        for candidate in (c for c in self.candidates if c is not default):
            if candidate.score < winner.score:  # By a lucky moment, until it shows it again.
                candidate.set_ratio(math.nextafter(winner.score, math.inf))
            elif candidate.score < math.inf:
                candidate.set_ratio(candidate.score)
        if winner is not default:
            winner.set_ratio(proven.ratio, proven.low, proven.high)
            seconds = winner.record.seconds / winner.score
            default.record = dataclasses.replace(default.record, seconds=seconds)
        self._incumbent = winner
        records.keep_all(c.record for c in self._candidates.values())

    def _final(
        self, candidate: Candidate, default: Candidate, processes: int, rounds: int
    ) -> Verdict | None:
        """Measure a candidate beside the default in fresh processes; None if it fails there.

        There are more of them than ``processes`` where the interval is wide, and less where there
        is no time, though two in any case, unless one was asked for.
        """
        found: list[Measurement] = []
        least = min(processes, LEAST_PROCESSES)
        most = processes if processes == 1 else MOST_PROCESSES
        while len(found) < least or (len(found) < most and self._has_time(1, self._end)):
            began = time.monotonic()
            self._process.stop()
            found.append(
                self._run(candidate.point, rounds, default, least=LEAST_ROUNDS, is_verified=True)
            )
            if not found[-1].ok:
                self._keep(candidate.point, rounds, found[-1], math.inf, 0.0)
                return None
            self._longest = max(self._longest, time.monotonic() - began)
            if len(found) >= processes and not judge(found).is_wide:
                break
        verdict = judge(found)
        self._keep(candidate.point, math.inf, pooled(found), verdict.ratio, verdict.ratio)
        return verdict

    def _has_time(self, measurements: int, until: float) -> bool:
        """Tell whether so many measurements more are likely to end in time."""
        return time.monotonic() + measurements * self._longest < until

    def _scale(self, factor: float, but: Sequence[Candidate]) -> None:
        """Scale the ratios of all candidates but these."""
        for candidate in self._candidates.values():
            if candidate.score < math.inf and candidate not in but:
                candidate.set_ratio(candidate.score * factor)

    def _measure(self, point: Point, rounds: int, baseline: Candidate | None) -> Candidate:
        """Measure a point in turn with another one, and keep what came of it.

        Raises:
            UnsupportedOnArch: if the arch does not work here.
            ParameterError: if it is the default, measured first, and the process refuses it.
        """
        found = self._run(point, rounds, baseline)
        score = math.inf
        if found.ok:
            score = found.ratio * (baseline.score if baseline is not None else 1.0)
        # A ratio refers to the default, by way of the baseline, or there is none.
        is_default = self.space.digest(point) == self.space.digest(self.space.default)
        has_ratio = is_default if baseline is None else baseline.record.ratio > 0
        return self._keep(point, rounds, found, score, score if found.ok and has_ratio else 0.0)

    def _run(
        self, point: Point, rounds: int, baseline: Candidate | None, **more: Any
    ) -> Measurement:
        """Measure a point in turn with another one; ``more`` are attributes of the job."""
        space = self.space
        absent = "" if self._process.is_running else self._process.start()
        if absent:
            problem = f"it does not work on this machine: {absent}"
            raise UnsupportedOnArch(space.template.name, space.arch, problem)
        settings = {"seed": self.seed, "data": self._data.path, "same": self._data.same}
        job = Job.of(
            space.variant(point), space.arch, self.sizes, rounds=rounds, **settings, **more
        )
        beside = None
        if baseline is not None:
            beside = Job.of(space.variant(baseline.point), space.arch, self.sizes, **settings)
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
        self.measured += 1
        return found

    def _keep(
        self, point: Point, rounds: float, found: Measurement, score: float, ratio: float
    ) -> Candidate:
        """Keep what came of a point, and return it as the candidate that it is."""
        record = self._record(point, found, ratio)
        candidate = self._note(Candidate(point, record, score, rounds))
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
        self._incumbent = best_of(self._candidates.values() if known is best else (best, known))
        return known

    def _is_settled(self) -> bool:
        """Tell whether it was proven, and not in haste, what is the best beside this default."""
        best, default = self._incumbent, self.default
        if best is None or default is None or default.score != 1.0:
            return False
        is_thorough = best is default or best.record.rounds > _HASTY_ROUNDS
        return best.record.is_proven and default.record.is_proven and is_thorough

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
            workload=self._data.kind,
            data=self._data.digest,
            message=found.message,
            when=now.isoformat(timespec="seconds"),
        )

    def _earlier(self) -> Iterable[Record]:
        """Return the records that count, of shapes that are alike, in the order of first trials.

        A time without a ratio, which a person may have written, says nothing beside the others.
        """
        return [
            r
            for r in self._alike()
            if r.data == self._data.digest
            and r.kind in _LASTING
            and (r.ratio > 0 or r.kind != TIMED)
        ]

    def _alike(self) -> Iterable[Record]:
        """Return the records of such sizes and such a workload, whatever a user's data was."""
        space = self.space
        found = records.records_for(space.template, space.problem, space.arch)
        return [
            r
            for r in found
            if bucket(r.sizes) == bucket(self.sizes) and r.workload == self._data.kind
        ]

    def _forget_outdated(self) -> None:
        """Remove records whose ratios are of another day, or of other data, from the store."""
        default = self.default
        if default is None or default.score == math.inf:
            return
        problem, arch = records.problem_text(self.space.problem), self.space.arch
        outdated = {
            r.candidate for r in self._alike() if self._fresh or r.data != self._data.digest
        } - {default.record.candidate}
        if outdated:
            records.forget(
                lambda r: r.candidate in outdated and (r.problem, r.arch) == (problem, arch)
            )
