"""Tuning records as a TOML file that a person can read, edit, check in and ship."""

from __future__ import annotations

import dataclasses
import datetime
import hashlib
import math
import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from tikgen import untrusted
from tikgen.disk import path_of, whole, why
from tikgen.errors import ParameterError, TikgenError, UnknownTemplate
from tikgen.pipeline import records
from tikgen.pipeline.records import EDITED, TIMED, Record
from tikgen.store import Store, default_store
from tikgen.taichi import runtime
from tikgen.template.catalogue import ENVIRONMENT_VARIABLE, find_template
from tikgen.template.parameters import canonical, make_model, plain
from tikgen.template.schedules import make_schedule
from tikgen.template.shapes import shown, sizes_of_shape
from tikgen.tuning import toml
from tikgen.tuning.job import Kind
from tikgen.untrusted import Unusable
from tikgen.verification.case import literal

_HEAD = """\
# Tuning records of tikgen: `tikgen tuned import FILE` makes `tikgen.build` use them.
#
# A record counts on the same device, with the same versions of the template and of Taichi, for
# kernels that the same engine launches. Its schedule may be edited by hand: the digest shows that,
# and the record counts where nothing was measured. ratio: the time as a fraction of that of the
# default schedule; ratio_low and ratio_high: its 95 % interval. Of the records that have an
# interval the one with the smallest ratio wins; others count where none has one. workload:
# "typical" data of the template, or "own" data, with its SHA-256 in data.
"""
_REQUIRED = ("template", "fingerprint", "arch", "device", "taichi", "sizes", "problem", "schedule")
# The name of the digest of a record, and what a record that was edited does not keep.
_DIGEST = "digest"
_MEASURED = (
    *("seconds", "spread", "rounds", "ratio", "ratio_low", "ratio_high", "message", "when"),
    *("workload", "data"),
)
# Less one which is an error.
_KINDS = (*(kind for kind in get_args(Kind) if kind != "changed"), EDITED)
# By the annotation of a field, which is a text.
_OF_ANNOTATION: dict[Any, Any] = {"str": str, "int": int, "float": int | float}
_TYPES = {field.name: _OF_ANNOTATION.get(field.type, dict) for field in dataclasses.fields(Record)}
_TYPES[_DIGEST] = str


@dataclass(frozen=True)
class Imported:
    """The number of records that were imported, and a line for each that was not."""

    kept: int
    ignored: tuple[str, ...]


class _Unusable(Exception):
    """A record cannot be imported."""


def export_records(
    path: str | os.PathLike[str], name: str | None = None, *, everything: bool = False
) -> int:
    """Write the records of the store to a TOML file, which is overwritten; return how many.

    Args:
        path: file to write.
        name: name of the template whose records to write; None for all.
        everything: whether to write all candidates instead of the best of each problem, sizes and
            device.

    Raises:
        TikgenError: if there are no records, or the file cannot be written.
    """
    file = _file(path, "export_records")
    text, count = exported(name, everything)
    try:
        with whole(file) as new:
            new.write_text(text, encoding="utf-8")
    except OSError as error:
        raise TikgenError(f"Cannot write {path}: {why(error)}.") from None
    return count


def exported(name: str | None, everything: bool) -> tuple[str, int]:
    """Return what :func:`export_records` writes, and the number of records in it."""
    found = [r for r in records.all_records() if name is None or r.template == name]
    if not everything:
        found = best_of_each(found)
    if not found:
        raise TikgenError(f"There are no tuning records{f' of {name}' if name else ''} to export.")
    return "\n".join([_HEAD, *map(_entry, sorted(found, key=_order))]), len(found)


def _file(path: object, where: str) -> Path:
    return path_of(path, lambda problem: ParameterError(where, {"path": problem}))


