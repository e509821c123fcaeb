"""Writes a script that repeats a failed case by itself."""

from __future__ import annotations

import hashlib
import pprint
import textwrap
from pathlib import Path

from tikgen.template.base import BUILTIN_FOLDER
from tikgen.verification.case import Case, Outcome

_SCRIPT = '''\
"""Repeats a failed verification of the template {name!r} on {arch}.

Exits with 0 once the kernel agrees with its reference, and with 1 while it does not. Where
the kernel crashed or hung, so does this script.
"""

# {message}

import sys
import tempfile

import taichi as ti

import tikgen
from tikgen.verification import Trial

PARAMS = {params}

ti.init(
    arch=ti.{arch},
    enable_fallback=False,
    fast_math={fast_math},
    offline_cache={offline_cache},
    offline_cache_file_path=tempfile.mkdtemp(),
    log_level=ti.ERROR,
)
template = {template}
print(tikgen.render(template, **PARAMS).text, flush=True)
trial = Trial(
    template,
    PARAMS,
{trial}
)
outcome = trial.run()
print(outcome.message or "The kernel agrees with its reference.")
sys.exit(0 if outcome.ok else 1)
'''


def script_text(case: Case, outcome: Outcome) -> str:
    """Return the text of a script that repeats a case."""
    folder = Path(case.folder)
    builtin = folder.parent == BUILTIN_FOLDER
    message = textwrap.wrap(f"{outcome.kind}: {' '.join(outcome.message.split())}", 96)
    return _SCRIPT.format(
        name=case.template,
        arch=case.arch,
        fast_math=case.fast_math,
        offline_cache=case.offline_cache,
        message="\n# ".join(message),
        params=pprint.pformat(dict(case.params), sort_dicts=False, width=96),
        template=(
            f"tikgen.template.catalogue.find_template({case.template!r})"
            if builtin
            else f"tikgen.load_template({case.folder!r})"
        ),
        trial="\n".join(f"    {name}={value!r}," for name, value in case.trial.items()),
    )


def write_script(folder: Path, case: Case, outcome: Outcome) -> Path:
    """Write the script that repeats a case into ``folder``; return its path."""
    folder.mkdir(parents=True, exist_ok=True)
    name = hashlib.sha256(case.line.encode()).hexdigest()[:8]
    path = folder / f"{case.template}_{case.arch}_{name}.py"
    path.write_text(script_text(case, outcome), encoding="utf-8")
    return path.resolve()
