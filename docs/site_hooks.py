"""Hooks of MkDocs: what pages link to outside ``docs/`` becomes a page of the site.

A file becomes a page with its text, a folder one with the text of each of its files. So a link
such as ``../examples/ring`` works in a clone of the repository and on the site.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path, PurePosixPath

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
# Code, where nothing is a link, or the target of a link.
CODE_OR_LINK = re.compile(r"(?ms)^ *```.*?^ *```|`[^`\n]*`|(?<=\]\()([^)\s#]+)")
LANGUAGES = {".py": "python", ".j2": "jinja", ".c": "c", ".cpp": "cpp", ".txt": "cmake"}
ALWAYS = ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add a page for each target outside ``docs/``, and for those that such pages link to."""
    pages = [DOCS / file.src_uri for file in files.documentation_pages()]
    waiting = [ROOT / name for name in ALWAYS]
    waiting += [target for page in pages for target in _outside(page.read_text("utf-8"), page)]
    done: set[Path] = set()
    while waiting:
        target = waiting.pop()
        if target in done:
            continue
        done.add(target)
        text = _page_of(target)
        if target.suffix == ".md":
            waiting += _outside(text, target)
            text = _relinked(text, target, _uri(target))
        files.append(File.generated(config, _uri(target), content=text))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Point links that lead out of ``docs/`` to the pages made for them."""
    if page.file.generated_by:
        return markdown
    return _relinked(markdown, DOCS / page.file.src_uri, page.file.src_uri)


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Drop the names of Sphinx's roles, such as ``:class:``, in front of names in docstrings."""
    return re.sub(r":(?:attr|class|data|exc|func|meth|mod):(?=<code)", "", html)


def _outside(text: str, page: Path) -> list[Path]:
    """Return the existing files and folders outside ``docs/`` that a page links to."""
    found = [_target(match[1], page) for match in CODE_OR_LINK.finditer(text) if match[1]]
    return [path for path in found if path is not None and DOCS not in (path, *path.parents)]


def _target(link: str, page: Path) -> Path | None:
    """Return the file or folder of the repository that a link names, if there is one."""
    if ":" in link:
        return None
    path = Path(os.path.normpath(page.parent / link))
    return path if path.exists() and ROOT in path.parents else None


def _relinked(text: str, page: Path, uri: str) -> str:
    """Return the text of ``page``, shown at ``uri``, with links to where their targets are."""

    def replaced(match: re.Match[str]) -> str:
        target = _target(match[1], page) if match[1] else None
        if target is None:
            return match[0]
        return os.path.relpath(_uri(target), PurePosixPath(uri).parent)

    return CODE_OR_LINK.sub(replaced, text)


def _uri(target: Path) -> str:
    """Return where the site has a file or folder of the repository."""
    if DOCS in target.parents:
        return target.relative_to(DOCS).as_posix()
    name = target.relative_to(ROOT).as_posix()
    if target.is_dir():
        return f"source/{name}/index.md"
    return f"source/{name}" if target.suffix == ".md" else f"source/{name}.md"


def _page_of(target: Path) -> str:
    """Return the text of the page for a file or a folder outside ``docs/``."""
    if target.suffix == ".md":
        return target.read_text(encoding="utf-8")
    name = target.relative_to(ROOT).as_posix()
    if target.suffix == ".ipynb":
        return f"# {name}\n\n{_notebook(target)}"
    if target.is_file():
        return f"# {name}\n\n{_shown(target)}"
    parts = [f"# {name}\n"]
    for path in sorted(target.rglob("*")):
        if path.is_file() and path.suffix in LANGUAGES:
            parts.append(f"## {path.relative_to(target).as_posix()}\n\n{_shown(path)}")
    return "\n".join(parts)


def _notebook(path: Path) -> str:
    """Return the cells of a notebook."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    texts = ["".join(cell["source"]) for cell in cells]
    return "\n\n".join(
        f"```python\n{text}\n```" if cell["cell_type"] == "code" else text
        for cell, text in zip(cells, texts, strict=True)
    )


def _shown(path: Path) -> str:
    """Return a block with the text of a file."""
    text = path.read_text(encoding="utf-8")
    fence = "`" * (4 if "```" in text else 3)
    return f"{fence}{LANGUAGES.get(path.suffix, 'text')}\n{text.rstrip()}\n{fence}\n"
