"""Tunes a problem on this machine."""

from __future__ import annotations

import contextlib
import math
import random
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from tikgen.errors import ParameterError, TuningError, UnsupportedOnArch
from tikgen.machine.devices import device_name
from tikgen.pipeline.builder import DEFAULT_ARCH, resolve
from tikgen.pipeline.records import Record, problem_text
from tikgen.progress import bar
from tikgen.taichi import runtime
from tikgen.template.base import Template
from tikgen.template.catalogue import current_template
from tikgen.template.declared import reason_against
from tikgen.template.parameters import ProblemModel
from tikgen.template.shapes import shown, sizes_of_shape
from tikgen.tuning.given_data import OwnData, own_data, saved
from tikgen.tuning.memory import check_room
from tikgen.tuning.options import budget_seconds
from tikgen.tuning.process import MeasuringProcess
from tikgen.tuning.result import TuneResult
from tikgen.tuning.search import STRATEGIES, choose
from tikgen.tuning.session import Session, Spent
from tikgen.tuning.space import Space
from tikgen.verification.diagnosis import check_has_reference
from tikgen.verification.options import problems_of

# What is left of a budget for the final comparison of the best candidates.
_SEARCH_SHARE = 0.7
_TIMEOUT, _FULL_TIMEOUT = 20.0, 60.0

Stopped = Literal["complete", "budget", "interrupted"]


def tune(
    name: str | Template,
    *,
    shape: int | Sequence[int] | Mapping[str, int] | None = None,
    arguments: Mapping[str, Any] | Sequence[Any] | None = None,
    budget: str | float = "quick",
    arch: str | None = None,
    strategy: str = "auto",
    seed: int | None = None,
    fresh: bool = False,
    timeout: float | None = None,
    on_record: Callable[[Record], None] | None = None,
    **problem: Any,
) -> TuneResult:
    """Find the fastest schedule of a problem on this machine, and keep all measurements.

    Each candidate is verified against the reference and then timed in turn with the best one so
    far, in a process that is replaced when it dies. The best few are measured again, and the
    winner is compared with the default in fresh processes: the default stays unless the winner is
    faster beyond doubt and by 2 %. ``tikgen.build`` takes the best schedule from then on. Tuning
    again continues; Ctrl-C ends the search early and loses nothing.

    Args:
        name: name of a template, or the template itself.
        shape: sizes of the arrays, in the order of the template's size symbols or by symbol; or
            one number for all of them. It may be left out where ``arguments`` are given.
        arguments: your own data to time with, by name or in order; what is only written may be
            left out. Without it kernels are timed on data that the template calls typical.
        budget: ``"quick"`` for about a minute, ``"full"`` for the whole space, or seconds.
        arch: arch to tune on: the current one, else cpu.
        strategy: ``"exhaustive"``, ``"halving"``, ``"optuna"`` (an extra), or ``"auto"``.
        seed: seed of what is drawn; None takes a new one, which the result holds.
        fresh: whether to measure again what was measured before.
        timeout: seconds after which a candidate has failed.
        on_record: called with each record as it is kept.
        problem: problem parameters.

    Raises:
        UnknownTemplate: if no template has that name.
        ParameterError: if a parameter, the shape or an option is invalid, or the arrays do not
            fit the memory.
        ArgumentError: if an argument is missing or does not fit.
        UnsupportedOnArch: if the arch does not work here, or cannot run the problem.
        TemplateError: if the template has no reference, or one of its methods fails.
        TuningError: if no schedule works.
        TikgenError: if the strategy needs a package that is not installed.
    """
    began = time.monotonic()
    template = current_template(name)
    seconds = budget_seconds(template.name, budget)
    problems = problems_of(seed=seed, timeout=timeout)
    if arch is not None and not runtime.is_arch(arch):
        problems["arch"] = f"takes {runtime.LISTED_ARCHS}; got {arch!r}"
    if problems:
        raise ParameterError(template.name, problems)
    arch = arch or runtime.current_arch() or DEFAULT_ARCH
    model = _problem(template, arch, problem)
    own = _own(template, model, arguments)
    sizes = _sizes(template, model, shape, own)
    check_room(template.name, arch, template.arguments(model), sizes)
    space = Space(template, model, arch, sizes)
    strategy = choose(template.name, strategy, space, seconds == math.inf)
    seed = random.SystemRandom().randrange(2**32) if seed is None else seed
    if timeout is None:
        timeout = _FULL_TIMEOUT if seconds == math.inf else _TIMEOUT
    until, end = began + _SEARCH_SHARE * seconds, began + seconds
    process = MeasuringProcess(arch, timeout)
    what, by_time = f"{template.name} on {arch}", seconds < math.inf
    total = seconds if by_time else len(space.points)
    with process, saved(own) as data, bar(what, total, counts=not by_time) as show:

        def note(record: Record) -> None:
            text, tried = what, len(session.candidates)
            if session.leader is not None:
                text += f": {1e3 * session.leader.record.seconds:.4g} ms at best"
            text += f", {tried} of {len(space.points)} tried"
            show(completed=time.monotonic() - began if by_time else tried, description=text)
            if on_record is not None:
                on_record(record)

        session = Session(space, sizes, seed, process, until, end, fresh, note, data)
        stopped = _search(session, strategy, seed)
    return _result(session, strategy, stopped, time.monotonic() - began)


