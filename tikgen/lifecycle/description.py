"""The description of a template, as data, text and HTML."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from pydantic import ValidationError

from tikgen.lifecycle import html
from tikgen.machine.devices import ARCHS
from tikgen.pipeline import builder
from tikgen.template.base import Template
from tikgen.template.catalogue import find_template
from tikgen.template.declared import reason_against
from tikgen.template.parameters import ParameterInfo, ParameterModel, canonical, make_model


@dataclass(frozen=True)
class Description:
    """The documentation, the parameters and the default schedules of a template.

    Attributes:
        name: name of the template.
        doc: its documentation.
        folder: folder of the template.
        parameters: every parameter, problem parameters first.
        sizes: size symbols of the problem, in the order of ``shape``; empty if parameters are
            missing.
        schedules: the schedule of a build for each arch, each parameter as text; empty if
            parameters are missing, or on an arch that cannot run the problem.
        origins: for each arch the origin of that schedule, or why it cannot run the problem.
        missing: required parameters that were not given, so that sizes and schedules are unknown.
    """

    name: str
    doc: str
    folder: str
    parameters: tuple[ParameterInfo, ...]
    sizes: tuple[str, ...] = ()
    schedules: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    origins: Mapping[str, str] = field(default_factory=dict)
    missing: tuple[str, ...] = ()

    def default_of(self, info: ParameterInfo) -> str:
        """Return the value of a parameter that is not given, by arch if they differ."""
        if info.kind == "problem":
            return info.default
        values = {arch: schedule[info.name] for arch, schedule in self.schedules.items()}
        if len(set(values.values())) == 1:
            return next(iter(values.values()))
        return ", ".join(f"{arch}={value}" for arch, value in values.items())

    @property
    def notes(self) -> tuple[str, ...]:
        """Return remarks on the schedules, a sentence each."""
        if self.missing:
            given = " ".join(f"-p {name}=..." for name in self.missing)
            return (f"The schedule follows from the problem: tikgen describe {self.name} {given}",)
        return tuple(f"On {arch}: {where}." for arch, where in self.origins.items() if where)

    def to_dict(self) -> dict[str, Any]:
        """Return the description as plain data."""
        return asdict(self)

    def _repr_html_(self) -> str:
        return _html_of(self)

    def __str__(self) -> str:
        lines = [f"{self.name}: {self.doc}", ""]
        for kind in ("problem", "schedule"):
            lines.append(f"{kind} parameters")
            for info in self.parameters:
                if info.kind == kind:
                    lines.append(f"  {info.name} = {self.default_of(info)}".rstrip(" ="))
                    lines.append(f"      {info.meaning}; takes {info.type}")
            lines.append("")
        lines += self.notes
        if self.sizes:
            lines.append(f"shape: {', '.join(self.sizes)}")
        return "\n".join(lines).rstrip()


def describe(
    name: str | Template,
    *,
    shape: tuple[int, ...] | Mapping[str, int] | None = None,
    **params: Any,
) -> Description:
    """Return the documentation of a template, its parameters, and its schedule on each arch.

    Args:
        name: name of the template, or the template.
        shape: sizes for the schedule, as in :func:`tikgen.build`.
        params: parameters by name, as in :func:`tikgen.build`. If none is given but some are
            required, the description has no schedules.

    Raises:
        UnknownTemplate: if no template has that name.
        ParameterError: if a parameter or the shape is wrong.
    """
    template = find_template(name)
    fields = template.Problem.model_fields
    missing = tuple(name for name, info in fields.items() if info.is_required())
    fixed = (template.name, template.doc, str(template.folder), template.parameters)
    if missing and not params:
        return Description(*fixed, missing=missing)
    given = {name: value for name, value in params.items() if name in fields}
    problem = make_model(template.Problem, given, template.name)
    schedules, origins = {}, {}
    for arch in ARCHS:
        schedules[arch], origins[arch] = _schedule(template, problem, arch, shape, params)
    return Description(
        *fixed,
        sizes=_sizes(template, problem),
        schedules={arch: schedule for arch, schedule in schedules.items() if schedule},
        origins=origins,
    )


def _schedule(
    template: Template, problem: ParameterModel, arch: str, shape: Any, params: Mapping[str, Any]
) -> tuple[dict[str, str], str]:
    """Return the schedule of a build on ``arch``, and a remark on it."""
    if reason := reason_against(template, problem, arch):
        return {}, f"not supported, {reason}"
    variant, record = builder.choose(template, None, shape, arch, params)
    texts = {name: canonical(value) for name, value in variant.schedule}
    return texts, str(record or "")


def _sizes(template: Template, problem: ParameterModel) -> tuple[str, ...]:
    try:
        return template.size_symbols(problem)
    except (ValidationError, NotImplementedError):
        return ()


def _html_of(description: Description) -> str:
    """Return a description for a notebook."""
    parts: list[object] = [
        html.tag("p", *html.prose(part)) for part in description.doc.split("\n\n")
    ]
    for kind, meaning in (("problem", "what is computed"), ("schedule", "how fast, never what")):
        rows = [
            (
                html.tag("span", info.name, class_="strong whole"),
                html.tag("span", description.default_of(info), class_="mono whole"),
                info.type,
                html.join(html.prose(info.meaning)),
            )
            for info in description.parameters
            if info.kind == kind
        ]
        if rows:
            header = ("parameter", "default", "takes", "meaning")
            parts.append(html.section(f"{kind} parameters: {meaning}", html.table(header, rows)))
    if description.sizes:
        parts.append(html.section("shape", html.tag("code", ", ".join(description.sizes))))
    parts += [html.tag("p", note) for note in description.notes]
    return html.card(description.name, *parts)
