"""The process that runs cases on one arch: ``python -m tikgen.verification.worker ARCH``.

It reads one case a line and answers with one outcome a line, before which it tells the digest of
the kernel.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable

from tikgen import builder
from tikgen.catalogue import load_template
from tikgen.child_work import Tell, one_line, serve
from tikgen.errors import TikgenError, UnsupportedOnArch
from tikgen.verification.case import Case, Outcome
from tikgen.verification.check import Trial

CASES_PER_INIT = 50


def main() -> None:
    """Serve the arch named on the command line until the input ends."""
    serve(sys.argv[1], _answer, lines_per_init=CASES_PER_INIT)


def _answer(line: str, tell: Tell) -> str:
    return outcome_of(Case.from_line(line), lambda digest: tell({"built": digest})).line


def outcome_of(case: Case, on_built: Callable[[str], None]) -> Outcome:
    """Build the kernel of ``case``, run it once, and return what came of it.

    Args:
        case: what to run.
        on_built: told the digest of the kernel before anything else happens to it.
    """
    digest = ""
    try:
        template = load_template(case.folder)
        shape = dict(case.sizes) if case.baked else None
        digest = builder.build(template, shape=shape, **case.params).digest
        on_built(digest)
        return Trial(template, case.params, **case.trial).run()
    except UnsupportedOnArch as error:
        return Outcome("skipped", str(error))
    except TikgenError as error:
        return Outcome("error", f"{type(error).__name__}: {error}", digest)
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{os.path.basename(place.filename)}:{place.lineno}"  # noqa: PTH119
        return Outcome("error", f"{one_line(error)} (in {where})", digest)


if __name__ == "__main__":
    main()
