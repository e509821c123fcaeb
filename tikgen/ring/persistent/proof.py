"""Example queues that prove a persistent kernel against a user's reference."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tikgen.dtypes import DType
from tikgen.ring.errors import InvalidConfigurationError
from tikgen.ring.persistent.layout import Layout
from tikgen.ring.persistent.words import (
    COMMAND,
    DONE,
    DRAIN,
    DRAINED,
    END,
    MASK,
    MODULO,
    RUNNING,
    STATE,
    STOPPED,
    TAIL,
    WORDS,
)

_SLOTS = 16


def examples_of(layout: Layout, count: int) -> list[tuple[Any, ...]]:
    """Return arguments for launches that end by themselves: queues of various lengths."""
    rng = np.random.default_rng()
    found = []
    for number in range(count):
        control = np.zeros(WORDS, np.uint32)
        # The second wraps around the end of the ring, and of the counters.
        done = int(rng.integers(MODULO)) if number != 1 else MODULO - 3
        queued = (_SLOTS, 7, 1, 0)[number] if number < 4 else int(rng.integers(_SLOTS + 1))
        control[[COMMAND, TAIL, DONE]] = (DRAIN, (done + queued) & MASK, done)
        if number == 4:
            control[COMMAND] = END
        arrays = [
            _numbers(dtype, _SLOTS, rng)
            for columns in (layout.inputs, layout.outputs)
            for _, dtype in sorted(columns.items())
        ]
        state = [np.array([v], layout.dtype.numpy) for v in layout.state.values()]
        found.append((control.view(np.int32), *arrays, *state))
    return found


def reference_of(
    reference: Callable[..., Mapping[str, Any]], layout: Layout
) -> Callable[..., Mapping[str, Any]]:
    """Return a function of the arrays of a launch, made of a reference for one message."""
    inputs, outputs = sorted(layout.inputs), sorted(layout.outputs)

    def after(control: Any, *arrays: Any) -> dict[str, Any]:
        words = control.view(np.uint32).copy()
        queue = dict(zip(inputs, arrays, strict=False))
        replies = {
            f"{name}_out": array.copy()
            for name, array in zip(outputs, arrays[len(inputs) :], strict=False)
        }
        held = arrays[len(inputs) + len(outputs) :]
        state = {name: array[0] for name, array in zip(layout.state, held, strict=True)}
        done, count = int(words[DONE]), (int(words[TAIL]) - int(words[DONE])) & MASK
        if words[COMMAND] == END:
            count = 0
        for number in range(done, done + count):
            slot = number % _SLOTS
            given = {name: array[slot] for name, array in queue.items()}
            answer = _answer(reference, {**given, **state}, [*outputs, *layout.state])
            for name in outputs:
                replies[f"{name}_out"][slot] = answer[name]
            state = {name: layout.dtype.numpy.type(answer[name]) for name in layout.state}
        words[DONE] = (done + count) & MASK
        words[STATE + 1] = RUNNING
        words[STATE] = STOPPED if words[COMMAND] == END else DRAINED
        kept = {f"{n}_state": np.array([v], layout.dtype.numpy) for n, v in state.items()}
        return {"control": words.view(np.int32), **replies, **kept}

    return after


def _answer(
    reference: Callable[..., Mapping[str, Any]], given: Mapping[str, Any], names: list[str]
) -> Mapping[str, Any]:
    answer = reference(**given)
    if not isinstance(answer, Mapping) or any(name not in answer for name in names):
        raise InvalidConfigurationError(
            "reference", reference, f"returns a dict of {', '.join(names)}; got {answer!r:.60}"
        )
    return answer


def _numbers(dtype: DType, count: int, rng: np.random.Generator) -> Any:
    if dtype.is_float:
        return rng.uniform(-1, 1, count).astype(dtype.numpy)
    return rng.integers(-5 if dtype.is_signed else 0, 6, count).astype(dtype.numpy)
