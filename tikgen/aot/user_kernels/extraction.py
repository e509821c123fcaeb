"""Extracts users' own kernels as standalone text.

The processes of an export must not run the user's module. So the text has all that the kernel uses:
constants, fields, functions, and the values that Taichi would read at the first launch.
"""

from __future__ import annotations

import builtins
import inspect
import re
import types
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tikgen.aot import manifest
from tikgen.aot.user_kernels.annotations import Signature, of_function, of_kernel
from tikgen.aot.user_kernels.function_text import FunctionText, Read
from tikgen.aot.user_kernels.value_text import Writer, is_module, unused
from tikgen.errors import ExportError
from tikgen.pipeline.kernel import Kernel
from tikgen.taichi import arrays, kernels, runtime

FIELDS = "FIELDS"
_IMPORTS = {"ti": "import taichi as ti", "np": "import numpy as np", "math": "import math"}


@dataclass(frozen=True)
class OwnKernel:
    """A kernel of the user's as a Python module; fields are by their names in the text."""

    name: str
    text: str  # Its global ``FIELDS`` must be set to a dict of the fields first.
    function: str
    arguments: tuple[manifest.Argument, ...]
    templates: dict[str, Any]  # Values of open arguments.
    fields: dict[str, manifest.Field]
    options: dict[str, str]  # Types of Python's numbers, as given to ``ti.init``.
    sources: dict[str, Any] = field(compare=False, repr=False)


def extract(kernel: Any, template_args: Mapping[str, Any] | None = None) -> OwnKernel:
    """Return a ``ti.kernel`` as standalone text; for ``template_args`` see :class:`Module`.

    Raises:
        ExportError: if it is no kernel, uses what cannot be written as text, returns a value,
            takes what Taichi's C library cannot pass, or leaves an argument open.
    """
    written = kernels.written(kernel.function if isinstance(kernel, Kernel) else kernel)
    if written is None or written.decorator != "ti.kernel":
        raise ExportError(str(kernel), "it is no function decorated with ti.kernel")
    name = written.function.__name__
    writer = Writer(name, written.function.__globals__)
    signature = of_kernel(written, template_args or {}, writer)
    module = _Module(writer)
    main = module.add(written.function, written.decorator, signature)
    text = module.text(main)
    return OwnKernel(
        name,
        text,
        main.name,
        signature.arguments(text, main.name),
        signature.templates,
        writer.fields,
        runtime.default_types(),
        writer.sources,
    )


@dataclass(eq=False)
class _Entry:
    """A global name of the text: a constant, an import or a function."""

    wanted: str
    otherwise: str  # The name to try next.
    code: str  # Defines it, with ``{}`` for the name; empty for a builtin.
    kept_from: set[str] = field(default_factory=set)  # Locals of the functions that use it.
    name: str = ""

    @property
    def is_import(self) -> bool:
        return self.code.startswith("import ")

    @property
    def line(self) -> str:
        return self.line_as(self.name)

    def line_as(self, name: str) -> str:
        return self.code.replace("{}", name, 1).replace(
            f"import {name} as {name}", f"import {name}"
        )

    def candidates(self, taken: set[str]) -> Iterator[str]:
        """Yield names for it, the best first; only the first may be ``taken``."""
        yield self.wanted
        if self.otherwise and self.otherwise not in taken:
            yield self.otherwise
        yield unused(f"{self.wanted}_2", taken)


@dataclass(eq=False)
class _Function(_Entry):
    """A function of the text, and the places where it reads other entries."""

    body: FunctionText = field(kw_only=True)
    uses: list[tuple[Any, _Entry]] = field(default_factory=list)


