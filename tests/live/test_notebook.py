"""The extension of IPython: cells, magics, completion; the example in a real Jupyter kernel."""

from __future__ import annotations

import base64
import io
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tikgen
from tikgen.errors import CellError

pytest.importorskip("IPython")
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

pytestmark = pytest.mark.once

EXAMPLE = Path(__file__).parents[2] / "examples" / "notebook.ipynb"
SCALE = """\
%%tikgen scaling factor=2.0
# `ti` is there as it is.

LIMIT = 3


@ti.func
def scaled(value):
    return {{ factor }} * value


class Notes:
    text = "kept"


@ti.kernel
def scale(x: ti.types.ndarray(dtype=ti.f32, ndim=1)):
    for i in range(x.shape[0]):
        x[i] = scaled(x[i])


@ti.kernel
def clear(x: ti.types.ndarray(dtype=ti.f32, ndim=1)):
    for i in range(x.shape[0]):
        x[i] = 0.0


from textwrap import dedent
"""


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[InteractiveShell]:
    """Give a shell of IPython that has loaded the extension, and writes nothing at home."""
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    monkeypatch.setattr(sys, "displayhook", sys.displayhook)
    config = Config()
    config.HistoryManager.enabled = False
    made = InteractiveShell(config=config)
    made.run_line_magic("load_ext", "tikgen")
    yield made
    tikgen.unload_ipython_extension(made)


def run(shell: InteractiveShell, cell: str) -> Any:
    """Run a cell and return what it displays; raise what it raises."""
    done = shell.run_cell(cell)
    done.raise_error()
    return done.result


def test_a_cell_defines_kernels_functions_and_classes(
    shell: InteractiveShell, ti_arch: str, rng: np.random.Generator
) -> None:
    run(shell, SCALE)
    names = shell.user_ns
    assert isinstance(names["scale"], tikgen.Kernel)
    assert isinstance(names["clear"], tikgen.Kernel)
    assert names["Notes"].text == "kept"
    assert callable(names["scaled"])
    assert not {"LIMIT", "dedent"} & names.keys()
    assert names["scale"].is_compiled()  # Before it was launched.
    x = rng.random(9, dtype=np.float32)
    result = x.copy()
    names["scale"](result)
    np.testing.assert_allclose(result, 2 * x, rtol=1e-6)
    names["clear"](result)
    assert not result.any()
    with pytest.raises(tikgen.errors.ArgumentError, match="f32"):
        names["scale"](x.astype(np.float64))


def test_an_unchanged_cell_gives_the_same_kernels_and_a_changed_one_new_ones(
    shell: InteractiveShell, ti_arch: str
) -> None:
    run(shell, SCALE)
    first = shell.user_ns["scale"]
    run(shell, SCALE)
    assert shell.user_ns["scale"] is first
    shell.user_ns["wanted"] = 5.0
    run(shell, SCALE.replace("factor=2.0", "factor=$wanted"))
    x = np.ones(3, np.float32)
    first(x)  # Holders of the old kernel keep running the old code.
    assert (x == 2).all()
    shell.user_ns["scale"](x)
    assert (x == 10).all()
    why = str(tikgen.why(shell.user_ns["scale"]))
    assert "differs in 1 field: problem parameter factor is 5.0, not 2.0" in why
    assert "(5 * " in shell.user_ns["scale"].ir("ast")  # Though its text imports nothing.


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("LIMIT = 3", "LIMIT = = 3", "RenderError in line 4 of the cell 'scaling'"),
        ("LIMIT = 3", "LIMIT = 3 / 0", "in line 4 of the cell 'scaling': ZeroDivisionError"),
        ("= scaled(x[i])", "= scald(x[i])", "in line 19 of the cell 'scaling': Taichi cannot"),
        ("x[i] = 0.0", "x[i] = 0.0 {{ }}", "RenderError in line 25 of the cell"),
        (" factor=2.0", "", "lack its parameters? %%tikgen scaling factor=..."),
        ("= scaled(x[i])", "= n * x[i]", "%%tikgen scaling n=$n, then {{ n }}"),
        ("factor=2.0", "factr=2.0", "Did you mean 'factor'?"),
        ("factor=2.0", "factor=$nothing", "there is no such variable"),
        ("factor=2.0", "factor='a b; c'", "takes a number"),
    ],
)
def test_an_error_in_a_cell_is_located_and_changes_nothing(
    shell: InteractiveShell,
    ti_arch: str,
    capsys: pytest.CaptureFixture[str],
    old: str,
    new: str,
    message: str,
) -> None:
    run(shell, SCALE)
    shell.user_ns["n"] = 3
    before = shell.user_ns["scale"]
    with pytest.raises(CellError) as raised:
        run(shell, SCALE.replace(old, new, 1))
    assert message in str(raised.value)
    printed = capsys.readouterr()
    assert message in printed.out + printed.err
    assert "Traceback" not in printed.out + printed.err
    assert shell.user_ns["scale"] is before
    x = np.ones(3, np.float32)
    before(x)
    assert (x == 2).all()


