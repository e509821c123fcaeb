"""A kernel that stays on the device and answers messages from a ring in memory."""

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

from tikgen import (
    Array,
    Assignments,
    Cost,
    DType,
    Identifier,
    Invalid,
    ProblemModel,
    ScheduleModel,
    Template,
    parameter,
)
from tikgen.errors import ExpressionError
from tikgen.template.rules import GPUS

# Words of `control`, each on a cache line of its own, as _shared/ring.j2 has them.
WORDS = 128
COMMAND, TAIL, DONE, STATE, BEAT, LIMIT, POLLS = range(0, WORDS - 16, 16)
# Behind STATE is the state before it.
BEFORE = STATE + 1
# How often a kernel polls before it looks at its heartbeat.
POLLS_A_LOOK = 1024
RUN, PAUSE, DRAIN, END = range(4)
NOT_BEGUN, RUNNING, PAUSED, STOPPED, DRAINED, ABANDONED = range(6)
MOST_ARRAYS = 60
# Names that the text of the kernel has for itself, beside those that begin with "ring_".
TAKEN = (
    "control",
    "floor_divide",
    "nearest",
    "power",
    "remainder",
    "ring",
    "round_half_even",
    "sign_of",
    "ti",
)
SUFFIXES = ("_in", "_out", "_state")
# What verification draws.
HANDLERS = ("y = a*x + b; total = total + x", "total = max(total, a - b); y = x*total")
STATELESS = "y = a*x - b"


