"""Templates broken on purpose: each is a built-in template with one piece of text replaced."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tikgen
from tikgen.template.base import BUILTIN_FOLDER

TEXT, CODE, LOOPS = "kernel.py.j2", "template.py", "../_shared/loops.j2"
FLAT, BLOCKS = "../_shared/flat.j2", "../_shared/block_strided.j2"


@dataclass(frozen=True)
class Mutant:
    """One piece of text replaced in one file of a template.

    Attributes:
        template: the template that is broken.
        defect: what is broken, in a word.
        file: the file that is changed, relative to the template's folder.
        old: what stands there.
        new: what stands there instead.
        found: text that must show in the failure.
        params: parameters to hold fixed, so that few examples suffice.
    """

    template: str
    defect: str
    file: str
    old: str
    new: str
    found: str = "expected"
    params: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.template}-{self.defect.replace(' ', '_')}"

    def make(self, folder: Path) -> tikgen.Template:
        """Return the broken template, made in ``folder``."""
        name = f"{self.template}_{self.defect.replace(' ', '_')}"
        shutil.copytree(BUILTIN_FOLDER / "_shared", folder / "_shared")
        # The template's own name leads to its macro files.
        for copy in (name, self.template):
            unwanted = shutil.ignore_patterns("__py*")
            shutil.copytree(BUILTIN_FOLDER / self.template, folder / copy, ignore=unwanted)
        path = folder / name / self.file
        text = path.read_text()
        assert self.old in text, f"{self.old!r} no longer stands in {self.template}/{self.file}"
        path.write_text(text.replace(self.old, self.new))
        return tikgen.load_template(folder / name)


def appended(line: str) -> tuple[str, str, str]:
    """Return the change that ends the stencil's kernel with another line."""
    end = "    #% endcall\n    #% endif\n"
    return TEXT, end, f"{end}    {line}\n"


def no_remainder(template: str, **params: Any) -> Mutant:
    """Return a template whose unrolled loops leave out what no full step covers."""
    old, new = "#% if unroll > 1\nfor", "#% if unroll > 99\nfor"
    return Mutant(template, "missed remainder", LOOPS, old, new, params=params)


# Quick to compile: an order, a spacing and a schedule are fixed.
SMALL = {"dim": 1, "dtype": "f32", "storage": "ndarray", "points": None}
SMALL |= {"order": 2, "spacing": 1.0, "loop": "rows", "unroll": 2}
WHOLE = SMALL | {"boundary": "zero", "row_buffer": 0}
FUNCTION = SMALL | {"dim": 2, "loop": "function", "unroll": 1, "row_buffer": 8}
WEIGHT = "work.literal(weight) ~"

STENCILS = (
    Mutant("stencil", "off by one", CODE, "- {high}", "- {high + 1}", "expected", SMALL),
    Mutant(
        "stencil", "halo overwritten", *appended("y[0] = ti.f32(7.0)"),
        "must stay untouched", SMALL | {"boundary": "interior"},
    ),
    Mutant(
        "stencil", "wrong coefficient", TEXT, WEIGHT,
        "work.literal(weight * 1.00001) ~", "expected", WHOLE,
    ),
    Mutant(
        "stencil", "f32 literal in f64", TEXT, WEIGHT, "weight ~", "expected",
        WHOLE | {"dtype": "f64", "spacing": 0.3},
    ),
    Mutant(
        "stencil", "wrong neighbour", TEXT, '"+" if step > 0 else "-" }} {{ step | abs }}',
        '"+" if step > 3 else "-" }} {{ step | abs }}', "expected",
        SMALL | {"boundary": "periodic"},
    ),
    Mutant(
        "stencil", "uninitialised output", TEXT, "{{ target }} = {{", "{{ target }} += {{",
        "is nan", WHOLE | {"update": False},
    ),
    Mutant(
        "stencil", "input changed", *appended("x[0] = ti.f32(7.0)"), "input x was changed", WHOLE
    ),
    Mutant("stencil", "write outside", *appended("y[y.shape[0]] = ti.f32(7.0)"), "behind", WHOLE),
    Mutant(
        "stencil", "schedule changes the result", TEXT, "{{ target }} = {{",
        '{{ target }} = {{ "ti.f32(2.0) * " if s.block_dim == 64 }}{{', "block_dim=64", WHOLE,
    ),
    Mutant(
        "stencil", "wrong step in a row", TEXT, '["plane", "row", ""]', '["plane", "row", "row"]',
        "expected", SMALL | {"dim": 2, "boundary": "interior", "row_buffer": 16, "unroll": 1},
    ),
    Mutant(
        "stencil", "wrong place in a run", TEXT, "[offset[-1] - first]",
        "[offset[-1] - first + 1]", "expected",
        FUNCTION | {"boundary": "interior", "update": False},
    ),
    Mutant(
        "stencil", "edge taken for interior", TEXT, "and near_edge()", "and false", "expected",
        FUNCTION | {"boundary": "zero"},
    ),
    Mutant(
        "stencil", "stale column", TEXT, "= {{ held(step + 1) }}", "= {{ held(step) }}", "expected",
        SMALL | {"dim": 2, "boundary": "interior", "loop": "sweep", "unroll": 1, "row_buffer": 0},
    ),
    Mutant(
        "stencil", "parameter ignored", TEXT, 'elif p.boundary == "periodic"', "elif false",
        "boundary='periodic'", SMALL,
    ),
    Mutant(
        "stencil", "compile error", TEXT, ' ~ " + " ~ scale ~', ' ~ " + scalle" ~',
        '"scalle" is not defined', WHOLE | {"update": True},
    ),
    no_remainder("stencil", **WHOLE),
)  # fmt: skip

