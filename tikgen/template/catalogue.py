"""Finding templates: built-in ones, the search path, installed packages, single folders."""

from __future__ import annotations

import functools
import importlib.metadata
import importlib.util
import os
import threading
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

from tikgen.disk import why
from tikgen.errors import DeclarationError, TemplateChanged, TemplateError, UnknownTemplate
from tikgen.template import modules
from tikgen.template.base import BUILTIN_FOLDER, CODE_NAME, TEXT_NAME, Template, files_of
from tikgen.template.blame import place_in, place_within
from tikgen.template.class_names import check_names
from tikgen.template.declarations import check_declared, check_defaults, never_is
from tikgen.template.dependencies import Files
from tikgen.template.parameters import Identifier
from tikgen.template.rules import check_rules
from tikgen.template.stamps import Stamp
from tikgen.untrusted import printable

ENVIRONMENT_VARIABLE = "TIKGEN_TEMPLATE_PATH"
ENTRY_POINTS = "tikgen.templates"
# Of a template's text. Rendering and parsing ten times as much takes a minute.
MOST_BYTES = 1_000_000

_lock = threading.RLock()
_paths: list[Path] = []
_loaded: dict[Path, Template] = {}
_by_name: dict[str, Template] = {}
# Of the files of each loaded template, taken before they were read.
_stamps: dict[Path, Stamp] = {}
# Those that every build looks at: not of built-in templates, nor of followed ones.
_looked_at: dict[Template, Stamp] = {}
# Folders whose templates are reloaded by someone who watches their files.
_followed: set[Path] = set()
_warned: set[str] = set()
_IS_PATH = "is a path: build(load_template(path)) takes those"
# Folders that load_template was given; they win over every search path.
_explicit: dict[str, Path] = {}
_known_variable = os.environ.get(ENVIRONMENT_VARIABLE)
# Counts the changes of what a name may mean; part of the key of every memo.
generation = 0


def add_template_path(path: str | os.PathLike[str]) -> None:
    """Search ``path``, a folder of template folders, before those known so far.

    Raises:
        TemplateError: if ``path`` is not a folder.
    """
    folder = _folder_of(path)
    if not folder.is_dir():
        raise TemplateError(str(path), "is not a folder of templates")
    with _lock:
        if folder in _paths:
            _paths.remove(folder)
        _paths.insert(0, folder)
        _by_name.clear()
        _bump()


def load_template(path: str | os.PathLike[str]) -> Template:
    """Return the template in the folder ``path`` as its files are now, and make its name known.

    Raises:
        TemplateError: if the folder lacks ``kernel.py.j2`` or ``template.py``, or the latter
            cannot be used.
    """
    folder = _folder_of(path)
    with _lock:
        if not folder.exists() and str(path) in _folders():
            problem = f"there is no folder {folder}; build({str(path)!r}) takes the known template"
            raise TemplateError(str(path), problem)
        template = _load_folder(folder)
        if _by_name.get(template.name) is not template:
            _by_name[template.name] = template
            _explicit[template.name] = folder
            _bump()
        return template


def load_unchanged(path: str, fingerprint: str) -> Template:
    """Return the template in the folder ``path`` if it has a fingerprint, where one is given.

    Raises:
        TemplateError: if it cannot be used.
        TemplateChanged: if its files are others than those that had the fingerprint.
    """
    template = load_template(path)
    if fingerprint and template.fingerprint != fingerprint:
        raise TemplateChanged(
            f"Template {template.name!r}: its files were changed meanwhile (fingerprint "
            f"{fingerprint[:8]} before, {template.fingerprint[:8]} now); build its kernels again, "
            "and repeat this"
        )
    return template


def reload_template(path: str | os.PathLike[str]) -> Template:
    """Return the template in the folder ``path`` as its files are now; builds take it from now on.

    Where nothing changed since it was loaded, that is the one which is known.

    Raises:
        TemplateError: if it cannot be used; the one that was known stays known.
    """
    with _lock:
        return _reload(_folder_of(path))


def current_template(name: str | Template) -> Template:
    """Return the template called ``name``, or that in the folder of ``name``, as its files are now.

    Raises:
        UnknownTemplate: with near names.
        TemplateError: if its files were changed and cannot be used.
    """
    if not isinstance(name, Template):
        return find_template(name)
    with _lock:
        is_known = name.folder in _loaded
        if is_known or type(name).__module__ == modules.module_name(name.folder):
            return _load_folder(name.folder)
        return name  # It was made from no folder, or by no catalogue.


