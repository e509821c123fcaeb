"""Collects the functions, constants and imports that an ejected file holds copies of."""

from __future__ import annotations

import ast
import builtins
import inspect
import pprint
import re
import sys
import textwrap
import types
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from tikgen.errors import TemplateError
from tikgen.expression import components, reductions, stretching
from tikgen.template import boundaries, grid_use, layers, matched, modules

_COPIED = (boundaries, grid_use, layers, matched, components, reductions, stretching)


class Collected:
    """The functions, constants and imports that a set of functions uses.

    Attributes:
        imports: lines by the names that they import.
        constants: lines by name.
        functions: texts by name, in the order in which they were found.
        aliases: further names of functions.
        builtins: names of Python itself that the functions use.
    """

    def __init__(self, template: str) -> None:
        self.template = template
        self.imports: dict[str, str] = {}
        self.constants: dict[str, str] = {}
        self.functions: dict[str, str] = {}
        self.aliases: dict[str, str] = {}
        self.builtins: set[str] = set()
        self._found: dict[str, Callable[..., Any]] = {}
        self._renamed: dict[str, str] = {}

    @property
    def names(self) -> set[str]:
        """Return every name that a file with all of it defines."""
        return {*self.imports, *self.constants, *self.functions, *self.aliases}

    def add(self, function: Callable[..., Any], called: str | None = None) -> None:
        """Add a function, and what it uses.

        Args:
            function: the function.
            called: the name by which it is called, if that is not its own.

        Raises:
            TemplateError: if it cannot be copied, or something else has its name.
        """
        if inspect.ismethod(function):
            own = ", ".join(inspect.signature(function).parameters)
            name = function.__name__
            write = f"write @staticmethod above def {name}({own})"
            self._refuse(f"{name} is a method of the template, which the file lacks; {write}")
        function = inspect.unwrap(function)  # A copy has no decorators.
        name = function.__name__
        if called is not None and called != name:
            self._take(self.aliases, called, f"{called} = {name}")
        self._take({}, name, "")
        if self._found.setdefault(name, function) is not function:
            others = f"{self._found[name].__module__} and {function.__module__}"
            self._refuse(f"two functions are called {name}, in {others}; rename one")
        if name in self.functions:
            return
        text = textwrap.dedent(_source_of(function))
        definition = ast.parse(text).body[0] if name != "<lambda>" else None
        if not isinstance(definition, ast.FunctionDef):
            self._refuse(f"{called or name} is no function that begins with 'def'")
        text = _with_known_annotations(text, definition, function.__globals__)
        text = "\n".join(text.splitlines()[definition.lineno - 1 :]) + "\n"
        self.functions[name] = text
        for node in ast.walk(definition):
            for module in _imported(node):
                self._check_alone(module, function)
        for used in sorted(_loaded(text) - {name}):
            if used in function.__globals__:
                self._add_global(used, function.__globals__[used], function)
            elif hasattr(builtins, used):
                self.builtins.add(used)

    def _add_global(self, name: str, value: Any, user: Callable[..., Any]) -> None:
        if isinstance(value, types.ModuleType):
            self._check_alone(value.__name__, user)
            line = f"import {value.__name__}" + f" as {name}" * (name != value.__name__)
            self._take(self.imports, name, line)
        elif isinstance(value, types.FunctionType) and _is_copied(value, user):
            self.add(value, name)
        elif _is_imported(name, value):
            self._take(self.imports, name, f"from {value.__module__} import {name}")
        elif is_literal(value):
            self._take(self.constants, name, f"{name} = {pprint.pformat(value, width=90)}")
        else:
            self._refuse(
                f"{user.__name__} uses {name}, which is neither a function or constant of the "
                "template nor a module"
            )

    def _check_alone(self, module: str, user: Callable[..., Any]) -> None:
        """Refuse modules that are not there where the file is alone."""
        if module.partition(".")[0] == "tikgen":
            self._refuse(f"{user.__name__} uses the module {module}; the file must do without")
        if module.startswith(".") or modules.is_same_template(module, user.__module__):
            self._refuse(
                f"{user.__name__} uses the file {module.rpartition('.')[2]}.py as a module; "
                "import what it needs of it by name, outside of the function"
            )

    def add_import(self, name: str, line: str) -> None:
        """Add an import; raises TemplateError if the name stands for something else."""
        self._take(self.imports, name, line)

    def _take(self, held: dict[str, str], name: str, line: str) -> None:
        """Hold a line for a name, unless the name stands for something else already."""
        held.setdefault(name, line)
        for other in (self.imports, self.constants, self.aliases, held):
            if other.get(name, line) != line:
                self._refuse(f"{name} is both {other[name]!r} and {line or 'a function'!r}")
        if line and name in self.functions:
            self._refuse(f"{name} is both a function and {line!r}; rename one")

    def _refuse(self, problem: str) -> NoReturn:
        raise TemplateError(self.template, f"cannot be ejected: {problem}")

    def rename(self, taken: set[str]) -> None:
        """Give other names to those functions whose names are taken."""
        for name in self.functions:
            new = name
            while new in taken:
                new += "_"
            if new != name:
                self._renamed[name] = new
        self.functions = {
            self._renamed.get(name, name): self.renamed(text)
            for name, text in self.functions.items()
        }

    def renamed(self, text: str) -> str:
        """Return a text of tikgen's own with these names, whatever they stand for in it."""
        for old, new in self._renamed.items():
            text = re.sub(rf"\b{old}\b", new, text)
        return text


