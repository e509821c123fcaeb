"""Gives each variable of a kernel a name that nothing else has, for changes of its tree.

A variable of Taichi lives in the block that assigns it first, from there on. Before it and outside
of that block its name is another variable's, or one of Python::

    n = 4

    @ti.kernel
    def f(x: ti.types.ndarray(ndim=1)):
        for i in range(n):      # 4
            ...
        n = x.shape[0]
        for i in range(n):      # The extent.
            ...

Here the second ``n`` becomes ``n_2``. So code that reads a tree may take a name for one thing
wherever it finds it, and what is assigned once has one value wherever it is known. A variable that
``z = ti.static(y)`` makes another name of an array is called as the array.
"""

from __future__ import annotations

import ast
import itertools
from collections import defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any

import taichi as ti

from tikgen.taichi import trees

_PLAIN = (ast.Expr, ast.Return, ast.Assert, ast.Pass, ast.Break, ast.Continue)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)


def distinguish(tree: ast.Module, names: Mapping[str, Any]) -> None:
    """Rename variables in the tree of a function that share their name with others.

    Arguments keep their names, and so do indices of loops that only other loops share.

    Args:
        tree: the tree, which is changed.
        names: the names that Taichi finds in it.
    """
    function = trees.function_of(tree)
    if function is None:
        return
    try:
        scopes = _Scopes(function, names)
    except _Refused:
        return
    renamed = scopes.renamed(names)
    if renamed or scopes.aliases:
        _keep_messages(function)
    for variable, name in renamed.items():
        for node in variable.nodes:
            node.id = name
    for variable, name in scopes.aliases.items():
        for node in variable.nodes:
            if isinstance(node.ctx, ast.Load):
                node.id = name


def _keep_messages(function: ast.FunctionDef) -> None:
    """Have assertions without a message show the code that they are written with."""
    for node in ast.walk(function):
        if isinstance(node, ast.Assert) and node.msg is None:
            node.msg = ast.copy_location(ast.Constant(ast.unparse(node.test)), node.test)


class _Refused(Exception):
    """A function has code that Taichi does not take."""


class _Variable:
    """A variable.

    Args:
        is_index: whether a loop gives it values.

    Attributes:
        nodes: where it is named.
    """

    def __init__(self, is_index: bool) -> None:
        self.is_index = is_index
        self.nodes: list[ast.Name] = []