def _search(session: Session, strategy: str, seed: int) -> Stopped:
    """Search, compare the best, and return why the search ended."""
    try:
        session.try_default()
        stopped: Stopped = "complete"
        try:
            STRATEGIES[strategy](session.space, session.attempt, random.Random(seed))
        except Spent:
            stopped = "budget"
        session.playoff()
    except KeyboardInterrupt:
        if session.default is None:
            raise  # Nothing was measured yet.
        with contextlib.suppress(KeyboardInterrupt):
            session.settle()
        return "interrupted"
    return stopped


def _own(template: Template, problem: ProblemModel, arguments: Any) -> OwnData | None:
    if arguments is None:
        return None
    if not isinstance(arguments, Mapping | list | tuple):
        takes = "takes values by name, such as {'x': x}, or a list of them in order"
        given = type(arguments).__name__
        raise ParameterError(template.name, {"arguments": f"{takes}; got {given}"})
    if isinstance(arguments, Mapping):
        return own_data(template, problem, (), arguments)
    return own_data(template, problem, arguments, {})


def _sizes(
    template: Template, problem: ProblemModel, shape: Any, own: OwnData | None
) -> dict[str, int]:
    symbols = template.size_symbols(problem)
    if own is not None and shape is None:
        return dict(own.sizes)
    if shape is None and symbols:
        needed = "is needed, unless your own data is given as arguments"
        raise ParameterError(template.name, {"shape": needed})
    if type(shape) is int:
        shape = dict.fromkeys(symbols, shape)
    sizes = sizes_of_shape(
        template.name, symbols, () if shape is None else shape, template.arguments(problem)
    )
    if own is not None and sizes != own.sizes:
        problem_text = f"is {shown(sizes)}, and the arguments have {shown(own.sizes)}"
        raise ParameterError(template.name, {"shape": problem_text})
    return sizes


def _problem(template: Template, arch: str, given: Mapping[str, Any]) -> ProblemModel:
    check_has_reference(template)
    for name in given:
        if name in template.Schedule.model_fields:
            problem = "is a schedule parameter, which tuning chooses; leave it out"
            raise ParameterError(template.name, {name: problem})
    variant = resolve(template, arch=arch, schedule={}, **given)
    if reason := reason_against(template, variant.problem, arch):
        raise UnsupportedOnArch(template.name, arch, reason)
    assert isinstance(variant.problem, ProblemModel)
    return variant.problem


def _result(session: Session, strategy: str, stopped: Stopped, seconds: float) -> TuneResult:
    space, default = session.space, session.default
    assert default is not None
    if session.best is None:
        raise TuningError(
            f"{space.template.name}: no schedule could be timed on {space.arch}; the default one: "
            f"{default.record.kind}: {default.record.message}"
        )
    return TuneResult(
        template=space.template.name,
        problem=problem_text(space.problem),
        arch=space.arch,
        device=device_name(space.arch),
        sizes=session.sizes,
        strategy=strategy,
        seed=session.seed,
        best=session.best.record,
        default=default.record,
        records=tuple(candidate.record for candidate in session.candidates),
        points=len(space.points),
        measured=session.measured,
        seconds=seconds,
        stopped=stopped,
        workload=session.best.record.workload,
    )
