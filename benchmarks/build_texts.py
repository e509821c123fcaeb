"""Times what equations cost that the process has not seen: their build and their first launch.

``python benchmarks/build_texts.py`` prints the table and writes it into docs/performance.md. Texts
are drawn anew as ``tikgen verify update`` draws them, with boundaries, dtypes and orders; several
are joined over fields of their own. Another process draws them, since drawing reads them. Processor
time counts, so that it hardly matters what else the machine does.
"""

from __future__ import annotations

import itertools
import json
import random
import re
import statistics
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import tikgen
from page import Row
from parts import in_process, run_parts
from tikgen.errors import TikgenError
from tikgen.template.arguments import Array, concrete_shape
from tikgen.template.catalogue import find_template
from tikgen.verification.equation_texts import programs, text_of
from tikgen.verification.strategies import drawn, parameter_strategies

# Values that are written, temporaries aside.
COUNTS = ((1, 3), (10, 10))
TEXTS, WARM = 120, 5
_PLAIN = {"vectors": None, "layout": "first", "where": None}
# Names that programs assign or have as fields: joined ones need their own.
_NAMES = re.compile(r"\b([uvwqr]|t\d)\b")
# Texts that people write; each build takes another number.
WRITTEN: dict[str, tuple[str, dict[str, Any]]] = {
    "heat, 2D": ("u' = u + {0}*lap(u)", {"dim": 2}),
    "Gray-Scott, 2D periodic": (
        "r = u*v**2; u' = u + dt*(Du*lap(u) - r + {0}*(1 - u)); v' = v + dt*(Dv*lap(v) + r - F*v)",
        {"dim": 2, "boundary": "periodic", "scalars": "dt Du Dv F"},
    ),
    "wave of order 8, 3D": ("q = 2*p - q + {0}*c*lap(p)", {"dim": 3, "order": 8}),
    "ten species, 2D periodic": (
        "; ".join(
            f"u{n}' = u{n} + {{0}}*lap(u{n}) - u{n}*u{(n + 1) % 10} + u{n}*u{(n + 2) % 10}"
            for n in range(10)
        ),
        {"dim": 2, "boundary": "periodic"},
    ),
}


def builds() -> Iterable[Row]:
    """Build drawn texts, short of the first launch."""
    for least, most in COUNTS:
        seed = random.SystemRandom().randrange(10**6)
        found = in_process(__file__, "texts", str(seed), str(least), str(most))
        seconds, lines = [], []
        for params in found:
            seconds.append(_build_time(params))
            lines.append(tikgen.build("update", **params).source.text.count("\n"))
        seconds, lines = seconds[WARM:], lines[WARM:]
        count = f"{least} to {most}" if least < most else str(most)
        tenths = statistics.quantiles(seconds, n=10)
        yield Row(
            f"build of a drawn text of {count} equations, median of {len(seconds)} from seed "
            f"{seed} (a tenth takes less than {1e3 * tenths[0]:.3g} ms, another more than "
            f"{1e3 * tenths[-1]:.3g} ms; {statistics.median(lines):.0f} lines of code)",
            statistics.median(seconds),
            most=5e-3,
        )


def written() -> Iterable[Row]:
    """Build texts that people write, each with numbers that no build had."""
    for title, (text, settings) in WRITTEN.items():
        numbers = itertools.count(1)
        every = [
            _build_time({"equations": text.format(next(numbers) / 1024), **settings})
            for _ in range(50)
        ]
        yield Row(f"build of a new text: {title}", statistics.median(every[WARM:]), most=5e-3)


def first_launches() -> Iterable[Row]:
    """Launch texts on cpu for the first time, Taichi's cache on disk off."""
    import numpy as np
    import taichi as ti

    ti.init(arch=ti.cpu, log_level=ti.ERROR, offline_cache=False)
    for title, (text, settings) in WRITTEN.items():
        seconds = []
        for number in range(3):
            kernel = tikgen.build("update", equations=text.format(2 + number / 4), **settings)
            sizes = dict.fromkeys(("n0", "n1", "n2"), 40)
            values = [
                np.zeros(concrete_shape(a, sizes), np.float32) if isinstance(a, Array) else 0.5
                for a in kernel.signature.arguments
            ]
            seconds.append(_processor_time(lambda k=kernel, v=values: k(*v)))
        title = f"first launch on cpu, Taichi's compiler included: {title}"
        yield Row(title, statistics.median(seconds), most=2.0)


def texts(seed: str, least: str, most: str) -> Iterable[dict[str, Any]]:
    """Draw parameters with that many equations, as JSON has them."""
    found: dict[str, Any] = {}
    for run in range(99):
        for params in _candidates(int(seed) + run * 10**6, range(int(least), int(most) + 1)):
            try:
                tikgen.build("update", **params)
            except TikgenError:
                continue
            found[str(params)] = params
            if len(found) == TEXTS + WARM:
                return [json.loads(json.dumps(p, default=str)) for p in found.values()]
    raise SystemExit(f"hardly any texts of {least} to {most} equations")


def _candidates(seed: int, counts: range) -> Iterator[dict[str, Any]]:
    from hypothesis import strategies as st

    template = find_template("update")
    names = template.Problem.model_fields
    rules = {n: r for n, r in parameter_strategies(template, _PLAIN).items() if n in names}
    # Each program has one equation at least.
    rules["equations"] = st.lists(programs(), min_size=counts[-1], max_size=counts[-1])
    for number, params in enumerate(drawn(st.fixed_dictionaries(rules), TEXTS, seed)):
        is_float = tikgen.DType(params["dtype"]).is_float
        each = [text_of((*tree[:3], None), params["dim"], is_float) for tree in params["equations"]]
        text = _joined(each, counts[number % len(counts)])
        adjusted = template.adjust({**params, **_PLAIN, "equations": text}, "cpu")
        yield {name: value for name, value in adjusted.items() if name in names}


def _joined(each: list[str], count: int) -> str:
    """Return one text with a number of equations, of as many programs as that takes."""
    lines: list[str] = []
    for number, text in enumerate(each):
        temporary, *equations = _NAMES.sub(rf"\g<1>{number or ''}", text).split("; ")
        lines += [temporary, *equations[: count - len(lines) + number]]
        if len(lines) - number - 1 == count:
            break
    return "; ".join(lines)


def _build_time(params: dict[str, Any]) -> float:
    return _processor_time(lambda: tikgen.build("update", **params))


def _processor_time(call: Callable[[], object]) -> float:
    start = time.process_time()
    call()
    return time.process_time() - start


PARTS = ("builds", "written", "first_launches")

if __name__ == "__main__":
    run_parts("texts", PARTS, globals())