class _Scopes:
    """Finds which variable each name in a function is, as Taichi does.

    Args:
        function: the tree of the function.
        names: the names that Taichi finds in it.

    Raises:
        _Refused: if Taichi does not take the function.
    """

    def __init__(self, function: ast.FunctionDef, names: Mapping[str, Any]) -> None:
        self._names = names
        given = function.args
        listed = [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]
        self._arguments = {one.arg for one in listed if one is not None}
        self._variables: dict[str, list[_Variable]] = defaultdict(list)
        # Names that are of Python somewhere.
        self._outside: set[str] = set()
        self._known: list[dict[str, _Variable]] = [
            {name: _Variable(is_index=False) for name in self._arguments}
        ]
        # Variables that stand for something that has a name already, and that name.
        self.aliases: dict[_Variable, str] = {}
        self._block(function.body)

    def renamed(self, names: Container[str]) -> dict[_Variable, str]:
        """Return the new names of variables."""
        found: dict[_Variable, str] = {}
        taken = {*self._variables, *self._outside, *self._arguments}
        for name, variables in self._variables.items():
            are_indices = all(one.is_index for one in variables)
            is_outside = name in self._outside or name in self._arguments
            if not is_outside and are_indices:
                continue
            is_outside = is_outside or name in names
            for variable in variables if is_outside else variables[1:]:
                new = next(
                    one
                    for number in itertools.count(2)
                    if (one := f"{name}_{number}") not in taken and one not in names
                )
                taken.add(new)
                found[variable] = new
        return found

    def _block(self, body: Sequence[ast.stmt]) -> None:
        self._known.append({})
        for statement in body:
            self._statement(statement)
        self._known.pop()

    def _statement(self, node: ast.stmt) -> None:
        if isinstance(node, ast.Assign):
            self._read(node.value)
            arrays = self._arrays_in(node.value)
            for target in node.targets:
                self._assign(target, self._is_static(node.value))
                for one, array in zip(trees.listed(target), arrays, strict=False):
                    if array and isinstance(one, ast.Name):
                        self.aliases[self._known[-1][one.id]] = array
        elif isinstance(node, ast.AnnAssign):
            self._read_all((node.value, node.annotation))
            self._assign(node.target, is_new=False)
        elif isinstance(node, ast.AugAssign):
            self._read_all((node.target, node.value))
        elif isinstance(node, ast.For):
            self._read(node.iter)
            self._known.append({})
            self._assign(node.target, is_new=self._may_shadow(node.iter), is_index=True)
            self._block(node.body)
            self._known.pop()
            self._block(node.orelse)
        elif isinstance(node, ast.While | ast.If):
            self._read(node.test)
            self._block(node.body)
            self._block(node.orelse)
        elif isinstance(node, _PLAIN):
            self._read_all(ast.iter_child_nodes(node))
        else:
            raise _Refused

    def _read_all(self, nodes: Iterable[ast.AST | None]) -> None:
        for node in nodes:
            if node is not None:
                self._read(node)

    def _read(self, node: ast.AST) -> None:
        """Note what an expression names."""
        if isinstance(node, ast.Name):
            self._find(node)
        elif isinstance(node, ast.NamedExpr):
            self._read(node.value)
            self._assign(node.target, self._is_static(node.value))
        elif isinstance(node, ast.Lambda):
            raise _Refused
        elif isinstance(node, _COMPREHENSIONS):
            for each in node.generators:
                self._read(each.iter)
                self._known.append({})
                self._assign(each.target, is_new=True, is_index=True)
                self._read_all(each.ifs)
            of_each = (node.key, node.value) if isinstance(node, ast.DictComp) else (node.elt,)
            self._read_all(of_each)
            del self._known[-len(node.generators) :]
        else:
            self._read_all(ast.iter_child_nodes(node))

    def _assign(self, target: ast.expr, is_new: bool, is_index: bool = False) -> None:
        """Note what is given a value.

        Args:
            target: the code of it.
            is_new: whether it is a variable of this block, whatever its name is outside.
            is_index: whether a loop gives it values.
        """
        if isinstance(target, ast.Tuple | ast.List):
            for each in target.elts:
                self._assign(each, is_new, is_index)
            return
        if not isinstance(target, ast.Name):
            self._read(target)
            return
        places = self._known[-1:] if is_new else self._known
        if not any(target.id in place for place in places):
            variable = self._known[-1][target.id] = _Variable(is_index)
            self._variables[target.id].append(variable)
        self._find(target)

    def _arrays_in(self, value: ast.expr) -> list[str]:
        """Return the names of the arrays in ``ti.static(y)``, nothing for what else is in it."""
        if not isinstance(value, ast.Call) or not self._is_static(value):
            return []
        return [self._array(one.id) if isinstance(one, ast.Name) else "" for one in value.args]

    def _array(self, name: str) -> str:
        """Return what an array is called that has a name; nothing for what else has it."""
        variable = self._variable(name)
        if variable in self.aliases:
            return self.aliases[variable]
        is_array = variable is not None
        if name in self._names:
            is_array = isinstance(self._names[name], ti.Field)
        return name if is_array and variable is self._known[0].get(name) else ""

    def _variable(self, name: str) -> _Variable | None:
        return next((place[name] for place in reversed(self._known) if name in place), None)

    def _find(self, node: ast.Name) -> None:
        variable = self._variable(node.id)
        if variable is None:
            self._outside.add(node.id)
        else:
            variable.nodes.append(node)

    def _may_shadow(self, over: ast.expr) -> bool:
        """Return whether Taichi lets the indices of a loop have names of variables around it."""
        if not isinstance(over, ast.Call):
            return False
        if over.args and trees.called(over, self._names) is ti.grouped:
            return self._may_shadow(over.args[0])
        return trees.called(over, self._names) in (ti.ndrange, ti.static)

    def _is_static(self, value: ast.expr) -> bool:
        return isinstance(value, ast.Call) and trees.called(value, self._names) is ti.static
