"""Times builds of equations that the process has not seen, by the number of equations.

``python benchmarks/build_texts.py`` prints them; ``core.py`` writes their medians into
docs/performance.md. Texts are drawn as ``tikgen verify update`` draws them, with boundaries, dtypes
and orders; several are joined over fields of their own. Another process draws them, since drawing
reads them. Processor time counts, so that it hardly matters what else the machine does.
"""

from __future__ import annotations

import json
import re
import statistics
import sys
import time
from collections.abc import Iterable, Iterator
from typing import Any

import tikgen
from page import drawn_seed
from parts import in_process
from tikgen.errors import TikgenError
from tikgen.template.catalogue import find_template
from tikgen.verification.equation_texts import programs, text_of
from tikgen.verification.strategies import drawn, parameter_strategies

# Values that are written, temporaries aside.
COUNTS = ((1, 3), (10, 10))
TEXTS, WARM = 60, 5
_PLAIN = {"vectors": None, "layout": "first", "where": None}
# Names that programs assign or have as fields: joined ones need their own.
_NAMES = re.compile(r"\b([uvwqr]|t\d)\b")


def texts(seed: str, least: str, most: str) -> Iterable[dict[str, Any]]:
    """Yield parameters with that many equations, as JSON has them."""
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
        temporary, *equations = (_NAMES.sub(rf"\g<1>{number or ''}", text)).split("; ")
        lines += [temporary, *equations[: count - len(lines) + number]]
        if len(lines) - number - 1 == count:
            break
    return "; ".join(lines)


def times(seed: int) -> Iterator[tuple[str, list[float]]]:
    """Yield how many equations, and the processor time of each build."""
    for least, most in COUNTS:
        found = in_process(__file__, "texts", str(seed), str(least), str(most))
        for params in found[:WARM]:
            tikgen.build("update", **params)
        title = f"{least} to {most}" if least < most else str(most)
        yield title, [_processor_time(params) for params in found[WARM:]]


def _processor_time(params: dict[str, Any]) -> float:
    start = time.process_time()
    tikgen.build("update", **params)
    return time.process_time() - start


if __name__ == "__main__":
    if sys.argv[1:2] == ["texts"]:
        print(json.dumps(list(texts(*sys.argv[2:]))))
        sys.exit()
    for title, seconds in times(drawn_seed(str(__doc__))):
        tenths = statistics.quantiles(seconds, n=10)
        shown = ", ".join(f"{1e3 * tenths[n]:.3g}" for n in (0, 4, 8))
        print(f"{title} equations: {shown} ms (first tenth, median, last tenth)")
