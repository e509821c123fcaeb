"""Verifies a template on each arch."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import random
from collections.abc import Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import replace
from pathlib import Path
from typing import Any

from tikgen import engines
from tikgen.consoles import make_console
from tikgen.disk import path_problem
from tikgen.errors import ParameterError, TikgenError
from tikgen.pipeline import evidence
from tikgen.progress import bar
from tikgen.taichi import runtime
from tikgen.template.base import Template
from tikgen.template.catalogue import current_template
from tikgen.verification.diagnosis import check_has_reference
from tikgen.verification.options import is_number, problems_of
from tikgen.verification.report import ArchReport, Report
from tikgen.verification.script import write_script
from tikgen.verification.search import Limits, Search

SCRIPTS = "tikgen-failures"

_is_quiet: ContextVar[bool] = ContextVar("is_quiet", default=False)


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Print no failures inside; the report that the caller prints has them as well."""
    token = _is_quiet.set(True)
    try:
        yield
    finally:
        _is_quiet.reset(token)


def verify(
    name: str | Template,
    *,
    archs: Sequence[str] = ("cpu", "vulkan"),
    max_examples: int = 100,
    mutants: int = 0,
    engine: str = engines.DEFAULT,
    seed: int | None = None,
    scripts: str | os.PathLike[str] = SCRIPTS,
    timeout: float = 120.0,
    shrink_seconds: float = 60.0,
    raise_on_failure: bool = False,
    **params: Any,
) -> Report:
    """Compare kernels of a template with their NumPy reference, and report.

    Draws problem parameters, schedule parameters, sizes and data together, runs each arch in a
    process of its own, and shrinks a failing case. The smallest one is printed to the error
    stream, with a script that repeats it. What passed is kept in the store.

    Args:
        name: name of a template, or the template itself.
        archs: archs to run on; one that does not work here is reported as absent.
        max_examples: examples for each arch, each a variant launched up to three times.
        mutants: how many kernels, each changed in one place, to try on each arch where nothing
            failed: the report lists those that the verification did not notice.
        engine: the engine that launches all kernels; ``"default"`` draws for each variant whether
            Taichi does or what launches kernels here by default.
        seed: seed of all that is drawn; None takes a new one, which the report holds.
        scripts: folder for scripts that repeat failures, made by the first.
        timeout: seconds after which a launch, its compilation included, has failed.
        shrink_seconds: time spent on making a failing case smaller.
        raise_on_failure: whether to raise unless the report is ok.
        params: parameters to hold fixed.

    Raises:
        UnknownTemplate: if no template has that name.
        ParameterError: if a fixed parameter is unknown or allows no variant, or an option is
            invalid.
        TemplateError: if the template fails while examples are drawn.
        VerificationError: if the report is not ok and ``raise_on_failure`` is set.
        TikgenError: if hypothesis is not installed.
    """
    if importlib.util.find_spec("hypothesis") is None:
        raise TikgenError("Verification needs hypothesis: pip install 'tikgen[verify]'.")
    template = current_template(name)
    _check(template, archs, max_examples, mutants, params)
    _check_options(seed, timeout, shrink_seconds, scripts)
    takes = engines.DEFAULT, *engines.ENGINES
    if not isinstance(engine, str) or engine not in takes:
        problem = f"takes {', '.join(takes[:-1])} or {takes[-1]}; got {engine!r}"
        raise ParameterError("verify", {"engine": problem})
    if problem := engines.problem(engine):
        raise ParameterError("verify", {"engine": problem})
    is_beside = engine not in (engines.TAICHI, engines.DEFAULT)
    if is_beside and tuple(archs) != (arch := engines.arch_of(engine),):
        raise ParameterError("verify", {"engine": f"{engine!r} needs archs=({arch!r},)"})
    if seed is None:
        seed = random.SystemRandom().randrange(2**32)
    limits = Limits(max_examples, seed, shrink_seconds, timeout, mutants, engine)
    found = [_verify_on(arch, template, params, limits, Path(scripts)) for arch in archs]
    report = Report(template.name, seed, tuple(found))
    if raise_on_failure:
        report.raise_for_failure()
    return report


def _check(
    template: Template,
    archs: Sequence[str],
    max_examples: int,
    mutants: int,
    params: Mapping[str, Any],
) -> None:
    check_has_reference(template)
    problems = {}
    is_sequence = isinstance(archs, Sequence) and not isinstance(archs, str) and len(archs) > 0
    if not is_sequence or not all(map(runtime.is_arch, archs)):
        problems["archs"] = f"takes a sequence of {runtime.LISTED_ARCHS}; got {archs!r}"
    if type(max_examples) is not int or max_examples < 1:
        problems["max_examples"] = f"must be a positive integer; got {max_examples!r}"
    if type(mutants) is not int or mutants < 0:
        problems["mutants"] = f"must be an integer of at least 0; got {mutants!r}"
    if problems:
        raise ParameterError("verify", problems)
    known = [*template.Problem.model_fields, *template.Schedule.model_fields]
    for given in params:
        if given not in known:
            raise ParameterError.unknown(template.name, given, known)


def _check_options(seed: Any, timeout: Any, shrink_seconds: Any, scripts: Any) -> None:
    problems = problems_of(seed=seed, timeout=timeout)
    if timeout is None:
        problems["timeout"] = "takes a positive number of seconds; got None"
    if not is_number(shrink_seconds) or not shrink_seconds >= 0:
        problems["shrink_seconds"] = f"takes seconds from 0; got {shrink_seconds!r}"
    if problem := path_problem(scripts, "a folder"):
        problems["scripts"] = problem
    if problems:
        raise ParameterError("verify", problems)


def _verify_on(
    arch: str, template: Template, params: Mapping[str, Any], limits: Limits, scripts: Path
) -> ArchReport:
    what = f"{template.name} on {arch}"
    with bar(what, limits.max_examples) as update:

        def show(drawn: int, shrinking: bool) -> None:
            completed = min(drawn, limits.max_examples)
            update(completed=completed, description="shrinking a failure" if shrinking else what)

        def show_mutants(done: int) -> None:
            update(completed=done, total=limits.mutants, description=f"mutants of {what}")

        search = Search(template, arch, params, limits, show, show_mutants)
        found = search.run()
    noticed = found.mutation.noticed if found.mutation else ()
    for engine in sorted({engine for _, engine in search.tallies}):
        evidence.keep(
            template,
            arch,
            limits.seed,
            {digest: tally for (digest, by), tally in search.tallies.items() if by == engine},
            found.never_varied,
            mutants=noticed,
            engine=engine,
        )
    if found.failure is None:
        return found
    case, outcome = found.failure.case, found.failure.outcome
    # No single case repeats that all of them together compared nothing.
    script = None if outcome.kind == "uncompared" else write_script(scripts, case, outcome)
    failure = replace(found.failure, script=script)
    if not _is_quiet.get():
        console = make_console(stderr=True)
        console.print(f"{template.name} failed on {arch}", style="bold red")
        console.print(str(failure), markup=False, highlight=False, soft_wrap=True)
    return replace(found, failure=failure)
