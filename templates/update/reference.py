"""What a kernel must compute, in NumPy, and the greatest error allowed."""

import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tikgen import DType
from tikgen.expression.components import part_of
from tikgen.expression.reductions import numbers_to_rank, reduced, reduced_error
from tikgen.template.boundaries import padded
from tikgen.template.grid_use import WINDOW
from tikgen.template.layers import layer_errors, layers_in, with_layers

from .arguments import argument_names, written_arrays
from .boundaries import faces_of, place_of, reach, rules_of
from .matched import in_whole, kept_arrays, kept_in_layers, shape_kept, values_in_layers
from .reading import boundary_of, layered_of, origin_of, shape_of, spacing_of, update_of


def reference(p: Any, *arguments: Any) -> Any:
    """Return what every written array must hold."""
    update = update_of(p)
    names = (*argument_names(p), *(WINDOW if p.window else ()))
    given = dict(zip(names, arguments, strict=True))
    values, _ = known_values(p, given)
    values |= values_in_layers(p, given, shape_of(p, update, given), wide_numbers(p))
    found = layered_of(p).assignments.folded(p.dtype).evaluate(**values)
    found |= damped(p, found, given)
    results = []
    for name, held in written_arrays(p).items():
        result = {name: np.array(given[name], wide_of(p.dtype))}
        for each in held:
            part = part_of(result, each, p.layout)
            inner = computed(p, part.shape, given)
            part[inner] = np.broadcast_to(found[each], part.shape)[inner]
        results.append(result[name])
    shape = shape_of(p, update, given)
    kept = {name: np.array(given[name], wide_of(p.dtype)) for name in kept_arrays(p)}
    results += kept_in_layers(p, kept, found, computed(p, shape, given)).values()
    for name, operation in update.reductions.items():
        terms = np.broadcast_to(found[name], shape)[computed(p, shape, given)]
        results.append(reduced(operation, terms))
    return tuple(results) if len(results) > 1 else results[0]


def tolerance(p: Any, inputs: Mapping[str, Any], expected: Mapping[str, Any]) -> Any:
    """Return the greatest error allowed of each output."""
    update = update_of(p)
    if not all(np.isfinite(inputs[name]).all() for name in ranked_fields(p)):
        return {name: 0 if name in update.reductions else np.inf for name in expected}
    # Running error analysis: nothing is assumed about the equations.
    values, errors = known_values(p, inputs)
    bounds = update.assignments.error_bound(values, p.dtype, errors)
    if kept_arrays(p):
        shape = shape_of(p, update, inputs)
        values |= values_in_layers(p, inputs, shape, np.asarray)
        within = layered_of(p).assignments.error_bound(values, p.dtype, errors)
        # Outside of the layers either text may compute a point.
        both = bounds.keys() & within
        bounds = within | {name: np.maximum(bounds[name], within[name]) for name in both}
    layers = layers_in(boundary_of(p), update.fields, p.dim)
    new = {}
    if layers or update.reductions:
        new = layered_of(p).assignments.folded(p.dtype).evaluate(**values)
    if layers:
        after = damped(p, new, inputs)
        places = {name: place_of(p, update.fields[name]) for name in layers}
        before = {name: part_of(inputs, name, p.layout) for name in layers}
        bounds |= layer_errors(
            *(bounds, new, after, layers, places, before, p.dtype.eps, in_whole(p))
        )
    allowed = {}
    for name, held in written_arrays(p).items():
        allowed[name] = np.zeros(np.shape(inputs[name]))
        for each in held:
            part = part_of(allowed, each, p.layout)
            inner = computed(p, part.shape, inputs)
            part[inner] = np.broadcast_to(bounds[each], part.shape)[inner]
    if kept_arrays(p):
        inner = computed(p, shape_of(p, update, inputs), inputs)
        allowed |= kept_in_layers(p, shape_kept(p, inputs), bounds, inner)
    if update.reductions:
        masses = layered_of(p).assignments.masses(values, p.dtype)
        shape = shape_of(p, update, inputs)
        inner = computed(p, shape, inputs)
        for name, operation in update.reductions.items():
            each = (np.broadcast_to(a[name], shape)[inner] for a in (new, bounds, masses))
            allowed[name] = reduced_error(operation, *each, p.dtype)
    return allowed


def inputs(p: Any, sizes: Mapping[str, int], rng: np.random.Generator) -> dict[str, Any]:
    """Return values for the mask and the window, and fields to rank some of which are no number."""
    found: dict[str, Any] = {}
    shape = tuple(sizes[f"n{axis}"] for axis in range(p.dim))
    if (ranked := ranked_fields(p)) and rng.random() < 0.5:
        found = {n: numbers_to_rank(shape, dtype, rng) for n, dtype in ranked.items()}
    if p.window:
        start, stop = sorted(rng.integers(-2, sizes["n0"] + 3, 2).tolist())
        found |= dict(zip(WINDOW, (start, stop), strict=True))
    if p.mask is None:
        return found
    # Random numbers would leave hardly a point to compute.
    stored = (p.types or {}).get(p.mask)
    return found | {p.mask: mask_of(shape, stored.numpy if stored else np.dtype(np.uint8), rng)}