class Ring(Template):
    """Kernel that stays on the device and answers messages from a ring in memory.

    A message is a slot of each input column, its reply the same slot of each output column, and
    `handler` computes it: assignments over the names of inputs and state, all in `dtype`. What it
    assigns to a name of `state` is there for the next message. Every column has as many slots, a
    power of two. A launch ends when the words of `control` say so, which the other side writes;
    `tikgen.ring.PersistentRing` is that side.

    A whole number that is computed in a float `dtype` is rounded to the nearest, halves upwards.
    """

    class Problem(ProblemModel):
        handler: Assignments = parameter("what to do with a message, such as 'y = 2*x; n = n + 1'")
        inputs: dict[Identifier, DType] = parameter("dtypes of the columns of a message, by name")
        outputs: dict[Identifier, DType] = parameter("dtypes of the columns of a reply, by name")
        state: tuple[Identifier, ...] = parameter("names that last from message to message", ())
        dtype: DType = parameter("type in which the handler computes, and of the state", DType.f32)

        def check(self) -> None:
            names_problem(self)
            dtypes_problem(self)
            try:
                self.handler.check(self.dtype)
            except ExpressionError as error:
                raise Invalid("handler", f"cannot be used: {error}") from None

    class Schedule(ScheduleModel):
        polling: Literal["atomic", "fence"] = parameter(
            "how words are read and written",
            "atomic",
            needs={"atomic": {"arch": "cpu"}, "fence": {"arch": GPUS}},
        )
        lanes: Literal[1, 32, 64, 128, 256, 512] = parameter(
            "threads that share the messages of a batch", 1, only={"state": ((),), "arch": GPUS}
        )
        batch: Literal[1, 64, 1024, 4096, 65536] = parameter(
            "most messages between two looks at the words", 4096
        )

    def default_schedule(
        self, p: Any, arch: str, sizes: Mapping[str, int] | None
    ) -> Mapping[str, Any]:
        # H100: 256 threads took 54.6 M messages/s, one took 5.6 M; a round trip 6.7 and 5.7 us.
        return {} if arch == "cpu" else {"polling": "fence", "lanes": 1 if p.state else 256}

    def adjust(self, drawn: dict[str, Any], arch: str) -> dict[str, Any]:
        if drawn.get("state") == ():
            drawn |= {"handler": STATELESS, "outputs": {"y": "f32"}}
        dtype = DType(drawn["dtype"])
        drawn["inputs"] = {
            name: column if holds(dtype, DType(column)) else dtype
            for name, column in drawn["inputs"].items()
        }
        return drawn

    def unsupported(self, p: Any, arch: str) -> str | None:
        if arch == "vulkan":
            return (
                "a kernel there sees nothing that is written while it runs, so that none can stay; "
                "use engine='batch', or cpu or cuda"
            )
        return None

    def arguments(self, p: Any) -> tuple[Array, ...]:
        return (
            Array("control", DType.i32, (WORDS,), role="inout", covered=False),
            *(Array(f"{name}_in", dtype, ("slots",)) for name, dtype in sorted(p.inputs.items())),
            *(
                Array(f"{name}_out", dtype, ("slots",), role="out", covered=False)
                for name, dtype in sorted(p.outputs.items())
            ),
            *(Array(f"{name}_state", p.dtype, (1,), role="inout") for name in p.state),
        )

    def context(self, p: Any, s: Any) -> Mapping[str, Any]:
        stored = {name: _stored(p, name, dtype) for name, dtype in p.outputs.items()}
        values = {name: name for name in p.handler.names}
        lines = [
            f"{name} = {expression.taichi(values, p.dtype)}"
            for name, expression in p.handler.folded(p.dtype).assignments
        ]
        return {
            "helpers": p.handler.helpers(p.dtype),
            "is_whole": any("nearest(" in code for code in stored.values()),
            "inputs": sorted(p.inputs.items()),
            "outputs": sorted(p.outputs.items()),
            "stored": stored,
            "handled": "\n".join(lines),
        }

    @staticmethod
    def reference(p: Any, control: np.ndarray, *arrays: np.ndarray) -> tuple[np.ndarray, ...]:
        queue, outputs, state = split(p, arrays)
        slots, after = taken_slots(control, arrays[0].size)
        values, state, _ = handled(p, {n: x[slots] for n, x in queue.items()}, state)
        replies = []
        for name, before in outputs.items():
            filled = before.astype(wide_dtype(before.dtype))
            filled[slots] = converted(values[name], before.dtype)
            replies.append(filled)
        return (after, *replies, *(np.reshape(state[name], 1) for name in p.state))

    @staticmethod
    def tolerance(p: Any, inputs: Mapping[str, Any], expected: Mapping[str, Any]) -> Any:
        allowed: dict[str, Any] = dict.fromkeys(expected, 0)
        if drains_long(inputs["control"]):
            allowed["control"] = np.where(np.arange(WORDS) == POLLS, np.inf, 0)
        if not p.dtype.is_float:
            return allowed
        queue, outputs, state = split(p, list(inputs.values())[1:])
        slots, _ = taken_slots(inputs["control"], next(iter(queue.values())).size)
        queue = {n: x[slots] for n, x in queue.items()}
        values, _, errors = handled(p, queue, state, has_errors=True)
        if slots.size:
            allowed.update({f"{name}_state": errors[name][-1:] for name in p.state})
        for name, before in outputs.items():
            error = np.zeros(before.size, p.dtype.wide)
            error[slots] = moved(values[name], errors[name], before.dtype)
            allowed[f"{name}_out"] = error
        return allowed

    @staticmethod
    def inputs(p: Any, sizes: Mapping[str, int], rng: np.random.Generator) -> dict[str, Any]:
        # All but the words proper must stay as they are. Counters wrap around.
        control = rng.integers(-(2**31), 2**31, WORDS, dtype=np.int64)
        edges = (0, 2**31 - 3, -3, -(2**31), int(rng.integers(-(2**31), 2**31)))
        done = int(rng.choice(edges))
        count = int(rng.choice((1, sizes["slots"], int(rng.integers(1, sizes["slots"] + 1)))))
        # Most launches take messages, so that there is something to compare.
        command = int(rng.choice((RUN, DRAIN, PAUSE, END), p=(0.3, 0.58, 0.06, 0.06)))
        if command == DRAIN and not rng.integers(16):
            count = 0
        if command == DRAIN and not rng.integers(8):
            # So many that the heartbeat is looked at meanwhile, where they are taken one by one.
            count = POLLS_A_LOOK + int(rng.integers(POLLS_A_LOOK))
        control[[COMMAND, STATE, DONE, TAIL]] = command, NOT_BEGUN, done, done + count
        # The heartbeat stands still, which ends what has no other end. Only 0 is no beat at all.
        control[LIMIT] = rng.integers(1, 4) if command in (RUN, PAUSE) else rng.integers(3)
        if drains_long(control):
            control[LIMIT] = rng.choice((0, 3))
        control[BEAT] *= rng.integers(2)
        return {"control": control.astype(np.int32)}

    def workload(
        self, p: Any, sizes: Mapping[str, int], rng: np.random.Generator
    ) -> dict[str, dict[str, Any]]:
        control = np.zeros(WORDS, np.int32)
        control[[COMMAND, TAIL]] = DRAIN, sizes["slots"]
        return {"full ring": {"control": control}}

    def cost(self, p: Any, sizes: Mapping[str, int]) -> Cost:
        moved = [*p.inputs.values(), *p.outputs.values()]
        slots = sizes["slots"]
        return Cost(
            bytes=slots * (sum(dtype.bits for dtype in moved) // 8),
            flops=slots * p.handler.operations,
        )

    def sizes(self, p: Any) -> Mapping[str, tuple[int, ...]]:
        return {"slots": (1, 2, 4, 16, 64, 128)}

    def strategies(self) -> Mapping[str, Any]:
        from hypothesis import strategies as st

        return {
            "handler": st.sampled_from(HANDLERS),
            "inputs": st.sampled_from(
                ({"x": "f32", "a": "f32", "b": "f32"}, {"x": "i16", "a": "f32", "b": "u8"})
            ),
            "outputs": st.sampled_from(({"y": "f32"}, {"y": "f64", "x": "i16", "total": "f32"})),
            "state": st.sampled_from((("total",), ())),
            "dtype": st.sampled_from(("f32", "f64", "f16", "i32", "u8")),
            "batch": st.sampled_from((1, 64, 4096)),
        }


def is_taken(name: str) -> bool:
    """Tell whether the text of the kernel has a name for itself, or might."""
    is_own = name in TAKEN or name.startswith("ring_") or name.endswith(SUFFIXES)
    return is_own or name in DType.__members__


def names_problem(p: Any) -> None:
    """Raise where names of columns, state and handler do not go together."""
    given = {"inputs": list(p.inputs), "outputs": list(p.outputs), "state": list(p.state)}
    for parameter_name, names in given.items():
        for name in names:
            if is_taken(name):
                raise Invalid(
                    parameter_name,
                    f"names {name!r}, which the kernel has for itself, or could; give it another",
                )
    for name in p.handler.names:
        if is_taken(name):
            raise Invalid("handler", f"uses {name!r}, which the kernel has for itself, or could")
    if not p.inputs:
        raise Invalid("inputs", "must name a column or more")
    if both := sorted(set(p.inputs) & set(p.state)):
        raise Invalid("state", f"names {', '.join(both)}, which messages bring")
    known = (*p.inputs, *p.state)
    if unknown := [name for name in p.handler.inputs if name not in known]:
        raise Invalid(
            "handler",
            f"reads {', '.join(unknown)}, which is no column of a message and no state; there are "
            f"{', '.join(known)}",
        )
    if missing := [n for n in p.outputs if n not in (*known, *p.handler.outputs)]:
        raise Invalid("handler", f"does not assign {', '.join(missing)}, a column of the reply")
    if len(given["inputs"] + given["outputs"] + given["state"]) > MOST_ARRAYS:
        raise Invalid("inputs", f"and outputs and state are more than {MOST_ARRAYS} together")


def dtypes_problem(p: Any) -> None:
    """Raise where a column does not fit the dtype in which the handler computes."""
    for name, dtype in p.inputs.items():
        if not holds(p.dtype, dtype):
            raise Invalid(
                "dtype", f"is {p.dtype}, which cannot hold every {dtype}, as the column {name} is"
            )
    for name, dtype in p.outputs.items():
        if p.dtype.is_float and not dtype.is_float and dtype.bits > 32:
            raise Invalid(
                "outputs", f"has {name} of {dtype}; a float {p.dtype} is rounded to 32 bits at most"
            )


def holds(dtype: DType, column: DType) -> bool:
    """Tell whether every number of a column is one of ``dtype`` as well."""
    is_exact = np.can_cast(column.numpy, dtype.numpy, "safe")
    return is_exact and not (dtype.is_float and not column.is_float and column.bits > 32)


def split(p: Any, arrays: Any) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """Return the arrays behind `control` by name: inputs, outputs and the values of the state."""
    first, second = len(p.inputs), len(p.inputs) + len(p.outputs)
    inputs = dict(zip(sorted(p.inputs), arrays[:first], strict=True))
    outputs = dict(zip(sorted(p.outputs), arrays[first:second], strict=True))
    held = [array.astype(wide_dtype(array.dtype)) for array in arrays[second:]]
    return inputs, outputs, dict(zip(p.state, held, strict=True))


def taken_slots(control: np.ndarray, slots: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the slots of the messages that a launch takes, in order, and the words after it."""
    command, tail, done = (int(control[word]) for word in (COMMAND, TAIL, DONE))
    after = control.copy()
    count = (tail - done) % 2**32 if command in (RUN, DRAIN) else 0
    after[DONE] = wrapped(done + count)
    after[STATE] = {DRAIN: DRAINED, END: STOPPED}.get(command, ABANDONED)
    after[BEFORE] = PAUSED if command == PAUSE else RUNNING
    if command in (RUN, PAUSE):
        looks = int(control[LIMIT]) + bool(control[BEAT])
        after[POLLS] = wrapped(int(control[POLLS]) + looks * POLLS_A_LOOK)
    return (done + np.arange(count)) % slots, after


def drains_long(control: np.ndarray) -> bool:
    """Return whether a launch may look at its heartbeat before it has taken all messages."""
    count = (int(control[TAIL]) - int(control[DONE])) % 2**32
    return bool(control[COMMAND] == DRAIN) and count >= POLLS_A_LOOK - 1


def wrapped(number: int) -> int:
    """Return what an i32 holds of a number."""
    return (number + 2**31) % 2**32 - 2**31


def wide_dtype(dtype: np.dtype) -> np.dtype:
    """Return the dtype in which values are computed: wider floats, integers as they are."""
    if dtype.kind != "f":
        return dtype
    return np.dtype(np.longdouble if dtype.itemsize == 8 else np.float64)


def handled(
    p: Any, queue: dict[str, Any], state: dict[str, Any], has_errors: bool = False
) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """Return every value for each message, the state after the last one, and errors if asked."""
    dtype = wide_dtype(p.dtype.numpy)
    given = {name: x.astype(dtype) for name, x in queue.items()}
    count = next(iter(given.values())).size
    names = [*given, *p.state, *p.handler.outputs]
    if not p.state:
        found = {**given, **p.handler.evaluate(**given)}
        errors = {n: np.zeros(count) for n in names}
        if has_errors and count:
            narrow = {n: x.astype(p.dtype.numpy) for n, x in given.items()}
            errors.update(p.handler.error_bound(narrow, p.dtype))
        return {n: np.broadcast_to(found[n], (count,)) for n in found}, {}, errors
    values = {name: np.zeros(count, dtype) for name in names}
    errors = {name: np.zeros(count, dtype) for name in names}
    error = {name: np.zeros(1, dtype) for name in p.state}
    for i in range(count):
        here = {**{n: x[i : i + 1] for n, x in given.items()}, **state}
        found = {**here, **p.handler.evaluate(**here)}
        if has_errors:
            bound = errors_of(p, here, found, error)
            error = {name: bound[name] for name in p.state}
        for name in names:
            values[name][i] = found[name][0]
            errors[name][i] = bound[name][0] if has_errors else 0
        state = {name: found[name] for name in p.state}
    return values, state, errors


def errors_of(p: Any, here: Any, found: Any, error: Any) -> dict[str, Any]:
    """Return how far every value may be off where the state already is by so much."""
    narrow = {n: x.astype(p.dtype.numpy) for n, x in here.items()}
    bound = {**{n: np.zeros(1) for n in here}, **error, **p.handler.error_bound(narrow, p.dtype)}
    for name, by in error.items():
        for sign in (-1, 1):
            other = p.handler.evaluate(**{**here, name: here[name] + sign * by})
            for output, value in other.items():
                bound[output] = bound[output] + 2 * np.abs(value - found[output])
    # The state is rounded to its dtype whenever it is kept.
    return {n: b + p.dtype.eps * np.abs(found[n]) for n, b in bound.items()}


def converted(values: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Return values as a column holds them, floats in a wider dtype."""
    if values.dtype.kind != "f" or dtype.kind == "f":
        return values.astype(wide_dtype(dtype))
    limits = np.iinfo(dtype)
    whole = np.floor(np.clip(values, limits.min, limits.max) + 0.5)
    return np.where(np.isnan(values), 0, whole).astype(dtype)


def moved(values: np.ndarray, errors: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Return how far a column may be off where the values are by so much."""
    if dtype.kind == "f":
        return errors
    middle = converted(values, dtype).astype(np.float64)
    sides = [converted(values + sign * errors, dtype).astype(np.float64) for sign in (-1, 1)]
    return np.maximum(*(np.abs(side - middle) for side in sides))


def _stored(p: Any, name: str, dtype: DType) -> str:
    """Return generated code for what a column holds of a value."""
    if dtype is p.dtype:
        return str(name)
    if p.dtype.is_float and not dtype.is_float:
        lowest, highest = (DType.f64.literal(n) for n in (dtype.lowest, dtype.highest))
        return f"ti.cast(nearest({name}, {lowest}, {highest}), {dtype.taichi})"
    return f"ti.cast({name}, {dtype.taichi})"
