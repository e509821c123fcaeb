"""Runs a kernel over many messages in one launch, as columns."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tikgen.buffers.compute_kernel import ComputeKernel
from tikgen.ring.batch.plan import Plan, plan_of
from tikgen.ring.errors import ColumnError, InvalidConfigurationError, TypeValidationError
from tikgen.ring.messages.columns import Column, check_columns, pack, unpack

Arrays = dict[str, np.ndarray[Any, Any]]


class BatchRunner:
    """Answers batches of messages by launches of one kernel.

    Args:
        kernel_id: the actor, for errors.
        kernel: a :class:`tikgen.Kernel`, a ``ti.kernel`` or what :func:`tikgen.ring.kernel` made,
            whose arrays have one row a message, or a function that takes a dict of columns (and the
            constants by name) and returns one.
        input_type: the type of messages, whose fields are arrays of the kernel.
        output_type: the type of replies, likewise.
        max_batch: greatest number of messages in one launch.
        constants: scalars and arrays of the kernel that are no fields, by name.

    Attributes:
        device_seconds: total time of launches, including copies.

    Raises:
        InvalidConfigurationError: if the kernel, the types and the constants do not match.
    """

    def __init__(
        self,
        kernel_id: str,
        kernel: Any,
        input_type: type[Any],
        output_type: type[Any],
        *,
        max_batch: int,
        constants: Mapping[str, Any] | None = None,
    ) -> None:
        if isinstance(max_batch, bool) or not isinstance(max_batch, int) or max_batch < 1:
            raise InvalidConfigurationError("max_batch", max_batch, "takes an integer from 1")
        self.kernel_id = kernel_id
        self.input_type = input_type
        self.output_type = output_type
        self.max_batch = max_batch
        self.device_seconds = 0.0
        self._kernel = kernel = kernel.compiled if isinstance(kernel, ComputeKernel) else kernel
        self._constants = dict(constants or {})
        self._plan: Plan = plan_of(kernel, input_type, output_type, self._constants)
        self._columns = {
            column.name: np.zeros(column.shape(max_batch), column.dtype.numpy)
            for column in (*self._plan.inputs, *self._plan.only_written)
        }
        self._lock = threading.Lock()

    @property
    def is_function(self) -> bool:
        """Return whether the kernel is a Python function of columns."""
        return self._plan.is_function

    @property
    def input_columns(self) -> tuple[Column, ...]:
        """Return the columns of messages."""
        return self._plan.inputs

    @property
    def output_columns(self) -> tuple[Column, ...]:
        """Return the columns of replies."""
        return self._plan.outputs

    def run(self, messages: Sequence[Any]) -> list[Any]:
        """Return a reply to each message, in order."""
        replies: list[Any] = []
        with self._lock:  # The columns are reused for each batch.
            for start in range(0, len(messages), self.max_batch):
                replies += self._run_batch(messages[start : start + self.max_batch])
        return replies

    def _run_batch(self, messages: Sequence[Any]) -> list[Any]:
        if set(map(type, messages)) == {self.input_type}:
            try:
                pack(messages, self._plan.inputs, self._columns)
            except ColumnError:
                pass
            else:
                return self._answered(messages)
        places = range(len(messages))
        problems: dict[int, Exception] = {
            k: self._wrong_type(messages[k])
            for k in places
            if not isinstance(messages[k], self.input_type)
        }
        problems |= self._misfits(messages, [k for k in places if k not in problems])
        fitting = [messages[k] for k in places if k not in problems]
        pack(fitting, self._plan.inputs, self._columns)
        rest = iter(self._answered(fitting))
        return [problems[k] if k in problems else next(rest) for k in places]

    def _wrong_type(self, value: object) -> TypeValidationError:
        return TypeValidationError(
            self.input_type.__qualname__,
            f"{type(value).__name__} {value!r:.60}",
            "the input",
            self.kernel_id,
        )

    def _misfits(self, messages: Sequence[Any], places: list[int]) -> dict[int, Exception]:
        """Return the errors of messages that do not fit, found by bisection."""
        try:
            pack([messages[place] for place in places], self._plan.inputs, self._columns)
        except ColumnError as error:
            if len(places) == 1:
                return {places[0]: error.of(self.kernel_id)}
            half = len(places) // 2
            first = self._misfits(messages, places[:half])
            return first | self._misfits(messages, places[half:])
        return {}

    def _answered(self, messages: Sequence[Any]) -> list[Any]:
        count = len(messages)
        if not count:
            return []
        columns = {name: array[:count] for name, array in self._columns.items()}
        for column in self._plan.only_written:
            if not self._plan.is_covered(column.name):
                columns[column.name][...] = 0  # Else it holds numbers of earlier messages.
        results = self._launched(columns, count)
        asked = [one.message_id for one in messages]
        return unpack(results, self._plan.outputs, self.output_type, 0, count, correlations=asked)

    def run_columns(self, columns: Mapping[str, Any]) -> Arrays:
        """Return the replies to columns as columns, by one launch."""
        given, count = check_columns(columns, self._plan.inputs)
        for column in self._plan.inputs:
            if self._plan.is_written(column.name):
                given[column.name] = given[column.name].copy()
        for column in self._plan.only_written:
            make = np.empty if self._plan.is_covered(column.name) else np.zeros
            given[column.name] = make(column.shape(count), column.dtype.numpy)
        if not count:
            return {c.name: np.zeros(c.shape(0), c.dtype.numpy) for c in self._plan.outputs}
        results = self._launched(given, count)
        return {column.name: results[column.name] for column in self._plan.outputs}

    def _launched(self, columns: Arrays, count: int) -> Arrays:
        start = time.perf_counter()
        try:
            if not self._plan.is_function:
                self._plan.launch(self._kernel, columns, self._constants)
                return columns
            returned = self._kernel(columns, **self._constants)
        finally:
            self.device_seconds += time.perf_counter() - start
        try:
            results, length = check_columns(returned, self._plan.outputs)
        except ColumnError as error:
            raise error.of(self.kernel_id) from None
        if length != count:
            problem = f"has {length} messages after the function; {count} went in"
            raise ColumnError(self._plan.outputs[0].name, problem, self.kernel_id)
        return results
