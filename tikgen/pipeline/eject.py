"""Writes a kernel as a standalone file: kernel, NumPy reference, self-check."""

from __future__ import annotations

import ast
import builtins
import inspect
import pprint
import re
import sys
import textwrap
import types
from collections.abc import Callable
from typing import Any

import numpy as np

from tikgen.dtypes import DType
from tikgen.errors import TemplateError
from tikgen.expression import (
    Assignments,
    Equations,
    Expression,
    Reducing,
    Update,
    components,
    reductions,
    stretching,
)
from tikgen.pipeline.budget import has_long_function
from tikgen.pipeline.comparison import perturbed_error, worst_error
from tikgen.pipeline.rendering import Source, Variant
from tikgen.template import boundaries, grid_use, layers, matched, modules
from tikgen.template.arguments import Array, concrete_shape
from tikgen.template.base import Template

_DTYPE_ATTRIBUTES = (
    "value", "numpy", "wide", "eps", "tiny", "bits", "is_float", "is_signed", "lowest", "highest",
)  # fmt: skip


def eject_text(source: Source, arch: str) -> str:
    """Return a Python file that runs without tikgen, and checks itself on ``arch``.

    Raises:
        TemplateError: if there is no reference, it uses a value that cannot be copied, or the
            kernel is for views.
    """
    variant = source.variant
    template = variant.template
    if type(template).reference is Template.reference:
        raise TemplateError(
            template.name, "has no reference to eject; its kernel alone is source.text"
        )
    if variant.views:
        raise TemplateError(template.name, "ejects its kernel for contiguous arrays only")
    collected = _Collected(template.name)
    for function in (template.reference, template.inputs, template.tolerance, worst_error):
        collected.add(function)
    programs = [v for _, v in variant.problem if isinstance(v, Assignments)]
    programs += [u.assignments for u in _updates(variant)]
    if programs or any(isinstance(v, Expression) for _, v in variant.problem):
        collected.add(perturbed_error)
    functions = "\n\n".join(collected.functions.values())
    parts = [
        _with_imports(_numbered(source), _imports(collected)).rstrip(),
        *(_program_function(program, _kernel_dtype(variant)) for program in programs),
        *(f"on_grid = {_update_code(update)}" for update in _updates(variant)),
        f"p = {_namespace(variant, functions)}",
        *collected.constants.values(),
        functions.rstrip(),
        _self_check(source, arch).rstrip(),
        'if __name__ == "__main__":\n    self_check()',
    ]
    return "\n\n\n".join(parts) + "\n"


class _Collected:
    """The functions, constants and imports that a set of functions uses."""

    def __init__(self, template: str) -> None:
        self.template = template
        self.imports: dict[str, str] = {}
        self.constants: dict[str, str] = {}
        self.functions: dict[str, str] = {}

    def add(self, function: Callable[..., Any]) -> None:
        name = function.__name__
        if name in self.functions:
            return
        function = inspect.unwrap(function)  # A copy has no decorators.
        text = textwrap.dedent(_source_of(function))
        tree = ast.parse(text)
        definition = tree.body[0]
        assert isinstance(definition, ast.FunctionDef)
        text = _with_known_annotations(text, definition, function.__globals__)
        text = "\n".join(text.splitlines()[definition.lineno - 1 :]) + "\n"
        self.functions[name] = text
        names = {node.id for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name)}
        for used in sorted(names - {name}):
            if used in function.__globals__:
                self._add_global(used, function.__globals__[used], function)

    def _add_global(self, name: str, value: Any, user: Callable[..., Any]) -> None:
        if isinstance(value, types.ModuleType):
            self.imports[name] = f"import {value.__name__}" + (
                f" as {name}" if name != value.__name__ else ""
            )
        elif isinstance(value, types.FunctionType) and _is_copied(value, user):
            self.add(value)
        elif _is_imported(name, value):
            self.imports[name] = f"from {value.__module__} import {name}"
        elif _is_literal(value):
            self.constants[name] = f"{name} = {pprint.pformat(value, width=90)}"
        else:
            raise TemplateError(
                self.template,
                f"cannot be ejected: {user.__name__} uses {name}, which is neither a function "
                "or constant of the template nor a module",
            )


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
    copied = (boundaries, grid_use, layers, matched, components, reductions, stretching)
    is_own = modules.is_same_template(function.__module__, user.__module__)
    return is_own or function.__module__ in [module.__name__ for module in copied]


