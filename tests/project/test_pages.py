"""The pages of the site: their programs run as printed, and their pictures and texts are true."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

import tikgen
from programs import Programs

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
CODE = re.compile(r"^```(\w+)\n(.*?)^```", re.DOTALL | re.MULTILINE)
HEAT = ROOT / "examples" / "tutorial" / "heat"


def blocks(page: str, language: str = "python") -> list[str]:
    """Return the blocks of a page in a language."""
    text = (DOCS / page).read_text(encoding="utf-8")
    return [block for found, block in CODE.findall(text) if found == language]


FIRST = "tutorials/first-template.md"
SYMPY = "tutorials/from-sympy.md"
EQUATION = "tutorials/equation.md"
PROGRAMS = {
    "concepts": "\n".join(blocks("concepts.md")),
    "index": "\n".join(blocks("index.md")),
    "start": "\n".join(blocks("start.md")),
    "engines": "\n".join(blocks("engines.md")),
    "programs": "\n".join(blocks("programs.md")),
    "grids": "\n".join(blocks("grids.md")),
    "equations": "\n".join(blocks("equations.md")),
    "equation": "\n".join(blocks(EQUATION)),
    # A few steps show that it runs.
    **{
        f"gallery-{number}": re.sub(r"range\(\d{3,}\):", "range(3):", block)
        for number, block in enumerate(blocks("gallery.md"))
    },
    "first": "\n".join(block for block in blocks(FIRST) if "class Smooth" not in block),
}
if importlib.util.find_spec("sympy"):
    PROGRAMS["sympy"] = "\n".join(blocks(SYMPY))


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Programs]:
    """Run the programs of the pages that tests ask for."""
    folder = tmp_path_factory.mktemp("pages")
    write_smooth(folder / "first")
    environment = {"PYTHONPATH": str(ROOT), "MPLBACKEND": "agg"}
    with Programs(PROGRAMS, folder, environment) as programs:
        yield programs


def promised(program: str) -> list[str]:
    """Return what the comments behind ``print`` promise."""
    return re.findall(r"^ *print\(.*\)  # (.*?)(?::.*)?$", program, re.MULTILINE)


def assert_as_printed(page: str, ran: Programs) -> None:
    printed = ran[page].output.splitlines()
    for line in promised(PROGRAMS[page]):
        assert line in printed or line == "the same in NumPy"


@pytest.mark.some
@pytest.mark.parametrize("page", ["index", "start", "engines", "programs", "grids"])
def test_the_programs_of_a_page_run_as_printed(page: str, ran: Programs) -> None:
    assert_as_printed(page, ran)


def test_the_page_of_concepts_shows_kernels_that_nobody_has_compiled(tmp_path: Path) -> None:
    with Programs(PROGRAMS, tmp_path) as alone:
        assert_as_printed("concepts", alone)


@pytest.mark.some
@pytest.mark.parametrize("page", ["equations", "equation"])
def test_equations_run_as_printed_and_mistakes_are_quoted(page: str, ran: Programs) -> None:
    assert_as_printed(page, ran)
    mistakes = blocks(f"{page}.md" if page == "equations" else EQUATION, "text")
    assert mistakes
    assert all(shown in ran[page].output for shown in mistakes)


def test_the_tutorial_on_equations_draws_its_picture(ran: Programs) -> None:
    assert ran["equation"].output
    (drawn,) = ran["equation"].folder.glob("*.png")
    assert (DOCS / "images" / drawn.name).is_file()


def test_equations_of_sympy_run_as_printed(ran: Programs) -> None:
    pytest.importorskip("sympy")
    printed = ran["sympy"].output
    (shown,) = blocks(SYMPY, "text")
    assert shown in printed
    assert set(promised(PROGRAMS["sympy"])) <= set(printed.splitlines())


@pytest.mark.some
@pytest.mark.parametrize("index", range(len(blocks("gallery.md"))))
def test_a_program_of_the_gallery_draws_its_picture(index: int, ran: Programs) -> None:
    assert not re.search(r"range\(\d{3,}\):", PROGRAMS[f"gallery-{index}"])
    done = ran[f"gallery-{index}"]
    assert done.output is not None
    (drawn,) = done.folder.glob("*.png")
    assert (DOCS / "images" / "gallery" / drawn.name).is_file()
    assert f"](images/gallery/{drawn.name})" in (DOCS / "gallery.md").read_text(encoding="utf-8")


def write_smooth(folder: Path) -> Path:
    """Write the template of the first tutorial into a folder."""
    text = (DOCS / FIRST).read_text(encoding="utf-8")
    for name, block in re.findall(r"(?ms)^`(smooth/\S+)`\n\n```\w+\n(.*?)^```", text):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(block, encoding="utf-8")
    return folder / "smooth"


def test_the_first_template_runs_as_printed(ran: Programs) -> None:
    printed = ran["first"].output
    (shown,) = blocks(FIRST, "text")
    assert shown in printed
    assert "def reference" in printed


@pytest.mark.once
def test_the_first_template_verifies_until_it_is_broken(
    ti_arch: str, tmp_path: Path, one_process: None
) -> None:
    smooth = write_smooth(tmp_path)
    options = {"archs": (ti_arch,), "max_examples": 5, "scripts": tmp_path}
    assert tikgen.verify(tikgen.load_template(smooth), **options).ok
    text = (smooth / "kernel.py.j2").read_text(encoding="utf-8")
    broken = text.replace("ti.min(i + {{ d }}, x.shape[0] - 1)", "i + {{ d }}")
    assert broken != text
    (smooth / "kernel.py.j2").write_text(broken, encoding="utf-8")
    assert not tikgen.verify(tikgen.load_template(smooth), **options).ok


@pytest.mark.parametrize("index", range(len(blocks("tutorials/fast-template.md", "jinja"))))
def test_the_fast_template_is_the_one_of_the_page(index: int) -> None:
    block = blocks("tutorials/fast-template.md", "jinja")[index]
    text = (HEAT / "kernel.py.j2").read_text(encoding="utf-8")
    assert stripped(block) in stripped(text)


def test_the_declarations_of_the_fast_template_are_those_of_the_page() -> None:
    code = unspaced((HEAT / "template.py").read_text(encoding="utf-8"))
    for block in blocks("tutorials/fast-template.md", "py"):
        assert unspaced(block) in code


def test_the_fast_template_verifies(ti_arch: str, tmp_path: Path, one_process: None) -> None:
    template = tikgen.load_template(HEAT)
    loops = {"cpu": ("points", "rows", "function", "sweep")}
    for loop in loops.get(ti_arch, ("points", "rows", "sweep", "shared")):
        report = tikgen.verify(
            template, archs=(ti_arch,), max_examples=3, scripts=tmp_path, loop=loop
        )
        assert report.ok, str(report)


def test_the_fast_template_refuses_what_an_arch_lacks() -> None:
    template = tikgen.load_template(HEAT)
    for loop, arch in (("function", "vulkan"), ("shared", "cpu")):
        with pytest.raises(tikgen.errors.ParameterError, match=f"(?i){arch}"):
            tikgen.render(template, loop=loop, arch=arch)
    with pytest.raises(tikgen.errors.ParameterError, match="sweep"):
        tikgen.render(template, loop="rows", depth=8)


def test_every_page_is_in_the_navigation() -> None:
    def named(entry: object) -> set[str]:
        if isinstance(entry, str):
            return {entry}
        parts = entry.values() if isinstance(entry, dict) else entry
        return set().union(*map(named, parts))

    config = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    entries = {name for name in named(config["nav"]) if not name.startswith("source/")}
    assert entries == {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")}


def test_the_reference_documents_every_public_name() -> None:
    pages = "\n".join(path.read_text(encoding="utf-8") for path in (DOCS / "api").glob("*.md"))
    documented = set(re.findall(r"^::: ([\w.]+)$", pages, re.MULTILINE))
    for module in (tikgen, tikgen.aot, tikgen.live, tikgen.ring, tikgen.scaling):
        whole = {"aot", "errors", "live", "ring", "scaling", "__version__"}
        for name in set(module.__all__) - whole:
            other = {f"tikgen.expression.{name}", f"tikgen.errors.{name}"}
            assert documented & {f"{module.__name__}.{name}", *other} or name == "TikgenError", name


def stripped(text: str) -> str:
    """Return the lines of a text without their indentation."""
    return "\n".join(line.strip() for line in text.strip().splitlines())


def unspaced(code: str) -> str:
    """Return Python without white space and without the commas that a line break asks for."""
    return re.sub(r",(?=\))", "", re.sub(r"\s", "", code))
