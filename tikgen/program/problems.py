"""Problems with a state of a program, which are errors on all of its processes, and name a file.

A process that raised one alone would keep the others waiting.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

from tikgen.disk import why
from tikgen.errors import ProgramError
from tikgen.program.team import Team


class Problems:
    """The first problem that this process has."""

    def __init__(self) -> None:
        self.first = ""

    @contextlib.contextmanager
    def of(self, path: str | os.PathLike[str], what: str) -> Iterator[None]:
        """Keep the problem of a checkpoint that cannot be written or read.

        Args:
            path: the checkpoint.
            what: ``"written"`` or ``"read"``.
        """
        with self.kept(), told(path, what):
            yield

    @contextlib.contextmanager
    def kept(self) -> Iterator[None]:
        """Keep what a ProgramError says."""
        try:
            yield
        except ProgramError as error:
            self.first = self.first or str(error)


@contextlib.contextmanager
def agreed(team: Team | None) -> Iterator[Problems]:
    """Raise ProgramError on all processes at the end if one of them has a problem.

    Args:
        team: the processes; None for this one alone.
    """
    problems = Problems()
    yield problems
    if team is not None:
        team.check(problems.first)
    elif problems.first:
        raise ProgramError(problems.first)


@contextlib.contextmanager
def told(path: str | os.PathLike[str], what: str) -> Iterator[None]:
    """Have any error be a ProgramError that names a checkpoint.

    Args:
        path: the checkpoint.
        what: ``"written"`` or ``"read"``.
    """
    try:
        yield
    except ProgramError as error:
        if what != "read" or str(path) in str(error):
            raise
        raise ProgramError(f"{str(path)!r}: {error}") from None
    except Exception as error:  # A damaged file has readers raise any.
        reason = why(error) or type(error).__name__
        if what == "read" and not isinstance(error, OSError | MemoryError):
            raise ProgramError(f"{str(path)!r} is no checkpoint of a program: {reason}") from error
        problem = f"the checkpoint {str(path)!r} cannot be {what}: {reason}"
        raise ProgramError(problem) from error


def exchanging(team: Team | None) -> contextlib.AbstractContextManager[None]:
    """Return a context for messages, in which an error ends all processes: they would wait.

    Args:
        team: the processes; None for this one alone.
    """
    return contextlib.nullcontext() if team is None else team.ending_together()
