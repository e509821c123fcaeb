"""Shows a bundle: the rows of a table, and a card for a notebook."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tikgen.aot import manifest as m

HEADER = ("name", "takes", "archs", "proof")


def title_of(path: Path, manifest: m.Manifest) -> str:
    """Return the title of the table of a bundle."""
    made = f"tikgen {manifest.tikgen}, Taichi {manifest.taichi}"
    native = [f"native {a} ({manifest.native[a].cpu})" for a in manifest.archs if manifest.native]
    return f"{path}: bundle {manifest.name}, {', '.join([made, *native])}"


def rows_of(manifest: m.Manifest) -> list[tuple[str, str, str, str]]:
    """Return name, arguments, archs and proof of each kernel, graph and field as text."""

    def archs(entry: m.Kernel | m.Graph | m.Field) -> str:
        return ", ".join(arch for arch in manifest.archs if arch in entry.builds)

    rows = []
    for entry in manifest.launchable:
        prefix = "graph: " if isinstance(entry, m.Graph) else ""
        takes = prefix + ", ".join(map(_argument, entry.arguments))
        rows.append((entry.name, takes, archs(entry), _proof(entry)))
    for field in manifest.fields.values():
        shape = ", ".join(map(str, (*field.shape, *field.element)))
        rows.append((field.name, f"field {field.dtype}[{shape}]", archs(field), ""))
    return rows


def html_of(path: Path, manifest: m.Manifest, failures: Sequence[m.Failure], ok: bool) -> str:
    """Return a card with the contents of a bundle, and what was left out."""
    from tikgen.lifecycle import html  # It imports Taichi, which a terminal does without.

    held = [
        (html.tag("code", name), takes, html.tag("td", archs, class_="whole"), proof)
        for name, takes, archs, proof in rows_of(manifest)
    ]
    parts = [
        html.tag("p", f"{path}", class_="pale"),
        html.table(HEADER, held),
    ]
    if failures:
        rows = [(f.name, f.arch, f.problem) for f in failures]
        parts.append(html.section("left out", html.table(("name", "arch", "why"), rows)))
    status = html.status("complete", "good") if ok else html.status("incomplete", "bad")
    return html.card(html.join((f"bundle {manifest.name}: ", status)), *parts)


def _argument(argument: m.Argument) -> str:
    if argument.kind == "scalar":
        return f"{argument.name}: {argument.dtype}"
    arrow = {"in": "", "out": " -> written", "inout": " -> updated", "work": ""}[argument.role]
    shape = ", ".join(map(str, (*argument.shape, *argument.element)))
    return f"{argument.name}: {argument.dtype}[{shape}]{arrow}"


def _proof(entry: m.Kernel | m.Graph) -> str:
    proofs = [build.proof for build in entry.builds.values() if build.proof is not None]
    if not proofs:
        return "none"
    worst = max(proof.worst for proof in proofs)
    runs = sum(proof.examples for proof in proofs)
    return f"{runs} runs against {proofs[0].against}, error {worst:.2g} of what is allowed"
