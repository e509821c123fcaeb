"""Rendering: the source and its line map, and errors in templates."""

from __future__ import annotations

import ast
import codecs
import re
from pathlib import Path

import pytest

import tikgen
from tikgen.errors import ParameterError, RenderError, TemplateError, UnknownLine, UnknownTemplate
from tikgen.pipeline.rendering import digest_of

CODE = """\
from tikgen import Array, DType, ProblemModel, ScheduleModel, Template, parameter


class Demo(Template):
    \"\"\"Demonstrates.\"\"\"

    class Problem(ProblemModel):
        n: int = parameter("a number", 3)

    def arguments(self, p):
        return (Array("x", DType.f32, ("n",), role="inout"),)
"""
TEXT = """\
import taichi as ti


@ti.kernel
def {{ name }}(x: {{ arguments[0].annotation }}):
    for i in range(x.shape[0]):
        x[i] += ti.f32({{ p.n }}.0)
"""


def folder_with(tmp_path: Path, text: str = TEXT, code: str = CODE, name: str = "demo") -> Path:
    folder = tmp_path / name
    folder.mkdir()
    (folder / "kernel.py.j2").write_text(text)
    (folder / "template.py").write_text(code)
    return folder


def test_a_source_is_python_and_traces_its_lines() -> None:
    source = tikgen.render("stencil", dim=2, order=4)
    ast.parse(source.text)
    assert len(source.line_map) == source.text.count("\n")
    number = source.text.splitlines().index("def stencil(") + 1
    template = source.variant.template.text.splitlines()
    line = template.index("def {{ name }}(") + 1
    assert source.template_line(number) == f"stencil/kernel.py.j2:{line}"
    assert source.line(number) == "def stencil("
    assert any(place.startswith("_shared/functions.j2:") for place in source.line_map)
    with pytest.raises(UnknownLine, match="got 9999"):
        source.template_line(9999)


def test_the_header_names_template_parameters_and_version() -> None:
    header = tikgen.render("stencil", dim=1, unroll=4).text.splitlines()[:4]
    assert header[0].startswith("# stencil: Weighted sum")
    assert "dim=1, dtype=f32" in header[1]
    assert "unroll=4" in header[2]
    assert header[3] == f"# Rendered by tikgen {tikgen.__version__}."


def test_rendering_twice_gives_the_same_bytes() -> None:
    points = {(0, 1): 0.5, (1, 0): 1.5}
    swapped = dict(reversed(points.items()))
    one = tikgen.render("stencil", dim=2, points=points)
    assert one == tikgen.render("stencil", dim=2, points=swapped)


def test_a_text_beyond_the_parser_is_refused() -> None:
    with pytest.raises(RenderError, match="nests too deeply for Python; split long chains"):
        tikgen.from_string(f"import taichi as ti\nx = {'-' * 100_000}1\n")


def test_digest_ignores_comments_and_blank_lines_only() -> None:
    code = "a = 1\nb = '#'\n"
    assert digest_of(code) == digest_of("# note\n\na = 1  # one\n\nb = '#'  # two\n")
    assert digest_of(code) != digest_of("a = 1\nb = '#x'\n")
    assert digest_of(code) != digest_of("a = 2\nb = '#'\n")


def test_no_bare_float_literal_is_ever_rendered() -> None:
    source = tikgen.render("stencil", dim=3, dtype="f64", order=8, update=True)
    literals = re.findall(r"[^\w.](-?\d+\.\d*(?:e-?\d+)?)", source.text)
    typed = re.findall(r"ti\.f64\((-?\d+\.\d*(?:e-?\d+)?)\)", source.text)
    header = re.findall(r"(-?\d+\.\d*)", "".join(source.text.splitlines()[:4]))
    assert len(typed) >= 10
    assert len(literals) <= len(typed) + len(header)


def test_unknown_templates_suggest_similar_names() -> None:
    with pytest.raises(UnknownTemplate, match=r"no template 'stencl'\. Did you mean 'stencil'"):
        tikgen.render("stencl")


def test_a_syntax_error_names_the_template_line(tmp_path: Path) -> None:
    folder = folder_with(tmp_path, "import taichi as ti\n#% for i in\nx\n#% endfor\n")
    with pytest.raises(RenderError) as caught:
        tikgen.render(tikgen.load_template(folder))
    assert "syntax error" in str(caught.value)
    assert "demo/kernel.py.j2:2: #% for i in" in str(caught.value)


