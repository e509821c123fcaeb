"""Tries the points of a space, keeps each outcome, and compares the best with the default."""

from __future__ import annotations

import dataclasses
import datetime
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from tikgen import engines
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
from tikgen.tuning.given_data import OwnData
from tikgen.tuning.job import Job, Measurement
from tikgen.tuning.process import MeasuringProcess
from tikgen.tuning.space import Point, Space
from tikgen.verification.case import literal
from tikgen.version import __version__

CONTENDERS = 6
PLAYOFF_ROUNDS = 41
# They may meet the default, one after the other, until one is faster.
FINALISTS = 3
# After an interruption, when somebody is waiting.
_HASTY_ROUNDS = 15
# The default schedule gets more time than other candidates: nothing works without it.
_DEFAULT_SECONDS = 180.0
# The candidate's time limit includes at least five launches of the baseline beside it and up to
# six of its own.
_LAUNCHES = 16
# Other outcomes (a crash, a timeout, a refusal) may be due to a busy machine or a full memory.
_LASTING = (TIMED, "mismatch", "error")


class Spent(Exception):
    """The time for the search is over."""


class Session:
    """One tuning: earlier records, new measurements, and the incumbent.

    Args:
        space: the schedules to try.
        sizes: value of each size symbol.
        seed: seed of the random data.
        process: where candidates are measured.
        until: when the search ends, on the clock ``time.monotonic``.
        end: when the comparison of the best ends.
        fresh: whether to ignore earlier records, and remove them once the default was measured.
        on_record: called with each record as it is kept.
        data: a user's own data, if any.
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
        data: OwnData | None = None,
    ) -> None:
        self.space, self.sizes, self.seed = space, dict(sizes), seed
        self.measured = 0
        self._process, self._on_record = process, on_record
        self._limit = process.timeout
        self._until, self._end, self._fresh = until, end, fresh
        self._data = data or OwnData()
        # Seconds of the longest timing so far.
        self._longest = 0.0
        # By digest.
        self._candidates: dict[str, Candidate] = {}
        self._incumbent: Candidate | None = None
        for record in () if fresh else self._earlier():
            point = space.point_of(record.schedule)
            if point is not None:
                score = record.ratio if record.kind == TIMED else math.inf
                self._note(Candidate(point, record, score))

    @property
    def candidates(self) -> tuple[Candidate, ...]:
        """Return the candidates in the order in which they were first tried."""
        return tuple(self._candidates.values())

    @property
    def leader(self) -> Candidate | None:
        """Return the candidate that seems to be the fastest so far, if any has a time."""
        return self._incumbent

    @property
    def best(self) -> Candidate | None:
        """Return the candidate that was proven faster than the default, else the default.

        Where the default has no time, it is the :attr:`leader`.
        """
        default, leader = self.default, self._incumbent
        if default is None or default.score == math.inf or leader is None:
            return leader
        return leader if leader.record.is_proven else default

    @property
    def default(self) -> Candidate | None:
        """Return the default schedule, if it was tried."""
        return self._candidates.get(self.space.digest(self.space.default))

    def try_default(self) -> None:
        """Measure the default schedule, unless that was done before.

        Where an earlier search ended before its best one was proven, that one is measured again
        beside the default: its ratio may be lucky, and is the scale for all others.

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

        It is measured in turn with the best so far, unless it was before for as many rounds. What
        seems to be a new best is measured a second time, which counts: all later candidates are
        compared with it.

        Raises:
            Spent: if the time for the search is over.
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
        """Measure the best few candidates again, and compare the winner with the default.

        They are measured for longer, each beside the winner so far, as far as time allows. Does
        nothing where that was done and nothing was measured since.
        """
        ranked = sorted(self._candidates.values(), key=lambda c: c.score)
        contenders = [c for c in ranked[:CONTENDERS] if c.score < math.inf]
        if not contenders or (not self.measured and self._is_settled()):
            return
        champion, *others = contenders
        met = [champion]
        for other in others:
            if not self._has_time(1 + LEAST_PROCESSES, self._end):
                break  # The comparison with the default needs its time as well.
            met.append(self._measure(other.point, PLAYOFF_ROUNDS, champion))
            champion = min(champion, other, key=lambda c: c.score)
        self._prove(met, PROCESSES, ROUNDS, champion)

    def settle(self) -> None:
        """Compare the best candidates with the default briefly, after an interruption."""
        if not self._is_settled():
            self._prove(self.candidates, 1, _HASTY_ROUNDS)

    def _prove(
        self,
        candidates: Sequence[Candidate],
        processes: int,
        rounds: int,
        champion: Candidate | None = None,
    ) -> None:
        """Measure candidates beside the default, the best first, until no other may be better.

        The best of those that are faster beyond doubt, else the default, is the incumbent from
        then on. Its ratio alone has an interval.

        Args:
            candidates: what to compare with the default.
            processes: in how many processes.
            rounds: for how many rounds in each.
            champion: the candidate that the others were measured beside, if any: their ratios are
                scaled with its ratio.
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
            if candidate.score < winner.score:  # A lucky one, until it is measured again.
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

        More than ``processes`` are taken where the interval is wide, and fewer where there is no
        time, but at least two unless one was asked for.
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
        """Return whether this many measurements are likely to end in time."""
        return time.monotonic() + measurements * self._longest < until

    def _scale(self, factor: float, but: Sequence[Candidate]) -> None:
        """Scale the ratios of all candidates except ``but``."""
        for candidate in self._candidates.values():
            if candidate.score < math.inf and candidate not in but:
                candidate.set_ratio(candidate.score * factor)

    def _measure(self, point: Point, rounds: int, baseline: Candidate | None) -> Candidate:
        """Measure a point beside the baseline, and keep the outcome.

        Raises:
            UnsupportedOnArch: if the arch does not work here.
            ParameterError: if it is the default, measured first, and the process refuses it.
        """
        found = self._run(point, rounds, baseline)
        score = math.inf
        if found.ok:
            score = found.ratio * (baseline.score if baseline is not None else 1.0)
        # A ratio refers to the default, directly or through the baseline.
        is_default = self._is_default(point)
        has_ratio = is_default if baseline is None else baseline.record.ratio > 0
        return self._keep(point, rounds, found, score, score if found.ok and has_ratio else 0.0)

    def _is_default(self, point: Point) -> bool:
        return self.space.digest(point) == self.space.digest(self.space.default)

    def _run(
        self, point: Point, rounds: int, baseline: Candidate | None, **more: Any
    ) -> Measurement:
        """Measure a point beside the baseline; ``more`` are attributes of the job."""
        space = self.space
        absent = "" if self._process.is_running else self._process.start()
        if absent:
            problem = f"it does not work on this machine: {absent}"
            raise UnsupportedOnArch(space.template.name, space.arch, problem)
        settings = {"seed": self.seed, "data": self._data.folder, "same": self._data.same}
        job = Job.of(
            space.variant(point), space.arch, self.sizes, rounds=rounds, **settings, **more
        )
        beside = None
        if baseline is not None:
            beside = Job.of(space.variant(baseline.point), space.arch, self.sizes, **settings)
        is_default = self._is_default(point)
        slowest = baseline.record.seconds if baseline is not None else 0.0
        limit = max(self._limit, _DEFAULT_SECONDS) if is_default else self._limit
        self._process.timeout = limit + _LAUNCHES * slowest
        began = time.monotonic()
        found = self._process.run(job, beside)
        if is_default and found.kind == "refused" and not self.measured:
            problem = f"cannot be tuned, for the default schedule is refused: {found.message}"
            raise ParameterError(space.template.name, {"shape": problem})
        if found.ok and self.measured:  # The first one makes the data as well.
            timing = time.monotonic() - began - found.compile_seconds - found.verify_seconds
            self._longest = max(self._longest, timing)
        self.measured += 1
        return found

    def _keep(
        self, point: Point, rounds: float, found: Measurement, score: float, ratio: float
    ) -> Candidate:
        """Keep the outcome of a point, and return its candidate."""
        record = self._record(point, found, ratio)
        candidate = self._note(Candidate(point, record, score, rounds))
        records.keep(record)
        self._on_record(record)
        return candidate

    def _note(self, candidate: Candidate) -> Candidate:
        """Update what is known of a candidate; return the one that is kept."""
        digest = self.space.digest(candidate.point)
        known = self._candidates.setdefault(digest, candidate)
        known.record, known.rounds = candidate.record, candidate.rounds
        known.score = candidate.score
        best = self._incumbent
        self._incumbent = best_of(self._candidates.values() if known is best else (best, known))
        return known

    def _is_settled(self) -> bool:
        """Return whether the best beside this default was proven, and not briefly."""
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
            engine=self._engine,
            when=now.isoformat(timespec="seconds"),
        )

    @property
    def _engine(self) -> str:
        """Return the engine that launches what is measured."""
        return engines.timed_by(engines.steady(self.space.arch), self.space.arch)

    def _earlier(self) -> Iterable[Record]:
        """Return the records that count, in the order of first trials."""
        # A person may have written a time without a ratio, which does not compare.
        return [
            r
            for r in self._similar()
            if r.data == self._data.digest
            and r.kind in _LASTING
            and (r.ratio > 0 or r.kind != TIMED)
        ]

    def _similar(self) -> Iterable[Record]:
        """Return the records of similar sizes and the same kind of workload."""
        space, wanted = self.space, (bucket(self.sizes), self._data.kind)
        found = records.records_for(space.template, space.problem, space.arch, self._engine)
        return [r for r in found if (bucket(r.sizes), r.workload) == wanted]

    def _forget_outdated(self) -> None:
        """Remove records that ``fresh`` discards, or of other data, from the store."""
        default = self.default
        if default is None or default.score == math.inf:
            return
        problem, arch = records.problem_text(self.space.problem), self.space.arch
        gone = {r.candidate for r in self._similar() if self._fresh or r.data != self._data.digest}
        gone.discard(default.record.candidate)
        if gone:
            records.forget(lambda r: r.candidate in gone and (r.problem, r.arch) == (problem, arch))