def test_a_kernel_that_fails_at_its_first_call_restores_the_previous_one(
    shell: InteractiveShell, ti_arch: str
) -> None:
    # A field is compiled in, so that nothing can be compiled before the call.
    good = "%%tikgen filling\n@ti.kernel\ndef fill(f: ti.template()):\n    f[None] = 1.0\n"
    field = run(shell, f"import taichi as ti\nf = ti.field(ti.f32, shape=())\n{'f'}")
    run(shell, good)
    run(shell, "fill(f)")
    first = shell.user_ns["fill"]
    run(shell, good.replace("1.0", "nothing"))
    assert shell.user_ns["fill"] is not first
    with pytest.raises(tikgen.errors.KernelCompileError, match="is current again"):
        run(shell, "fill(f)")
    field[None] = 0
    run(shell, "fill(f)")
    assert field[None] == 1


@pytest.mark.parametrize("is_first", [False, True])
def test_a_failed_first_call_restores_what_the_cell_put_there(
    shell: InteractiveShell, ti_arch: str, is_first: bool
) -> None:
    cell = "%%tikgen failing\n@ti.kernel\ndef fill(f: ti.template()):\n    f[None] = 1.0\n"
    cell += "def kept():\n    return 1\n"
    run(shell, "import taichi as ti\nf = ti.field(ti.f32, shape=())\nfill = 5")
    if not is_first:
        run(shell, cell)
    before = shell.user_ns["fill"]
    run(shell, cell.replace("1.0", "nothing"))
    run(shell, "kept = 'mine'")
    with pytest.raises(tikgen.errors.KernelCompileError):
        run(shell, "fill(f)")
    assert shell.user_ns["kept"] == "mine"
    restored = shell.user_ns["fill"]
    assert restored == 5 if is_first else isinstance(restored, type(before))
    run(shell, cell.replace("1.0", "nothing"))
    run(shell, "failed, fill = fill, 'mine'")
    with pytest.raises(tikgen.errors.KernelCompileError):
        run(shell, "failed(f)")
    assert shell.user_ns["fill"] == "mine"


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        ("%%tikgen\nx = 1", "a name is missing"),
        ("%%tikgen 3d\nx = 1", "'3d' is not a name"),
        ("%%tikgen class\nx = 1", "'class' is not a name"),
        ("%%tikgen json\nx = 1", "the name of an installed module"),
        ("%%tikgen some 'n\nx = 1", "No closing quotation"),
        ("%%tikgen some n\nx = 1", "has no value; write n=VALUE"),
        ("%%tikgen some n=1 n=2\nx = 1", "given twice"),
        ("%%tikgen some check=1\nx = {{ check }}", "'check' is not a parameter of a template"),
        ("%%tikgen some text=1\nx = {{ text }}", "'text' is not a parameter of a template"),
        ("%%tikgen some\n# nothing", "defines no kernel, function or class"),
        ("%%tikgen some\n\n\n", "is empty"),
        ("%tikgen stencil dim=9", "from 1 to 3; got 9"),
        ("%tikgen stencl", "Did you mean 'stencil'"),
        ("%tikgen_describe stencl", "Did you mean 'stencil'"),
        ("%tikgen_describe stencil dim=2", "takes the name of a template only"),
    ],
)
def test_bad_lines_are_refused(shell: InteractiveShell, cell: str, message: str) -> None:
    with pytest.raises(CellError) as raised:
        run(shell, cell)
    assert message in str(raised.value)


def test_the_line_magic_builds_the_kernel_of_a_template(shell: InteractiveShell) -> None:
    kernel = run(shell, "%tikgen stencil dim=2 'points={(0, 0): 1.5, (0, 1): -1}' shape=(8,8)")
    shell.user_ns["weights"] = {(0, 0): 1.5, (0, 1): -1}
    assert kernel is run(shell, "%tikgen stencil dim=2 points=$weights shape=(8,8)")
    assert kernel is tikgen.build("stencil", dim=2, points={(0, 0): 1.5, (0, 1): -1}, shape=(8, 8))


def test_describe_shows_text_in_a_terminal(
    shell: InteractiveShell, capsys: pytest.CaptureFixture[str]
) -> None:
    run(shell, "%tikgen_describe transpose")
    assert "problem parameters" in capsys.readouterr().out
    run(shell, "%tikgen_describe")
    assert "transpose: " in capsys.readouterr().out


