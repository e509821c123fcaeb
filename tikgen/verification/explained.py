"""Why a mutant may survive: the note in the template above the line that was changed.

``{# survives dtype, constant: no array is long enough to need 64 bits #}`` on a line of its own
explains changes of these kinds on the line below it.
"""

from __future__ import annotations

import re

from tikgen.template.base import Template

_NOTE = re.compile(r"\{# survives (?P<kinds>[a-z, ]+): (?P<reason>.+?) #\}")


def reason_for(template: Template, place: str, kind: str) -> str:
    """Return why a change of ``kind`` on the line ``place`` cannot be noticed, or nothing.

    Args:
        template: the template.
        place: ``file:line``, as a source's line map has it.
        kind: what was changed, such as ``"dtype"``.
    """
    name, _, number = place.rpartition(":")
    for folder in template.search_path:
        path = folder / name
        if path.is_file():
            lines = path.read_text(encoding="utf-8").splitlines()
            # Several may stand above each other.
            for line in reversed(lines[: int(number) - 1]):
                note = _NOTE.fullmatch(line.strip())
                if note is None:
                    break
                if kind in [each.strip() for each in note["kinds"].split(",")]:
                    return " ".join(note["reason"].split())
            return ""
    return ""