def generation_for(name: str | Template) -> int:
    """Return :data:`generation`, once the files of a user's template were looked at.

    It takes microseconds. The files of built-in templates are not looked at.
    """
    template = _loaded.get(name.folder) if isinstance(name, Template) else _by_name.get(name)
    if template is not None:
        stamp = _looked_at.get(template)
        if stamp is not None and not stamp.holds():
            current_template(name)
    return generation


def follow(folder: Path, follows: bool) -> None:
    """Leave the template in ``folder`` as it is until ``reload_template``, or no longer."""
    with _lock:
        (_followed.add if follows else _followed.discard)(folder)
        template = _loaded.get(folder)
        if template is not None:
            _note(template)


def loaded_templates() -> tuple[Template, ...]:
    """Return the templates that were loaded and not forgotten since."""
    with _lock:
        return tuple(_loaded.values())


def find_template(name: str | Template) -> Template:
    """Return the template called ``name``.

    Raises:
        UnknownTemplate: with near names.
    """
    if isinstance(name, Template):
        return name
    if isinstance(name, os.PathLike):
        raise TemplateError(str(name), _IS_PATH)
    if not isinstance(name, str):
        raise UnknownTemplate(name, list_templates())
    with _lock:
        _follow_variable()
        if name not in _by_name:
            folder = _folders().get(name)
            if folder is None:
                if "/" in name or os.sep in name:
                    raise TemplateError(name, _IS_PATH)
                raise UnknownTemplate(name, _folders())
            _by_name[name] = _load_folder(folder)
        return _load_folder(_by_name[name].folder)


def list_templates() -> tuple[str, ...]:
    """Return the names of all templates that can be built, sorted."""
    with _lock:
        return tuple(sorted(_folders()))


def forget_templates() -> None:
    """Forget every loaded template, so that the next use reads its files again."""
    with _lock:
        for folder in _loaded:
            modules.forget(folder)
        _loaded.clear()
        _stamps.clear()
        _looked_at.clear()
        _by_name.clear()
        _bump()


def _bump() -> None:
    global generation
    generation += 1


def _folder_of(path: str | os.PathLike[str]) -> Path:
    try:
        if not isinstance(path, str | os.PathLike) or not str(path):
            raise ValueError("write one such as './mine'")
        folder = Path(path).expanduser().resolve()
        folder.exists()  # Raises where the system cannot have such a name.
        return folder
    except (TypeError, OSError, ValueError, RuntimeError) as error:
        raise TemplateError(repr(path)[:80], f"is not the path of a folder: {why(error)}") from None


def _follow_variable() -> None:
    """Forget what names meant, where the environment variable has changed since."""
    global _known_variable
    if os.environ.get(ENVIRONMENT_VARIABLE) != _known_variable:
        _known_variable = os.environ.get(ENVIRONMENT_VARIABLE)
        _by_name.clear()
        _bump()


def _folders() -> dict[str, Path]:
    found = dict(_explicit)
    for root in _roots():
        for folder in _below(root):
            found.setdefault(folder.name, folder)
    return found


def _below(root: Path) -> list[Path]:
    """Return the template folders in a folder of the search path, sorted."""
    try:
        folders = sorted(root.iterdir())
    except OSError as error:
        _warn(f"{root} cannot be searched for templates ({why(error)})")
        return []
    found = []
    for folder in folders:
        try:
            if (folder / TEXT_NAME).is_file():
                found.append(folder)
        except OSError as error:
            _warn(f"{folder} cannot be searched for a template ({why(error)})")
    return found


def _warn(message: str) -> None:
    """Warn once of what the search for templates leaves out."""
    if message not in _warned:
        _warned.add(message)
        warnings.warn(printable(message), UserWarning, stacklevel=2)


def _roots() -> Iterator[Path]:
    """Yield the folders to search, those that win first."""
    yield from _paths
    for part in os.environ.get(ENVIRONMENT_VARIABLE, "").split(os.pathsep):
        try:
            if part:
                yield Path(part).expanduser().resolve()
        except (OSError, RuntimeError, ValueError) as error:
            _warn(f"{ENVIRONMENT_VARIABLE} names {part[:80]!r}, which is no folder ({why(error)})")
    for entry_point in importlib.metadata.entry_points(group=ENTRY_POINTS):
        try:
            spec = importlib.util.find_spec(entry_point.value.partition(":")[0])
        except (ImportError, ValueError) as error:
            _warn(f"the templates of {entry_point.value!r} cannot be found ({error})")
            continue
        for location in (spec.submodule_search_locations or []) if spec else []:
            yield Path(location)
    yield BUILTIN_FOLDER