@pytest.mark.parametrize(
    ("typed", "wanted", "unwanted"),
    [
        ("%tikgen_describe s", {"scan", "spmv", "stencil"}, {"gemm"}),
        ("%%tikgen st", {"stencil"}, {"scan"}),
        ("%tikgen stencil dim=2 d", {"dtype="}, {"dim="}),
        ("%tikgen stencil boundary=", {"zero", "periodic"}, {"ndarray"}),
        ("%%tikgen wave a=1 |\nx = {{ a }} + {{ speed }}", {"speed="}, {"a="}),
        ('tikgen.build("s', {"scan", "stencil"}, {"gemm"}),
        ("tikgen.build(", {'"stencil"'}, set()),
        ("tikgen.build('stencil', dim=2, ", {"dtype=", "unroll="}, {"dim="}),
        ('tikgen.sweep("stencil", dtype=["f32", "', {"f64"}, {"dim="}),
        ('tikgen.build("stencil", order=', {"4", "8"}, {"dim="}),
        ('(1, f(tikgen.build(\n    "stencil",  # dim(\n    up', {"update="}, {"dim="}),
        ('tikgen.build("stencil", spacing=float(2), ', {"dtype="}, {"spacing="}),
        ('other.build("s', set(), {"scan"}),
        ('tikgen.build("nothing", d', set(), {"dim="}),
        ('made("map", e', {"expr="}, set()),
        ('package.verify("map", e', {"expr="}, set()),
        ('tikgen.why("map", e', {"expr="}, set()),
        ("%%tikgen half a=1\n\ud800 {{ b", set(), set()),
    ],
)
def test_names_complete(
    shell: InteractiveShell, typed: str, wanted: set[str], unwanted: set[str]
) -> None:
    run(shell, "import tikgen as package\nfrom tikgen import build as made")
    before, _, after = typed.partition("|")
    # As Jupyter asks, whose cells have several lines.
    from IPython.core.completer import provisionalcompleter

    with provisionalcompleter():
        offered = {c.text for c in shell.Completer.completions(before + after, len(before))}
    assert wanted <= offered
    assert not unwanted & offered


def test_the_extension_can_be_loaded_again_and_unloaded(shell: InteractiveShell) -> None:
    matchers = len(shell.Completer.custom_matchers)
    tikgen.load_ipython_extension(shell)
    assert len(shell.Completer.custom_matchers) == matchers
    run(shell, "%unload_ext tikgen")
    assert len(shell.Completer.custom_matchers) == matchers - 1
    assert shell.find_cell_magic("tikgen") is None
    assert shell.find_line_magic("tikgen_describe") is None


# In a Jupyter kernel of its own.


def test_kernels_of_both_kinds_of_cells_run_in_a_jupyter_kernel() -> None:
    pytest.importorskip("ipykernel")
    from jupyter_client.manager import start_new_kernel

    plain = "@ti.kernel\ndef plain(x: ti.types.ndarray()):\n    for i in x:\n        x[i] += 1.0\n"
    manager, client = start_new_kernel()
    try:

        def execute(cell: str) -> str:
            """Return what a cell prints, or its error."""
            printed: list[str] = []
            reply = client.execute_interactive(
                cell,
                timeout=120,
                output_hook=lambda m: printed.append(m["content"].get("text", "")),
            )["content"]
            return "".join(reply.get("traceback", printed))

        execute("import taichi as ti, numpy as np\nti.init(arch=ti.cpu)\n%load_ext tikgen")
        execute(plain)
        execute(SCALE)
        execute(SCALE.replace("factor=2.0", "factor=3.0"))
        broken = execute(SCALE.replace("= scaled(", "= scald("))
        assert "line 19 of the cell" in broken
        assert "site-packages" not in broken
        printed = execute("x = np.ones(3, np.float32)\nplain(x)\nscale(x)\nprint(x)")
        assert printed == "[6. 6. 6.]\n"
        reply = client.complete('tikgen.build("sten', reply=True, timeout=60)["content"]
        assert reply["matches"] == ["stencil"]
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


@pytest.mark.slow
def test_the_example_runs_and_draws(tmp_path: Path) -> None:
    nbformat = pytest.importorskip("nbformat")
    nbclient = pytest.importorskip("nbclient")
    image = pytest.importorskip("matplotlib.image")
    notebook = nbformat.read(EXAMPLE, 4)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    # Outputs would change from run to run; they are made here, and where it is opened.
    assert not any(cell.outputs or cell.execution_count for cell in code)
    resources = {"metadata": {"path": str(tmp_path)}}
    nbclient.NotebookClient(notebook, timeout=240, resources=resources).execute()
    outputs = [output for cell in code for output in cell.outputs]
    data = [output.data for output in outputs if "data" in output]
    pictures = [
        image.imread(io.BytesIO(base64.b64decode(d["image/png"]))) for d in data if "image/png" in d
    ]
    assert len(pictures) == 3
    assert all(picture[..., :3].std() > 0.1 for picture in pictures)
    assert sum('class="tikgen"' in d.get("text/html", "") for d in data) >= 5
    errors = [output for output in outputs if output.output_type == "error"]
    assert [error.ename for error in errors] == ["CellError"]  # The mistake that it shows.
