"""What a template offers tuning to try."""

from __future__ import annotations

import contextlib
import itertools

from tikgen import Invalid, Variant


def valid_schedules(variant: Variant, arch: str) -> int:
    """Check that the schedules to try hold the default, and return how many are valid."""
    template, default = variant.template, dict(variant.schedule)
    space = template.schedule_space(variant.problem, arch, None)
    assert all(default[name] in values for name, values in space.items())
    valid = 0
    for values in itertools.product(*space.values()):
        with contextlib.suppress(Invalid):
            chosen = {**default, **dict(zip(space, values, strict=True))}
            template.check_schedule(variant.problem, template.Schedule(**chosen), arch)
            valid += 1
    return valid