def is_literal(value: Any) -> bool:
    """Return whether the representation of ``value`` is code for it."""
    try:
        return bool(ast.literal_eval(repr(value)) == value)
    except (ValueError, SyntaxError):
        return False


def _loaded(text: str) -> set[str]:
    return {node.id for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name)}


def _imported(node: ast.AST) -> list[str]:
    """Return the modules that a statement imports."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    return ["." * node.level + (node.module or "")] if isinstance(node, ast.ImportFrom) else []


def _with_known_annotations(text: str, definition: ast.FunctionDef, known: dict[str, Any]) -> str:
    """Return ``text`` with ``object`` for each annotation that cannot be copied."""
    lines = text.encode().splitlines(keepends=True)
    annotated = [node for node in ast.walk(definition.args) if isinstance(node, ast.arg)]
    annotations = [*(node.annotation for node in annotated), definition.returns]
    found = [node for node in annotations if node is not None]
    for node in sorted(found, key=lambda node: (node.lineno, node.col_offset), reverse=True):
        names = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
        if not all(
            hasattr(builtins, name) or _is_imported(name, known.get(name)) for name in names
        ):
            last = node.end_lineno or node.lineno
            start, rest = lines[node.lineno - 1], lines[last - 1]
            between = start[: node.col_offset] + b"object" + rest[node.end_col_offset :]
            lines[node.lineno - 1 : last] = [between]
    return b"".join(lines).decode()


def _is_imported(name: str, value: Any) -> bool:
    """Return whether an import in the ejected file can provide ``value`` under its name."""
    if isinstance(value, types.ModuleType):
        return True
    module = getattr(value, "__module__", "")
    return module in ("typing", "collections.abc") and hasattr(sys.modules[module], name)


def _is_copied(function: types.FunctionType, user: Callable[..., Any]) -> bool:
    """Return whether the ejected file holds a copy of a function that another one uses."""
    is_own = modules.is_same_template(function.__module__, user.__module__)
    return is_own or function.__module__ in [module.__name__ for module in _COPIED]


def _source_of(function: Callable[..., Any]) -> str:
    """Return the text of ``function`` as it was loaded, even if its file has changed."""
    text = function.__globals__["__loader__"].get_source(function.__module__)
    first = function.__code__.co_firstlineno - 1
    return "".join(inspect.getblock(text.splitlines(keepends=True)[first:]))


def defined_names(text: str) -> Mapping[str, str]:
    """Return what a text defines at its outermost level: the code of imports, else nothing."""
    found = {}
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found[node.name] = ""
        elif isinstance(node, ast.Import | ast.ImportFrom):
            for alias in node.names:
                name = alias.asname or alias.name.partition(".")[0]
                found[name] = ast.unparse(node)
        else:
            stored = (n for n in ast.walk(node) if isinstance(n, ast.Name))
            found |= {n.id: "" for n in stored if isinstance(n.ctx, ast.Store)}
    return found


def used_builtins(text: str) -> set[str]:
    """Return the names of Python itself that a text uses."""
    return {name for name in _loaded(text) if hasattr(builtins, name)}