F32_SCAN = {"op": "sum", "dtype": "f32", "chunks": 7, "grain": 1, "unroll": 2}
F32_SCAN |= {"team": 1, "items": 0}
I32_SUM = {"op": "sum", "dtype": "i32", "accumulator": None, "accuracy": "fast", "unroll": 2}
PLAIN_GEMM = {
    "dtype": "f32",
    "epilogue": None,
    "block_m": 0,
    "block_n": 0,
    "block_k": 0,
    "strip": 1,
}
SMALL_GEMM = PLAIN_GEMM | {"via": "arrays", "tile_m": 2, "tile_n": 2, "unroll": 2}
PANELS_GEMM = PLAIN_GEMM | {"via": "panels", "tile_m": 2, "tile_n": 16, "unroll": 2}
DOTS_GEMM = PLAIN_GEMM | {"via": "dots", "tile_m": 2, "tile_n": 2}
F32_CSR = {"dtype": "f32", "format": "csr", "unroll": 2, "lanes": 1}
MAP = {"expr": "z = a*x + y", "dim": 1, "dtype": "f32", "unroll": 2, "loop": "rows"}
SMALL_TRANSPOSE = {"perm": (1, 0), "dtype": "i32", "loop": "rows", "tile": 0}
I32_BINS = {"bins": 5, "dtype": "i32", "weighted": False, "chunks": 2, "unroll": 2}
I32_BINS |= {"bins_in": "workspace", "buffer": 0}
F32_BINS = I32_BINS | {"dtype": "f32", "bins_in": "local", "buffer": 16, "unroll": 1}

OTHERS = (
    Mutant(
        "scan", "missed remainder", TEXT,
        'range({{ start ~ " + " if start != "0" }}{{ length }} // {{ s.unroll }} * {{ s.unroll }}, '
        "{{ stop }})",
        "range({{ stop }}, {{ stop }})", params=F32_SCAN,
    ),
    Mutant(
        "scan", "chunks not joined", TEXT, "running = totals[chunk]", "running = {{ identity }}",
        params=F32_SCAN,
    ),
    Mutant(
        "scan", "workspace taken for zeros", TEXT, "] = total\n",
        "] += total\n", params=F32_SCAN,
    ),
    Mutant(
        "scan", "exclusive is inclusive", TEXT, 'if p.mode == "inclusive"', "if True",
        params=F32_SCAN,
    ),
    no_remainder("reduce", **I32_SUM, dim=1, axis=None),
    Mutant(
        "reduce", "last chunk missed", "../reduce/whole.j2", "for chunk in range(used)",
        "for chunk in range(used - 1)", params=I32_SUM | {"dim": 1, "axis": None, "chunks": 7},
    ),
    Mutant(
        "reduce", "wrong place", "../reduce/known.j2", "== best, {{ index }},",
        "== best, {{ index }} + 1,", params=I32_SUM | {"op": "argmin", "dim": 1, "team": 1},
    ),
    no_remainder("gemm", **SMALL_GEMM),
    Mutant(
        "gemm", "beta ignored", "../gemm/operands.j2", "value += beta", "value += 0 * beta",
        params=SMALL_GEMM,
    ),
    Mutant(
        "gemm", "last column missed", TEXT, "if j0 + v < n:", "if j0 + v < n - 1:",
        params=SMALL_GEMM,
    ),
    Mutant(
        "gemm", "steps left over missed", "../gemm/vectors.j2", "if rest > 0:", "if rest < 0:",
        params=PANELS_GEMM,
    ),
    Mutant(
        "gemm", "panels not full", "../gemm/vectors.j2",
        "for v in range({{ s.tile_n }}):\n            panels[",
        "for v in range({{ s.tile_n - 1 }}):\n            panels[", params=PANELS_GEMM,
    ),
    Mutant(
        "gemm", "rest of a line missed", "../gemm/dots.j2", "for k in range(k_stop - {{ length }}",
        "for k in range(k_stop - 0 * {{ length }}", params=DOTS_GEMM,
    ),
    Mutant(
        "gemm", "narrow rows taken for whole", "../gemm/vectors.j2", '{{ products("width") }}',
        '{{ products(s.tile_n - 1) }}', params=PANELS_GEMM | {"via": "rows", "layout": "nn"},
    ),
    no_remainder("spmv", **F32_CSR),
    Mutant("spmv", "beta ignored", TEXT, "value += beta", "value += 0 * beta", params=F32_CSR),
    Mutant(
        "spmv", "last entry missed", TEXT, "indptr[row + 1], ti.i32)",
        "indptr[row + 1], ti.i32) - 1", params=F32_CSR,
    ),
    no_remainder("transpose", **SMALL_TRANSPOSE, unroll=2),
    Mutant(
        "transpose", "axes swapped back", TEXT, "x[{{ permuted(index)", "x[{{ index",
        params=SMALL_TRANSPOSE | {"perm": (0, 2, 1)},
    ),
    Mutant(
        "transpose", "rest of a strip missed", TEXT, "_extent - {{ s.unroll }}), 0)",
        "_extent - {{ s.unroll + 1 }}), 0)",
        params=SMALL_TRANSPOSE | {"loop": "strips", "tile": 64, "unroll": 2},
    ),
    no_remainder("map", **MAP),
    Mutant(
        "map", "first element missed", CODE, "(str(low), f", "(str(low + 1), f",
        params=MAP,
    ),
    Mutant(
        "map", "last chunk missed", FLAT, "// {{ chunk }} + 1", "// {{ chunk }}",
        params=MAP | {"loop": "flat", "unroll": 1, "serial": False},
    ),
    Mutant(
        "map", "last block missed", BLOCKS, "_rest < {{ count }}", "_rest < 0",
        params=MAP | {"loop": "blocks", "unroll": 1, "items": 4},
    ),
    no_remainder("histogram", **I32_BINS),
    Mutant(
        "histogram", "upper edge missed", TEXT, "value <= hi", "value < hi", params=I32_BINS
    ),
    Mutant(
        "histogram", "bins not cleared", TEXT, "partial[chunk, b] = {{ tally_dtype.literal(0) }}",
        "partial[chunk, b] = partial[chunk, b]", params=I32_BINS,
    ),
    Mutant(
        "histogram", "rest of the buffers missed", TEXT, "for e in range(start + steps",
        "for e in range(stop + steps", params=F32_BINS,
    ),
    Mutant(
        "histogram", "what lies above counted", TEXT, " & (value <= hi)\n        place",
        "\n        place", params=F32_BINS,
    ),
)  # fmt: skip