def test_an_undefined_name_names_the_line_and_the_parameters(tmp_path: Path) -> None:
    folder = folder_with(tmp_path, TEXT.replace("p.n", "p.m"))
    with pytest.raises(RenderError) as caught:
        tikgen.render(tikgen.load_template(folder), n=7)
    message = str(caught.value)
    assert "undefined name" in message
    assert "demo/kernel.py.j2:7: x[i] += ti.f32({{ p.m }}.0)" in message
    assert "parameters: n=7" in message


def test_text_that_is_not_python_shows_both_lines(tmp_path: Path) -> None:
    folder = folder_with(tmp_path, TEXT.replace("+=", "+* ="))
    with pytest.raises(RenderError) as caught:
        tikgen.render(tikgen.load_template(folder))
    message = str(caught.value)
    assert "not Python" in message
    assert "template: demo/kernel.py.j2:7" in message
    assert "x[i] +* = ti.f32(3.0)" in message


FUNC = "@ti.func\ndef half(a):\n    return a / 2\n\n\n"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (TEXT + TEXT.partition("ti\n")[2], r"'demo' twice, in demo/kernel.py.j2:5 and demo/.*:11"),
        (
            TEXT.replace("@ti.kernel", 2 * FUNC + "@ti.kernel"),
            r"'half' twice, in demo/.*:5 and .*:10",
        ),
        (TEXT.replace("@ti.kernel", FUNC.replace("half", "demo") + "@ti.kernel"), "'demo' twice"),
    ],
)
def test_two_functions_of_one_name_are_refused(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(RenderError, match=f"the text defines {problem}"):
        tikgen.render(tikgen.load_template(folder_with(tmp_path, text)))


def test_functions_in_a_string_may_have_the_same_name(tmp_path: Path) -> None:
    text = TEXT.replace("@ti.kernel", f"{FUNC}TEXT = '''\n{FUNC}'''\n\n\n@ti.kernel")
    tikgen.render(tikgen.load_template(folder_with(tmp_path, text)))


def test_a_missing_macro_file_is_named(tmp_path: Path) -> None:
    folder = folder_with(tmp_path, '#% from "_shared/nothing.j2" import a\n' + TEXT)
    with pytest.raises(RenderError, match=r"cannot find the file '_shared/nothing.j2'"):
        tikgen.render(tikgen.load_template(folder))


@pytest.mark.parametrize(
    "macro",
    [
        "{% macro m() %}{{ m() }}{% endmacro %}\n",
        '#% from "_shared/own.j2" import m\n{% macro m2() %}{% endmacro %}\n',
    ],
)
def test_a_macro_that_needs_itself_is_named(tmp_path: Path, macro: str) -> None:
    text = '#% from "_shared/own.j2" import m\nimport taichi as ti\n\n{{ m() }}\n'
    folder = folder_with(tmp_path, text)
    (tmp_path / "_shared").mkdir()
    (tmp_path / "_shared/own.j2").write_text(macro)
    with pytest.raises(RenderError, match="a macro calls or imports itself") as caught:
        tikgen.render(tikgen.load_template(folder))
    assert "template: _shared/own.j2:1" in str(caught.value)


@pytest.mark.parametrize(
    ("text", "problem", "place"),
    [
        (
            '#% from "_shared/signature.j2" import signatures\n\n{{ signature(arguments) }}\n',
            "_shared/signature.j2 has no macro 'signatures'. Did you mean 'signature'?",
            'demo/kernel.py.j2:1: #% from "_shared/signature.j2" import signatures',
        ),
        (
            '#% from "_shared/loops.j2" import box\n\n'
            '#% call(k) box([("i", "0", "4")], s)\n#% endcall\n',
            "Schedule has no parameter 'block_dim'",
            "_shared/loops.j2:16, from demo/kernel.py.j2:3: #% call(k) box(",
        ),
    ],
)
def test_mistakes_with_macros_name_the_line_of_the_template(
    tmp_path: Path, text: str, problem: str, place: str
) -> None:
    with pytest.raises(RenderError) as caught:
        tikgen.render(tikgen.load_template(folder_with(tmp_path, text)))
    assert problem in str(caught.value)
    assert f"template: {place}" in str(caught.value)


@pytest.mark.parametrize("missing", ["kernel.py.j2", "template.py"])
def test_a_folder_that_lacks_a_file_is_refused(tmp_path: Path, missing: str) -> None:
    folder = folder_with(tmp_path)
    (folder / missing).unlink()
    with pytest.raises(TemplateError, match=f"{missing} is missing"):
        tikgen.load_template(folder)


def test_a_template_module_that_fails_is_reported(tmp_path: Path) -> None:
    folder = folder_with(tmp_path, code="import nothing_of_this_name\n")
    with pytest.raises(TemplateError, match=r"cannot be imported: ModuleNotFoundError"):
        tikgen.load_template(folder)
    (folder / "template.py").write_text("x = 1\n")
    with pytest.raises(TemplateError, match="must define one subclass of Template; it has 0"):
        tikgen.load_template(folder)


def test_search_paths_and_the_environment_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for part in ("one", "two"):
        (tmp_path / part).mkdir()
        folder_with(tmp_path / part, name=f"demo_{part}")
    monkeypatch.setenv("TIKGEN_TEMPLATE_PATH", str(tmp_path / "one"))
    assert "demo_one" in tikgen.list_templates()
    assert "demo_two" not in tikgen.list_templates()
    tikgen.add_template_path(tmp_path / "two")
    assert "demo_two" in tikgen.list_templates()
    assert "ti.f32(5.0)" in tikgen.render("demo_two", n=5).text
    with pytest.raises(TemplateError, match="is not a folder of templates"):
        tikgen.add_template_path(tmp_path / "nowhere")


def test_local_macros_extend_the_built_in_ones(tmp_path: Path) -> None:
    (tmp_path / "_shared").mkdir()
    (tmp_path / "_shared" / "mine.j2").write_text("{% macro two() %}ti.f32(2.0){% endmacro %}\n")
    text = '#% from "_shared/mine.j2" import two\n#% from "_shared/loops.j2" import config\n'
    folder = folder_with(tmp_path, text + TEXT.replace("ti.f32({{ p.n }}.0)", "{{ two() }}"))
    assert "x[i] += ti.f32(2.0)" in tikgen.render(tikgen.load_template(folder)).text


def test_installed_packages_offer_templates_through_the_entry_point(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "some_kernels"
    package.mkdir()
    (package / "__init__.py").write_text("")
    folder_with(package, name="from_package")
    info = tmp_path / "some_kernels-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: some-kernels\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[tikgen.templates]\nsome = some_kernels\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert "from_package" in tikgen.list_templates()


@pytest.mark.parametrize(
    "points", [{(0, 0): "1); import os; ("}, {(0, "x"): 1.0}, "import os", [1, 2]]
)
def test_a_parameter_never_injects_code(points: object) -> None:
    with pytest.raises(ParameterError, match="'points' takes None, or a dict"):
        tikgen.render("stencil", dim=2, points=points)


def test_tags_may_span_lines(tmp_path: Path) -> None:
    text = (
        TEXT.replace(
            "ti.f32({{ p.n }}.0)",
            "ti.f32({{\n    p.n\n        }}.0) {% if\n    p.n %}+ ti.f32(1.0){% endif %}",
        )
        + "{# a comment\n   over lines #}\n"
    )
    source = tikgen.render(tikgen.load_template(folder_with(tmp_path, text)))
    assert "x[i] += ti.f32(3.0) + ti.f32(1.0)" in source.text


def test_a_loaded_template_stays_when_paths_are_added(tmp_path: Path) -> None:
    (tmp_path / "more").mkdir()
    tikgen.load_template(folder_with(tmp_path, name="explicit"))
    tikgen.add_template_path(tmp_path / "more")
    assert tikgen.render("explicit").variant.template.name == "explicit"
    assert "explicit" in tikgen.list_templates()


def test_an_edited_template_is_read_again_after_clear(tmp_path: Path) -> None:
    folder = folder_with(tmp_path, name="edited")
    assert "ti.f32(3.0)" in tikgen.build(tikgen.load_template(folder)).source.text
    (folder / "kernel.py.j2").write_text(TEXT.replace("+=", "-="))
    tikgen.clear()
    assert "x[i] -= ti.f32(3.0)" in tikgen.build("edited").source.text


def test_texts_that_differ_in_comments_have_different_names() -> None:
    one = tikgen.render("stencil", dim=1, loop="rows", unroll=1, row_buffer=0)
    other = tikgen.render("stencil", dim=1, loop="points", unroll=1, row_buffer=0)
    assert one.digest == other.digest
    assert one.text != other.text
    assert one.filename != other.filename


def test_an_invalid_template_name_is_refused() -> None:
    for name in ([1], None, 3, b"stencil"):
        with pytest.raises(UnknownTemplate, match="There is no template"):
            tikgen.build(name)
    with pytest.raises(ParameterError, match="'arch' takes cpu, cuda or vulkan"):
        tikgen.build("stencil", arch="foo")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('("n",)', '("n*2",)', r"arguments\(\) declares \w+: shape has 'n\*2'; an"),
        ("return (Array", "1 / 0\n        return (Array", r"fails: ZeroDivisionError"),
        (
            "return (Array",
            "from tikgen.errors import TemplateError\n"
            "        raise TemplateError('mine', 'has its own words')\n        return (Array",
            "mine.*has its own words",
        ),
    ],
)
def test_declarations_that_fail_name_the_template(
    tmp_path: Path, old: str, new: str, message: str
) -> None:
    template = tikgen.load_template(folder_with(tmp_path, code=CODE.replace(old, new)))
    with pytest.raises(TemplateError, match=message):
        tikgen.build(template)


