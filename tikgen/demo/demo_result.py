"""What a run of the demonstration measured."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tikgen.demo.heat import Field

# Rounding: each of the steps errs by a few units in the last place of f32.
_WORST_ERROR_OF_A_STEP = 4 * float(np.finfo(np.float32).eps)


@dataclass(frozen=True)
class DemoResult:
    """What a run measured; errors are the norm of the difference over the norm of the field."""

    n: int
    steps: int
    seconds: float
    gigabytes_per_second: float
    numpy_seconds: float
    error_to_discrete: float
    error_to_continuous: float
    error_to_numpy: float

    @property
    def speed_ratio(self) -> float:
        """Return how many times faster than NumPy the kernel was."""
        return self.numpy_seconds / self.seconds

    @property
    def ok(self) -> bool:
        """Tell whether the result is right up to rounding."""
        limit = self.steps * _WORST_ERROR_OF_A_STEP
        return self.error_to_discrete <= limit and self.error_to_numpy <= limit


@dataclass(frozen=True)
class History:
    """What was seen at the frames of a run: middle slices, walls included, and norms."""

    steps: tuple[int, ...]
    slices: tuple[Field, ...]
    norms: tuple[float, ...]
