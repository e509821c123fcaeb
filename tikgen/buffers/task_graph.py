"""Graphs of tasks: dependencies, and the order in which they may run."""

from __future__ import annotations

import graphlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tikgen.buffers.errors import InvalidConfigurationError
from tikgen.errors import near


@dataclass(frozen=True, eq=False)
class GraphTask:
    """A call in a graph.

    Attributes:
        name: unique in a graph.
        function: a function, a coroutine function or a kernel.
        args: its arguments; tasks stand for their results, also in lists, tuples and dicts.
        kwargs: its arguments by name.
        after: names of the tasks on which it depends.
        timeout: time limit in seconds, None for none.
        in_thread: whether it runs in a thread.
    """

    name: str
    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    after: tuple[str, ...]
    timeout: float | None
    in_thread: bool

    def arguments(self, results: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        """Return the arguments, with results in place of tasks."""
        args = [_filled(value, results) for value in self.args]
        return args, {name: _filled(value, results) for name, value in self.kwargs.items()}

    def __repr__(self) -> str:
        return f"<task {self.name}>"


def tasks_in(value: Any) -> Iterator[GraphTask]:
    """Yield the tasks in an argument, also in lists, tuples and dicts."""
    if isinstance(value, GraphTask):
        yield value
    elif type(value) in (list, tuple):
        for part in value:
            yield from tasks_in(part)
    elif type(value) is dict:
        yield from tasks_in(list(value.values()))


def _filled(value: Any, results: Mapping[str, Any]) -> Any:
    if not any(True for _ in tasks_in(value)):
        return value
    if isinstance(value, GraphTask):
        return results[value.name]
    if isinstance(value, dict):
        return {key: _filled(part, results) for key, part in value.items()}
    return type(value)(_filled(part, results) for part in value)


class TaskGraph:
    """Tasks by name."""

    def __init__(self) -> None:
        self.tasks: dict[str, GraphTask] = {}

    def add(self, task: GraphTask) -> GraphTask:
        """Add a task, and return it."""
        if task.name in self.tasks:
            raise InvalidConfigurationError("name", task.name, "there is a task of this name")
        self.tasks[task.name] = task
        return task

    def name_of(self, task: GraphTask | str) -> str:
        """Return the name of a task of this graph; a name is returned unchanged."""
        if isinstance(task, str):
            return task
        if not isinstance(task, GraphTask):
            raise InvalidConfigurationError("after", task, "takes tasks, or their names")
        if self.tasks.get(task.name) is not task:
            problem = "the task is of another graph, or of one that was cleared"
            raise InvalidConfigurationError("after", task, problem)
        return task.name

    def order(self, targets: Iterable[str]) -> tuple[graphlib.TopologicalSorter[str], list[str]]:
        """Return a sorter of the tasks, and the names of those that are needed."""
        needed: dict[str, tuple[str, ...]] = {}
        wanted = list(targets) or list(self.tasks)
        self._check_known("run", wanted)
        while wanted:
            name = wanted.pop()
            if name not in needed:
                needed[name] = self.tasks[name].after
                self._check_known(f"task {name!r}, after", needed[name])
                wanted += needed[name]
        # In the order of addition, so that equal graphs run in the same order.
        sorter = graphlib.TopologicalSorter(
            {name: needed[name] for name in self.tasks if name in needed}
        )
        try:
            sorter.prepare()
        except graphlib.CycleError as error:
            circle = " -> ".join(reversed(error.args[1]))
            problem = f"tasks depend on each other: {circle}"
            raise InvalidConfigurationError("after", error.args[1][0], problem) from None
        return sorter, [name for name in self.tasks if name in needed]

    def _check_known(self, where: str, names: Iterable[str]) -> None:
        for name in names:
            if name not in self.tasks:
                hint = near(name, self.tasks) if isinstance(name, str) else ""
                listed = ", ".join(self.tasks) or "none"
                problem = f"there is no such task.{hint} There are: {listed}"
                raise InvalidConfigurationError(where, name, problem)
