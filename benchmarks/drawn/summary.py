"""Sums up runs of the portfolio: means, the worst works, a plot and a page."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from page import table, write_section
from peers import LABELS as NAMES

DOCS = Path(__file__).parents[2] / "docs"
# A ratio below this is one that users would notice.
SLOW = 0.8
WORST = 10
# The peers, less tikgen's engines, one of which is called as a peer of other tables.
LABELS = {key: NAMES[key] for key in ("numpy", "numba", "torch", "torch_compile")}


@dataclass(frozen=True)
class Run:
    """What a run measured.

    Attributes:
        arch: what tikgen ran on.
        seed: what the works were drawn from.
        machine: what it ran on.
        rows: for each work its template, name, bytes and the seconds of a call by competitor.
    """

    arch: str
    seed: int
    machine: dict[str, str]
    rows: list[dict[str, Any]]


@dataclass(frozen=True)
class Ratio:
    """How many times as fast as the best peer a kernel is, in one work."""

    template: str
    work: str
    bytes: int
    value: float
    peer: str


def ratios(rows: Iterable[dict[str, Any]], engine: str) -> list[Ratio]:
    """Return the ratios of one engine, for the works that it and a peer computed."""
    found = []
    for row in rows:
        peers = {k: s for k, s in row["seconds"].items() if k in LABELS}
        if engine in row["seconds"] and peers:
            best = min(peers, key=peers.__getitem__)
            value = peers[best] / row["seconds"][engine]
            found.append(Ratio(row["template"], row["work"], row["bytes"], value, best))
    return found


def mean(values: Sequence[float]) -> float:
    """Return the geometric mean."""
    return math.exp(sum(map(math.log, values)) / len(values))


def engines(runs: Sequence[Run]) -> list[str]:
    """Return tikgen's engines that were measured."""
    known = {key for run in runs for row in run.rows for key in row["seconds"]} - LABELS.keys()
    return sorted(known, key=lambda key: key != "taichi")


def summary(runs: Sequence[Run]) -> list[str]:
    """Return the lines that tell how fast tikgen was in some runs."""
    rows = [row for run in runs for row in run.rows]
    seeds = ", ".join(str(run.seed) for run in runs)
    lines = [
        f"{len(rows)} works of {'the seed' if len(runs) == 1 else 'the seeds'} {seeds}. "
        "A ratio is the time of the best peer over that of tikgen.",
        "",
    ]
    head = ("template", "works", *(f"{engine}: {what}" for engine in engines(runs)
            for what in ("mean", f"below {SLOW}")))  # fmt: skip
    by_engine = {engine: ratios(rows, engine) for engine in engines(runs)}
    body = []
    for template in [*sorted({row["template"] for row in rows}), "all"]:
        cells = [template, str(sum(template in ("all", row["template"]) for row in rows))]
        for found in by_engine.values():
            values = [r.value for r in found if template in ("all", r.template)]
            slow = sum(value < SLOW for value in values)
            cells += [f"{mean(values):.2f}", f"{slow} of {len(values)}"] if values else ["", ""]
        body.append(cells)
    lines += table(head, body)
    for engine, found in by_engine.items():
        worst = sorted(found, key=lambda ratio: ratio.value)[:WORST]
        rows_of = [(f"`{r.work}`", LABELS[r.peer], f"{r.value:.2f}") for r in worst]
        lines += ["", f"The worst of the engine `{engine}`:", ""]
        lines += table(("work", "best peer", "ratio"), rows_of)
    wrong = [f"`{row['work']}`: {key}: {why}" for row in rows for key, why in row["absent"].items()
             if "WRONG" in why or key == "taichi"]  # fmt: skip
    if wrong:
        lines += ["", "Left out, as the result was wrong or there was none:", ""]
        lines += [f"- {text}" for text in wrong]
    return lines


def write_page(results: Path) -> None:
    """Write the sections and plots of docs/portfolio.md from the runs that are kept."""
    for path in sorted(results.glob("portfolio-*.json")):
        name = path.stem.partition("-")[2]
        runs = [Run(**run) for run in json.loads(path.read_text())["runs"]]
        machine = runs[-1].machine
        device = machine.get("device") or f"{machine['processor']}, {machine['cores']} cores"
        picture = DOCS / "images" / f"portfolio-{name}.png"
        plot(picture, runs)
        lines = [f"On {device}, {machine['date']}, {machine['versions']}.", "", *summary(runs)]
        lines += ["", f"![Ratios by size on {name}](images/{picture.name})"]
        write_section(DOCS / "portfolio.md", name, lines)


def plot(path: Path, runs: Sequence[Run]) -> None:
    """Draw the ratios by bytes moved, a panel for each engine."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    rows = [row for run in runs for row in run.rows]
    names = engines(runs)
    figure, axes = plt.subplots(1, len(names), figsize=(5.5 * len(names), 4.2), squeeze=False,
                                sharey=True, layout="constrained")  # fmt: skip
    templates = sorted({row["template"] for row in rows})
    for axis, engine in zip(axes.flat, names, strict=True):
        for number, template in enumerate(templates):
            found = [r for r in ratios(rows, engine) if r.template == template]
            axis.scatter(
                [r.bytes for r in found], [r.value for r in found],
                s=16, color=f"C{number}", marker="os^vDPX*<"[number % 9], label=template,
            )  # fmt: skip
        axis.axhline(1, color="grey", lw=0.8)
        axis.set(xscale="log", yscale="log", xlabel="bytes of the arrays", title=engine)
    axes.flat[0].set_ylabel("time of the best peer / time of tikgen")
    axes.flat[-1].legend(fontsize=7, ncols=2)
    figure.savefig(path, dpi=110)
    plt.close(figure)
