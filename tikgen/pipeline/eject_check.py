"""Checks an ejected file before it is written: its names, and what its reference computes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from tikgen.errors import TemplateError
from tikgen.pipeline.comparison import worst_error
from tikgen.pipeline.eject_functions import Collected, defined_names, used_builtins
from tikgen.pipeline.rendering import Variant
from tikgen.template.arguments import Array
from tikgen.template.outputs import in_order

# The variables of self_check, which calls the kernel.
LOCALS = ("rng", "sizes", "values", "expected", "allowed", "passed", "name", "actual", "worst")


def kernel_name(name: str, kernel: str, collected: Collected, own: str) -> str:
    """Return the name of the kernel in the file: its own, unless that has another meaning there.

    Args:
        name: its name in ``kernel``.
        kernel: text of the kernel.
        collected: what was collected of the template.
        own: what tikgen adds: its functions, ``p`` and the self-check.

    Raises:
        TemplateError: if other names have two meanings.
    """
    given, ours = defined_names(kernel), defined_names(own)
    used = {
        "tikgen's own part": used_builtins(own),
        "the reference": collected.builtins,
        "the kernel": used_builtins(kernel),
    }
    for each in sorted(collected.names - {"np"}):
        if each in ours:
            _refuse(collected, each, "template.py", "tikgen's own part")
        users = [part for part, names in used.items() if each in names]
        if users:
            _refuse(collected, each, "template.py", f"Python; {users[0]} uses that")
    del used["the kernel"]
    for each, line in given.items():
        users = [part for part, names in used.items() if each in names]
        if each != name and users:
            _refuse(collected, each, "the text of the kernel", f"Python; {users[0]} uses that")
        same = line and line in (ours.get(each), collected.imports.get(each))
        if each != name and not same and each in {*ours, *collected.names}:
            _refuse(collected, each, "the text of the kernel", "the rest of the file")
    taken = {
        *ours,
        *LOCALS,
        *collected.names,
        *(given.keys() - {name}),
        *set().union(*used.values()),
    }
    return free_name(name, taken)


def free_name(name: str, taken: Iterable[str]) -> str:
    """Return a name that is not taken, like the given one."""
    return name if name not in taken else free_name(f"{name}_kernel", taken)


def _refuse(collected: Collected, name: str, where: str, other: str) -> None:
    raise TemplateError(
        collected.template,
        f"cannot be ejected: {name!r} is a name of {where}, and of {other}; rename it there",
    )


def check_reference(
    variant: Variant, text: str, sizes: Mapping[str, int], random: Mapping[str, str], exact: bool
) -> type:
    """Compare the functions of an ejected file with those of the template, on random numbers.

    Args:
        variant: what is ejected.
        text: the file, less what needs Taichi.
        sizes: value of each size symbol.
        random: code for a random value of each argument.
        exact: whether both compute in the same way, to the last bit.

    Returns:
        The type of what ``reference`` returns.

    Raises:
        TemplateError: if they fail, or differ.
    """
    template, problem = variant.template, variant.problem
    file: dict[str, Any] = {"__name__": "ejected"}
    try:
        exec(compile(text, f"<ejected {template.name}>", "exec", dont_inherit=True), file)
    except Exception as error:
        _fail(variant, f"its functions cannot stand alone: {_said(error)}")
    results = []
    outputs = [a.name for a in variant.arguments if isinstance(a, Array) and a.written]
    ours = template.inputs, template.reference, template.tolerance, problem
    theirs = file["inputs"], file["reference"], file["tolerance"], file["p"]
    for whose, (inputs, reference, tolerance, p) in (("template", ours), ("file", theirs)):
        rng = np.random.default_rng(0)
        values = {n: eval(code, {"np": np, "rng": rng}) for n, code in random.items()}
        step = "inputs"
        try:
            with np.errstate(all="ignore"):
                values.update(inputs(p, sizes, rng))
                step = "reference"
                found = reference(p, *_copies(values).values())
                wanted = map(np.asarray, in_order(template.name, outputs, found))
                expected = dict(zip(outputs, wanted, strict=True))
                step = "tolerance"
                allowed = tolerance(p, _copies(values), _copies(expected))
        except TemplateError:
            raise
        except Exception as error:
            trouble = f"{step}() of the {whose} fails: {_said(error)}"
            if whose == "template":
                raise TemplateError(template.name, f"cannot be ejected: {trouble}") from error
            _fail(variant, trouble)
        results.append((values, expected, allowed))
    (given, wanted_by, limits), (given_in_file, found_by, limits_in_file) = results
    _compare(variant, "inputs", given, given_in_file)
    if exact:
        _compare(variant, "reference", wanted_by, found_by)
        _compare(variant, "tolerance", dict(limits), dict(limits_in_file))
    for array in variant.arguments:
        if isinstance(array, Array) and array.written:
            name = array.name
            if found_by[name].shape not in ((), wanted_by[name].shape):
                _fail(variant, f"{name} of its reference has the shape {found_by[name].shape}")
            with np.errstate(all="ignore"):
                # A constant may be one number, where the template has an array.
                got = np.broadcast_to(found_by[name], wanted_by[name].shape)
                limit = dict(limits).get(name, 0)
                worst = worst_error(got.astype(array.dtype.numpy), wanted_by[name], limit)
            if not worst <= 1:
                _fail(variant, f"{name} of its reference differs from that of the template")
    return type(found)


def _copies(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: np.copy(v) if np.ndim(v) else v for name, v in values.items()}


def _compare(
    variant: Variant, function: str, wanted: Mapping[str, Any], found: Mapping[str, Any]
) -> None:
    if wanted.keys() != found.keys():
        _fail(
            variant, f"{function}() of the file gives {[*found]}, that of the template {[*wanted]}"
        )
    for name, value in wanted.items():
        one, other = np.asarray(found[name]), np.asarray(value)
        if one.dtype == other.dtype and one.shape == other.shape:
            differ = (one != other) & ~((one != one) & (other != other))
            if not differ.any():
                continue
            one, other = one[differ], other[differ]
        shown = f"{one.ravel()[:1]} where that of the template gives {other.ravel()[:1]}"
        _fail(variant, f"{function}() of the file gives {name} {shown}, in {one.dtype}")


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def _fail(variant: Variant, problem: str) -> None:
    raise TemplateError(
        variant.template.name,
        f"cannot be ejected: {problem}. A file has the fields and properties of p, the functions "
        "and constants of the template, and NumPy",
    )
