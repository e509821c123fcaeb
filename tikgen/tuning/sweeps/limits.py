"""The limits of the machine: a copy and a multiply-add kernel, measured like any other work.

The copy moves as many bytes as the work that it is compared with, rounded to a power of two: small
arrays fit caches, as in a cache-aware roofline (Ilic, Pratas and Sousa 2014).
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tikgen.dtypes import DType
from tikgen.template.base import BUILTIN_FOLDER, Cost
from tikgen.tuning.job import Job
from tikgen.tuning.sweeps.results_file import Done

PEAK = Path(__file__).parent / "peak"
COPY = BUILTIN_FOLDER / "map"

# Enough to measure the memory of any device; more would take long to verify.
_MOST_COPIED = 2**28
_LEAST_COPIED = 2**16
# Values that a thread carries: on cpu half of the registers of x64; more would cost occupancy on a
# GPU.
_LANE_BYTES = {"cpu": 1024}
_GPU_LANES = 8
_STEPS = 1024
_VALUES = {"cpu": 2**18}
_GPU_VALUES = 2**21
# More than of a kernel, since all rows are compared with the limits.
_ROUNDS = 15


@dataclass(frozen=True)
class LimitJob:
    """A job that measures a limit, and what one launch of it does."""

    job: Job
    amount: int

    @property
    def work(self) -> str:
        """Return one text for equal jobs, different from that of any other work."""
        seedless = {**vars(self.job), "params": dict(self.job.params), "seed": 0, "folder": ""}
        seedless.pop("line", None)
        return hashlib.sha256(repr(sorted(seedless.items())).encode()).hexdigest()


def copy_job(arch: str, dtype: str, moved: int) -> LimitJob:
    """Return the job that copies an array, ``moved`` bytes read and written in all."""
    bits = DType(dtype).bits
    bucket = 2 ** round(math.log2(min(max(moved, _LEAST_COPIED), _MOST_COPIED)))
    n = bucket // 2 * 8 // bits
    # The default schedule and not a tuned one, so that limits are comparable.
    params = {"expr": "y = x", "dtype": dtype, "schedule": {}}
    job = Job("map", str(COPY), arch, params, {"n0": n}, rounds=_ROUNDS)
    return LimitJob(job, bucket)


def peak_job(arch: str, dtype: str) -> LimitJob | None:
    """Return the job that multiplies and adds in registers, or None where there is no limit."""
    kind = DType(dtype)
    # LLVM does not vectorise these recurrences for integers and f16.
    if not kind.is_float or (arch == "cpu" and kind.bits < 32):
        return None
    lanes = _LANE_BYTES[arch] * 8 // kind.bits if arch in _LANE_BYTES else _GPU_LANES
    n = _VALUES.get(arch, _GPU_VALUES)
    params = {"dtype": dtype, "steps": _STEPS, "lanes": lanes}
    job = Job("peak", str(PEAK), arch, params, {"n": n}, rounds=_ROUNDS)
    return LimitJob(job, 2 * _STEPS * n)


def limit_jobs(wanted: Iterable[tuple[str, str, Cost | None]]) -> dict[str, LimitJob]:
    """Return the jobs that measure the limits for arch, dtype and cost of each work."""
    found = [
        job
        for arch, dtype, cost in wanted
        if dtype and cost is not None
        for job in (copy_job(arch, dtype, cost.bytes), peak_job(arch, dtype))
    ]
    return {job.work: job for job in found if job is not None}


class Limits:
    """The limits among what was measured, by work and device."""

    def __init__(self, done: Mapping[tuple[str, str], Done]) -> None:
        self._done = done

    def bandwidth(self, device: str, arch: str, dtype: str, moved: int) -> float | None:
        """Return the bytes per second of a copy of about ``moved`` bytes, if it was timed."""
        return self._rate(device, copy_job(arch, dtype, moved))

    def peak(self, device: str, arch: str, dtype: str) -> float | None:
        """Return the floating-point operations per second in registers, if they were timed."""
        job = peak_job(arch, dtype)
        return None if job is None else self._rate(device, job)

    def _rate(self, device: str, limit: LimitJob) -> float | None:
        done = self._done.get((limit.work, device))
        if done is None or not done.measurement.ok:
            return None
        return limit.amount / done.measurement.seconds