def _updates(variant: Variant) -> list[Update]:
    """Return what the equations among the problem parameters become on its grid."""
    settings = dict(variant.problem)
    found = [v for v in settings.values() if isinstance(v, Equations)]
    grid = {n: settings[n] for n in inspect.signature(Equations.on).parameters if n in settings}
    if not isinstance(grid.get("spacing", ()), tuple):
        grid["spacing"] = (grid["spacing"],) * grid["dim"]
    if found and matched.matched_axes(settings.get("boundary"), settings["dim"]):
        raise TemplateError(
            variant.template.name, "cannot be ejected with layers of kind 'cpml'; take 'sponge'"
        )
    return [equations.on(**grid) for equations in found]


def _source_of(function: Callable[..., Any]) -> str:
    """Return the text of ``function`` as it was loaded, even if its file has changed."""
    text = function.__globals__["__loader__"].get_source(function.__module__)
    first = function.__code__.co_firstlineno - 1
    return "".join(inspect.getblock(text.splitlines(keepends=True)[first:]))


def _is_literal(value: Any) -> bool:
    try:
        return bool(ast.literal_eval(repr(value)) == value)
    except (ValueError, SyntaxError):
        return False


def _numbered(source: Source) -> str:
    """Return the text; if it has real functions, each kernel gets a number of its own."""
    lines = source.text.splitlines(keepends=True)
    definitions = [n for n in ast.parse(source.text).body if isinstance(n, ast.FunctionDef)]
    made_by = {d.name: {ast.unparse(each) for each in d.decorator_list} for d in definitions}
    if not any("real_func" in name for names in made_by.values() for name in names):
        return source.text
    for definition in reversed(definitions):
        if "ti.kernel" in made_by[definition.name]:
            first = definition.body[0]
            indent = " " * first.col_offset
            lines[first.lineno - 1 : first.lineno - 1] = [
                f"{indent}# Without an offline cache Taichi takes kernels of equal code for one,\n",
                f"{indent}# even if they call different functions.\n",
                f"{indent}tikgen_variant = {int(source.digest[:7], 16)}\n",
            ]
    return "".join(lines)


def _with_imports(text: str, imports: str) -> str:
    """Return ``text`` with ``imports`` instead of its import of Taichi."""
    lines = text.splitlines(keepends=True)
    for node in ast.parse(text).body:
        if isinstance(node, ast.Import) and node.names[0].name == "taichi":
            lines[node.lineno - 1 : node.end_lineno] = [imports]
            return "".join(lines)
    return imports + text


def _imports(collected: _Collected) -> str:
    collected.imports.setdefault("np", "import numpy as np")
    standard = {"from types import SimpleNamespace"}
    third_party = {"import taichi as ti"}
    for line in collected.imports.values():
        (third_party if "numpy" in line else standard).add(line)
    ordered = [
        sorted(group, key=lambda li: (li.startswith("from"), li))
        for group in (standard, third_party)
    ]
    return "\n".join(ordered[0]) + "\n\n" + "\n".join(ordered[1]) + "\n"


def _namespace(variant: Variant, functions: str) -> str:
    """Return code for the problem parameters, with the attributes that ``functions`` use."""
    lines = ["SimpleNamespace("]
    dtype = _kernel_dtype(variant)
    for name, value in variant.problem:
        if isinstance(value, Expression):
            code = _expression_code(name, value, dtype)
        else:
            code = _value_code(name, value, functions)
        lines.append(f"    {name}={code},")
    return "\n".join([*lines, ")"])


