"""Writes a kernel as a standalone file: kernel, NumPy reference, self-check."""

from __future__ import annotations

import ast
import contextlib
import functools
import inspect
import pprint
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from tikgen.dtypes import DType
from tikgen.errors import ParameterError, TemplateError
from tikgen.expression import Assignments, Equations, Expression, Reducing, Update
from tikgen.pipeline.budget import has_long_function
from tikgen.pipeline.comparison import perturbed_error, worst_error
from tikgen.pipeline.eject_check import check_reference, kernel_name
from tikgen.pipeline.eject_functions import Collected, defined_names, is_literal
from tikgen.pipeline.rendering import Source, Variant
from tikgen.taichi import runtime
from tikgen.template import matched
from tikgen.template.arguments import Array, concrete_shape
from tikgen.template.base import Template
from tikgen.template.declared import tried_sizes
from tikgen.template.parameters import ProblemModel
from tikgen.template.shapes import array_bytes

_DTYPE_ATTRIBUTES = (
    "name", "value", "numpy", "taichi", "wide", "eps", "tiny", "bits", "is_float", "is_signed",
    "lowest", "highest",
)  # fmt: skip
_OTHER_DTYPES = ("computed", "working")
# Stands for the name of the kernel in the self-check, until that is known.
# What the arrays of a self-check take at most.
_MOST_BYTES = 150_000
_KERNEL_CALL = "__kernel__("

_ELEMENT_TYPE = '''\
class ElementType(str):
    """The name of an element type, with what this file needs to know of it."""

    def __new__(cls, text, /, **known):
        made = super().__new__(cls, text)
        made.__dict__.update(known)
        return made
'''


def eject_text(source: Source, arch: str | None = None) -> str:
    """Return a Python file that runs without tikgen, and checks itself on ``arch``.

    Raises:
        ParameterError: if there is no such arch.
        TemplateError: if there is no reference, it uses a value that cannot be copied, two parts
            of the file use one name, the copy computes something else than the template, or the
            kernel is for views.
    """
    if arch is not None and not runtime.is_arch(arch):
        takes = f"takes {runtime.LISTED_ARCHS}; got {arch!r:.60}. It returns the text of a file"
        raise ParameterError("eject", {"arch": takes})
    arch = arch or runtime.current_arch() or "cpu"
    variant = source.variant
    template = variant.template
    if type(template).reference is Template.reference:
        raise TemplateError(
            template.name, "has no reference to eject; its kernel alone is source.text"
        )
    if variant.views:
        raise TemplateError(template.name, "ejects its kernel for contiguous arrays only")
    collected, comparing = Collected(template.name), Collected(template.name)
    for called in ("reference", "inputs", "tolerance"):
        collected.add(getattr(template, called), called)
    comparing.add(worst_error)
    programs = [v for _, v in variant.problem if isinstance(v, Assignments)]
    programs += [u.assignments for u in _updates(variant)]
    is_exact = not programs and not any(isinstance(v, Expression) for _, v in variant.problem)
    if not is_exact:
        comparing.add(perturbed_error)
    kernel = _numbered(source)
    comparing.rename({*collected.names, *defined_names(kernel)})
    copied = "\n\n".join(collected.functions.values())
    p = _namespace(variant, copied)
    before = [
        *(_program_function(program, _kernel_dtype(variant)) for program in programs),
        *(f"on_grid = {_update_code(update)}" for update in _updates(variant)),
        *([_ELEMENT_TYPE.rstrip()] if "ElementType(" in p else []),
        f"p = {p}",
    ]
    before = [comparing.renamed(part) for part in before]
    after = [copied.rstrip(), *collected.aliases.values()]
    after.append("\n\n".join(comparing.functions.values()).rstrip())
    middle = [*before, *collected.constants.values(), *after]
    sizes = {**_sizes_of_check(variant), **dict(variant.sizes)}
    random = {a.name: _random_code(a, sizes) for a in variant.arguments}
    for name, line in {**comparing.imports, "np": "import numpy as np"}.items():
        collected.add_import(name, line)
    imports = _imports(collected.imports)
    without_taichi = imports.replace("import taichi as ti\n", "")
    text = "\n\n\n".join([without_taichi, *middle])
    returned = check_reference(variant, text, sizes, random, is_exact)
    check = comparing.renamed(_self_check(source, arch, sizes, returned))
    own = "\n\n\n".join(["import taichi as ti\nfrom types import SimpleNamespace", *before, check])
    own += "\n" + "\n".join(comparing.functions.values())
    entry = _entry(template.name, kernel)
    called = kernel_name(entry, kernel, collected, own)
    parts = [
        _with_imports(_renamed(kernel, entry, called), imports).rstrip(),
        *middle,
        check.replace(_KERNEL_CALL, f"{called}("),
        'if __name__ == "__main__":\n    self_check()',
    ]
    return "\n\n\n".join(part for part in parts if part) + "\n"


def _entry(template: str, kernel: str) -> str:
    """Return the name of the kernel that is launched."""
    kernels = [
        node.name
        for node in ast.parse(kernel).body
        if isinstance(node, ast.FunctionDef)
        and "ti.kernel" in [ast.unparse(each) for each in node.decorator_list]
    ]
    return template if template in kernels else kernels[0]


