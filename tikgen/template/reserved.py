"""Names that a parameter of a template may not have, since calls have them already."""

from __future__ import annotations

# What every function takes that makes kernels of a template.
RESERVED = frozenset({"name", "schedule", "arch", "shape"})
# The further options of the functions that take parameters by name, as their signatures list them.
OPTIONS = {
    "build": ("engine",),
    "tune": ("arguments", "budget", "strategy", "seed", "fresh", "timeout", "on_record"),
    "sweep": (
        *("archs", "baked", "metrics", "results", "client", "scheduler", "seed", "rounds"),
        *("timeout", "ranks", "launcher"),
    ),
    "verify": (
        *("archs", "max_examples", "mutants", "engine", "seed", "scripts", "timeout"),
        *("shrink_seconds", "raise_on_failure"),
    ),
}
# The first function that has each of these options.
TAKEN_BY = {option: name for name, options in reversed(OPTIONS.items()) for option in options}
# Names that no call can give to a parameter of a template in a folder.
EVERY = RESERVED | TAKEN_BY.keys()
