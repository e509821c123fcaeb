"""The cells of a notebook: their parameters, their definitions, and their errors."""

from __future__ import annotations

import contextlib
import functools
import re
import shlex
import types
from collections.abc import Collection, Mapping
from typing import Any

from tikgen.errors import (
    ArgumentError,
    CellError,
    ParameterError,
    TaichiNotInitialised,
    TikgenError,
    WrongThread,
)
from tikgen.live.text_loader import Loader
from tikgen.live.texts import prepare
from tikgen.pipeline import builder
from tikgen.pipeline.kernel import Kernel
from tikgen.pipeline.loaded import Loaded
from tikgen.pipeline.one_off import OneOff, declared_arguments
from tikgen.taichi import kernels
from tikgen.template.literals import parse_params
from tikgen.template.parameters import Identifier, ProblemModel

Names = dict[str, Any]


def parse_line(
    magic: str, line: str, variables: Mapping[str, Any], reserved: Collection[str]
) -> tuple[str, dict[str, Any]]:
    """Return the name and the parameters of a line such as ``step dim=3 points=$points``.

    ``$x`` is the variable ``x`` of the notebook; parameters may not have ``reserved`` names.

    Raises:
        CellError: if the name is missing or not an identifier.
        ParameterError: if a parameter has no value, or is given twice.
    """
    try:
        name, *given = shlex.split(line) or [""]
    except ValueError as error:
        raise CellError(f"{magic} {line}: {error}") from None
    try:
        Identifier.parse(name)
    except ValueError:
        problem = f"{name!r} is not a name" if name else "a name is missing"
        raise CellError(f"{problem}: write {magic} NAME, then parameters such as dim=3") from None
    params = parse_params(name, given, reserved)
    for key, value in params.items():
        if isinstance(value, str) and value.startswith("$"):
            if value[1:] not in variables:
                raise ParameterError(name, {key: f"is {value}, but there is no such variable"})
            params[key] = variables[value[1:]]
    return name, params


class Cells:
    """The cells of one notebook by name, each with its last definitions."""

    def __init__(self) -> None:
        self.loader = Loader()
        self._defined: dict[str, tuple[types.ModuleType, Names]] = {}
        # What the variables of those names were before.
        self._before: dict[str, Names] = {}

    def run(
        self, name: str, body: str, params: Mapping[str, Any], variables: Mapping[str, Any]
    ) -> Names:
        """Return the definitions of a cell: kernels that check their arguments, functions, classes.

        Its kernels are compiled if possible. If it defines nothing, or :meth:`Loader.load` refuses
        it, :class:`CellError` is raised and the cell does not change. ``variables`` are those of
        the notebook, which the cell does not see, for messages.
        """
        found: Names = {}

        def check(module: types.ModuleType) -> None:
            found.update(_definitions(name, body, params, module))
            if not found:
                raise CellError(f"The cell {name!r} defines no kernel, function or class.")
            _compile(found)

        try:
            module = self.loader.load(body, name, check=check, **params)
        except TikgenError as error:
            message = _message(error, name)
            raise CellError(message + _hint(message, name, body, params, variables)) from None
        if found:
            self._defined[name] = module, found
            self._before[name] = {key: variables[key] for key in found if key in variables}
            for value in found.values():
                if isinstance(value, Kernel):  # Later builds are compared with it.
                    builder.note(value.source)
        return self._defined[name][1]

    def restored(self, variables: Mapping[str, Any]) -> Names:
        """Return the restored values of names of cells whose kernels could not be compiled.

        Variables that do not hold any more what the cell put there stay.
        """
        changed: Names = {}
        for name, (known, made) in list(self._defined.items()):
            module = self.loader[name]
            names = self._before[name] if name in self.loader.failed_first else {}
            self.loader.failed_first.discard(name)
            if module is not known:
                version = next(v for v in self.loader.history(name) if v.state == "current")
                names = _definitions(name, version.text, version.params, module)
                self._defined[name] = module, names
                names = self._before[name] | names
            for key, value in names.items():
                if key in made and variables.get(key) is made[key]:
                    changed[key] = value
        return changed


def _definitions(
    name: str, body: str, params: Mapping[str, Any], module: types.ModuleType
) -> Names:
    """Return the kernels, functions and classes that a module defines, by name."""
    source = prepare(body, params, name, str(module.__file__))
    make = functools.partial(Loaded, source, module, declared_arguments)
    return {
        key: Kernel(make(key)) if kernels.is_kernel(value) else value
        for key, value in vars(module).items()
        if getattr(value, "__module__", None) == module.__name__
        and isinstance(value, type | types.FunctionType)
    }


def _compile(names: Names) -> None:
    """Compile the kernels among ``names`` that declare the types of their arguments."""
    for value in names.values():
        # Compiled-in arguments, such as fields, are known at the first launch only.
        with contextlib.suppress(ArgumentError, TaichiNotInitialised, WrongThread):
            if isinstance(value, Kernel):
                value.compile()


def parameters_of(body: str) -> set[str]:
    """Return the names of the parameters that the text of a cell uses."""
    from tikgen.pipeline.jinja_run import names_used  # Jinja2 takes a while to import.

    return names_used(OneOff(body, ProblemModel)) - {"p", "s", "name", "arguments", "workspace"}


def _message(error: TikgenError, name: str) -> str:
    """Return the message of an error, with the line of the cell if it names one."""
    if isinstance(error, CellError):
        return str(error)
    text = str(error).removeprefix(f"Template {name!r}: ")
    place = re.search(rf"^  template: {name}(/\S+?)?:(\d+)(?!\d).*\n?", text, re.MULTILINE)
    # Taichi counts the lines of the rendered text, which are those of the cell in plain Python.
    shown = re.search(rf'File "tikgen-live:{name}:\S+", line (\d+)', text)
    if place is not None:
        text = text.replace(place[0], "", 1).rstrip()
        number = place[2]
    elif shown is not None:
        number = shown[1]
    else:
        return f"{type(error).__name__}: {text}"
    if shown is not None:
        what = "rendered line" if place is not None else "line"
        text = text.replace(shown[0], f"{what} {shown[1]}", 1)
    return f"{type(error).__name__} in line {number} of the cell {name!r}: {text}"


def _hint(
    message: str, name: str, body: str, params: Mapping[str, Any], variables: Mapping[str, Any]
) -> str:
    """Return a hint if a cell uses a variable of the notebook, or lacks its parameters."""
    unknown = re.search(r"[Nn]ame ['\"](\w+)['\"] is not defined", message)
    if unknown and unknown[1] in variables:
        variable = unknown[1]
        if callable(variables[variable]):
            return f"\nA cell does not see other cells: define {variable} in this one as well."
        given = f"%%tikgen {name} {variable}=${variable}, then {{{{ {variable} }}}}"
        return f"\nA cell sees its parameters, but no variables: {given}"
    used = "" if params else " ".join(f"{each}=..." for each in sorted(parameters_of(body)))
    return f"\nDoes it lack its parameters? %%tikgen {name} {used}" if used else ""
