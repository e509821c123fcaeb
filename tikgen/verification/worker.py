"""The process that runs cases on one arch: ``python -m tikgen.verification.worker ARCH FOLDER``.

It reads a case from each line and answers with the digest of the kernel and one outcome. ``FOLDER``
holds the offline cache of the cases that want one: Taichi identifies kernels differently there, and
both ways are verified, with fast math and without.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace

from tikgen.children.job import described
from tikgen.children.work import Tell, device_answers, is_spent, serve, start
from tikgen.errors import (
    CompileBudgetExceeded,
    EngineUnavailable,
    KernelCompileError,
    RenderError,
    TemplateChanged,
    UnsupportedOnArch,
    one_line,
)
from tikgen.pipeline import builder
from tikgen.pipeline.kernel import Kernel
from tikgen.pipeline.loaded import load_source
from tikgen.pipeline.rendering import hashed
from tikgen.template.base import Template
from tikgen.template.catalogue import load_unchanged
from tikgen.verification.case import Case, Outcome
from tikgen.verification.check import Trial

CASES_PER_INIT = 50


class _Worker:
    """Answers cases, and initialises Taichi again where one wants other options of it."""

    def __init__(self, arch: str, folder: str) -> None:
        self._arch, self._folder = arch, folder
        self._options, self._cases = (False, True), 0
        self._mutants = _Mutants()

    def answer(self, line: str, tell: Tell) -> str:
        """Return the outcome of a case, as a line."""
        case = Case.from_line(line)
        # Only this frees compiled kernels and fields, and writes the cache.
        wanted = case.offline_cache, case.fast_math
        if wanted != self._options or self._cases == CASES_PER_INIT:
            builder.clear()
            self._mutants = _Mutants()
            start(
                self._arch,
                offline_cache=case.offline_cache,
                offline_cache_file_path=self._folder,
                fast_math=case.fast_math,
            )
            self._options, self._cases = wanted, 0
        self._cases += 1
        if case.text:
            outcome = self._mutants.outcome_of(case)
        else:
            outcome = outcome_of(case, lambda digest: tell({"stage": "built", "note": digest}))
        if not outcome.ok and not device_answers():
            tell({"stage": "broken", "note": ""})
            outcome = replace(outcome, kind="crash")
        if is_spent():
            tell({"stage": "spent", "note": ""})
        return outcome.line


class _Mutants:
    """Runs mutants, around the builder, its memo and the store."""

    def __init__(self) -> None:
        self._text, self._params = "", ""
        self._kernel: Kernel | None = None

    def outcome_of(self, case: Case) -> Outcome:
        """Run a mutant once, and return the outcome."""
        try:
            template = load_unchanged(case.folder, case.fingerprint)
            kernel = self._kernel_of(template, case)
            return Trial(template, case.params, **case.trial, kernel=kernel).run()
        except TemplateChanged as error:
            return Outcome("changed", str(error))
        except (RenderError, KernelCompileError, UnsupportedOnArch) as error:
            return Outcome("invalid", str(error))
        except Exception as error:
            return Outcome("error", one_line(error))

    def _kernel_of(self, template: Template, case: Case) -> Kernel:
        """Return the kernel of a mutant; usually that of the last case."""
        params = repr(case.params)
        if self._kernel is None or (self._text, self._params) != (case.text, params):
            if self._kernel is not None:
                self._kernel.unload()
            self._kernel = None
            original = builder.render(template, **case.params)
            changed = hashed(original.variant, case.text, original.line_map)
            self._kernel = Kernel(load_source(changed))
            self._text, self._params = case.text, params
        return self._kernel


def main() -> None:
    """Serve the arch named on the command line until the input ends."""
    arch, folder = sys.argv[1:]
    serve(arch, _Worker(arch, folder).answer)


def outcome_of(case: Case, on_built: Callable[[str], None]) -> Outcome:
    """Build the kernel of a case, pass on its digest, run it once, and return the outcome."""
    digest = ""
    try:
        template = load_unchanged(case.folder, case.fingerprint)
        digest = builder.build(template, shape=case.shape, **case.params).digest
        on_built(digest)
        return Trial(template, case.params, **case.trial).run()
    except TemplateChanged as error:
        return Outcome("changed", str(error))
    except (UnsupportedOnArch, EngineUnavailable, CompileBudgetExceeded) as error:
        return Outcome("skipped", str(error))
    except Exception as error:
        return Outcome("error", described(error), digest)


if __name__ == "__main__":
    main()
