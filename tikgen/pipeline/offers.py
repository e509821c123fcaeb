"""New code for a kernel, which its next call adopts if it compiles."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tikgen.errors import TaichiNotInitialised, TikgenError, WrongThread
from tikgen.pipeline.loaded import Loaded


@dataclass
class Offer:
    """New code for the next call to adopt, and the function that takes the outcome."""

    loaded: Loaded
    report: Callable[[TikgenError | None], None]
    was_reported: bool = False

    def refuse(self, error: TikgenError) -> None:
        """Report once that the code waits for a call with other arguments."""
        was_reported, self.was_reported = self.was_reported, True
        if not was_reported:
            self.report(error)

    def refusal(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> TikgenError | None:
        """Compile the code for the arguments of a call; return why that failed, or None.

        Raises:
            TaichiNotInitialised: if it cannot be known yet.
            WrongThread: if it cannot be known in this thread.
        """
        loaded = self.loaded
        try:
            loaded.compile_for(loaded.prepare(loaded.signature.order(args, kwargs)))
        except (TaichiNotInitialised, WrongThread):
            raise
        except TikgenError as error:
            return error
        except Exception as error:  # Of any kind: the old code serves the call.
            return loaded.explained(error)
        return None
