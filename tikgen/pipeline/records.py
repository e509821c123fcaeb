"""Tuning records: the measurements of candidates, kept in the store, and the best of them."""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import math
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from tikgen import untrusted
from tikgen.engines import TAICHI
from tikgen.errors import StoreWarning
from tikgen.machine.devices import device_name
from tikgen.store import Document, default_store
from tikgen.template import shapes
from tikgen.template.base import Template
from tikgen.template.parameters import ParameterModel, canonical, plain

KIND = "tuning"
# Octaves: a call whose sizes lie further from those of a record takes the default for its sizes.
NEAR = 3.0
TIMED = "timed"
# A schedule that a person wrote into an exported file: it is taken where none was measured.
EDITED = "edited"
# The data of a measurement: typical data from the template, or the user's own.
WORKLOADS = TYPICAL, OWN = "typical", "own"
# Texts of a record that may hold any character; they are escaped when shown.
FREE_TEXTS = ("device", "message")

# Increases whenever records change, since builds depend on them.
generation = 0

_warned: set[str] = set()


@dataclass(frozen=True)
class Record:
    """The outcome of one candidate: a schedule, on a device, for a problem of some sizes.

    Attributes:
        template: name of the template.
        fingerprint: SHA-256 of the template's files.
        problem: each problem parameter as text.
        arch: the arch.
        device: name of the device.
        taichi: version of Taichi.
        tikgen: version of tikgen.
        sizes: value of each size symbol.
        schedule: each schedule parameter, as a literal.
        kind: ``"timed"``, or why it has no time: ``"refused"``, ``"error"``, ``"mismatch"``,
            ``"crash"``, ``"timeout"``, or ``"edited"`` for a record that was edited by hand.
        seconds: median time of a launch; 0 if it has none.
        spread: interquartile range of the rounds over their median.
        rounds: number of timed rounds.
        ratio: time over that of the default schedule, measured alternately; 0 if it has none.
        ratio_low: lower end of the 95 % interval of the ratio. Only the default schedule has one,
            and a schedule that was faster than it in the final comparison in fresh processes. 0
            for all others, whose ratios come from a single measurement.
        ratio_high: upper end of the interval.
        workload: the data of the measurement, ``"typical"`` or ``"own"``.
        data: SHA-256 of the user's own data, else empty.
        message: the problem in one sentence.
        when: time in UTC, ISO 8601.
        engine: the engine that launched it.
    """

    template: str
    fingerprint: str
    problem: Mapping[str, str]
    arch: str
    device: str
    taichi: str
    tikgen: str
    sizes: Mapping[str, int]
    schedule: Mapping[str, Any]
    kind: str
    seconds: float = 0.0
    spread: float = 0.0
    rounds: int = 0
    ratio: float = 0.0
    ratio_low: float = 0.0
    ratio_high: float = 0.0
    workload: str = TYPICAL
    data: str = ""
    message: str = ""
    when: str = ""
    engine: str = TAICHI

    @property
    def candidate(self) -> str:
        """Return a text that identifies the candidate; only its latest record is kept."""
        same = (self.fingerprint, self.device, self.taichi, self.workload, self.engine)
        # Sorted: templates and the store order sizes differently.
        alike = canonical(dict(shapes.bucket(self.sizes)))
        return repr((*same, alike, canonical(plain(self.schedule))))

    @property
    def is_proven(self) -> bool:
        """Return whether the ratio has an interval."""
        return self.ratio_low > 0

    @property
    def rank(self) -> tuple[bool, bool, float, float]:
        """Return the sort key, least for the best record.

        Proven records come first, then those on the user's own data; then ratio and time decide.
        """
        return not self.is_proven, self.workload != OWN, self.ratio or math.inf, self.seconds

    @property
    def gain(self) -> str:
        """Return the speed relative to the default schedule in words, or an empty string."""
        if self.kind == EDITED:
            return "edited by hand, not measured"
        if not self.ratio:
            return ""
        if self.is_proven and self.ratio == 1:
            return "the default schedule; no other proved faster"
        text = f"{1 / self.ratio:.2f} times as fast as the default"
        if not self.is_proven:
            return text
        return f"{text} ({1 / self.ratio_high:.2f} to {1 / self.ratio_low:.2f})"

    def __str__(self) -> str:
        data = " with your own data" if self.workload == OWN else ""
        device = untrusted.printable(self.device)
        how = "given" if self.kind == EDITED else "tuned"
        what = f"{how} for {shapes.shown(self.sizes)}{data} on {device}"
        return f"{what}, {self.gain}" if self.gain else what


def problem_text(problem: ParameterModel) -> dict[str, str]:
    """Return each problem parameter as text, as records keep it."""
    return {name: canonical(value) for name, value in problem}


def keep(record: Record) -> None:
    """Put a record into the store; see :func:`keep_all`."""
    keep_all((record,))


def keep_all(records: Iterable[Record]) -> None:
    """Put records into the store, each replacing an earlier one of the same candidate."""
    global generation
    groups: dict[str, list[Record]] = {}
    for record in records:
        key = _key(record.template, record.problem, record.arch)
        groups.setdefault(key, []).append(record)
    for key, group in groups.items():
        default_store().update(KIND, key, functools.partial(_merged, group))
    generation += 1


