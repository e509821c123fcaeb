"""What Taichi compiled of a kernel so far, and why it compiled it again."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from tikgen.lifecycle.difference import Difference, listed, nearest
from tikgen.pipeline.kernel import Kernel
from tikgen.taichi import runtime

_ARGUMENT = re.compile(r", (?=\w+: )")
_INIT = "number of the ti.init"
_NAMES = {"init": _INIT, "arch": "arch"}
_DROPPED = "ti.init was called again, which drops all code"
_CACHES = {
    "compiled": "and nothing of it was in a cache",
    "disk": "whose code came from Taichi's cache on disk",
    "memory": "whose code came from Taichi's cache in memory",
}
_NO_OPTIONS = ("signature", "cache", "error", "offline_cache")


def explain_compilations(kernel: Kernel) -> tuple[str, tuple[Difference, ...]]:
    """Return what Taichi compiled of ``kernel`` and why, and what differs from the time before.

    What differs is told of the compilation that is due at the next launch, else of the last one.
    """
    if not kernel.is_loaded:
        return "It was unloaded since: build it again.", ()
    events = [e for e in kernel.events if e.stage == "compile" and "error" not in e.details]
    if not events:
        return "Taichi has compiled nothing of it yet: it does so at the first launch.", ()
    keys = [_key(event.details) for event in events]
    last = events[-1].details
    how = "".join(
        [
            f"in {1e3 * events[-1].seconds:.1f} ms for ({last['signature']}) on {last['arch']}",
            f", {_CACHES[last['cache']]}" if last["cache"] in _CACHES else "",
        ]
    )
    found: tuple[Difference, ...] = ()
    text = f"Taichi compiled it once, {how}."
    if len(events) > 1:
        found = nearest(keys[-1], keys[:-1])
        reasons = listed(_reasons(found)) or "its code was dropped meanwhile"
        text = f"Taichi compiled it {len(events)} times, the last time {how}, because {reasons}."
    if not runtime.is_initialised():
        return f"{text} Taichi is not initialised now: the next ti.init begins anew.", found
    now = _key(runtime.init_options())
    due = nearest(now, [{k: v for k, v in key.items() if k in now} for key in keys])
    if due:
        return f"{text} The next launch compiles it again, because {listed(_reasons(due))}.", due
    return f"{text} A further launch with such arguments is a look-up.", found


def signature_fields(signature: str) -> dict[str, str]:
    """Return the kind of each argument in a signature such as ``x: f32[2d], n: i32``."""
    parts = (part.partition(": ") for part in _ARGUMENT.split(signature) if part)
    return {f"argument {name}": kind for name, _, kind in parts}


def _key(details: Mapping[str, Any]) -> dict[str, str]:
    """Return by readable names what decides whether Taichi compiles: options and signature."""
    options = {
        _NAMES.get(name, f"{name} of ti.init"): str(value)
        for name, value in details.items()
        if name not in _NO_OPTIONS
    }
    return options | signature_fields(details.get("signature", ""))


def _reasons(found: tuple[Difference, ...]) -> list[str]:
    return [f"{_DROPPED} ({each})" if each.field == _INIT else str(each) for each in found]
