"""The evidence of verifications, kept in the store by digest and arch."""

from __future__ import annotations

import datetime
import importlib.metadata
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import product
from typing import Any

from tikgen import engines, untrusted
from tikgen.pipeline.rendering import Source
from tikgen.store import default_store
from tikgen.taichi import runtime
from tikgen.template.base import Template
from tikgen.template.parameters import canonical
from tikgen.version import __version__

KIND = "evidence"


@dataclass(frozen=True)
class Evidence:
    """The result of the last verification of a kernel on an arch.

    Attributes:
        digest: digest of the kernel's code.
        arch: the arch.
        template: name of the template.
        params: each parameter as text.
        passed: whether every example agreed with the reference.
        examples: number of launches.
        seed: seed of the verification.
        worst: greatest error as a fraction of what is allowed.
        taichi: version of Taichi.
        tikgen: version of tikgen.
        when: time in UTC, ISO 8601.
        never_varied: parameters that were not fixed, but had one value in all launches: other
            values are not verified.
        mutants: number of mutants that the verification killed, and of all that it tried; empty
            if it tried none.
        engine: what launched the kernel.
        fast_math: the values that this option of ``ti.init`` had in launches.
        code: SHA-256 of the Python files of the template: reference, tolerance, data.
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
    engine: str = engines.TAICHI
    fast_math: Sequence[bool] = (True,)
    code: str = ""


@dataclass
class Tally:
    """Adds up the results of the launches of one kernel."""

    params: Mapping[str, Any]
    passed: bool = True
    examples: int = 0
    worst: float = 0.0
    fast_math: set[bool] = field(default_factory=set)

    def add(self, passed: bool, worst: float, fast_math: bool = True) -> None:
        """Add the result of one launch, with or without fast math."""
        self.fast_math.add(fast_math)
        self.passed = self.passed and passed
        self.examples += 1
        self.worst = max(self.worst, worst)


def keep(
    template: Template,
    arch: str,
    seed: int,
    tallies: Mapping[str, Tally],
    never_varied: Sequence[str] = (),
    mutants: Sequence[int] = (),
    engine: str = engines.TAICHI,
) -> None:
    """Put evidence into the store for each digest in ``tallies``."""
    store = default_store()
    now = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
    for digest, tally in tallies.items():
        evidence = Evidence(
            digest=digest,
            arch=arch,
            template=template.name,
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
            engine=engine,
            fast_math=tuple(sorted(tally.fast_math)) or (True,),
            code=template.code_fingerprint,
        )
        store.write(KIND, _key(digest, arch, engine), asdict(evidence))


def evidence_for(digest: str, code: str | None = None) -> tuple[Evidence, ...]:
    """Return the evidence for a digest, one entry for each arch and engine with which it ran.

    Args:
        digest: digest of a kernel's code.
        code: ``code_fingerprint`` of its template: evidence of another reference or tolerance does
            not count. None for any.
    """
    found = (stored(digest, arch) for arch in runtime.ARCHS)
    beside = (
        stored(digest, arch, engine)
        for engine, arch in product(engines.ENGINES, runtime.ARCHS)
        if engine != engines.TAICHI
    )
    return tuple(
        evidence
        for evidence in (*found, *beside)
        if evidence is not None and code in (None, evidence.code)
    )


def stored(digest: str, arch: str, engine: str = engines.TAICHI) -> Evidence | None:
    """Return the evidence for a digest on an arch, launched by an engine, or None."""
    return untrusted.as_known(default_store().read(KIND, _key(digest, arch, engine)), Evidence)


def on_arch(source: Source, arch: str) -> Evidence | None:
    """Return the evidence for a source on an arch, by any engine: one that failed, if any did."""
    code = source.variant.template.code_fingerprint
    found = [each for each in evidence_for(source.digest, code) if each.arch == arch]
    return min(found, key=lambda each: each.passed, default=None)


def is_verified(source: Source, arch: str, engine: str) -> bool:
    """Return whether a source passed its last verification by an engine, with these versions."""
    found = stored(source.digest, arch, engine)
    return (
        found is not None
        and found.passed
        and found.code == source.variant.template.code_fingerprint
        and (found.engine, found.tikgen) == (engine, __version__)
        and found.taichi == importlib.metadata.version("taichi")
    )


def _key(digest: str, arch: str, engine: str) -> str:
    return f"{digest}-{arch}" if engine == engines.TAICHI else f"{digest}-{arch}-{engine}"
