"""The key of a variant: what distinguishes builds, as text under readable names."""

from __future__ import annotations

import functools
import hashlib

from tikgen.pipeline.rendering import Variant
from tikgen.template.base import TEXT_NAME, Template
from tikgen.version import __version__

FINGERPRINT = "fingerprint of the template"
FILE, PROBLEM, SCHEDULE, SIZE = "content of ", "problem parameter ", "schedule parameter ", "size "


def key_fields(variant: Variant) -> dict[str, str]:
    """Return each field that distinguishes builds, by readable names."""
    template = variant.template
    return {
        "template": template.name,
        **_files_of(template),
        FINGERPRINT: template.fingerprint[:16],
        **{f"{PROBLEM}{name}": variant.texts[name] for name, _ in variant.problem},
        **{f"{SCHEDULE}{name}": variant.texts[name] for name, _ in variant.schedule},
        **{f"{SIZE}{symbol}": str(extent) for symbol, extent in variant.sizes},
        **({"views": str(variant.views)} if variant.views else {}),
        "tikgen": __version__,
    }


@functools.lru_cache(maxsize=64)
def _files_of(template: Template) -> dict[str, str]:
    """Return the digest of each file with text of a template."""
    return {
        f"{FILE}{TEXT_NAME}": _digest(template.text.encode()),
        **{f"{FILE}{macro.name}": _digest(macro.data) for macro in template.macros},
    }


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]