def _value_code(name: str, value: Any, functions: str) -> str:
    if isinstance(value, DType):
        return _dtype_code(value, functions)
    if isinstance(value, dict) and any(isinstance(item, DType) for item in value.values()):
        items = ", ".join(f"{str(k)!r}: {_value_code(k, v, functions)}" for k, v in value.items())
        return f"{{{items}}}"
    if isinstance(value, Assignments):
        return _program_code(value, f"p.{name}")
    if isinstance(value, Equations):
        return "SimpleNamespace(on=lambda **grid: on_grid)"
    if isinstance(value, str):
        return repr(str(value))
    return repr(value)


def _kernel_dtype(variant: Variant) -> DType | None:
    """Return the dtype for which expressions are folded."""
    value = dict(variant.problem).get("dtype")
    return value if isinstance(value, DType) else None


def _expression_code(name: str, expression: Expression, dtype: DType | None) -> str:
    folded = expression.folded(dtype) if dtype else expression
    names = ", ".join(expression.names)
    kind = f"np.result_type({names or 'np.float64'}).type("
    code = re.sub(r"\bdtype\(", kind, folded.numpy_code())
    return (
        "SimpleNamespace(\n"
        f"        folded=lambda dtype: p.{name},\n"
        f"        evaluate=lambda {names}: {code},\n"
        "        error_bound=lambda values, dtype, errors: perturbed_error(\n"
        f"            p.{name}.evaluate, values, dtype, errors\n"
        "        ),\n"
        "    )"
    )


def _program_function(program: Assignments, dtype: DType | None) -> str:
    """Return the code of a NumPy function for a program."""
    folded = program.folded(dtype) if dtype else program
    parameters = ", ".join([*program.inputs, "**_"])
    outputs = ", ".join(f'"{name}": {name}' for name in program.outputs)
    lines = [
        f"def evaluate({parameters}):",
        f'    """Return the outputs of: {program}."""',
        f"    dtype = np.result_type({', '.join(program.inputs) or 'np.float64'}).type",
        '    with np.errstate(all="ignore"):',
        *(f"        {name} = {e.numpy_code()}" for name, e in folded.assignments),
        f"    return {{{outputs}}}",
    ]
    return "\n".join(lines)


def _program_code(program: Assignments, itself: str) -> str:
    """Return code for what templates use of a program; ``evaluate`` is its function."""
    more = ""
    if isinstance(program, Reducing):
        more = (
            f"        written={program.written!r},\n"
            f"        reductions={program.reductions!r},\n"
            f"        terms={program.terms!r},\n"
            f"        functions={{*{sorted(program.functions)!r}}},\n"
        )
    return (
        "SimpleNamespace(\n"
        f"        names={program.names!r},\n"
        f"{more}"
        f"        inputs={program.inputs!r},\n"
        f"        outputs={program.outputs!r},\n"
        f"        folded=lambda dtype: {itself},\n"
        "        evaluate=evaluate,\n"
        "        error_bound=lambda values, dtype, errors=None: {\n"
        "            name: perturbed_error(\n"
        "                lambda **v: evaluate(**v)[name], values, dtype, errors\n"
        "            )\n"
        f"            for name in {program.outputs!r}\n"
        "        },\n"
        "        masses=lambda values, dtype: {\n"
        "            name: np.abs(value) for name, value in evaluate(**values).items()\n"
        "        },\n"
        "    )"
    )


def _update_code(update: Update) -> str:
    """Return code for what templates use of equations on a grid."""
    accesses = pprint.pformat(dict(update.accesses), width=90)
    return (
        "SimpleNamespace(\n"
        f"    inputs={update.inputs!r},\n"
        f"    outputs={update.outputs!r},\n"
        f"    scalars={update.scalars!r},\n"
        f"    arrays={dict(update.arrays)!r},\n"
        f"    indices={dict(update.indices)!r},\n"
        f"    fields={dict(update.fields)!r},\n"
        f"    reductions={dict(update.reductions)!r},\n"
        "    profiles={},\n"
        "    memories={},\n"
        f"    accesses={accesses},\n"
        "    offsets=lambda array: [o for name, o in on_grid.accesses.values() if name == array],\n"
        f"    assignments={_program_code(update.assignments, 'on_grid.assignments')},\n"
        ")"
    )