TOTALS, ROWS = "../_shared/totals.j2", "../update/rows.j2"
LONG = {
    "equations": "u' = u + dx(c*dx(u)) + dy(c*dy(u)) + u**3 - 2*u*c + c**2",
    "dim": 2,
    "order": 4,
    "boundary": "zero",
}
REDUCED = {"equations": "s = sum(u*v); m = max(-abs(u))", "dim": 2, "dtype": "i32"}
REDUCED |= {"boundary": "clamp", "scalars": (), "on_device": (), "constants": None}
REDUCED |= {"types": None, "outputs": None}
SUMS = REDUCED | {"loop": "function", "row_buffer": 8, "rows": 2, "iterations": 1}
IN_POINTS = REDUCED | {"loop": "points", "block_dim": 0}
IN_CHUNKS = MAP | {"expr": "s = sum(x*y)", "loop": "flat", "unroll": 1, "serial": False}

REDUCTIONS = (
    Mutant(
        "update", "sum does not begin at 0", TOTALS, 'total.neutral if total.operation != "sum"',
        'total.neutral ~ " + 1"', params=SUMS,
    ),
    Mutant(
        "update", "maximum begins at 0", TOTALS, ' if total.operation != "sum"', " if false",
        params=SUMS,
    ),
    Mutant(
        "update", "lanes not joined", TOTALS, "{{ halves_of(lanes) }}", "{{ lanes // 2 }}, ",
        params=SUMS,
    ),
    Mutant(
        "update", "last part missed", TOTALS, "range(used - used % 8, used)",
        "range(used - used % 8, used - 1)", params=SUMS,
    ),
    Mutant(
        "update", "last strip missed", TEXT, "{{ join_parts(totals, partial_zeros) }}",
        "used -= 1\n    {{ join_parts(totals, partial_zeros) }}", params=SUMS,
    ),
    Mutant(
        "update", "points taken twice", ROWS, '"lane < seen"', '"lane < 0"', params=SUMS,
    ),
    Mutant(
        "update", "copy for the end of a row too short", ROWS, "low + end_size + patch.high }})",
        "low + end_size + patch.high - 1 }})", params=LONG,
    ),
    Mutant(
        "update", "copy of a row at a face too short", ROWS, "low + size + patch.high }})",
        "low + size + patch.high - 1 }})", params=LONG,
    ),
    Mutant(
        "update", "part begins anew at each point", TOTALS, "    {{ body() }}\n{{ leave_totals",
        "    {{ begin_totals(totals) }}\n    {{ body() }}\n{{ leave_totals", params=IN_POINTS,
    ),
    Mutant(
        "map", "last chunk of a sum missed", "../map/reducing.j2", "for part in range(used)",
        "for part in range(used - 1)", params=IN_CHUNKS,
    ),
)  # fmt: skip
MUTANTS = STENCILS + OTHERS + REDUCTIONS
