"""Runs a kernel over many messages at once: columns in, one launch, columns out."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tikgen.ring.batch.plan import Plan, plan_of
from tikgen.ring.errors import ColumnError, InvalidConfigurationError, TypeValidationError
from tikgen.ring.messages.columns import Column, check_columns, pack, unpack

Arrays = dict[str, np.ndarray[Any, Any]]


class BatchRunner:
    """Answers batches of messages by launches of one kernel.

    Args:
        kernel_id: the actor's name, for messages of errors.
        kernel: a :class:`tikgen.Kernel` or a ``ti.kernel``, whose arrays have a place for each
            message on the first axis, or a function that takes a dict of columns (and the
            constants by name) and returns one.
        input_type: the message type whose fields go to the arrays of the same names.
        output_type: the message type whose fields come from arrays of the same names.
        max_batch: most messages in one launch.
        constants: scalars and arrays of the kernel that are no fields, by name.

    Attributes:
        device_seconds: time in launches so far, with the copies that they make.

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
        self._kernel = kernel
        self._constants = dict(constants or {})
        self._plan: Plan = plan_of(kernel, input_type, output_type, self._constants)
        self._columns = {
            column.name: np.zeros(column.shape(max_batch), column.dtype.numpy)
            for column in (*self._plan.inputs, *self._plan.only_written)
        }
        self._lock = threading.Lock()

    @property
    def input_columns(self) -> tuple[Column, ...]:
        """Return the columns that :meth:`run_columns` takes."""
        return self._plan.inputs

    @property
    def output_columns(self) -> tuple[Column, ...]:
        """Return the columns that :meth:`run_columns` returns."""
        return self._plan.outputs

    def run(self, messages: Sequence[Any]) -> list[Any]:
        """Return a reply to each message, in order, or the error that speaks against the message.

        Args:
            messages: of the input type, any number; each launch takes up to ``max_batch``.

        Returns:
            Messages of the output type, each with the ``correlation_id`` of what it answers, and
            ColumnError and TypeValidationError in the places of messages that do not fit.

        Raises:
            Exception: whatever the kernel raises; then no message of this call has a reply.
        """
        replies: list[Any] = []
        with self._lock:  # The columns are this runner's, and used again for each batch.
            for start in range(0, len(messages), self.max_batch):
                replies += self._run_batch(messages[start : start + self.max_batch])
        return replies

    def _run_batch(self, messages: Sequence[Any]) -> list[Any]:
        problems: dict[int, Exception] = {}
        if set(map(type, messages)) != {self.input_type}:
            problems = {
                place: self._wrong_type(one)
                for place, one in enumerate(messages)
                if not isinstance(one, self.input_type)
            }
        fitting = [one for place, one in enumerate(messages) if place not in problems]
        try:
            pack(fitting, self._plan.inputs, self._columns)
        except ColumnError:
            places = [place for place in range(len(messages)) if place not in problems]
            problems |= self._misfits(messages, places)
            fitting = [one for place, one in enumerate(messages) if place not in problems]
            pack(fitting, self._plan.inputs, self._columns)
        replies = self._answered(fitting)
        if not problems:
            return replies
        rest = iter(replies)
        return [problems[k] if k in problems else next(rest) for k in range(len(messages))]

    def _wrong_type(self, value: object) -> TypeValidationError:
        return TypeValidationError(
            self.input_type.__qualname__,
            f"{type(value).__name__} {value!r:.60}",
            "the input",
            self.kernel_id,
        )

    def _misfits(self, messages: Sequence[Any], places: list[int]) -> dict[int, Exception]:
        """Return what is wrong with which messages; halves that fit are not searched further."""
        try:
            pack([messages[place] for place in places], self._plan.inputs, self._columns)
        except ColumnError as error:
            if len(places) == 1:
                error = ColumnError(error.column, _problem(error), self.kernel_id)
                return {places[0]: error}
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
                columns[column.name][...] = 0  # Else a reply could show another's old numbers.
        results = self._launched(columns, count)
        asked = [one.message_id for one in messages]
        return unpack(results, self._plan.outputs, self.output_type, 0, count, correlations=asked)

    def run_columns(self, columns: Mapping[str, Any]) -> Arrays:
        """Return the columns of the replies to messages that are columns already.

        Args:
            columns: one array for each field of the input type, all of one length. They are not
                changed. They go to the kernel in one launch, whatever ``max_batch`` is.

        Returns:
            One new array for each field of the output type.

        Raises:
            ColumnError: if a column is missing, unknown, or does not fit.
            Exception: whatever the kernel raises.
        """
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
            raise ColumnError(error.column, _problem(error), self.kernel_id) from None
        if length != count:
            raise ColumnError(
                self._plan.outputs[0].name,
                f"has {length} messages after the function; {count} went in",
                self.kernel_id,
            )
        return results


def _problem(error: ColumnError) -> str:
    return str(error).partition(f"column {error.column!r} ")[2]
