"""What a kernel takes."""

from typing import Any

from tikgen import Array, DType, Scalar
from tikgen.expression import Update, lacks_on_vulkan
from tikgen.expression.components import argument_of
from tikgen.expression.operators import AXES, INDICES
from tikgen.expression.tree import CONSTANTS
from tikgen.template.arguments import Role
from tikgen.template.grid_use import WINDOW
from tikgen.template.once import once
from tikgen.template.totals import partials_of, results_of, totals_of
from tikgen.template.vectors import held_arrays, names_in_code

from .boundaries import boundary_names, faces_of, reach
from .matched import kept_arrays, profile_arrays
from .reading import layered_of, update_of
from .stored import type_of, why_computed

MOST_ARRAYS_ON_VULKAN = 32
# Strips of a line, of which each leaves what it knows of a reduction.
MOST_STRIPS = 16384


@once
def arguments(p: Any) -> tuple[Array | Scalar, ...]:
    """Return what a caller passes, in order."""
    update = update_of(p)
    shape = tuple(f"n{axis}" for axis in range(p.dim))
    margins = reach(p, update, inside=True)
    whole = not p.window and all(low == high == 0 for low, high in margins)
    faces = faces_of(p)
    found: list[Array | Scalar] = []
    arrays = held_arrays(p, update.arrays)
    of_layers = profile_arrays(p) | kept_arrays(p)
    for name in argument_names(p):
        if name in update.reductions:
            continue
        if name in of_layers:
            role: Role = "in" if name not in kept_arrays(p) else "inout"
            found.append(Array(name, p.dtype, of_layers[name], role=role, covered=role == "in"))
            continue
        if name in p.on_device:
            found.append(Array(name, p.dtype, (1,)))
            continue
        if name in p.scalars:
            found.append(Scalar(name, p.dtype))
            continue
        if name in faces:
            others = tuple(n for axis, n in enumerate(shape) if axis not in faces[name])
            found.append(Array(name, type_of(p, name), others or (1,)))
            continue
        held = arrays[name]
        found.append(
            Array(
                name,
                type_of(p, held.names[0]),
                held.shape(shape),
                role=held.role,
                covered=(whole and held.is_whole) or held.role == "in",
            )
        )
    window = (Scalar(name, DType.i32) for name in WINDOW) if p.window else ()
    return (*found, *results_of(totals_of(update.reductions, p.dtype)), *window)


def workspace(p: Any, s: Any) -> tuple[Array, ...]:
    """Return the workspaces of reductions."""
    kept = {1: (MOST_STRIPS,), 2: ("n0",), 3: ("n0", "n1")}
    shape = kept[p.dim] if s.loop == "function" else (s.parts,)
    return partials_of(totals_of(update_of(p).reductions, p.dtype), shape)


def unsupported(p: Any, arch: str) -> str | None:
    """Return why ``arch`` cannot run the problem, or None."""
    if arch != "vulkan":
        return None
    update = update_of(p)
    count = sum(isinstance(argument, Array) for argument in arguments(p))
    count += len(update.reductions)  # Each has a workspace.
    if count > MOST_ARRAYS_ON_VULKAN:
        return (
            f"it takes {count} arrays, and at most {MOST_ARRAYS_ON_VULKAN} work; "
            "split the equations"
        )
    return lacks_on_vulkan(layered_of(p).assignments.folded(p.dtype).functions, p.dtype)


def hint(p: Any, name: str) -> str:
    """Return what a name means in the text, or why it has another type; or nothing."""
    axes = next((axes for axes in (INDICES, AXES) if name in axes[: p.dim]), "")
    if name in argument_names(p):
        why = why_computed(p, name)
        return f"; {why}" if why else ""
    if axes:
        what = "index" if axes == INDICES else "coordinate"
        return (
            f"; {name} is the {what} along axis {axes.index(name)}: give the array another name, "
            f"or its type, types={{{name!r}: '{p.dtype}'}}"
        )
    return f"; {name} is the number {CONSTANTS[name]:.6g}" if name in CONSTANTS else ""


def hint_on_device(p: Any, name: str) -> str:
    """Return how to pass a scalar that lies on the device, or how to have it be a number."""
    return (
        f"; {name} is on_device: pass an array of one {p.dtype} element, or leave {name} out of "
        "on_device for a number"
    )


def takes_views(p: Any) -> tuple[str, ...]:
    """Return the arrays over the grid; none where components lie between its points."""
    if p.layout == "last":
        return ()
    held = held_arrays(p, update_of(p).arrays)
    return tuple(name for name in argument_names(p) if name in held)


@once
def argument_names(p: Any) -> tuple[str, ...]:
    """Return what a caller passes, in order."""
    update = update_of(p)
    names = (*update.inputs, *boundary_names(p), *update.outputs)
    found = (argument_of(str(name), p.layout)[0] for name in names)
    of_layers = (*profile_arrays(p), *kept_arrays(p))
    return tuple(dict.fromkeys((*found, *of_layers, *update.reductions)))


@once
def written_arrays(p: Any) -> dict[str, list[str]]:
    """Return what is written of each argument: its components, or itself."""
    found: dict[str, list[str]] = {}
    for name in update_of(p).outputs:
        found.setdefault(argument_of(name, p.layout)[0], []).append(name)
    return {name: found[name] for name in argument_names(p) if name in found}


@once
def identifiers(p: Any, update: Update) -> dict[str, str]:
    """Return what generated code calls each output and each temporary."""
    arguments = argument_names(p) if p.layout != "separate" else ()
    names = (*update.outputs, *update.temporaries, *update.memories)
    return names_in_code(names, (*update.inputs, *arguments, *kept_arrays(p)))