class _Module:
    """The text in the making."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._entries: dict[Any, _Entry] = {}
        # Keeps alive the objects behind the keys.
        self._functions: list[_Function] = []

    def add(self, function: Any, decorator: str, signature: Signature) -> _Function:
        key = (function, tuple((name, id(value)) for name, value in signature.fixed.items()))
        known = self._entries.get(key)
        if isinstance(known, _Function):
            return known
        name = function.__name__
        body = FunctionText(function, signature.names)
        header = f"@{decorator}\n" if decorator else ""
        header += f"def {{}}({signature.code}){signature.returns}:"
        made = _Function(name, "", header, body=body)
        self._entries[key] = made
        scope = _scope_of(function) | signature.fixed
        for read in body.reads:
            try:
                self._take(made, read, scope)
            except ExportError:
                if read.is_certain:
                    raise
        self._functions.append(made)  # After those that it calls.
        return made

    def _take(self, user: _Function, read: Read, scope: Mapping[str, Any]) -> None:
        if read.root not in scope:
            if not hasattr(builtins, read.root):
                raise ExportError(user.wanted, f"it uses the name {read.root}, which nothing has")
            self._use(user, read.chain[0], ("builtin", read.root), read.root, "", "")
            return
        value, steps = scope[read.root], read.attributes
        for length, node in enumerate(read.chain):
            if length:
                value = self._attribute(user, value, read, length)
            names = (read.root, *steps)[: length + 1]
            if self._bind(user, node, value, names):
                self._refuse_gradient(user, value, steps[length:])
                return
        raise ExportError(
            user.wanted,
            f"it uses {'.'.join((read.root, *steps))}, which is of {type(value).__name__} and "
            "cannot be written as text; use numbers, vectors, fields, ti.func, and structs without "
            "methods",
        )

    def _attribute(self, user: _Function, value: Any, read: Read, length: int) -> Any:
        name = read.attributes[length - 1]
        try:
            return getattr(value, name)
        except Exception as error:  # A property may raise anything.
            problem = f"it uses {read.root}.{'.'.join(read.attributes)}: {error}"
            raise ExportError(user.wanted, problem) from None

    def _refuse_gradient(self, user: _Function, value: Any, rest: tuple[str, ...]) -> None:
        if isinstance(value, arrays.TaichiArray) and rest[:1] in [("grad",), ("dual",)]:
            raise ExportError(user.wanted, "it uses the gradient of a field; copy it to a field")

    def _bind(self, user: _Function, node: Any, value: Any, names: tuple[str, ...]) -> bool:
        """Let a node of a function stand for a value; return whether it can be written."""
        wanted, otherwise = names[-1], "_".join(names[-2:])
        if is_module(value):
            key, code = ("import", value.__name__, wanted), f"import {value.__name__} as {{}}"
            self._use(user, node, key, wanted, otherwise, code)
            return True
        code = self._writer.code(value, wanted) or ""
        if code == wanted and hasattr(builtins, wanted):
            self._use(user, node, ("builtin", wanted), wanted, "", "")
        elif code:
            self._use(user, node, (wanted, code), wanted, otherwise, f"{{}} = {code}")
        else:
            return self._bind_function(user, node, value)
        return True

    def _bind_function(self, user: _Function, node: Any, value: Any) -> bool:
        written = kernels.written(value)
        if written is None and isinstance(value, types.FunctionType):
            written = _plain(value)
        if written is None:
            return False
        if written.decorator == "ti.kernel":
            raise ExportError(user.wanted, f"it calls the kernel {value.__name__}; use a ti.func")
        signature = of_function(written, self._writer)
        entry = self.add(written.function, written.decorator, signature)
        self._note(user, node, entry)
        return True

    def _use(
        self, user: _Function, node: Any, key: Any, wanted: str, otherwise: str, code: str
    ) -> None:
        self._note(user, node, self._entries.setdefault(key, _Entry(wanted, otherwise, code)))

    def _note(self, user: _Function, node: Any, entry: _Entry) -> None:
        """Note that a node of a function reads an entry, which its locals must not hide."""
        if entry.code:
            entry.kept_from |= user.body.locals - {getattr(node, "id", "")}
        user.uses.append((node, entry))

    def text(self, main: _Function) -> str:
        """Name every entry, and return the text."""
        self._name_entries(main)
        entries = self._entries.values()
        others = [e for e in entries if e.code and not isinstance(e, _Function)]
        constants = [e.line for e in others if not e.is_import]
        imports = {e.line for e in others if e.is_import} | {_IMPORTS["ti"]}
        written = "\n".join([*constants, *(f.code for f in self._functions)])
        imports |= {_IMPORTS[n] for n in ("np", "math") if re.search(rf"\b{n}\.", written)}
        parts = [
            f'"""The kernel {main.name} and all that it uses, extracted by tikgen."""',
            "\n".join(sorted(imports)),
            *(["\n".join(constants)] if constants else []),
        ]
        functions = [self._rewritten(function) for function in self._functions]
        return "\n\n".join(parts) + "\n\n\n" + "\n\n".join(functions)

    def _name_entries(self, main: _Function) -> None:
        # Builtins keep their names, and so does the kernel.
        entries = sorted(self._entries.values(), key=lambda e: (bool(e.code), e is not main))
        bodies = [function.body for function in self._functions]
        identifiers = set[str]().union(*(body.identifiers for body in bodies))
        taken = {**_IMPORTS, FIELDS: FIELDS}  # And their definitions.
        for entry in entries:
            entry.name = next(
                name
                for name in entry.candidates(identifiers | set(taken))
                if name not in entry.kept_from
                and (name not in taken or (entry.is_import and entry.line_as(name) == taken[name]))
            )
            taken[entry.name] = entry.line_as(entry.name)

    def _rewritten(self, function: _Function) -> str:
        renamed: dict[Any, str] = {}
        for node, entry in function.uses:
            same = function.body.named(node.id) if hasattr(node, "id") else [node]
            renamed |= dict.fromkeys(same, entry.name)
        return function.body.rewritten(function.line, renamed)


def _scope_of(function: Any) -> dict[str, Any]:
    """Return the names that a function finds outside of itself, as Taichi does."""
    scope = dict(function.__globals__)
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        scope[name] = cell.cell_contents
    return scope


def _plain(function: Any) -> kernels.Written | None:
    """Return a function of plain Python, which Taichi runs while it compiles."""
    parameters = inspect.signature(function).parameters.values()
    if any(p.kind is not p.POSITIONAL_OR_KEYWORD for p in parameters):
        return None
    return kernels.Written(
        function, "", tuple((p.name, p.empty, p.default) for p in parameters), None, None
    )
