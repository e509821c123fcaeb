"""What a template is and takes, as data and as text."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from pydantic import ValidationError

from tikgen.catalogue import find_template
from tikgen.parameters import ParameterInfo
from tikgen.template import Template


@dataclass(frozen=True)
class Description:
    """A template's name, its documentation and every parameter."""

    name: str
    doc: str
    folder: str
    parameters: tuple[ParameterInfo, ...]
    # Size symbols of the default problem, in the order of `shape`; none where parameters are
    # required.
    sizes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the description as plain data."""
        return asdict(self)

    def _repr_html_(self) -> str:
        from tikgen import html

        return html.of_description(self)

    def __str__(self) -> str:
        lines = [f"{self.name}: {self.doc}", ""]
        for kind in ("problem", "schedule"):
            lines.append(f"{kind} parameters")
            for info in self.parameters:
                if info.kind == kind:
                    lines.append(f"  {info.name} = {info.default}")
                    lines.append(f"      {info.meaning}; takes {info.type}")
            lines.append("")
        if self.sizes:
            lines.append(f"shape, by default: {', '.join(self.sizes)}")
        return "\n".join(lines).rstrip()


def describe(name: str | Template) -> Description:
    """Return what a template computes and every parameter it takes.

    Raises:
        UnknownTemplate: if no template has that name.
    """
    template = find_template(name)
    folder, sizes = str(template.folder), _default_sizes(template)
    return Description(template.name, template.doc, folder, template.parameters, sizes)


def _default_sizes(template: Template) -> tuple[str, ...]:
    try:
        return template.size_symbols(template.Problem())
    except (ValidationError, NotImplementedError):
        return ()
