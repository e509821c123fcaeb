"""How fast kernels are on a node: seconds of a launch by the bytes that its cost model names."""

from __future__ import annotations

import dataclasses
import json
import os
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from math import exp, isfinite, log
from pathlib import Path

from tikgen import untrusted
from tikgen.disk import path_of, whole, why
from tikgen.errors import GridError
from tikgen.scaling.network import Network

# Bytes of a launch by its cost model, and its seconds; bytes rise.
Rates = tuple[tuple[float, float], ...]
COPY = "copy"


@dataclass(frozen=True)
class Machine:
    """A node, as :func:`measure` found it.

    Attributes:
        ranks: how many ranks worked at the same time.
        kernels: rates by the name of a kernel; ``"copy"`` is a copy of memory.
        network: messages between its ranks; None where there was one.
    """

    ranks: int
    kernels: Mapping[str, Rates]
    network: Network | None = None

    def seconds(self, kernel: str, moved: float) -> float:
        """Return how long a launch takes that moves some bytes.

        Between sizes that were measured the logarithms lie on lines. Fewer bytes take as long as
        the fewest measured, and more take longer in proportion. A kernel that was not measured
        takes as long as a copy of as many bytes.
        """
        rates = self.kernels.get(kernel) or self.kernels[COPY]
        place = bisect_right([size for size, _ in rates], moved)
        if place == 0:
            return rates[0][1]
        low, least = rates[place - 1]
        if place == len(rates):
            return least * moved / low
        high, most = rates[place]
        share = log(moved / low) / log(high / low)
        return exp((1 - share) * log(least) + share * log(most))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it into a file of JSON.

        Raises:
            GridError: if the file cannot be written.
        """
        file = _file(path, "save")
        try:
            with whole(file) as new:
                new.write_text(json.dumps(dataclasses.asdict(self), indent=1), encoding="utf-8")
        except OSError as error:
            raise GridError(f"{str(file)!r} cannot be written: {why(error)}") from None

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Machine:
        """Return what :meth:`save` wrote.

        Raises:
            GridError: if the file cannot be read, or holds something else.
        """
        file = _file(path, "load")
        try:
            found = untrusted.from_json(file.read_bytes())
            network = found["network"] and Network(**found["network"])
            kernels = {
                str(name): tuple((float(size), float(seconds)) for size, seconds in rates)
                for name, rates in found["kernels"].items()
            }
            made = cls(int(found["ranks"]), kernels, network)
        except OSError as error:
            raise GridError(f"{str(file)!r} cannot be read: {why(error)}") from None
        except (KeyError, TypeError, ValueError, AttributeError, GridError) as error:
            raise GridError(f"{str(file)!r} holds no machine: {error}") from None
        if made.ranks < 1 or COPY not in kernels or not all(map(_is_right, kernels.values())):
            raise GridError(f"{str(file)!r} holds no machine: its rates make no sense")
        return made


def _file(path: object, what: str) -> Path:
    return path_of(path, lambda problem: GridError(f"{what} {problem}"))


def _is_right(rates: Rates) -> bool:
    sizes = [size for size, _ in rates]
    return (
        bool(rates)
        and sizes == sorted(set(sizes))
        and all(isfinite(number) and number > 0 for pair in rates for number in pair)
    )
