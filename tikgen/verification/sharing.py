"""Which arrays that a kernel writes in place may be the very same as which of its inputs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tikgen.template.arguments import Argument, Array, concrete_shape

# For each output in place the input whose array it shares.
Shared = dict[str, str]


def ways_to_share(arguments: Iterable[Argument], sizes: Mapping[str, int]) -> list[Shared]:
    """Return ways in which outputs share inputs; together they hold each pair that is possible.

    No two outputs share one input.

    Args:
        arguments: the arguments of a kernel.
        sizes: value of each size symbol; only arrays of the same shape can be the same.
    """
    arrays = [a for a in arguments if isinstance(a, Array)]
    fitting = {
        output.name: [a.name for a in arrays if _may_be(output, a, sizes)]
        for output in arrays
        if output.written and output.inplace
    }
    ways: list[Shared] = []
    for turn in range(max(map(len, fitting.values()), default=0)):
        way: Shared = {}
        for name, inputs in fitting.items():
            free = [other for other in inputs if other not in way.values()]
            if free:
                way[name] = free[turn % len(free)]
        ways.append(way)
    return ways


def shared_arrays(
    arguments: Iterable[Argument], sizes: Mapping[str, int], wanted: bool | Mapping[str, str]
) -> Shared:
    """Return for each output in place the input whose array it shares.

    Args:
        arguments: the arguments of a kernel.
        sizes: value of each size symbol.
        wanted: the same, of which only arrays of the same shape count; True for the first of
            :func:`ways_to_share`.
    """
    ways = ways_to_share(arguments, sizes) if wanted else []
    if not isinstance(wanted, Mapping):
        return ways[0] if ways else {}
    possible = {pair for way in ways for pair in way.items()}
    return {name: other for name, other in wanted.items() if (name, other) in possible}


def _may_be(output: Array, other: Array, sizes: Mapping[str, int]) -> bool:
    """Tell whether one array can be passed for both; only read ones can be shared."""
    if other.written or (output.dtype, output.storage) != (other.dtype, other.storage):
        return False
    return concrete_shape(output, sizes) == concrete_shape(other, sizes)