def _dtype_code(dtype: DType, functions: str) -> str:
    """Return code for what ``functions`` ask of a dtype, and of the one in which it computes."""
    used = [a for a in _DTYPE_ATTRIBUTES if re.search(rf"\.{a}\b", functions)] or ["value"]
    fields = [f"{a}={_plain_code(getattr(dtype, a))}" for a in used]
    if re.search(r"\.computed\b", functions):
        own = ", ".join(f"{a}={_plain_code(getattr(dtype.computed, a))}" for a in used)
        fields.append(f"computed=SimpleNamespace({own})")
    return f"SimpleNamespace({', '.join(fields)})"


def _plain_code(value: Any) -> str:
    if isinstance(value, np.dtype):
        return f'np.dtype("{value.name}")'
    if isinstance(value, float) and not np.isfinite(value):
        return f'float("{value}")'
    return repr(value)


def _self_check(source: Source, arch: str) -> str:
    variant = source.variant
    template, problem = variant.template, variant.problem
    # Without passes of Taichi that would take long.
    is_long = arch == "cpu" and has_long_function(source.text)
    options = f"arch=ti.{arch}" + ", opt_level=0" * is_long
    sizes = {**template.middle_sizes(problem), **dict(variant.sizes)}
    lines = [
        "def self_check():",
        '    """Run the kernel on random numbers and compare it with the reference."""',
        f"    ti.init({options})",
        "    rng = np.random.default_rng()",
        f"    sizes = {sizes!r}",
        "    values = {",
    ]
    for argument in variant.arguments:
        lines.append(f'        "{argument.name}": {_random_code(argument, sizes)},')
    lines += ["    }", "    values.update(inputs(p, sizes, rng))"]
    lines.append("    expected = reference(p, *values.values())")
    outputs = [a for a in variant.arguments if isinstance(a, Array) and a.written]
    if len(outputs) == 1:
        lines.append("    expected = (expected,)")
    names = ", ".join(f'"{a.name}"' for a in outputs)
    lines.append(f"    expected = dict(zip([{names}], expected))")
    lines.append("    allowed = tolerance(p, values, expected)")
    lines.append(
        "    passed = {name: np.copy(v) if np.ndim(v) else v for name, v in values.items()}"
    )
    # Vulkan copies more than what a kernel writes back to a NumPy array.
    made = (
        {"field": "ti.field"} if arch == "cpu" else {"field": "ti.field", "ndarray": "ti.ndarray"}
    )
    taichis = [a for a in variant.arguments if isinstance(a, Array) and a.storage in made]
    for argument in taichis:
        place, dtype = f'passed["{argument.name}"]', argument.dtype.taichi
        lines.append(f"    {place} = {made[argument.storage]}({dtype}, {place}.shape)")
        lines.append(f'    {place}.from_numpy(values["{argument.name}"])')
    scratch = [
        f", ti.ndarray({array.dtype.taichi}, {concrete_shape(array, sizes)!r})"
        for array in variant.workspace
    ]
    lines.append(f"    {variant.template.name}(*passed.values(){''.join(scratch)})")
    lines.append("    for name in expected:")
    lines.append(f"        actual = passed[name]{'.to_numpy()' if taichis else ''}")
    lines.append("        worst = worst_error(actual, expected[name], allowed[name])")
    lines.append('        print(f"{name}: worst error is {worst:.1%} of what is allowed")')
    lines.append("        assert worst <= 1")
    return "\n".join(lines)


def _random_code(argument: Any, sizes: dict[str, int]) -> str:
    dtype = argument.dtype
    call = "uniform(-1, 1" if dtype.is_float else f"integers({-5 if dtype.is_signed else 0}, 6"
    if not isinstance(argument, Array):
        return f"{'float' if dtype.is_float else 'int'}(rng.{call}))"
    shape = concrete_shape(argument, sizes)
    return f'rng.{call}, {shape!r}).astype("{dtype.numpy.name}")'
