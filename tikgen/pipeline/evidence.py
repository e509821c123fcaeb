"""What verifications showed, kept in the store by digest and arch."""

from __future__ import annotations

import datetime
import importlib.metadata
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

from tikgen import untrusted
from tikgen.store import default_store
from tikgen.taichi import runtime
from tikgen.template.parameters import canonical
from tikgen.version import __version__

KIND = "evidence"


@dataclass(frozen=True)
class Evidence:
    """What the last verification of a kernel on an arch showed.

    Attributes:
        digest: digest of the kernel's code.
        arch: where it ran.
        template: name of the template.
        params: each parameter as text.
        passed: whether every example agreed with the reference.
        examples: how often it was launched.
        seed: seed of the verification.
        worst: greatest error as a fraction of what is allowed.
        taichi: version of Taichi.
        tikgen: version of tikgen.
        when: time in UTC, ISO 8601.
        never_varied: parameters that had one value in all launches of the verification, though
            nobody held them fixed: it says nothing about other values.
        mutants: how many mutants the verification noticed, of how many; empty where it tried none.
    """

    digest: str
    arch: str
    template: str
    params: Mapping[str, str]
    passed: bool
    examples: int
    seed: int
    worst: float
    taichi: str
    tikgen: str
    when: str
    never_varied: Sequence[str] = ()
    mutants: Sequence[int] = ()


@dataclass
class Tally:
    """Counts what the launches of one kernel showed."""

    params: Mapping[str, Any]
    passed: bool = True
    examples: int = 0
    worst: float = 0.0

    def add(self, passed: bool, worst: float) -> None:
        """Count one launch."""
        self.passed = self.passed and passed
        self.examples += 1
        self.worst = max(self.worst, worst)


def keep(
    template: str,
    arch: str,
    seed: int,
    tallies: Mapping[str, Tally],
    never_varied: Sequence[str] = (),
    mutants: Sequence[int] = (),
) -> None:
    """Put evidence into the store for each digest in ``tallies``."""
    store = default_store()
    now = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
    for digest, tally in tallies.items():
        evidence = Evidence(
            digest=digest,
            arch=arch,
            template=template,
            params={name: canonical(value) for name, value in tally.params.items()},
            passed=tally.passed,
            examples=tally.examples,
            seed=seed,
            worst=tally.worst,
            taichi=importlib.metadata.version("taichi"),
            tikgen=__version__,
            when=now,
            never_varied=tuple(never_varied),
            mutants=tuple(mutants),
        )
        store.write(KIND, f"{digest}-{arch}", asdict(evidence))


def evidence_for(digest: str) -> tuple[Evidence, ...]:
    """Return what the store knows about a digest, one entry for each arch it ran on."""
    found = (stored(digest, arch) for arch in runtime.ARCHS)
    return tuple(evidence for evidence in found if evidence is not None)


def stored(digest: str, arch: str) -> Evidence | None:
    """Return what the store knows about a digest on an arch, or None."""
    document = default_store().read(KIND, f"{digest}-{arch}")
    if document is None or document.keys() != {field.name for field in fields(Evidence)}:
        return None
    try:
        return untrusted.as_type(document, Evidence)
    except untrusted.Unusable:
        return None
