"""A kernel to run in another process, and its outcome: what verification and tuning extend."""

from __future__ import annotations

import ast
import functools
import json
import traceback
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from tikgen.errors import TikgenError, one_line

AnyJob = TypeVar("AnyJob", bound="KernelJob")


@dataclass(frozen=True, eq=False)
class KernelJob:
    """A variant of a template, and the sizes of its arrays.

    Attributes:
        template: name of the template.
        folder: folder of the template.
        arch: arch to run on.
        params: every parameter, as Python literals.
        sizes: value of each size symbol.
        seed: seed of the random data.
        baked: whether the sizes are baked into the kernel.
        fingerprint: that of the template; the process must read equal files.
    """

    template: str
    folder: str
    arch: str
    params: Mapping[str, Any]
    sizes: Mapping[str, int]
    seed: int = 0
    baked: bool = field(default=False, kw_only=True)
    fingerprint: str = field(default="", kw_only=True)

    @functools.cached_property
    def line(self) -> str:
        """Return the job as one line of JSON; equal jobs give equal lines."""
        return json.dumps(asdict(self) | {"params": repr(dict(self.params))})

    @classmethod
    def from_line(cls: type[AnyJob], line: str) -> AnyJob:
        """Return the job that :attr:`line` wrote."""
        fields = json.loads(line)
        return cls(**fields | {"params": ast.literal_eval(fields["params"])})

    @property
    def shape(self) -> dict[str, int] | None:
        """Return the sizes that are baked into the kernel, if any."""
        return dict(self.sizes) if self.baked else None


@dataclass(frozen=True)
class KernelOutcome:
    """The outcome of a job.

    Attributes:
        kind: in a word, how it ended; ``"changed"`` where the template's files are others than
            those that the job was made from.
        message: what is wrong, in a sentence or two.
        digest: digest of the kernel, empty where it was not built.
    """

    kind: str
    message: str = ""
    digest: str = ""

    @property
    def line(self) -> str:
        """Return the outcome as one line of JSON."""
        return json.dumps(asdict(self))


def described(error: Exception) -> str:
    """Return an error as text, with the line that raised it unless tikgen explains it itself."""
    if isinstance(error, TikgenError):
        return f"{type(error).__name__}: {error}"
    place = traceback.extract_tb(error.__traceback__)[-1]
    return f"{one_line(error)} (in {Path(place.filename).name}:{place.lineno})"
