"""Templates for the tests of tuning: with faults, on ranks too, and with numbers as schedules."""

from __future__ import annotations

from pathlib import Path

import tikgen
from tikgen import Template
from tikgen.tuning.job import Job, Measurement

# Faults that both have.
FAULTS = """\
#% elif s.way == "crashing"
        y[i] = x[i] + x[i] // (ti.abs(x[i]) // 1000)
#% elif s.way == "hanging"
        y[i] = 0
        while x[i] + y[i] > -1000:
            y[i] = 0
        y[i] = x[i] + x[i]
#% elif s.way == "unknown to Taichi"
        y[i] = ti.no_such_function(x[i])
"""

TWICE_TEXT = """\
import taichi as ti


@ti.kernel
def {{ name }}(x: {{ arguments[0].annotation }}, y: {{ arguments[1].annotation }}):
    for i in range(x.shape[0]):
#% if s.way == "wrong"
        y[i] = x[i] + x[i] + ti.cast(i == 40, ti.i32)
FAULTS_HERE
#% elif s.way == "slow"
        total = 0
        for _ in range(x[i] + 60):
            total = (total * 5 + x[i]) % 1013
        y[i] = x[i] + x[i] + total // 2000
#% else
        y[i] = x[i] + x[i]
#% endif
""".replace("FAULTS_HERE\n", FAULTS)

TWICE_CODE = '''\
from typing import Literal

from tikgen import Array, Cost, DType, Invalid, ProblemModel, ScheduleModel, Template, parameter


class Twice(Template):
    """Doubles every element, in more or less good ways."""

    class Problem(ProblemModel):
        power: int = parameter("which multiple of two", 1, ge=1, le=1)

    class Schedule(ScheduleModel):
        way: Literal[
            "slow", "plain", "wrong", "crashing", "hanging", "unknown to Taichi", "refused"
        ] = parameter("how", "slow")
        idle: Literal[1, 2] = parameter("changes nothing", 1)

    def arguments(self, p):
        x = Array("x", DType.i32, ("n",))
        return (x, Array("y", DType.i32, ("n",), role="out"))

    def check(self, p, s, arch):
        if s.way == "refused":
            raise Invalid("way", "is refused")

    def cost(self, p, sizes):
        return Cost(bytes=8 * sizes["n"], flops=sizes["n"])

    @staticmethod
    def reference(p, x, y):
        return x + x
'''

DOUBLE_TEXT = """\
import taichi as ti


@ti.kernel
def {{ name }}(x: {{ arguments[0].annotation }}, y: {{ arguments[1].annotation }}):
    way = {{ ["plain", "wrong", "crashing", "hanging", "unknown to Taichi"].index(s.way) }}
    for i in range(x.shape[0]):
#% if not p.part or p.part[0][2] == 0
        y[i] = x[i] + x[i] + way - way
#% elif s.way == "wrong"
        y[i] = x[i] + x[i] + ti.cast(i == 4, ti.i32)
FAULTS_HERE
#% else
        y[i] = x[i] + x[i]
#% endif
""".replace("FAULTS_HERE\n", FAULTS)

DOUBLE_CODE = '''\
from typing import Literal

from tikgen import Array, DType, ProblemModel, ScheduleModel, Template, parameter
from tikgen.template.grid_use import ArrayUse, GridUse, Part


class Double(Template):
    """Doubles every element of a grid; all ranks but the first do it in more or less good ways."""

    class Problem(ProblemModel):
        part: Part | None = parameter("the part of a larger grid", None)

    class Schedule(ScheduleModel):
        way: Literal["plain", "wrong", "crashing", "hanging", "unknown to Taichi"] = parameter(
            "how", "plain"
        )

    def arguments(self, p):
        x = Array("x", DType.i32, ("n",))
        return (x, Array("y", DType.i32, ("n",), role="out"))

    def cost(self, p, sizes):
        raise NotImplementedError

    def grid_use(self, p):
        x, y = (ArrayUse(0, ((0, 0),), False, (frozenset(),), out) for out in (False, True))
        return GridUse(1, {"x": x, "y": y}, {}, {})

    @staticmethod
    def reference(p, x, y):
        return x + x
'''

SCALED_TEXT = """\
import taichi as ti


@ti.kernel
def {{ name }}(x: {{ arguments[0].annotation }}, y: {{ arguments[1].annotation }}):
    ti.loop_config(block_dim={{ s.block_dim }})
    for i in range(x.shape[0]):
        for step in range({{ s.unroll }}):
            y[i] = {{ p.dtype.literal(p.weight) }} * x[i]
"""

SCALED_CODE = '''\
from typing import Literal

from tikgen import (
    Array, Cost, DType, Expression, Invalid, ProblemModel, ScheduleModel, Template, parameter
)


class Scaled(Template):
    """Scales every element; a test gives the times."""

    class Problem(ProblemModel):
        dtype: DType = parameter("element type", DType.f32, choices=("f32", "f64"))
        weight: float = parameter("the factor", 2.0)
        mode: Literal["one", "other"] = parameter("of no meaning", "one")
        points: dict[tuple[int, ...], float] | None = parameter("of no meaning", None)
        spacing: float | tuple[float, ...] = parameter("of no meaning", 1.0)
        expr: Expression | None = parameter("of no meaning", None)

    class Schedule(ScheduleModel):
        unroll: Literal[1, 2, 4, 8, 16] = parameter("which unroll", 1)
        block_dim: Literal[32, 64, 128, 256, 512] = parameter("which block", 32)

    def arguments(self, p):
        return (Array("x", p.dtype, ("n",)), Array("y", p.dtype, ("n",), role="out"))

    def check(self, p, s, arch):
        if (s.unroll, s.block_dim) == (16, 512):
            raise Invalid("unroll", "is too much where block_dim=512")

    @staticmethod
    def reference(p, x, y):
        return p.weight * x.astype(p.dtype.wide)
'''


def make(folder: Path, name: str, text: str, code: str) -> Template:
    """Write a template and return it."""
    (folder / name).mkdir(exist_ok=True)
    (folder / name / "kernel.py.j2").write_text(text)
    (folder / name / "template.py").write_text(code)
    return tikgen.load_template(folder / name)


def beside(kind: str, seconds: float, rounds: int, ratio: float) -> Measurement:
    """Return a measurement in which every round has one ratio to the baseline."""
    more = {"ratio": ratio, "ratios": (ratio,) * rounds, "worst_ratio": ratio}
    return Measurement(kind, "", "d", seconds, 0.01, rounds, **more)


class Simulated:
    """Replaces the measuring process: the time is a function of the schedule."""

    is_running = True

    def __init__(self, arch: str, timeout: float) -> None:
        self.timeout = timeout

    @staticmethod
    def seconds(params) -> float:
        """Return the time of the schedule, least at unroll=8 and block_dim=128."""
        return 1 + abs(params["unroll"] - 8) + abs(params["block_dim"] - 128) / 64

    def run(self, job: Job, baseline: Job | None = None) -> Measurement:
        seconds = self.seconds(job.params)
        ratio = seconds / self.seconds(baseline.params) if baseline else 1.0
        return beside("timed", seconds, job.rounds, ratio)

    def stop(self) -> None:
        """End the process; the next run starts another."""

    def __enter__(self) -> Simulated:
        return self

    def __exit__(self, *_: object) -> None:
        pass
