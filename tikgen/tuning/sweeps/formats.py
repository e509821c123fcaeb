"""Writes sweep tables as CSV, JSON and Parquet, and reads them without loss.

A value that a format cannot hold, such as a tuple, is written as a Python literal, and so is a
text that would read as a literal: ``f32`` stays plain, ``'64'`` has its quotes.
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from tikgen import untrusted
from tikgen.disk import whole, why
from tikgen.errors import TikgenError
from tikgen.tuning.sweeps.rows import METRICS, Row
from tikgen.verification.case import literal

FORMATS = (".csv", ".json", ".parquet")
_MARK = "tikgen_sweep_table"
# Floats that neither literals nor JSON have, as Python writes them.
_NOT_FINITE = ("inf", "-inf", "nan")

# The types of the columns of every sweep; parameters may be anything.
_Row: type[Any] = msgspec.defstruct(
    "_Row",
    [
        *((name, str) for name in ("template", "arch", "kind")),
        *((name, str | None, None) for name in ("digest", "message", "device")),
        ("shape", str | float | None, None),
        *((name, float | None, None) for name in METRICS if name != "device"),
    ],
)

Loaded = tuple[list[Row], dict[str, Any]]


def save(path: Path, columns: Sequence[str], rows: Sequence[Row], about: Mapping[str, Any]) -> None:
    """Write a table in the format that the suffix of ``path`` names, or raise TikgenError."""
    check_path(path)
    if path.suffix == ".csv":
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows([_as_cell(row[name]) for name in columns] for row in rows)
        content = text.getvalue().encode()
    elif path.suffix == ".json":
        content = (json.dumps(document(rows, about), indent=1) + "\n").encode()
    else:
        content = _parquet(columns, rows, about)
    try:
        with whole(path) as new:
            new.write_bytes(content)
    except OSError as error:
        raise TikgenError(f"Cannot write {path}: {why(error)}.") from None


def load(path: Path) -> Loaded:
    """Return the rows of a table and its ``about``, or raise TikgenError."""
    _check_suffix(path)
    try:
        if path.suffix == ".csv":
            with path.open(encoding="utf-8-sig", newline="") as file:
                table = csv.DictReader(file)
                _check_columns(table.fieldnames or ())
                rows: list[Row] = list(table)
            about: dict[str, Any] = {}
        elif path.suffix == ".json":
            found = untrusted.from_json(path.read_bytes())
            if not isinstance(found, dict) or found.get(_MARK) != 1:
                raise ValueError("it is another document")
            rows, about = found["rows"], found["about"]
        else:
            rows, about = _from_parquet(path)
        rows = untrusted.as_type(untrusted.checked(rows), list[dict[str, Any]])
        about = untrusted.as_type(about, dict[str, Any])
        for row in rows:
            _check_columns(row)
        rows = [{name: _as_value(cell) for name, cell in row.items()} for row in rows]
        for row in rows:
            untrusted.as_type(row, _Row)
        untrusted.as_type(about.get("seconds", {}), dict[str, float])
    except OSError as error:
        raise TikgenError(f"Cannot read {path}: {why(error)}.") from None
    except (ValueError, KeyError, AttributeError, TypeError, csv.Error) as error:
        raise TikgenError(f"{path} is no table of a sweep: {error}.") from None
    return rows, about


def _check_columns(names: Collection[str]) -> None:
    if "digest" not in names or "kind" not in names:
        raise ValueError("it lacks the columns digest and kind")


def check_path(path: Path) -> None:
    """Raise TikgenError where a table cannot be saved: suffix, folder or a missing package."""
    _check_suffix(path)
    if not path.absolute().parent.is_dir():
        raise TikgenError(f"Cannot write {path}: its folder does not exist.")
    if path.suffix == ".parquet":
        _pyarrow()


def document(rows: Sequence[Row], about: Mapping[str, Any]) -> dict[str, Any]:
    """Return a table as a JSON document."""
    cells = [{name: _as_json(value) for name, value in row.items()} for row in rows]
    return {_MARK: 1, "about": dict(about), "rows": cells}


def _check_suffix(path: Path) -> None:
    if path.suffix not in FORMATS:
        raise TikgenError(f"The file of a table ends in {', '.join(FORMATS)}; got {str(path)!r}.")


def _as_cell(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, str):
        return value if _as_value(value) == value else repr(value)
    return repr(literal(value))


def _as_json(value: Any) -> Any:
    is_finite = not isinstance(value, float) or math.isfinite(value)
    return _as_cell(value) if is_finite else repr(float(value))


def _as_value(cell: Any) -> Any:
    if not isinstance(cell, str):
        return cell
    if not cell:
        return None
    if cell in _NOT_FINITE:
        return float(cell)
    try:
        return untrusted.from_literal(cell)
    except untrusted.Unusable:
        return cell


def _parquet(columns: Sequence[str], rows: Sequence[Row], about: Mapping[str, Any]) -> bytes:
    pyarrow = _pyarrow()
    cells = {name: [_as_cell(row[name]) for row in rows] for name in columns}
    for name, column in cells.items():
        # A column has one type: where there are several, all are written as text.
        if len({type(cell) for cell in column if cell is not None}) > 1:
            cells[name] = [c if c is None or isinstance(c, str) else repr(c) for c in column]
    table = pyarrow.table(cells).replace_schema_metadata({_MARK: json.dumps(about)})
    sink = io.BytesIO()
    pyarrow.parquet.write_table(table, sink)
    return sink.getvalue()


def _from_parquet(path: Path) -> Loaded:
    table = _pyarrow().parquet.read_table(path)
    about = untrusted.from_json((table.schema.metadata or {}).get(_MARK.encode(), b"{}"))
    return table.to_pylist(), about


def _pyarrow() -> Any:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise TikgenError("Parquet needs pyarrow: pip install 'tikgen[pandas]'.") from None
    return pyarrow
