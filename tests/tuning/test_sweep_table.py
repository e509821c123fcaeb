"""The table of a sweep: searching, showing, saving and drawing it."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tikgen.errors import ParameterError, TikgenError
from tikgen.tuning.sweeps.rows import METRICS, OUTCOME
from tikgen.tuning.sweeps.table import SweepResult

PNG = b"\x89PNG"


def row(unroll: int, dtype: str, seconds: float | None, **more: Any) -> dict[str, Any]:
    front = {"template": "stencil", "arch": "cpu", "shape": "64x64", "unroll": unroll}
    front |= {"dtype": dtype, "spacing": (1.0, 0.5), "points": {(0, 1): 0.25}, "expr": "2"}
    found = {**front, "size_n0": 64, **dict.fromkeys((*OUTCOME, *METRICS))}
    found |= {"digest": f"{unroll}{dtype}", "kind": "timed", "device": "a CPU", "spread": 0.01}
    found |= {"seconds": seconds, "bytes": 32768, "flops": 40960, "rounds": 5}
    if seconds is None:
        found |= {"kind": "refused", "message": "it is 'refused', \"twice\"\nover", "digest": None}
        return found | more
    found |= {"gb_per_s": 32768e-9 / seconds, "gflop_per_s": 40960e-9 / seconds}
    return found | {"limit_gb_per_s": 30.0, "limit_gflop_per_s": 90.0, "share": 0.5, **more}


@pytest.fixture
def result() -> SweepResult:
    rows = [
        row(unroll, dtype, 1e-5 * (1 + unroll) * (1 + (dtype == "f64")))
        for unroll in (1, 2, 4, 8)
        for dtype in ("f32", "f64")
    ]
    return SweepResult([*rows, row(16, "f32", None)], {"complete": True, "seconds": {"total": 1.5}})


def test_best_returns_the_least_time_and_the_greatest_rate(result: SweepResult) -> None:
    assert result.best()["unroll"] == 1
    assert result.best("gb_per_s") == result.best()
    assert result.best(dtype="f64")["dtype"] == "f64"
    assert result.best("spread", spacing=[1.0, 0.5]) is not None
    with pytest.raises(ParameterError, match="Did you mean 'seconds'"):
        result.best("second")
    with pytest.raises(TikgenError, match="unroll=16 has a value"):
        result.best(unroll=16)


def test_axes_are_what_varies(result: SweepResult) -> None:
    assert result.axes == ("unroll", "dtype")


def test_the_table_shows_what_varies_fastest_first(result: SweepResult) -> None:
    lines = result.table().splitlines()
    assert lines[0].split() == [
        "unroll",
        "dtype",
        "seconds",
        "spread",
        "gb_per_s",
        "gflop_per_s",
        "share",
    ]
    assert lines[1].split()[:4] == ["1", "f32", "20", "us"]
    assert len(lines) == 1 + len(result.timed)
    assert len(result.table(["dtype"], rows=2).splitlines()) == 3
    assert result.table(["dtype"], rows=np.int64(2)) == result.table(["dtype"], rows=2)  # type: ignore[arg-type]
    assert result.table(["dtype"], rows=0).split() == ["dtype"]
    for wrong in (-1, 1.5, True):
        with pytest.raises(ParameterError, match="'rows' takes a whole number of 0 or more; got"):
            result.table(rows=wrong)  # type: ignore[arg-type]
    assert "1 refused" in str(result)


def test_the_text_of_a_sweep_fits_80_columns_and_its_repr_is_readable(result: SweepResult) -> None:
    assert repr(result) == "<SweepResult of stencil: 9 combinations, 8 timed (8 kernels) in 1.5 s>"
    long = {"expr": "x + " * 40, "message": "no " * 80, "gb_per_s": 1234.5, "gflop_per_s": 1e6}
    rows = [dict(r, **long, spacing=(n / 7,) * 3) for n, r in enumerate(result.rows)]
    rows += [dict(r, expr="x", template="s" * 30) for r in result.rows]
    text = str(SweepResult(rows, result.about))
    assert all(len(line) <= 80 for line in text.splitlines())
    assert "seconds" in text
    assert "share" in text
    # The table that a program asks for is whole.
    assert "gflop_per_s" in SweepResult(rows).table()
    assert result.__rich__().row_count == len(result.timed)


@pytest.mark.parametrize("suffix", [".csv", ".json", ".parquet"])
def test_a_saved_table_is_loaded_without_loss(
    result: SweepResult, tmp_path: Path, suffix: str
) -> None:
    if suffix == ".parquet":
        pytest.importorskip("pyarrow")
    mixed = SweepResult(
        [
            *result.rows,
            {**result.rows[0], "spacing": 0.1, "expr": "a*x", "message": "1.5"},
            {**result.rows[0], "spread": math.inf, "share": -math.inf, "message": "nan"},
        ],
        result.about,
    )
    path = tmp_path / f"table{suffix}"
    mixed.save(path)
    loaded = SweepResult.load(path)
    assert loaded.columns == mixed.columns
    assert loaded.rows == mixed.rows
    assert [type(v) for r in loaded.rows for v in r.values()] == [
        type(v) for r in mixed.rows for v in r.values()
    ]
    assert loaded.about == ({} if suffix == ".csv" else mixed.about)


def test_files_of_another_kind_are_refused(result: SweepResult, tmp_path: Path) -> None:
    with pytest.raises(TikgenError, match=r"\.csv, \.json, \.parquet"):
        result.save(tmp_path / "table.xlsx")
    with pytest.raises(TikgenError, match="folder does not exist"):
        result.save(tmp_path / "no" / "table.csv")
    with pytest.raises(TikgenError, match="Cannot read"):
        SweepResult.load(tmp_path / "missing.csv")
    lacks = "it lacks the columns digest and kind"
    for name, text, told in (
        ("a.json", "{}", "it is another document"),
        ("b.json", "hello", ""),
        ("c.csv", "a,b\n1,2\n", lacks),
        ("d.csv", "", lacks),
    ):
        (tmp_path / name).write_text(text)
        with pytest.raises(TikgenError, match=f"no table of a sweep: {told}"):
            SweepResult.load(tmp_path / name)


def test_to_pandas(result: SweepResult) -> None:
    pytest.importorskip("pandas")
    frame = result.to_pandas()
    assert list(frame.columns) == list(result.columns)
    assert frame.groupby("dtype")["seconds"].min()["f32"] == result.best()["seconds"]


@pytest.mark.some
@pytest.mark.parametrize(
    ("x", "y", "hue"),
    [
        (None, None, None),
        ("dtype", "share", None),
        ("unroll", "gb_per_s", "dtype"),
        ("unroll", "dtype", None),
        ("dtype", "unroll", "gflop_per_s"),
        ("size_n0", "seconds", "shape"),
    ],
)
def test_plots(
    result: SweepResult, tmp_path: Path, x: str | None, y: str | None, hue: str | None
) -> None:
    pytest.importorskip("matplotlib")
    path = tmp_path / "plot.png"
    figure = result.plot(x, y, hue, path=path)
    assert path.read_bytes()[:4] == PNG
    panel = figure.axes[0]
    assert panel.get_title() == "stencil on a CPU"
    assert panel.get_xlabel() == (x or "unroll")
    if (x, y) == ("unroll", "dtype"):
        # The colour is the time; light, at the top of the reversed map, is fast.
        assert {text.get_text() for text in panel.texts} >= {"20", "180"}


def test_labels_name_the_axes(result: SweepResult) -> None:
    pytest.importorskip("matplotlib")
    about = {"axes": ["unroll"]}  # The dtype was chosen along with it.
    assert "over" not in SweepResult(result.rows, about).plot().axes[0].get_ylabel()
    assert "least over dtype" in result.plot("unroll", hue="unroll").axes[0].get_ylabel()


def test_the_roofline_holds_dots_below_roofs(result: SweepResult, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    path = tmp_path / "roofline.png"
    figure = result.roofline(path)
    assert path.read_bytes()[:4] == PNG
    panel = figure.axes[0]
    assert (panel.get_xscale(), panel.get_yscale()) == ("log", "log")
    roofs = [line for line in panel.lines if line.get_marker() == "None"]
    assert max(float(max(line.get_ydata())) for line in roofs) == 90.0


def test_drawing_reports_what_is_missing(result: SweepResult, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    with pytest.raises(ParameterError, match="Did you mean 'unroll'"):
        result.plot("unrol")
    with pytest.raises(TikgenError, match="Nothing was timed"):
        SweepResult([row(1, "f32", None)]).plot()
    with pytest.raises(TikgenError, match="limit_gb_per_s"):
        SweepResult([row(1, "f32", 1.0, limit_gb_per_s=None)]).roofline()
    with pytest.raises(TikgenError, match="Cannot write the picture"):
        result.plot(path=tmp_path / "plot.xyz")
    with pytest.raises(TikgenError, match="a number"):
        result.plot("unroll", "message")


def test_its_text_has_whole_lines_or_those_that_fit(result: SweepResult) -> None:
    why = "kernel: 'a' is not defined, since nothing of that name was seen at all\n  rendered: 15"
    rows = [*result.rows, row(32, "f32", None, message=why)]
    wide = SweepResult(rows, result.about)
    whole = wide.text(None).splitlines()
    assert f"1 refused: {why}".splitlines() == whole[-2:]
    for width in (40, 80):
        lines = wide.text(width).splitlines()
        assert max(map(len, lines)) <= width
        assert lines[-1] == "  rendered: 15"
    assert str(wide) == wide.text(80)