def _load_folder(folder: Path) -> Template:
    """Return the template in ``folder``, as its files are now unless someone follows them."""
    known = _loaded.get(folder)
    if known is not None and (folder in _followed or _stamps[folder].holds()):
        return known
    return _reload(folder)


def _reload(folder: Path) -> Template:
    known = _loaded.get(folder)
    if known is not None:
        files, stamp = _stamped(folder)
        if known.fingerprint == files.fingerprint:
            _note(known, stamp)
            return known
    template = _read_folder(folder)
    for name in [name for name, other in _by_name.items() if known is not None and other is known]:
        _by_name[name] = template
    if known is not None:
        _bump()
    return template


def _stamped(folder: Path) -> tuple[Files, Stamp]:
    """Return what the files of a template hold, and a stamp from before they were read."""
    stamp = Stamp.of((folder, *files_of(folder).contents))
    return files_of(folder), stamp


def _note(template: Template, stamp: Stamp | None = None) -> None:
    """Note how a template was read, and whether builds look at its files."""
    folder = template.folder
    _looked_at.pop(_loaded.get(folder, template), None)
    _loaded[folder] = template
    _stamps[folder] = stamp or _stamps[folder]
    if folder.parent != BUILTIN_FOLDER and folder not in _followed:
        _looked_at[template] = _stamps[folder]


def _read_folder(folder: Path) -> Template:
    """Return the template in ``folder``; where it cannot be used, all stays as it was."""
    try:
        for required in (TEXT_NAME, CODE_NAME):
            if (folder / required).is_dir():
                raise TemplateError(folder.name, f"{folder / required} is a folder, not a file")
            if not (folder / required).is_file():
                raise TemplateError(folder.name, f"the file {folder / required} is missing")
        size = (folder / TEXT_NAME).stat().st_size
        if size > MOST_BYTES:
            problem = f"{TEXT_NAME} has {size:,} bytes; it takes at most {MOST_BYTES:,}"
            raise TemplateError(folder.name, problem)
        Identifier.parse(folder.name)
        (folder / TEXT_NAME).read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise TemplateError(folder.name, f"{TEXT_NAME} is not UTF-8: {error}") from None
    except OSError as error:
        raise TemplateError(folder.name[:80], f"cannot be read: {why(error)}") from None
    except ValueError:
        problem = (
            "the name of its folder, which becomes the kernel's, takes ASCII letters, digits and "
            "underscores, with a letter in front, and is no keyword of Python and not ti"
        )
        raise TemplateError(folder.name, problem) from None
    while True:
        files, stamp = _stamped(folder)
        template = _execute(folder, files)
        if template.fingerprint == files.fingerprint:  # Nothing was saved in between.
            _note(template, stamp)
            return template


def _execute(folder: Path, files: Files) -> Template:
    """Return the template that the text of ``template.py`` declares."""
    before = modules.forget(folder)
    try:
        code = files.contents[folder / CODE_NAME] or b""
        module = modules.run(folder / CODE_NAME, code, files.beside)
        place = functools.partial(place_within, code, CODE_NAME)
        return _only_template(folder, vars(module), place)(folder)
    except BaseException as error:
        modules.restore(folder, before)
        if isinstance(error, DeclarationError):
            raise TemplateError(folder.name, f"{error}{place_in(folder, error)}") from None
        if isinstance(error, TemplateError) or not isinstance(error, Exception | SystemExit):
            raise
        text = modules.message_of(error, folder)
        text = text.partition("\n\nFor further information")[0]  # Of pydantic.
        told = f"{type(error).__name__}: {text}{place_in(folder, error)}"
        problem = f"{CODE_NAME} cannot be imported: {told}"
        raise TemplateError(folder.name, problem) from error


def _only_template(
    folder: Path, names: dict[str, object], place: Callable[[str], str]
) -> type[Template]:
    module = modules.module_name(folder)
    found = [
        value
        for value in names.values()
        if isinstance(value, type) and issubclass(value, Template) and value.__module__ == module
    ]
    if len(found) != 1:
        raise TemplateError(
            folder.name, f"{CODE_NAME} must define one subclass of Template; it has {len(found)}"
        )
    declared = found[0]
    check_names(folder.name, declared, place)
    models = declared.Problem, declared.Schedule
    for model in models:
        check_declared(folder.name, model, place)
    check_rules(folder.name, *models, never_is, place)
    chooses = declared.default_schedule is not Template.default_schedule
    check_defaults(folder.name, *models, chooses, place)
    return declared
