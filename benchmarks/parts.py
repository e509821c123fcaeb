"""Runs the parts of a benchmark, each in a process of its own with a store of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from page import Row, write_page

PAGE = Path(__file__).parent.parent / "docs" / "performance.md"


def run_parts(section: str, parts: Iterable[str], functions: Mapping[str, Any]) -> None:
    """Run a benchmark as a command.

    Without an argument it runs every part and writes the table into its section of
    docs/performance.md; the name of a part as first argument runs that part in this process.

    Args:
        section: where the table goes.
        parts: names of functions that yield rows.
        functions: the functions by name.
    """
    if len(sys.argv) > 1:
        found = functions[sys.argv[1]](*sys.argv[2:])
        print(json.dumps([asdict(item) if isinstance(item, Row) else item for item in found]))
        return
    rows = []
    for part in parts:
        print(f"measuring {part} ...", file=sys.stderr, flush=True)
        rows += [Row(**row) for row in in_process(functions["__file__"], part)]
    write_page(PAGE, section, rows)
    sys.exit(not all(row.met for row in rows))


def in_process(script: str, part: str, *arguments: str, store: str | None = None) -> list[Any]:
    """Return what a part of ``script`` yields in a process of its own."""
    command = [sys.executable, script, part, *arguments]
    with tempfile.TemporaryDirectory() as fresh:
        environment = os.environ | {"TIKGEN_CACHE_DIR": store or fresh}
        done = subprocess.run(
            command, stdout=subprocess.PIPE, env=environment, text=True, check=True
        )
    return json.loads(done.stdout.splitlines()[-1])  # Taichi prints its name above.
