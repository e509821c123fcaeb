"""The text of a Python function, and which names of other scopes it reads where."""

from __future__ import annotations

import ast
import inspect
import io
import textwrap
import tokenize
import types
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tikgen.errors import ExportError


@dataclass(frozen=True)
class Read:
    """A place where a function reads a name of another scope, and attributes of it.

    Attributes:
        chain: nodes of ``a``, ``a.b``, ``a.b.c``, from the shortest to the longest.
        is_certain: False where the function may mean a variable of its own, which in plain Python
            outlives the block that writes it.
    """

    chain: tuple[ast.expr, ...]
    is_certain: bool

    @property
    def root(self) -> str:
        """Return the name with which it begins."""
        first = self.chain[0]
        assert isinstance(first, ast.Name)
        return first.id

    @property
    def attributes(self) -> tuple[str, ...]:
        """Return the attributes behind the name."""
        return tuple(node.attr for node in self.chain[1:] if isinstance(node, ast.Attribute))


class FunctionText:
    """The text of a function as it was written.

    Args:
        function: the Python function.
        parameters: its parameters, less those that are fixed.

    Raises:
        ExportError: if its text cannot be read.
    """

    def __init__(self, function: types.FunctionType, parameters: Iterable[str]) -> None:
        self.name = function.__name__
        try:
            lines, _ = inspect.getsourcelines(function)
            self._text = textwrap.dedent("".join(lines))
            definition = ast.parse(self._text).body[0]
        except (OSError, TypeError, SyntaxError) as error:
            raise ExportError(
                self.name, f"its text cannot be read ({error}); write it into a file"
            ) from None
        if not isinstance(definition, ast.FunctionDef):
            raise ExportError(self.name, "it is a lambda; write it with def")
        self._body = definition.body
        self._starts = [0]
        for line in self._text.encode().split(b"\n"):
            self._starts.append(self._starts[-1] + len(line) + 1)
        self._header_end = self._end_of_header(definition.lineno)
        reader = _Reader(parameters)
        for statement in definition.body:
            reader.visit(statement)
        inside = [node for statement in definition.body for node in ast.walk(statement)]
        self._names = [node for node in inside if isinstance(node, ast.Name)]
        stored = {node.id for node in self._names if not isinstance(node.ctx, ast.Load)}
        self.locals = stored | set(parameters)
        self.identifiers = {node.id for node in self._names} | self.locals
        self.reads = tuple(
            Read(chain, chain[0].id not in stored)  # type: ignore[attr-defined]
            for chain in reader.chains
        )

    def _end_of_header(self, first_line: int) -> int:
        """Return the byte behind the colon that ends ``def f(...) -> ...:``."""
        depth, is_begun = 0, False
        for token in tokenize.generate_tokens(io.StringIO(self._text).readline):
            is_begun = is_begun or (token.string == "def" and token.start[0] >= first_line)
            depth += (token.string in tuple("([{")) - (token.string in tuple(")]}"))
            if is_begun and token.string == ":" and depth == 0:
                line = self._text.split("\n")[token.end[0] - 1]
                return self._starts[token.end[0] - 1] + len(line[: token.end[1]].encode())
        raise ExportError(self.name, "its text has no end")

    def rewritten(self, header: str, renamed: dict[ast.expr, str]) -> str:
        """Return the text under another header, with some of its nodes replaced.

        Args:
            header: what stands in the place of decorators, name and parameters, up to the colon.
            renamed: what stands in the place of a name, or of a chain of attributes.
        """
        data, patches = self._text.encode(), []
        for node, new in renamed.items():
            assert node.end_lineno is not None and node.end_col_offset is not None
            start = self._starts[node.lineno - 1] + node.col_offset
            stop = self._starts[node.end_lineno - 1] + node.end_col_offset
            spelled = ast.unparse(node)
            if spelled == new:
                continue
            if "".join(data[start:stop].decode().split()) != spelled:  # Older Pythons misplace it.
                raise ExportError(
                    self.name,
                    f"it reads {spelled} within a formatted text; give it to a variable first",
                )
            patches.append((start, stop, new))
        for start, stop, new in sorted(patches, reverse=True):
            data = data[:start] + new.encode() + data[stop:]
        return header + data[self._header_end :].decode().rstrip() + "\n"

    def named(self, name: str) -> Iterator[ast.Name]:
        """Yield every node of the function that is ``name``."""
        return (node for node in self._names if node.id == name)


class _Reader(ast.NodeVisitor):
    """Finds what a function reads that it did not write before, in the order of execution.

    Taichi looks names up as it goes: what a block writes is gone behind it.
    """

    def __init__(self, parameters: Iterable[str]) -> None:
        self._known = set(parameters)
        self.chains: list[tuple[ast.expr, ...]] = []

    def visit(self, node: ast.AST) -> None:
        if isinstance(node, ast.While | ast.If):
            self._visit_branches(node)
        elif isinstance(node, ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp):
            self._visit_comprehension(node)
        else:
            super().visit(node)

    def visit_Name(self, node: ast.Name) -> None:
        if not isinstance(node.ctx, ast.Load):
            self._known.add(node.id)
        elif node.id not in self._known:
            self.chains.append((node,))

    def visit_Attribute(self, node: ast.Attribute) -> None:
        chain: list[ast.expr] = [node]
        while isinstance(chain[-1], ast.Attribute):
            chain.append(chain[-1].value)
        root = chain[-1]
        if not isinstance(root, ast.Name):
            self.visit(root)
        elif root.id not in self._known:
            self.chains.append(tuple(reversed(chain)))

    def visit_Assign(self, node: ast.Assign) -> None:
        self._visit_all([node.value, *node.targets])

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        self._visit_all([*filter(None, [node.value]), node.annotation, node.target])

    def visit_NamedExpr(self, node: ast.NamedExpr) -> None:
        self._visit_all([node.value, node.target])

    def visit_For(self, node: ast.For) -> None:
        self.visit(node.iter)
        with self._block():
            self._visit_all([node.target, *node.body])
        with self._block():
            self._visit_all(node.orelse)

    def _visit_branches(self, node: ast.While | ast.If) -> None:
        self.visit(node.test)
        for branch in (node.body, node.orelse):
            with self._block():
                self._visit_all(branch)

    def visit_Lambda(self, node: ast.Lambda) -> None:
        with self._block():
            self._known |= {argument.arg for argument in node.args.args}
            self.visit(node.body)

    def _visit_comprehension(self, node: Any) -> None:
        with self._block():
            for generator in node.generators:
                self._visit_all([generator.iter, generator.target, *generator.ifs])
            parts = (getattr(node, part, None) for part in ("key", "value", "elt"))
            self._visit_all(part for part in parts if part is not None)

    def _visit_all(self, nodes: Iterable[ast.AST]) -> None:
        for node in nodes:
            self.visit(node)

    @contextmanager
    def _block(self) -> Iterator[None]:
        before = set(self._known)
        yield
        self._known = before
