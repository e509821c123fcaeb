"""Turns what pytest-benchmark saved into results that are kept, and those into the page.

``python benchmarks/report.py cpu SAVED.json`` keeps a run as benchmarks/results/cpu.json, without
its single rounds; works that the run left out stay as they were. Without arguments it only
writes the tables and plots of docs/performance.md anew, from all that is kept.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from page import write_section
from plots import plot
from tables import tables

HERE = Path(__file__).parent
DOCS = HERE.parent / "docs"
# Every run that the page shows; one on a GPU is called after the device.
RUNS = {
    "cpu": "cpu",
    "h200-cuda": "{device}, cuda",
    "h200-vulkan": "{device}, Vulkan",
    "vulkan-lavapipe": "Vulkan without a GPU (lavapipe)",
}
PICTURES = {
    "performance-cpu.png": ("cpu",),
    "performance-gpu.png": ("h200-cuda", "h200-vulkan"),
}


def main() -> None:
    if sys.argv[1:]:
        name, *saved = sys.argv[1:]
        if name not in RUNS:
            raise SystemExit(f"a run is one of {', '.join(RUNS)}; got {name}")
        keep(name, [Path(path) for path in saved])
    results = {
        name: json.loads(path_of(name).read_text(encoding="utf-8"))
        for name in RUNS
        if path_of(name).exists()
    }
    titles = {name: title_of(name, result) for name, result in results.items()}
    sections = {name: ["Not measured yet."] for name in RUNS}
    for name, result in results.items():
        sections[name] = tables(titles[name], result, results.get("h200-cuda"))
    for picture, names in PICTURES.items():
        shown = {titles[name]: results[name] for name in names if name in results}
        if shown:
            path = DOCS / "images" / picture
            plot(path, shown)
            image = f"![Speed of each peer beside tikgen]({path.relative_to(DOCS).as_posix()})"
            last = [name for name in names if name in results][-1]
            sections[last] += ["", image]
    for name, lines in sections.items():
        write_section(DOCS / "performance.md", name, lines)


def title_of(name: str, result: dict[str, Any]) -> str:
    """Return what a run is called."""
    return RUNS[name].format(device=result["machine"].get("device", "GPU").partition(",")[0])


def path_of(name: str) -> Path:
    """Return where a run is kept."""
    return HERE / "results" / f"{name}.json"


def keep(name: str, saved: list[Path]) -> None:
    """Keep what the JSON files of pytest-benchmark hold, but for their single rounds."""
    path = path_of(name)
    kept: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {"works": {}}
    for file in saved:
        found = json.loads(file.read_text(encoding="utf-8"))
        machine = found["machine_info"]["tikgen"]
        if kept.setdefault("machine", machine) != machine:
            # Figures of another machine, day or version are not shown beside these.
            kept = {"machine": machine, "works": {}}
        for test in found["benchmarks"]:
            if "work" in test["extra_info"]:
                kept["works"][test["extra_info"]["work"]] = _rounded(test["extra_info"])
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")


def _rounded(value: Any) -> Any:
    """Return a document whose numbers keep four digits."""
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items()}
    return float(f"{value:.4g}") if isinstance(value, float) else value


if __name__ == "__main__":
    main()