def import_records(path: str | os.PathLike[str]) -> Imported:
    """Put the records of a TOML file into the store.

    Records of another version and invalid ones are ignored, with a line for each in the result.

    Raises:
        TikgenError: if the file cannot be read.
    """
    try:
        text = untrusted.read_text(_file(path, "import_records"))
    except OSError as error:
        raise TikgenError(f"Cannot read {path}: {why(error)}.") from None
    except Unusable as error:
        return Imported(0, (f"{path} {error}",))
    try:
        document = untrusted.from_toml(text)
    except Unusable as error:
        return Imported(0, (f"{path} is not TOML: {error}",))
    if "record" not in document:
        return Imported(0, (f"{path} holds no [[record]]",))
    entries = document["record"]
    kept, ignored = [], []
    unknown: Counter[str] = Counter()
    for number, entry in enumerate(entries if isinstance(entries, list) else [entries], 1):
        try:
            kept.append(_record(entry))
        except UnknownTemplate:
            unknown[entry["template"]] += 1
        except (_Unusable, TikgenError) as error:
            named = entry.get("template", "") if isinstance(entry, dict) else ""
            line = f"record {number}{f' ({named})' if named else ''}: {error}"
            ignored.append(untrusted.printable(line))
    for name, count in unknown.items():
        records_of = "1 record of" if count == 1 else f"{count} records of"
        ignored.append(untrusted.printable(f"{records_of} {name!r}: {not_found([name])}"))
    records.keep_all(kept)
    return Imported(len(kept), tuple(ignored))


def not_found(names: Sequence[str]) -> str:
    """Return in a clause what helps where templates are not found."""
    one = len(names) == 1
    return (
        f"{'this template is' if one else 'these templates are'} not found here; name the folder "
        f"that holds {'its' if one else 'their'} folder{'' if one else 's'} in the variable "
        f"{ENVIRONMENT_VARIABLE}"
    )


def are_on_disk() -> bool:
    """Return whether all records of the store are on disk, and not in this process alone."""
    store, kind = default_store(), records.KIND
    disk = Store(store.folder)
    return all(disk.read(kind, key) == store.read(kind, key) for key in store.keys(kind))


def best_of_each(found: Iterable[Record]) -> list[Record]:
    """Return the fastest record of each problem, sizes, arch, device, engine and version."""
    best: dict[tuple[str, ...], Record] = {}
    for record in found:
        if record.kind in (TIMED, EDITED):
            made_with = record.fingerprint, record.taichi, record.engine
            key = (*_order(record), *made_with, record.workload)
            best[key] = min(best.get(key, record), record, key=lambda r: r.rank)
    return list(best.values())


def is_current(record: Record) -> bool:
    """Return whether a record was made with the current template and Taichi."""
    try:
        template = find_template(record.template)
    except TikgenError:
        return False
    current = (template.fingerprint, records.taichi_version())
    return (record.fingerprint, record.taichi) == current


def _order(record: Record) -> tuple[str, ...]:
    problem = canonical(dict(record.problem))
    return (record.template, problem, record.arch, record.device, shown(record.sizes))


def _entry(record: Record) -> str:
    """Return the lines of a record, under a comment that describes it."""
    note = f"{record.template} with {shown(record.sizes) or 'fixed shapes'} on {record.arch}"
    told = [f"{1e3 * record.seconds:.4g} ms"] if record.kind == TIMED else []
    told += [record.gain] if record.gain else []
    note += f": {', '.join(told)}" if told else ""
    table = dataclasses.asdict(record)
    table["problem"] = {name: _as_toml(value) for name, value in record.problem.items()}
    table["schedule"] = {
        name: value if toml.can_hold(value) else canonical(plain(value))
        for name, value in record.schedule.items()
    }
    for name in ("message", "data"):
        if not table[name]:
            del table[name]
    lines = toml.table_lines(table)
    # Of the values as they will be read.
    digest = _digest(untrusted.from_toml("\n".join(lines)))
    return "\n".join([f"# {note}", "[[record]]", *lines, *toml.table_lines({_DIGEST: digest}), ""])


