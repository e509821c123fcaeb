"""Renders a kept run as tables: what it must reach, and what everybody took."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from page import shown, table
from peers import LABELS
from works import WORKS, Target, Work

Result = dict[str, Any]
INACCURATE = 1e-4  # Right, and yet so far off that the page says so.
VULKAN_SHARE = 0.75  # Of what cuda reaches on the same card.


def tables(title: str, result: Result, cuda: Result | None) -> list[str]:
    """Return the lines that show a run.

    Args:
        title: what the run is called.
        result: the run, as kept.
        cuda: the run on cuda of the same card, to which one on Vulkan is compared.
    """
    works = [work for work in WORKS if work.name in _measured(result, work.machine)]
    pairs = [(work, result["works"][work.name]) for work in works]
    lines = [f"### {title}", "", _circumstances(result["machine"]), ""]
    rows = [row for work, found in pairs for row in _verdicts(work, found)]
    if result["machine"]["arch"] == "vulkan":
        rows = [row for work, found in pairs for row in _beside_cuda(work, found, cuda)]
    if rows:
        head = ("work", "against", "tikgen", "tikgen, tuned", "must reach", "met")
        lines += [*table(head, rows), ""]
    return [*lines, *_times(pairs), *_remarks(pairs)]


def ours(found: Result) -> float | None:
    """Return the median of tikgen: the better one of default and tuned."""
    medians = [found["peers"].get(key, {}).get("median") for key in ("tuned", "default")]
    return min((m for m in medians if m), default=None)


def _measured(result: Result, machine: str) -> set[str]:
    return {name for name, found in result["works"].items() if found["machine"] == machine}


def _circumstances(machine: dict[str, str]) -> str:
    device = f"{machine['device']}, " if "device" in machine else ""
    return (
        f"{machine['date']}, {device}{machine['processor']}, {machine['cores']} cores, "
        f"{machine['system']}, {machine['versions']}."
    )


def _verdicts(work: Work, found: Result) -> Iterator[tuple[str, ...]]:
    """Yield a row for each thing that a work must reach."""
    peers = found["peers"]
    for target in work.targets:
        measures = {key: _measure(target, found, key) for key in ("default", "tuned")}
        known = [m for m in measures.values() if m is not None]
        met = "absent" if not known else "yes" if max(known) >= target.least else "**no**"
        if "wrong" in peers.get(target.against, {}):
            met = "the peer is wrong"
        against = {
            "copy": "a copy's bandwidth",
            "bandwidth": "memory traffic",
        }.get(target.against) or LABELS[target.against]
        reached = [_target_text(target, m) for m in measures.values()]
        yield (work.name, against, *reached, _target_text(target, target.least), met)


def _measure(target: Target, found: Result, key: str) -> float | None:
    """Return what a target speaks of: how many times as fast, or bytes a second."""
    median = found["peers"].get(key, {}).get("median")
    if median is None:
        return None
    if target.against == "bandwidth":
        return float(found["bytes"] / median)
    if target.against == "copy":
        return float(found["bytes"] / median / found["limit"]["rate"])
    theirs = found["peers"].get(target.against, {}).get("median")
    return None if theirs is None else float(theirs / median)


def _target_text(target: Target, value: float | None) -> str:
    if value is None:
        return "-"
    if target.against == "copy":
        return f"{100 * value:.0f}%"
    return f"{value / 1e12:.2f} TB/s" if target.against == "bandwidth" else times(value)


def _beside_cuda(work: Work, found: Result, cuda: Result | None) -> Iterator[tuple[str, ...]]:
    """Yield how a work on Vulkan compares with tikgen's best on cuda."""
    there = ((cuda or {}).get("works") or {}).get(work.name)
    if there is None or work.machine != "gpu":
        return
    shares = {
        key: ours(there) / found["peers"][key]["median"]
        for key in ("default", "tuned")
        if "median" in found["peers"].get(key, {})
    }
    met = "yes" if max(shares.values(), default=0) >= VULKAN_SHARE else "**no**"
    reached = [times(shares[key]) if key in shares else "-" for key in ("default", "tuned")]
    yield (work.name, "tikgen on cuda", *reached, times(VULKAN_SHARE), met)


def _times(pairs: list[tuple[Work, Result]]) -> list[str]:
    """Return the table of what each peer took."""
    keys = [key for key in LABELS if any(key in found["peers"] for _, found in pairs)]
    head = ("work", *(LABELS[key] for key in keys), "share of the limit")
    rows = [
        (work.name, *(_cell(work, found, key) for key in keys), _share(found))
        for work, found in pairs
    ]
    return table(head, rows)


def _cell(work: Work, found: Result, key: str) -> str:
    peer = found["peers"].get(key, {"absent": ""})
    if "wrong" in peer:
        return "WRONG"
    if "absent" in peer:
        return "absent"
    median, best = peer["median"], ours(found)
    seconds = shown(median, "s")
    if work.machine == "gpu":
        rate = (
            f"{found['flops'] / median / 1e12:.3g} TFLOP/s"
            if found["limit"]["kind"] == "fma"
            else f"{found['bytes'] / median / 1e9:.0f} GB/s"
        )
        seconds = f"{rate}, {seconds}"
    return f"{times(median / best)} ({seconds})" if best else seconds


def _share(found: Result) -> str:
    """Return which part tikgen reaches of what the machine can do."""
    best, limit = ours(found), found["limit"]
    if best is None:
        return "-"
    is_fma = limit["kind"] == "fma"
    done = found["flops"] if is_fma else found["bytes"]
    can = f"{limit['rate'] / 1e9:.3g} {'GFLOP/s' if is_fma else 'GB/s'}"
    return f"{100 * done / best / limit['rate']:.0f}% of {can}"


def _remarks(pairs: list[tuple[Work, Result]]) -> list[str]:
    """Return who is absent, wrong or inaccurate, and why."""
    remarks: dict[str, list[str]] = {}
    for work, found in pairs:
        for key, peer in found["peers"].items():
            reasons = [f"{kind}: {peer[kind]}" for kind in ("absent", "wrong") if kind in peer]
            if peer.get("error", 0) > INACCURATE:
                reasons.append(f"off by {peer['error']:.1e} of the result")
            for reason in reasons:
                remarks.setdefault(f"{LABELS[key]}, {reason}", []).append(work.name)
    lines = [
        f"- {remark} ({'everywhere' if len(works) == len(pairs) > 1 else ', '.join(works)})"
        for remark, works in remarks.items()
    ]
    return ["", *lines] if lines else []


def times(value: float) -> str:
    """Return how many times as much, for people."""
    return f"{value:.2f}x" if value < 9.995 else f"{value:.1f}x"