def records_for(
    template: Template, problem: ParameterModel, arch: str, engine: str = TAICHI
) -> tuple[Record, ...]:
    """Return the records of a problem for this device and engine, and these versions.

    If there are none but records of other versions, or of another engine, warn once.
    """
    every = _read(_key(template.name, problem_text(problem), arch))
    if not every:
        return ()
    version, device = taichi_version(), device_name(arch)
    here = [r for r in every if r.device == device]
    found = tuple(r for r in here if r.fingerprint == template.fingerprint and r.taichi == version)
    if here and not found:
        _warn_once(
            f"tuning records of {template.name} on {arch} were made for another version of the "
            "template or of Taichi and are ignored; tune it again"
        )
    timed = tuple(r for r in found if r.engine == engine)
    if found and not timed:
        _warn_once(
            f"tuning records of {template.name} on {arch} were made with the engine "
            f"{found[0].engine} and are ignored for {engine}; tune it again"
        )
    return timed


def best_of(
    found: Iterable[Record], sizes: Mapping[str, int] | None, farthest: float = math.inf
) -> Record | None:
    """Return the best record for the shape nearest to ``sizes`` (None: the largest), or None.

    Args:
        found: records of a problem, for a device and these versions.
        sizes: value of each size symbol, and perhaps more about the data, or None.
        farthest: octaves that the shape of a record may lie apart.
    """
    timed = [r for r in found if r.kind in (TIMED, EDITED)]
    if sizes is None:
        near = max((math.prod(shapes.bucket(r.sizes).values()) for r in timed), default=0)
        timed = [r for r in timed if math.prod(shapes.bucket(r.sizes).values()) == near]
    else:
        far = [_octaves(sizes, r.sizes) for r in timed]
        least = min(far, default=math.inf)
        is_near = least < math.inf and least <= farthest
        timed = [r for r, d in zip(timed, far, strict=True) if d == least and is_near]
    return min(timed, key=lambda record: record.rank, default=None)


def _octaves(sizes: Mapping[str, int], tuned: Mapping[str, int]) -> float:
    symbols = {name: value for name, value in sizes.items() if name in tuned}
    return shapes.distance(shapes.bucket(symbols), shapes.bucket(tuned))


def all_records() -> tuple[Record, ...]:
    """Return every record of the store."""
    store = default_store()
    return tuple(record for key in store.keys(KIND) for record in _read(key))


def forget(unwanted: Callable[[Record], bool]) -> int:
    """Remove the records for which ``unwanted`` returns True; return their number."""
    global generation
    store, removed = default_store(), 0
    for key in store.keys(KIND):
        found = _read(key)
        going = {record.candidate for record in found if unwanted(record)}
        if going:
            removed += len(going)
            store.update(KIND, key, functools.partial(_without, going))
    generation += 1
    return removed


def warn_of(record: Record, error: Exception) -> None:
    """Warn once that a record cannot be used."""
    _warn_once(f"a tuning record of {record.template} is ignored: {error}")


@functools.cache
def taichi_version() -> str:
    """Return the version of the installed Taichi."""
    return importlib.metadata.version("taichi")


def _key(template: str, problem: Mapping[str, str], arch: str) -> str:
    digest = hashlib.sha256(canonical(dict(problem)).encode()).hexdigest()
    return f"{template[:64]}-{arch}-{digest[:16]}"


def _merged(records: list[Record], document: Document | None) -> Document:
    """Return the document with ``records``, which replace those of the same candidates."""
    kept = _without({record.candidate for record in records}, document)
    return {"records": [*kept["records"], *map(asdict, records)]}


def _without(candidates: set[str], document: Document | None) -> Document:
    """Return the document without some candidates; entries of other versions stay."""
    entries = _entries(document or {})
    known = [(entry, _of(entry)) for entry in entries]
    return {"records": [e for e, r in known if r is None or r.candidate not in candidates]}


def _read(key: str) -> tuple[Record, ...]:
    store = default_store()
    document = store.read(KIND, key) or {}
    known = [(entry, _of(entry)) for entry in _entries(document)]
    others = [_is_of_another_version(entry, document) for entry, record in known if record is None]
    if any(others):
        _warn_once(
            "tuning records of another version of tikgen are ignored: what they were measured on "
            "is not known; tune again"
        )
    if not all(others):
        _warn_once(
            f"damaged tuning records are ignored: {key}.json in {store.folder / KIND} holds what "
            "tikgen does not write; tune again"
        )
    return tuple(record for _, record in known if record is not None)


def _is_of_another_version(entry: Any, document: Document) -> bool:
    """Return whether an unusable entry may be a record with other fields than those of today."""
    is_listed = isinstance(document["records"], list) and isinstance(entry, dict)
    return is_listed and bool(entry) and entry.keys() != Record.__dataclass_fields__.keys()


def _entries(document: Document) -> list[Any]:
    """Return the entries of a document; one unusable entry if they are not a list."""
    found = document.get("records", [])
    return found if isinstance(found, list) else [found]


def _of(entry: Any) -> Record | None:
    """Return the record that an entry of the store holds, or None."""
    found = untrusted.as_known(entry, Record)
    return found if found is not None and _is_sound(found) else None


def _is_sound(record: Record) -> bool:
    """Return whether all names are printable, and all numbers in range."""
    values = [value for name, value in vars(record).items() if name not in FREE_TEXTS]
    texts = [value for value in values if isinstance(value, str)]
    numbers = [value for value in values if isinstance(value, int | float)]
    return (
        all(map(untrusted.is_printable, (*texts, *record.schedule, *record.sizes)))
        and all(0 <= number < math.inf for number in numbers)
        and all(size >= 1 for size in record.sizes.values())
        and (not record.is_proven or record.ratio_low <= record.ratio_high)
        and record.workload in WORKLOADS
    )


def _warn_once(message: str) -> None:
    if message not in _warned:
        _warned.add(message)
        warnings.warn(untrusted.printable(message), StoreWarning, stacklevel=2)