def _digest(table: Mapping[str, Any]) -> str:
    """Return a digest of what a record claims: of all its values, in any order."""
    claimed = canonical(plain({name: v for name, v in table.items() if name != _DIGEST}))
    return hashlib.sha256(claimed.encode()).hexdigest()[:16]


def _as_toml(text: str) -> Any:
    """Return a parameter's canonical text as a value of TOML, as text where there is none."""
    try:
        value = untrusted.from_literal(text)
    except Unusable:
        return text
    return value if isinstance(value, bool | int | float | str) else text


def _from_toml(value: Any) -> Any:
    """Return the value that :func:`_as_toml` or :func:`canonical` wrote."""
    if isinstance(value, str):
        try:
            found = untrusted.from_literal(value)
        except Unusable:
            return value
        return found if found is None or isinstance(found, dict | tuple) else value
    return value


def _record(entry: Any) -> Record:
    """Return the record that an entry of the file holds.

    Raises:
        _Unusable: if it is of another version or incomplete.
        TikgenError: if the template refuses its parameters.
    """
    _check_types(entry)
    # Files of older versions of tikgen do not show whether they were edited.
    is_edited = entry.get(_DIGEST, _digest(entry)) != _digest(entry)
    entry = {name: value for name, value in entry.items() if name != _DIGEST}
    template = find_template(entry["template"])
    if entry["fingerprint"] != template.fingerprint:
        raise _Unusable("was made for another version of the template")
    here = records.taichi_version()
    if entry["taichi"] != here:
        raise _Unusable(f"was made with Taichi {entry['taichi']}, and {here} is installed")
    if not runtime.is_arch(entry["arch"]):
        raise _Unusable(f"its arch {entry['arch']!r} is unknown")
    given = {name: _from_toml(value) for name, value in entry["problem"].items()}
    problem = make_model(template.Problem, given, template.name)
    sizes = sizes_of_shape(template.name, template.size_symbols(problem), entry["sizes"])
    chosen = {name: _from_toml(value) for name, value in entry["schedule"].items()}
    schedule = make_schedule(template, problem, plain(chosen), entry["arch"])
    kind = entry.get("kind", TIMED)
    if kind not in _KINDS:
        raise _Unusable(f"its kind {kind!r} is none of {', '.join(_KINDS)}")
    if kind == TIMED and not entry.get("seconds"):
        raise _Unusable("lacks seconds")
    if is_edited and kind not in (TIMED, EDITED):
        raise _Unusable(f"was edited by hand, so that its kind {kind!r} was not measured")
    if is_edited or kind == EDITED:
        entry = {name: value for name, value in entry.items() if name not in _MEASURED}
        kind = EDITED
    made: Mapping[str, Any] = entry | {
        "kind": kind,
        "problem": records.problem_text(problem),
        "sizes": sizes,
        "schedule": literal(dict(schedule)),
    }
    return Record(**{"tikgen": "", **made})


def _check_types(entry: Any) -> None:
    """Raise :class:`_Unusable` where an entry lacks a field, or one has another type."""
    if not isinstance(entry, dict):
        raise _Unusable("is no table")
    for name in _REQUIRED:
        if name not in entry:
            raise _Unusable(f"lacks {name}")
    if entry.get("workload") not in records.WORKLOADS:
        raise _Unusable("does not say on what workload it was measured; tune again")
    for name, value in entry.items():
        if name not in _TYPES:
            raise _Unusable(f"has {name}, which no record has")
        fits = isinstance(value, _TYPES[name]) and not isinstance(value, bool)
        if isinstance(value, str) and name not in records.FREE_TEXTS:
            fits = fits and untrusted.is_printable(value)
        if isinstance(value, int | float):
            fits = fits and value >= 0 and math.isfinite(value)
        if name == "when" and fits:
            fits = _is_time(value)
        if not fits:
            raise _Unusable(f"its {name} cannot be {value!r}")


def _is_time(text: str) -> bool:
    """Return whether a text is a time in ISO 8601, as records have it, or empty."""
    try:
        return not text or bool(datetime.datetime.fromisoformat(text))
    except ValueError:
        return False
