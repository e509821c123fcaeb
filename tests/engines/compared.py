"""What engines compute beside the references of templates, on problems that are drawn."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from hypothesis import HealthCheck, Phase, given, settings

from conftest import ARCH
from tikgen.errors import CompileBudgetExceeded, EngineUnavailable
from tikgen.template.base import BUILTIN_FOLDER
from tikgen.template.catalogue import load_template
from tikgen.verification.check import Trial
from tikgen.verification.strategies import trials

TEMPLATES = sorted(path.parent.name for path in BUILTIN_FOLDER.glob("*/kernel.py.j2"))


def compare(name: str, engine: str, examples: int, refusals: Iterable[str]) -> int:
    """Compare a template's kernels with its reference; return how many launches agree.

    Args:
        name: the template.
        engine: who launches.
        examples: how many problems are drawn.
        refusals: parts of messages by which the engine may refuse a kernel.

    Raises:
        AssertionError: if a launch disagrees, or another refusal is met.
    """
    template = load_template(BUILTIN_FOLDER / name)
    agreed = 0

    @settings(
        max_examples=examples,
        deadline=None,
        phases=(Phase.generate,),
        suppress_health_check=list(HealthCheck),
    )
    @given(trials(template, ARCH, {}, lambda _: None, lambda _: None, launched_by=[engine]))
    def check(cases: Any) -> None:
        nonlocal agreed
        for case in cases:
            try:
                outcome = Trial(template, case.params, **case.trial).run()
            except EngineUnavailable as error:
                assert any(why in str(error) for why in refusals)
                continue
            except CompileBudgetExceeded:
                continue  # Verification skips it too.
            assert outcome.ok, f"{case}: {outcome.message}"
            agreed += outcome.kind == "passed"

    check()
    return agreed
