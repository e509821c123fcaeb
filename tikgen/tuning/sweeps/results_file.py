"""The results file of a sweep: one line of JSON for each measurement, written as it arrives.

A sweep that was interrupted reads it and measures only what is missing.
"""

from __future__ import annotations

import dataclasses
import json
import math
import os
import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from tikgen import untrusted
from tikgen.disk import why
from tikgen.errors import StoreWarning, TikgenError
from tikgen.pipeline.records import taichi_version
from tikgen.tuning.job import Job, Measurement
from tikgen.tuning.sweeps.playoff import works_of
from tikgen.version import __version__

_MARK = "tikgen_sweep"
# Outcomes that may be due to a busy machine or a full memory.
_TRIED_AGAIN = ("timeout", "crash", "refused")
# Rises where kernels are timed on other data: earlier lines do not count.
_WORKLOAD = "2"
_NOT_KEPT = "ratios"
_FIELDS = {field.name for field in dataclasses.fields(Measurement)} - {_NOT_KEPT}


@dataclass(frozen=True)
class Done:
    """A measurement, the work that it measured, the device, and the seconds that it took."""

    work: str
    measurement: Measurement
    device: str
    busy: float = 0.0


class ResultsFile:
    """Reads and appends to a results file; without a path it keeps nothing.

    Args:
        path: file of JSON lines, made by the first measurement.
        fingerprints: fingerprint of each template that is measured, by its folder.

    Raises:
        TikgenError: if the path cannot be written.
    """

    def __init__(
        self, path: str | os.PathLike[str] | None, fingerprints: Mapping[str, str]
    ) -> None:
        self._path = None if path is None else Path(path).expanduser()
        self._fingerprints = dict(fingerprints)
        versions = {"tikgen": __version__, "taichi": taichi_version()}
        self._versions = versions | {"workload": _WORKLOAD}
        # Whether the last line has no end, since it was cut off.
        self._is_open = False
        self._has_warned = False
        if self._path is None:
            return
        folder = self._path.absolute().parent
        if not folder.is_dir():
            raise TikgenError(f"Cannot write {self._path}: its folder does not exist.")
        if not os.access(self._path if self._path.exists() else folder, os.W_OK):
            raise TikgenError(f"Cannot write {self._path}: permission denied.")

    def known(self, works: Iterable[str], devices: Iterable[str]) -> dict[tuple[str, str], Done]:
        """Return the earlier measurements of kernels, by work and device.

        A line counts where the template, the device and the versions are the same as now.

        Args:
            works: the works of the sweep; lines about others are skipped.
            devices: the devices of the sweep.

        Raises:
            TikgenError: if the file cannot be read, or is something else.
        """
        wanted, present = set(works), set(devices)
        found, stale = {}, 0
        for line in self._lines():
            is_wanted = wanted.issuperset(works_of(line["work"]))
            if not is_wanted or line["measurement"].kind in _TRIED_AGAIN:
                continue
            same = line["versions"] == self._versions and line["device"] in present
            if same and line["fingerprint"] in self._fingerprints.values():
                done = Done(line["work"], line["measurement"], line["device"])
                found[done.work, done.device] = done
            else:
                stale += 1
        if stale:
            _warn(
                f"{self._path}: {stale} of its measurements were made on another device, or with "
                "another version of the template, tikgen or Taichi, or on data of another kind; "
                "they are measured again"
            )
        return found

    def add(self, job: Job, done: Done) -> None:
        """Append a measurement; warn once where that fails, since the sweep can go on."""
        if self._path is None:
            return
        measured = {k: v for k, v in asdict(done.measurement).items() if k in _FIELDS}
        document = {
            _MARK: 1,
            "work": done.work,
            "template": job.template,
            "fingerprint": self._fingerprints[job.folder],
            "device": done.device,
            "versions": self._versions,
            "job": json.loads(job.line),
            "measurement": measured,
        }
        try:
            if self._is_open and self._path.exists():
                _end(self._path)
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(document) + "\n")
        except OSError as error:
            self._is_open = True  # A part of the line may have been written.
            if not self._has_warned:
                _warn(f"cannot write {self._path}: {why(error)}; the sweep goes on without")
            self._has_warned = True
            return
        self._is_open = False

    def _lines(self) -> Iterator[dict[str, Any]]:
        """Yield the lines that can be read, with a :class:`Measurement` in each."""
        if self._path is None or not self._path.exists():
            return
        try:
            text = self._path.read_text(encoding="utf-8", errors="replace")
        except OSError as error:
            raise TikgenError(f"Cannot read {self._path}: {why(error)}.") from None
        self._is_open = bool(text) and not text.endswith("\n")
        parsed = [_parsed(line) for line in text.splitlines() if line.strip()]
        if parsed and not any(parsed):
            raise TikgenError(f"{self._path} is not a results file of a sweep; name another file.")
        if None in parsed:
            problem = f"{parsed.count(None)} of its lines are damaged, and do not count"
            if parsed.index(None) == len(parsed) - 1:
                problem = "its last line was cut off, and does not count"
            _warn(f"{self._path}: {problem}")
        yield from (line for line in parsed if line is not None)


def _end(path: Path) -> None:
    """End the last line of a file, or remove it where it was cut off."""
    with path.open("rb+") as file:
        before, newline, last = file.read().rpartition(b"\n")
        if last and _parsed(last.decode(errors="replace")):
            file.write(b"\n")
        else:
            file.truncate(len(before) + len(newline))


def _parsed(line: str) -> dict[str, Any] | None:
    """Return the content of a line, or None where it is damaged."""
    try:
        found: dict[str, Any] = untrusted.from_json(line)
        texts = [found[name] for name in ("work", "template", "fingerprint", "device")]
        given = {k: v for k, v in found["measurement"].items() if k in _FIELDS}
        measured = untrusted.as_type(given, Measurement)
        measured = replace(measured, message=untrusted.printable(measured.message))
        has_time = not measured.ok or 0 < measured.seconds < math.inf
        is_whole = found[_MARK] == 1 and "versions" in found and has_time
        if not is_whole or not all(isinstance(text, str) for text in texts):
            return None
        return found | {"measurement": measured}
    except (ValueError, TypeError, KeyError, AttributeError):
        return None


def _warn(message: str) -> None:
    warnings.warn(message, StoreWarning, stacklevel=2)
