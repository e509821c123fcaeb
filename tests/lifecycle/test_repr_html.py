"""HTML for notebooks: complete, escaped, readable on white and on black."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

import tikgen
from test_sweep_table import row
from tikgen.lifecycle import html
from tikgen.pipeline import evidence
from tikgen.pipeline.records import Record
from tikgen.verification.case import Case, Outcome
from tikgen.verification.report import ArchReport, Failure, Report

pytestmark = pytest.mark.once

EVIL = "<script>alert('&')</script>"


class Reader(HTMLParser):
    """Checks that every element is closed in turn, and keeps text and elements."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []
        self.words: list[str] = []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open.append(tag)
        self.seen.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


@pytest.fixture
def kernel() -> tikgen.Kernel:
    tikgen.clear()
    return tikgen.build("stencil", dim=2, order=4)


def test_a_kernel_shows_parameters_source_evidence_and_timings(
    kernel: tikgen.Kernel, ti_arch: str
) -> None:
    x = np.ones((16, 16), np.float32)
    for _ in range(3):
        kernel(x, np.full_like(x, np.nan))
    tally = evidence.Tally(kernel.params, examples=7, worst=0.25)
    evidence.keep(kernel.template, ti_arch, 1, {kernel.digest: tally})
    shown = Reader(kernel._repr_html_())
    assert "script" not in shown.seen
    for text in (
        "Weighted sum over a neighbourhood",
        "f32[n0, n1] written",
        "order 4",
        f"{ti_arch} passed 7 0.25 of the tolerance",
        "last timings",
        " 3 launches, the last ones ",
        "cache: ",
        "stencil/kernel.py.j2:",
        "_shared/",
        f"digest {kernel.digest[:16]}",
    ):
        assert text in shown.text, text


def test_every_line_of_a_source_has_its_number_and_origin() -> None:
    text = '\n\nx = """a\n  b"""\n\n# <b>\n'
    shown = str(html.code(text, ["", "t:1", "t:3", "t:3", "t:4", "u:1"]))
    rows = re.findall(r"<tr>(.*?)</tr>", shown, re.DOTALL)
    cells = [re.sub("<.*?>", "", re.sub("</td><td>", "|", r)) for r in rows]
    assert [cell.rpartition("|")[0] for cell in cells] == [
        "|1",
        "t:1|2",
        "3|3",
        "3|4",
        "4|5",
        "u:1|6",
    ]
    assert cells[3].endswith("|  b&#34;&#34;&#34;") or cells[3].endswith('|  b"""')
    assert "&lt;b&gt;" in cells[5]


def test_untrusted_text_is_escaped() -> None:
    kernel = tikgen.from_string(
        f'import taichi as ti\n@ti.kernel\ndef f():\n    """{EVIL}"""\n    print(1)\n'
    )
    shown = Reader(kernel._repr_html_())
    assert "script" not in shown.seen
    assert EVIL in re.sub(r"\s+", " ", "".join(shown.words))
    assert str(html.tag("p", EVIL, title='"')).count("<") == 2


def test_a_report_shows_each_arch_and_the_smallest_failure() -> None:
    case = Case("stencil", "", "cpu", {"dim": 1}, {"n0": 3})
    failure = Failure(case, Outcome("mismatch", f"y[0] {EVIL}"), Path("again.py"))
    passed = ArchReport("vulkan", 20, 7, {"too big": 3}, 0.5, 1e-7, 2.5)
    report = Report("stencil", 42, (ArchReport("cpu", 5, 2, failure=failure), passed))
    shown = Reader(report._repr_html_())
    assert "script" not in shown.seen
    for text in (
        "NOT ok",
        "seed 42",
        "vulkan passed 20 7 0.5 of the tolerance",
        "3 skipped: too big",
        f"mismatch: y[0] {EVIL}",
        "reproduce it with: python again.py",
    ):
        assert text in shown.text, text


def test_a_sweep_shows_the_fastest_first_with_bars() -> None:
    rows = [row(1, "f32", 4e-5), row(2, "f32", 1e-5), row(4, "f32", None)]
    card = tikgen.SweepResult(rows)._repr_html_()
    shown = Reader(card)
    assert shown.text.index("10 us") < shown.text.index("40 us")
    assert re.findall(r"--w: ([\d.]+)%", card) == ["25.0", "100.0"]
    assert "1 refused: it is 'refused'" in shown.text
    assert Reader(tikgen.SweepResult([rows[2]])._repr_html_()).seen.count("table") == 0
    assert Reader(tikgen.SweepResult([])._repr_html_())


def record(unroll: int, ratio: float, kind: str = "timed") -> Record:
    sizes = {"n0": 64}
    fixed = ("stencil", "", {}, "cpu", "a CPU", "", "", sizes, {"unroll": unroll, "rows": 1}, kind)
    return Record(*fixed, seconds=1e-3 * ratio, ratio=ratio)


def test_a_tuning_shows_what_differs_between_the_fastest() -> None:
    records = (record(1, 1.0), record(4, 0.5), record(8, 0.0, "crash"))
    result = tikgen.TuneResult(
        template="stencil",
        problem={},
        arch="cpu",
        device="a CPU",
        sizes={"n0": 64},
        strategy="exhaustive",
        seed=1,
        best=records[1],
        default=records[0],
        records=records,
        points=3,
        measured=3,
        seconds=1.0,
        stopped="complete",
    )
    shown = Reader(result._repr_html_())
    assert "2.00 times as fast as the default" in shown.text
    assert (
        "time of a launch spread of default unroll 500 us 0% 0.500 4 1 ms 0% 1.000 1" in shown.text
    )
    assert "1 crash" in shown.text


def test_a_description_shows_every_parameter() -> None:
    shown = Reader(tikgen.describe("stencil")._repr_html_())
    for info in tikgen.describe("stencil").parameters:
        assert info.name in shown.text
    assert "n0, n1, n2" in shown.text
    assert "code" in shown.seen  # What stands between backticks.


def test_colours_can_be_read_on_white_and_on_black() -> None:
    def luminance(colour: str) -> float:
        parts = [int(colour[i : i + 2], 16) / 255 for i in (0, 2, 4)]
        linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return float(np.dot(linear, (0.2126, 0.7152, 0.0722)))

    colours = re.findall(r"[^-]color: #(\w{6})", html.STYLE)
    assert len(colours) > 5
    for colour in colours:  # WCAG's contrast; JupyterLab's dark ground is #111111.
        light = luminance(colour)
        contrasts = (1.05 / (light + 0.05), (light + 0.05) / (luminance("111111") + 0.05))
        assert min(contrasts) > 3.5, colour
