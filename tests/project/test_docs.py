"""The documentation is true: pages are fresh, links lead somewhere, examples run as printed."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import tikgen
from programs import Programs

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md")])
README = (ROOT / "README.md").read_text(encoding="utf-8")
WRITING = (ROOT / "docs" / "writing-templates.md").read_text(encoding="utf-8")
FOLDERS = ("affine", "blur", "smooth")
CODE = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)


def run(program: str, folder: Path, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def generate() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate", ROOT / "docs" / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def affine(tmp_path: Path) -> Path:
    """Write the templates of the page about writing templates into folders, and return one."""
    files = re.findall(r"^`(\w+/\S+)`\n\n```\w+\n(.*?)^```", WRITING, re.DOTALL | re.MULTILINE)
    names = ["kernel.py.j2", "template.py"]
    assert [name for name, _ in files] == [f"{t}/{n}" for t in FOLDERS for n in names]
    for name, text in files:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path / "affine"


def test_written_pages_are_fresh(generate: ModuleType) -> None:
    pages = generate.pages()
    stale = [path.name for path, text in pages.items() if text != path.read_text(encoding="utf-8")]
    assert not stale, "run `make docs`"
    assert set((DOCS / "templates").glob("*.md")) <= set(pages)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_to_files_and_headings(page: Path) -> None:
    for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
        if link.startswith("http"):
            continue
        name, _, heading = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        assert target.exists(), f"{page.name} links to {link}"
        if heading:
            titles = re.findall(r"^#+ (.*)$", target.read_text(encoding="utf-8"), re.MULTILINE)
            assert heading in {title.lower().replace(" ", "-") for title in titles}, link


def test_the_walk_through_the_house_names_files_that_exist() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    walk = page.partition("## A walk")[2]
    assert len(page.splitlines()) <= 150
    assert walk.count("?**") == 5
    named = re.findall(r"`((?:tikgen|templates|tests|docs)/[\w./]+)`", page)
    assert len(named) > 20
    for name in named:
        if name != "tikgen/templates":  # It is there in the wheel alone.
            assert (ROOT / name).exists(), name
    in_taichi = re.findall(r"`(\w+\.py)`", walk)
    assert len(in_taichi) >= 8
    for name in in_taichi:
        assert (ROOT / "tikgen" / "taichi" / name).is_file(), name


def test_readme_lists_every_template() -> None:
    listed = re.findall(r"^\| \[`(\w+)`\]", README, re.MULTILINE)
    assert listed == sorted(path.parent.name for path in ROOT.glob("templates/*/kernel.py.j2"))


IN_README = dict(
    zip(("start", "program", "live", "aot", "ring"), CODE.findall(README), strict=True)
)


@pytest.fixture(scope="module")
def readme(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Programs]:
    """Run the programs of the README that tests ask for."""
    # What the programs print does not depend on how many examples a verification tries.
    quick = IN_README["aot"].replace("verify=True", "verify=True, max_examples=1")
    assert quick != IN_README["aot"]
    with Programs(IN_README | {"aot": quick}, tmp_path_factory.mktemp("readme")) as programs:
        yield programs


@pytest.mark.parametrize("program", IN_README)
def test_readme_runs_as_printed(program: str, readme: Programs) -> None:
    printed = readme[program].output
    wanted = ("@ti.kernel", "compile", "<Runtime of heat on", "[1.0, 3.0, 5.0, 7.0]")
    assert any(told in printed for told in wanted)


def test_example_template_runs_as_printed(affine: Path) -> None:
    program = "\n".join(code for code in CODE.findall(WRITING) if "print(" in code)
    (affine.parent / "page.py").write_text(program + "\nassert (y == 3).all()\n")
    printed = run("import page", affine.parent)
    assert "y[i, j] = ti.f32(2.0) * x[i, j] + ti.f32(1.0)" in printed
    assert "[ 0.  1.  8. 27.]" in printed
    assert "0.11111112 0.33333334" in printed


def test_example_template_leaves_out_an_offset_of_zero(affine: Path) -> None:
    text = tikgen.render(tikgen.load_template(affine), slope=0.5, unroll=1).text
    assert "    y[i] = ti.f32(0.5) * x[i]\n" in text


def test_example_template_verifies(
    affine: Path, ti_arch: str, tmp_path: Path, one_process: None
) -> None:
    template = tikgen.load_template(affine)
    report = tikgen.verify(template, archs=(ti_arch,), max_examples=5, scripts=tmp_path)
    assert report.ok, str(report)


def test_example_template_computes(affine: Path, ti_arch: str, rng: np.random.Generator) -> None:
    kernel = tikgen.build(tikgen.load_template(affine), dim=2, slope=-2.0, offset=0.5)
    x = rng.random((3, 7), dtype=np.float32)
    y = np.full_like(x, np.nan)
    kernel(x, y)
    np.testing.assert_allclose(y, kernel.reference(x, y), rtol=1e-6, atol=1e-6)


def test_example_of_rows_in_a_real_function_computes(
    affine: Path, ti_arch: str, rng: np.random.Generator
) -> None:
    template = tikgen.load_template(affine.parent / "blur")
    if reason := template.unsupported(None, ti_arch):
        pytest.skip(reason)
    kernel = tikgen.build(template)
    for shape in ((1, 1), (9, 41)):
        x, y = rng.random((2, *shape), dtype=np.float32)
        expected = kernel.reference(x, y)
        kernel(x, y)
        np.testing.assert_allclose(y, expected, rtol=1e-6)


def test_example_of_parts_of_a_grid_computes_what_the_whole_does(
    affine: Path, ti_arch: str, rng: np.random.Generator
) -> None:
    template = tikgen.load_template(affine.parent / "smooth")
    whole = tikgen.build(template)
    x = rng.random(20, dtype=np.float32)
    y = np.zeros_like(x)
    whole(x, y)
    np.testing.assert_allclose(y, whole.reference(x, y), rtol=1e-6)
    assert (y[[0, -1]] == x[[0, -1]]).all()
    for start, stop, low, high in ((0, 7, 0, 1), (7, 12, 1, 1), (12, 20, 2, 0)):
        kernel = tikgen.build(template, part=((low, high, start - low, 20),))
        held = x[start - low : stop + high].copy()
        found = np.full_like(held, 7)
        expected = kernel.reference(held, found)
        kernel(held, found)
        np.testing.assert_allclose(found, expected, rtol=1e-6)
        own = found[low : len(found) - high]
        assert (own == y[start:stop]).all()
        assert (found == 7).sum() == low + high


@pytest.mark.slow  # What it shows is tested in tests/aot, and the README exports and runs a bundle.
def test_ahead_of_time_runs_as_printed(tmp_path: Path) -> None:
    program = "\n".join(CODE.findall((ROOT / "docs" / "aot.md").read_text(encoding="utf-8")))
    # What a verification prints does not depend on how many examples it tries.
    quick = program.replace("max_examples=3", "max_examples=1")
    assert quick != program
    (tmp_path / "page.py").write_text(quick, encoding="utf-8")
    # A store of its own: the page shows what becomes of a kernel that nobody has verified, which
    # another test may have done. Taichi reads the text of a kernel from its file.
    # Its exports share a process that compiles.
    inner = [str(ROOT / "tests" / "aot"), *filter(None, [os.environ.get("PYTHONPATH")])]
    printed = run(
        "import one_compiler\nwith one_compiler.shared():\n    import page",
        tmp_path,
        PYTHONPATH=os.pathsep.join(inner),
        TIKGEN_CACHE_DIR=str(tmp_path / "store"),
    )
    wanted = re.findall(r"print\(.*\)(?:  |\n)# (.*)$", program, re.MULTILINE)
    assert [line for line in printed.splitlines() if not line.startswith("[Taichi]")] == wanted
