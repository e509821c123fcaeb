"""Hypothesis strategies: variants, sizes and data drawn together, simplest first."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from tikgen import engines
from tikgen.errors import ParameterError, TemplateError
from tikgen.pipeline.choice import choose
from tikgen.pipeline.rendering import Variant
from tikgen.template.arguments import Array, Scalar, concrete_shape, symbols
from tikgen.template.base import Template
from tikgen.template.blame import as_dict, asked, asked_dict, blamed
from tikgen.template.declared import reason_against, tried_sizes
from tikgen.template.parameters import make_model
from tikgen.template.schedules import fitted
from tikgen.template.shapes import shown
from tikgen.verification import device_fences, fences
from tikgen.verification.case import Case, Container, Data, literal
from tikgen.verification.large import (
    at_least_fixed,
    elements,
    large_sizes,
    most_elements,
    most_sizes,
)
from tikgen.verification.sharing import ways_to_share
from tikgen.verification.values import of_field

if TYPE_CHECKING:
    from hypothesis.strategies import DrawFn, SearchStrategy

# Sizes of 1, primes, powers of two and their neighbours.
PLAIN_SIZES = (1, 2, 3, 5, 7, 8, 13, 16, 17, 31, 33, 64, 67, 128, 131, 257)
PLAIN_ELEMENTS = 5_000
# Of arrays with one axis beyond the tiles of the schedule.
MOST_STRETCHED = 20_000
# Elements behind the last tile that is filled.
MOST_REST = 64
_SMALL_REST = 16
# How many of the sizes that are tried count as short.
_SHORTEST = 3
# Of all arguments together where they fill every part of a schedule; some more bytes may remain.
MOST_FULL_BYTES = 2**26 + 2**10
# Where they take few bytes, there is time for more. Sorted numbers rise or fall by chance.
_FEW_FULL_BYTES = 2**22
_FULL_DATA: tuple[Data, ...] = ("uniform", "records", *("sorted",) * 6)
MOST_TRIALS = 3
# Sizes for which default schedules are chosen.
NEAR_SIZES = (1, 5, 17, 64, 300, 1031, 5000, 70_000, 10**6, 10**7)
# One example in so many fills every part of its schedule, and one in so many has a large launch.
_FULL, _LARGE = 16, 4
_DATA: tuple[Data, ...] = ("whole", "uniform", "sparse", "sorted", "records", "few")

# Where memory next to arrays can be forbidden.
_FENCES = {"cpu": fences, "cuda": device_fences}
# After ten values hypothesis mostly alters those that it has drawn.
_RUN = 9

T = TypeVar("T")


def trials(
    template: Template,
    arch: str,
    fixed: Mapping[str, Any],
    on_unsupported: Callable[[str], None],
    on_invalid: Callable[[ParameterError], None],
    on_drawn: Callable[[Mapping[str, Any]], None] = lambda chosen: None,
    launched_by: Sequence[str] = (engines.TAICHI,),
) -> SearchStrategy[tuple[Case, ...]]:
    """Return a strategy for up to three cases of one variant.

    Args:
        template: what to draw variants of.
        arch: the arch of the cases.
        fixed: parameters that are not drawn.
        on_unsupported: told why, whenever a drawn variant cannot run on ``arch``.
        on_invalid: told of drawn parameters that do not go together.
        on_drawn: told of parameters as they were drawn, before the template adjusts them.
        launched_by: options for what launches a kernel, of which one is drawn for each variant.
    """
    from hypothesis import reject
    from hypothesis import strategies as st

    rules = parameter_strategies(template, fixed)

    def draw_variant(draw: DrawFn) -> tuple[Variant, str]:
        chosen = {name: draw(strategy) for name, strategy in rules.items()}
        on_drawn(chosen)
        default_schedule = draw(st.integers(0, 3)) == 3
        adjusted = {**asked_dict(template, "adjust()", {**chosen, **fixed}, arch), **fixed}
        with blamed(template, "check()"):
            adjusted = fitted(
                template, adjusted, arch, fixed, lambda values: draw(st.sampled_from(values))
            )
        engine = draw(st.sampled_from(launched_by))
        problem = {n: v for n, v in adjusted.items() if n in template.Problem.model_fields}
        if default_schedule:
            adjusted = {n: v for n, v in adjusted.items() if n in fixed} | problem
        own = fixed.keys().isdisjoint(template.Schedule.model_fields)
        try:
            with blamed(template, "default_schedule() or check()"):
                if own:
                    check_own_schedule(template, problem, arch, None, engine)
                variant = choose(template, None, None, arch, adjusted, engine=engine)[0]
                if default_schedule and (needed := symbols(variant.arguments)):
                    # A call may take the default of any sizes, and be launched with others.
                    near = {name: draw(st.sampled_from(NEAR_SIZES)) for name in needed}
                    if own:
                        check_own_schedule(template, problem, arch, near, engine)
                    variant = choose(template, None, None, arch, adjusted, near, engine)[0]
        except ParameterError as error:
            on_invalid(error)
            reject()
        if reason := reason_against(template, variant.problem, arch):
            on_unsupported(reason)
            reject()
        return variant, engine

    @st.composite
    def draw_trials(draw: DrawFn) -> tuple[Case, ...]:
        variant, engine = draw_variant(draw)
        params = {name: literal(value) for name, value in variant.params.items()}
        drawn_launches = draw(
            st.lists(launches(template, variant, arch), min_size=1, max_size=MOST_TRIALS)
        )
        full = full_launches(template, variant, arch)
        if full and draw(st.integers(0, _FULL - 1)) == _FULL - 1:
            drawn_launches.append(draw(st.sampled_from(full)))
        large = large_sizes(template, variant, arch)
        if large is not None and draw(st.integers(0, _LARGE - 1)) == _LARGE - 1:
            # Otherwise like the last one, so that nothing more has to be compiled.
            more = {"sizes": draw(large), "baked": False, "large": True}
            drawn_launches.append(drawn_launches[-1] | more)
        return tuple(
            Case(
                template.name,
                str(template.folder),
                arch,
                params,
                engine=engine,
                fingerprint=template.fingerprint,
                **one,
            )
            for one in drawn_launches
        )

    return draw_trials()


def check_own_schedule(
    template: Template,
    problem: Mapping[str, Any],
    arch: str,
    near: Mapping[str, int] | None,
    engine: str,
) -> None:
    """Raise :class:`TemplateError` where the default schedule of a problem cannot be built.

    Args:
        template: the template.
        problem: problem parameters by name.
        arch: arch to run on.
        near: sizes for which the schedule is chosen, or None where they are not known.
        engine: what launches the kernel.

    Raises:
        ParameterError: if it is the problem that is refused.
        TemplateError: if it is the schedule, on an arch that the template supports.
    """
    try:
        choose(template, {}, None, arch, problem, near, engine)
    except ParameterError as error:
        if error.parameter not in template.Schedule.model_fields:
            raise
        if reason_against(template, make_model(template.Problem, problem, template.name), arch):
            return
        sizes = f", for {shown(near)}" if near else ""
        told = f"the default schedule of a drawn problem cannot be built on {arch}{sizes}: {error}"
        raise TemplateError(template.name, told) from None


def launches(template: Template, variant: Variant, arch: str) -> SearchStrategy[dict[str, Any]]:
    """Return a strategy for how ``variant`` is launched: what a :class:`Trial` takes by name."""
    from hypothesis import strategies as st

    containers: tuple[Container, ...] = ("numpy", "ndarray")
    if arch in _FENCES and _FENCES[arch].are_fences_known():
        containers += ("fenced",)
    arrays = [a for a in variant.arguments if isinstance(a, Array)]
    inputs = [a for a in arrays if not a.written]
    # Which of the ways to share arrays that the sizes allow.
    way = st.none() | st.integers(0, len(inputs) - 1) if inputs else st.none()
    drawn_launch = st.fixed_dictionaries(
        {
            "sizes": _sizes(template, variant, most_elements(arch, variant)),
            "data": st.sampled_from(_data_for(variant)),
            "container": st.sampled_from(containers),
            "inplace": way if any(a.inplace for a in arrays) else st.none(),
            # Each shape that is baked in is one more kernel to compile.
            "baked": st.integers(0, 3).map(lambda n: n == 3),
            "seed": st.integers(0, 2**31 - 1),
        }
    )

    def launch(found: dict[str, Any]) -> dict[str, Any]:
        ways = ways_to_share(arrays, found["sizes"])
        turn = found["inplace"]
        return found | {"inplace": ways[turn % len(ways)] if ways and turn is not None else False}

    return drawn_launch.map(launch)


def _data_for(variant: Variant) -> tuple[Data, ...]:
    """Return the kinds of data that differ for the arguments of a variant."""
    given = [a for a in variant.arguments if isinstance(a, Array | Scalar)]
    data = _DATA
    if any(a.dtype.bits == 64 and not a.dtype.is_float for a in given):
        data += ("large",)
    # Elsewhere large numbers may be indices, or too large for the way in which a kernel sums.
    if any(a.values == "any" for a in given):
        data += ("wide", "wide")
    return data


def full_launches(template: Template, variant: Variant, arch: str) -> list[dict[str, Any]]:
    """Return launches that fill every part of the schedule, where the others are too small to.

    They take NumPy arrays, around which writes are seen: one part too many is such a write.
    """
    if arch != "cpu":
        return []
    models, takes = (variant.problem, variant.schedule), "a tuple of dicts"
    given = [dict(n) for n in asked(template, "full_sizes()", (tuple, list), takes, *models)]
    arrays = [a for a in variant.arguments if isinstance(a, Array)]
    ways = [ways_to_share(arrays, sizes) for sizes in given]
    found: list[dict[str, Any]] = []
    for number in range(max([len(_FULL_DATA), *(2 * len(own) for own in ways)])):
        most = _FEW_FULL_BYTES if number else MOST_FULL_BYTES
        for sizes, own in zip(given, ways, strict=True):
            size = sum(math.prod(concrete_shape(a, sizes)) * a.dtype.bits // 8 for a in arrays)
            if size > most:
                continue
            # What is computed twice shows only where it reads what it wrote.
            shared = own[number // 2 % len(own)] if own and number % 2 else False
            launch = {"sizes": sizes, "inplace": shared, "seed": len(found), "baked": False}
            data = _FULL_DATA[number % len(_FULL_DATA)]
            found.append(launch | {"data": data, "container": "numpy"})
    return found


def drawn(strategy: SearchStrategy[T], count: int, seed: int) -> list[T]:
    """Return values that ``strategy`` draws: the simplest one, and others unlike each other."""
    found: list[T] = []
    for run in range(-(-count // _RUN)):
        found += _one_run(strategy, f"{seed}-{run}")[min(run, 1) :]
    return found[:count]


def _one_run(strategy: SearchStrategy[T], seed: str) -> list[T]:
    import hypothesis
    from hypothesis import HealthCheck, Phase

    found: list[T] = []

    @hypothesis.seed(seed)
    @hypothesis.settings(
        max_examples=_RUN + 1,
        phases=(Phase.generate,),
        suppress_health_check=list(HealthCheck),
        database=None,
        deadline=None,
        derandomize=False,
    )
    @hypothesis.given(strategy)
    def collect(value: T) -> None:
        found.append(value)

    collect()
    return found


def parameter_strategies(
    template: Template, fixed: Iterable[str] = ()
) -> dict[str, SearchStrategy[Any]]:
    """Return a strategy for each parameter that is not fixed and whose values are known.

    Raises:
        TemplateError: if a required parameter can neither be drawn nor left out.
    """
    with blamed(template, "strategies()"):
        names = [*template.Problem.model_fields, *template.Schedule.model_fields]
        own = as_dict(template, "strategies()", template.strategies(), "parameter", names)
    found = {}
    for model in (template.Problem, template.Schedule):
        for name, field in model.model_fields.items():
            if name in fixed:
                continue
            strategy = own[name] if name in own else of_field(field)
            if strategy is not None:
                found[name] = strategy
            elif field.is_required():
                raise TemplateError(
                    template.name,
                    f"verification cannot draw the required parameter {name!r}; give it a value, "
                    "or let strategies() of the template draw it",
                )
    return found


def largest_launch(template: Template, variant: Variant, arch: str) -> dict[str, Any]:
    """Return a launch with the largest sizes that are drawn, as far as arrays stay small."""
    tried = _tried(template, variant, most_elements(arch, variant))
    sizes = {name: own[-1] for name, own in tried.items()}
    most = at_least_fixed(MOST_STRETCHED, variant)
    while elements(variant, sizes) > most:
        longer = [name for name in sizes if sizes[name] > tried[name][0]]
        if not longer:
            break
        longest = max(longer, key=sizes.__getitem__)
        sizes[longest] = tried[longest][tried[longest].index(sizes[longest]) - 1]
    launch: dict[str, Any] = {"sizes": sizes, "data": "uniform", "container": "numpy", "seed": 0}
    return launch | {"inplace": False, "baked": False}


def _tried(template: Template, variant: Variant, limit: int) -> dict[str, list[int]]:
    """Return the sizes that are drawn of each symbol, from the smallest one on."""
    needed = symbols(variant.arguments)
    given = tried_sizes(template, variant.problem)
    most = PLAIN_ELEMENTS ** (1 / max(1, len(needed)))
    plain = [n for n in PLAIN_SIZES if n <= most]
    return {name: [n for n in given.get(name, plain) if n <= limit] for name in needed}


def _sizes(template: Template, variant: Variant, limit: int) -> SearchStrategy[dict[str, int]]:
    from hypothesis import strategies as st

    tried = _tried(template, variant, limit)
    needed = list(tried)
    beyond = _beyond_tiles(variant)
    largest = most_sizes(template, variant)
    stretched = at_least_fixed(MOST_STRETCHED, variant)
    # Where all are powers of two, as for a ring of slots, others may make no sense.
    free = [name for name in needed if beyond and not all(_is_power_of_two(n) for n in tried[name])]
    sides = [size for size in beyond if size**2 <= MOST_STRETCHED]

    @st.composite
    def draw_sizes(draw: DrawFn) -> dict[str, int]:
        sizes = {name: draw(st.sampled_from(tried[name])) for name in needed}
        # The last axis is the one that most schedules split.
        long = draw(st.none() | st.sampled_from([*free, free[-1]])) if free else None
        if long is None:
            # What reaches beyond both ends of an axis at once has code of its own.
            if needed and draw(st.integers(0, 3)) == 3:
                short = draw(st.sampled_from(needed))
                sizes[short] = draw(st.sampled_from(tried[short][:_SHORTEST]))
            return sizes
        others = [name for name in needed if name != long]
        seconds = [name for name in free if name != long]
        # Tiles have two sides: to fill them takes two long axes, and short ones beside them. So
        # does a layer at the far end of a grid, which a part meets where it reaches up to there.
        has_two = sides and seconds and draw(st.integers(0, 3)) >= (1 if largest else 3)
        second = draw(st.sampled_from(seconds)) if has_two else None
        for other in others:
            # Next to a long axis others of 1 or 2 leave no interior, and of the greatest no room.
            some = slice(_SHORTEST) if second else slice(len(tried[other]) // 2, None)
            sizes[other] = draw(st.sampled_from(tried[other][some]))
        if second:
            most = largest.get(second, MOST_STRETCHED)
            fitting = [most] if second in largest and draw(st.booleans()) else sides
            sizes[second] = min(most, draw(st.sampled_from(fitting)))
            others.remove(second)
        # Any rest may follow the last full tile, and many of them have code of their own; those
        # that the reach of a stencil makes none are small.
        rest = draw(st.just(0) | st.integers(1, _SMALL_REST) | st.integers(1, MOST_REST))
        wanted = draw(st.sampled_from(beyond))

        def fits(length: int) -> bool:
            return elements(variant, {**sizes, long: length + rest}) <= stretched

        # Either it is shorter and fills other tiles, or the others are short and have no interior.
        fitting = list(filter(fits, beyond))
        if fitting and not fits(wanted) and draw(st.booleans()):
            wanted = draw(st.sampled_from(fitting))
        for part in (2, 4, len(PLAIN_SIZES)):
            if not fits(wanted):
                sizes |= {other: tried[other][len(tried[other]) // part] for other in others}
        if not fits(wanted):
            fitting = list(filter(fits, beyond))
            if not fitting:
                return sizes
            wanted = draw(st.sampled_from(fitting))
        sizes[long] = min(wanted + rest, largest.get(long, wanted + rest))
        return sizes

    return draw_sizes().filter(lambda sizes: elements(variant, sizes) <= limit)


def _beyond_tiles(variant: Variant) -> list[int]:
    """Return sizes that fill the tiles, buffers and chunks of the schedule, and a bit more.

    Several full ones show what goes from part to part: of two parts the first has nothing before.
    """
    steps = {value for _, value in variant.schedule if type(value) is int and value > 1}
    steps |= {one * other for one, other in itertools.combinations(sorted(steps), 2)}
    found = {step + more for step in steps for more in (-1, 0, 1, step + 7, 8 * step + 5)}
    return sorted(size for size in found if size <= MOST_STRETCHED)


def _is_power_of_two(number: int) -> bool:
    return number > 0 and number & (number - 1) == 0