def _renamed(kernel: str, name: str, called: str) -> str:
    """Return a text whose kernel has another name, and says so, unless that is its own."""
    if name == called:
        return kernel
    lines = kernel.splitlines(keepends=True)
    for node in ast.parse(kernel).body:
        if isinstance(node, ast.FunctionDef) and node.name == name:
            at = node.lineno - 1
            lines[at] = lines[at].replace(f"def {name}", f"def {called}", 1)
            first = min(each.lineno for each in node.decorator_list) - 1
            lines.insert(first, f"# Not called {name}, which has another meaning in this file.\n")
            break
    return "".join(lines)


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


def _imports(lines: Mapping[str, str]) -> str:
    standard = {"from types import SimpleNamespace"}
    third_party = {"import taichi as ti"}
    for line in lines.values():
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
    for name, value in _further(variant, functions).items():
        lines.append(f"    {name}={_value_code(name, value, functions)},")
    return "\n".join([*lines, ")"])


def _further(variant: Variant, functions: str) -> dict[str, Any]:
    """Return what ``functions`` use of the problem beside its fields: properties and constants."""
    problem = variant.problem
    found = {}
    for name in sorted(set(re.findall(r"\.(\w+)", functions))):
        known = inspect.getattr_static(type(problem), name, None)
        if name in type(problem).model_fields or hasattr(ProblemModel, name) or known is None:
            continue
        if isinstance(known, property | functools.cached_property) or is_literal(known):
            with contextlib.suppress(Exception):  # The file is compared with the template.
                found[name] = getattr(problem, name)
    return found


def _value_code(name: str, value: Any, functions: str) -> str:
    if isinstance(value, DType):
        return _dtype_code(value, functions)
    if isinstance(value, dict) and any(isinstance(item, DType) for item in value.values()):
        items = ", ".join(f"{str(k)!r}: {_value_code(k, v, functions)}" for k, v in value.items())
        return f"{{{items}}}"
    if isinstance(value, tuple) and any(isinstance(item, DType) for item in value):
        return f"({' '.join(f'{_value_code(name, v, functions)},' for v in value)})"
    if isinstance(value, Assignments):
        return _program_code(value, f"p.{name}")
    if isinstance(value, Equations):
        return "SimpleNamespace(on=lambda **grid: on_grid)"
    if isinstance(value, str):
        return repr(str(value))
    return _plain_code(value)


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


def _dtype_code(dtype: DType, functions: str, others: tuple[str, ...] = _OTHER_DTYPES) -> str:
    """Return code for what ``functions`` ask of a dtype, and of those in which it computes."""
    known = {a: _plain_code(getattr(dtype, a)) for a in _DTYPE_ATTRIBUTES}
    known |= {a: _dtype_code(getattr(dtype, a), functions, ()) for a in others}
    fields = [f"{a}={code}" for a, code in known.items() if re.search(rf"\.{a}\b", functions)]
    return f"ElementType({', '.join([repr(dtype.value), *fields])})"


def _plain_code(value: Any) -> str:
    if isinstance(value, np.dtype):
        return f'np.dtype("{value.name}")'
    if isinstance(value, float) and not np.isfinite(value):
        return f'float("{value}")'
    return repr(value)


def _sizes_of_check(variant: Variant) -> dict[str, int]:
    """Return sizes that fill the parts of the schedule, as far as some kilobytes do.

    Errors that sums of more numbers may have would hide mistakes.
    """
    template, problem = variant.template, variant.problem
    middle, tried = template.middle_sizes(problem), tried_sizes(template, problem)
    options = {symbol: tried.get(symbol, [size]) for symbol, size in middle.items()}
    ranked = [
        {symbol: sizes[max(len(sizes) - rank, 0)] for symbol, sizes in options.items()}
        for rank in range(1, max(map(len, options.values()), default=0) + 1)
    ]
    largest = next((s for s in ranked if _fits(variant, s)), middle)
    for full in template.full_sizes(problem, variant.schedule):
        both = {symbol: max(size, full[symbol]) for symbol, size in largest.items()}
        for sizes in (both, dict(full)):
            if _fits(variant, sizes):
                return sizes
    return largest


def _fits(variant: Variant, sizes: Mapping[str, int]) -> bool:
    return array_bytes(variant.arguments, sizes) <= _MOST_BYTES


def _self_check(source: Source, arch: str, sizes: dict[str, int], returned: type) -> str:
    variant = source.variant
    # Without passes of Taichi that would take long.
    is_long = arch == "cpu" and has_long_function(source.text)
    options = f"arch=ti.{arch}" + ", opt_level=0" * is_long
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
    names = ", ".join(f'"{a.name}"' for a in outputs)
    if not issubclass(returned, tuple | Mapping):
        lines.append("    expected = (expected,)")
    if not issubclass(returned, Mapping):
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
    lines.append(f"    {_KERNEL_CALL}*passed.values(){''.join(scratch)})")
    lines.append("    for name in expected:")
    lines.append(f"        actual = passed[name]{'.to_numpy()' if taichis else ''}")
    lines.append("        worst = worst_error(actual, expected[name], allowed.get(name, 0))")
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