@pytest.mark.parametrize("path", [None, 3, b"x", [], "x" * 400, "\0"])
def test_invalid_paths_are_refused(path: object) -> None:
    for function in (tikgen.load_template, tikgen.add_template_path):
        with pytest.raises(TemplateError):
            function(path)


@pytest.mark.parametrize("name", ["my kernel", "ti", "for", "größe", "_own"])
def test_a_folder_must_be_named_like_a_kernel(tmp_path: Path, name: str) -> None:
    with pytest.raises(TemplateError, match=r"becomes the kernel's, takes ASCII .* and not ti"):
        tikgen.load_template(folder_with(tmp_path, name=name))


def test_a_text_that_is_not_utf8_is_named(tmp_path: Path) -> None:
    folder = folder_with(tmp_path)
    (folder / "kernel.py.j2").write_bytes(b"\xff\xfe")
    with pytest.raises(TemplateError, match=r"kernel.py.j2 is not UTF-8"):
        tikgen.load_template(folder)


def test_the_mark_of_utf8_at_the_beginning_of_files_is_no_part_of_them(tmp_path: Path) -> None:
    plain = tikgen.load_template(folder_with(tmp_path))
    (tmp_path / "marked").mkdir()
    marked = folder_with(tmp_path / "marked")
    for path in marked.iterdir():
        path.write_bytes(codecs.BOM_UTF8 + path.read_bytes())
    found = tikgen.load_template(marked)
    assert (found.text, found.fingerprint) == (plain.text, plain.fingerprint)
    assert tikgen.render(found).text == tikgen.render(plain).text


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"spacing": 1e-30}, "'spacing' gives the weight .* beyond dtype f32"),
        ({"spacing": 1e-200}, "'spacing' takes numbers from 1e-100 to 1e100"),
        ({"spacing": 1e200}, "'spacing' takes numbers from 1e-100 to 1e100"),
        ({"points": {(0,): 1e300}}, "'points' gives the weight 1e.300, which is beyond dtype f32"),
        ({"points": {(0,): 2.0**40}, "dtype": "i32"}, "'points' gives the weight .* dtype i32"),
        ({"points": {(0,): 0.5}, "dtype": "i32"}, "'points' gives the weight 0.5"),
        ({"points": {(0,): 1.0}, "order": 4}, "'order' must be 2 where points="),
        ({"points": {}}, "'points' holds no point"),
        ({"points": {(0, 1): 1.0}}, "'points' takes offsets of 1 integers"),
        ({"order": 4, "dtype": "i64"}, "'order' gives the weight"),
    ],
)
def test_weights_that_do_not_fit_are_refused(params: dict[str, object], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        tikgen.render("stencil", dim=1, **params)