def ranked_fields(p: Any) -> dict[str, DType]:
    """Return the fields of which reductions take the extremes, and nothing else, with their dtypes.

    Where they hold infinities, fast math leaves nothing to compare of what is computed of them.
    """
    update = update_of(p)
    terms = re.findall(r" = (?:max|min)\((?:abs\(|-)?(\w+)\)+(?:;|\n|$)", str(p.equations))
    fields = update.fields.keys() - written_arrays(p).keys()
    if not terms or len(terms) < len(update.reductions) or not fields.issuperset(terms):
        return {}
    dtypes = {name: (p.types or {}).get(name, p.dtype) for name in terms}
    is_plain = p.dtype.is_float and not p.vectors and not p.at
    return dtypes if is_plain and all(dtype.is_float for dtype in dtypes.values()) else {}


def known_values(p: Any, given: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what the assignments read at every point, and bounds on errors of that."""
    update = update_of(p)
    wide = wide_of(p.dtype)
    numbers = {n: np.asarray(given[n], p.dtype.numpy).astype(wide) for n in p.scalars}
    numbers |= {n: numbers[n].reshape(()) for n in p.on_device}
    numbers |= {n: np.asarray(given[n]).astype(p.dtype.numpy).astype(wide) for n in faces_of(p)}
    values: dict[str, Any] = dict(numbers)
    if p.dim > 1:
        values |= {n: np.expand_dims(numbers[n], axes) for n, axes in faces_of(p).items()}
    errors: dict[str, Any] = {}
    shape = shape_of(p, update, given)
    for letter, axis in update.indices.items():
        values[letter] = np.indices(shape, wide, sparse=True)[axis] + wide.type(origin_of(p)[axis])
    rules = rules_of(p, update)
    both = [reach(p, update, inside) for inside in (False, True)]
    ends = [tuple(map(max, one, other)) for one, other in zip(*both, strict=True)]
    accesses = {**update.accesses, **layered_of(p).accesses}
    for array in {name for name, _ in accesses.values()}:
        x = part_of(given, array, p.layout).astype(p.dtype.numpy).astype(wide)
        error = np.zeros_like(x)
        margins = ends if array in rules else [(0, 0)] * p.dim
        if array in rules:
            x, error = padded(x, rules[array], ends, spacing_of(p), numbers, p.dtype.eps)
        for name, (owner, offset) in accesses.items():
            if owner == array:
                window = tuple(
                    slice(low + step, low + step + n)
                    for n, step, (low, _) in zip(shape, offset, margins, strict=True)
                )
                values[name] = x[window]
                if error[window].any():
                    errors[name] = error[window]
    return values, errors


def wide_numbers(p: Any) -> Callable[[Any], Any]:
    """Return what converts numbers to the dtype of references."""
    return lambda numbers: np.asarray(numbers, p.dtype.numpy).astype(wide_of(p.dtype))


def damped(p: Any, new: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the new values of arrays that layers damp."""
    update = update_of(p)
    layers = layers_in(boundary_of(p), update.fields, p.dim)
    places = {name: place_of(p, field) for name, field in update.fields.items()}
    before = {name: part_of(given, name, p.layout) for name in layers}
    mask = None if p.mask is None else np.asarray(given[p.mask])
    return with_layers(new, layers, places, before, mask, in_whole(p))


def computed(p: Any, shape: tuple[int, ...], given: Mapping[str, Any]) -> tuple[slice, ...]:
    """Return the points that the kernel writes."""
    ends = [
        (low, max(low, n - high))
        for n, (low, high) in zip(shape, reach(p, update_of(p), inside=True), strict=True)
    ]
    if p.window:
        start, stop = (int(given[name]) for name in WINDOW)
        low = max(start, ends[0][0])
        ends[0] = (low, max(low, min(stop, ends[0][1])))
    return tuple(slice(*each) for each in ends)


def mask_of(shape: tuple[int, ...], dtype: Any, rng: np.random.Generator) -> Any:
    """Return a mask that is set at a quarter of the points, to the highest number or to 1."""
    highest = np.iinfo(dtype).max
    return rng.choice(np.array([0, 0, 0, 0, 0, 0, 1, highest], dtype), shape)


def wide_of(dtype: DType) -> np.dtype:
    """Return the dtype of references: wider floats, and the same integers, which wrap around."""
    return dtype.wide if dtype.is_float else dtype.numpy
