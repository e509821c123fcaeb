"""Makes message types of classes, dataclasses and Structs, for the decorator ``message``."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Iterator
from types import CellType, FunctionType, MemberDescriptorType
from typing import Any, ClassVar, get_origin
from uuid import uuid4

import msgspec

from tikgen.ring.errors import MessageTypeError
from tikgen.ring.messages.annotations import evaluated

_LEFT_OUT = {"__dict__", "__weakref__", "__annotations__", "__slots__", "__match_args__"}
_LEFT_OUT |= {"__dataclass_fields__", "__dataclass_params__"}
_GENERATED = {"__init__", "__repr__", "__eq__", "__lt__", "__le__", "__gt__", "__ge__"}
_GENERATED |= {"__hash__", "__setattr__", "__delattr__", "__getstate__", "__setstate__"}
_GENERATED |= {"__replace__"}
_FILES_OF_GENERATED_CODE = ("<string>", dataclasses.__file__)
_EMPTY_AND_COPIED = (list, dict, set, bytearray)  # By msgspec, for each message.


@dataclasses.dataclass(frozen=True)
class _Field:
    """A field of the class, required if its default is ``NODEFAULT``."""

    name: str
    annotation: Any
    default: Any = msgspec.NODEFAULT
    factory: Any = msgspec.NODEFAULT
    kw_only: bool = False

    @property
    def definition(self) -> tuple[str, Any, Any]:
        return self.name, self.annotation, msgspec.field(**self._defaults())

    def _defaults(self) -> dict[str, Any]:
        if self.factory is not msgspec.NODEFAULT:
            return {"default_factory": self.factory}
        return {} if self.default is msgspec.NODEFAULT else {"default": self.default}


def message_type(cls: type[Any], base: type[Any]) -> type[Any]:
    """Return a message type with the fields, defaults, methods and attributes of a class."""
    found = [_with_type_of_base(field, base) for field in _fields(cls) if not _repeats(field)]
    for field in found:
        _check(cls, field, base)
    namespace = _namespace(cls, {field.name for field in found}, base)
    options = _options(cls)
    by_name = [field for field in found if field.kw_only or field.name in base.__struct_fields__]
    if by_name:  # In one Struct, either all fields are keyword-only or none.
        base = msgspec.defstruct(
            cls.__name__,
            [field.definition for field in by_name],
            bases=(base,),
            module=cls.__module__,
            namespace={"__qualname__": f"{cls.__qualname__}.<fields by name>"},
            kw_only=True,
            **options,
        )
    made = msgspec.defstruct(
        cls.__name__,
        [field.definition for field in found if field not in by_name],
        bases=_bases(cls, base, {field.name for field in found}),
        module=cls.__module__,
        namespace=namespace,
        **options,
    )
    _point_at(made, cls, namespace)
    return made


def _fields(cls: type[Any]) -> Iterator[_Field]:
    if dataclasses.is_dataclass(cls):
        yield from _fields_of_dataclass(cls)
        return
    if issubclass(cls, msgspec.Struct):
        yield from _fields_of_struct(cls)
        return
    for name, annotation in inspect.get_annotations(cls).items():
        if _is_class_variable(annotation):
            continue
        _refuse_init_var(cls, name, annotation)
        default = cls.__dict__.get(name, msgspec.NODEFAULT)
        if isinstance(default, MemberDescriptorType):
            raise MessageTypeError(
                f"{cls.__qualname__}: a message takes no __slots__; leave them out"
            )
        if isinstance(default, dataclasses.Field):
            yield _of_dataclass_field(name, annotation, default)
        elif type(default) is type(msgspec.field()):
            yield _Field(name, annotation, default.default, default.default_factory)
        else:
            yield _Field(name, annotation, default)


def _fields_of_dataclass(cls: type[Any]) -> Iterator[_Field]:
    owners = {
        name: owner for owner in reversed(cls.__mro__) for name in inspect.get_annotations(owner)
    }
    for owner in cls.__mro__:
        for name, annotation in inspect.get_annotations(owner).items():
            _refuse_init_var(cls, name, annotation)
    for field in dataclasses.fields(cls):
        owner = owners[field.name]
        annotation = field.type if owner is cls else evaluated(field.type, owner)
        yield _of_dataclass_field(field.name, annotation, field)


def _of_dataclass_field(name: str, annotation: Any, field: dataclasses.Field[Any]) -> _Field:
    missing = dataclasses.MISSING
    return _Field(
        name,
        annotation,
        msgspec.NODEFAULT if field.default is missing else field.default,
        msgspec.NODEFAULT if field.default_factory is missing else field.default_factory,
        field.kw_only is True,
    )


def _fields_of_struct(cls: type[Any]) -> Iterator[_Field]:
    annotations = {
        name: evaluated(annotation, owner) if owner is not cls else annotation
        for owner in reversed(cls.__mro__)
        for name, annotation in inspect.get_annotations(owner).items()
    }
    names = cls.__struct_fields__
    defaults = cls.__struct_defaults__
    defaults = (msgspec.NODEFAULT,) * (len(names) - len(defaults)) + defaults
    positional = set(cls.__match_args__)
    for name, default in zip(names, defaults, strict=True):
        if hasattr(default, "factory"):
            yield _Field(name, annotations[name], factory=default.factory)
        else:
            yield _Field(name, annotations[name], default, kw_only=name not in positional)


def _is_class_variable(annotation: Any) -> bool:
    if isinstance(annotation, str):
        return annotation.split("[")[0].strip() in ("ClassVar", "typing.ClassVar", "t.ClassVar")
    return (get_origin(annotation) or annotation) is ClassVar


def _refuse_init_var(cls: type[Any], name: str, annotation: Any) -> None:
    text = annotation if isinstance(annotation, str) else ""
    is_one = text.split("[")[0].rpartition(".")[2] == "InitVar"
    if is_one or annotation is dataclasses.InitVar or isinstance(annotation, dataclasses.InitVar):
        raise MessageTypeError(f"{cls.__qualname__}.{name}: a message cannot have an InitVar")


def _with_type_of_base(field: _Field, base: type[Any]) -> _Field:
    """Return the field; a field of the base may get another default, but no other type."""
    if field.name not in base.__struct_fields__:
        return field
    return dataclasses.replace(field, annotation=evaluated(base.__annotations__[field.name], base))


def _repeats(field: _Field) -> bool:
    """Return whether a field repeats one of every message, as in PyDotCompute's examples."""
    default = field.default
    return (
        (field.name == "message_id" and (field.factory is uuid4 or default is msgspec.NODEFAULT))
        or (field.name == "priority" and (default is msgspec.NODEFAULT or default == 128))
        or (field.name == "correlation_id" and (default in (None, msgspec.NODEFAULT)))
    )


def _check(cls: type[Any], field: _Field, base: type[Any]) -> None:
    name = f"{cls.__qualname__}.{field.name}"
    if field.name not in base.__struct_fields__ and hasattr(base, field.name):
        raise MessageTypeError(f"{name}: every message has a method of that name; rename the field")
    default = field.default
    is_copied = isinstance(default, _EMPTY_AND_COPIED) and not len(default)
    if type(default).__hash__ is None and not is_copied:
        raise MessageTypeError(
            f"{name}: a default of type {type(default).__name__} would be shared by all "
            "messages; use dataclasses.field(default_factory=...)"
        )


def _namespace(cls: type[Any], fields: set[str], base: type[Any]) -> dict[str, Any]:
    """Return the methods and attributes of the class itself."""
    kept = _kept(cls, fields | set(base.__struct_fields__))
    if "__init__" in kept:
        raise MessageTypeError(
            f"{cls.__qualname__} has an __init__ of its own; a message's is made from its fields. "
            "Use __post_init__"
        )
    after = kept.get("__post_init__") or getattr(cls, "__post_init__", None)
    if after is not None:

        def __post_init__(self: Any) -> None:  # noqa: N807
            base.__post_init__(self)
            after(self)

        kept["__post_init__"] = __post_init__
    kept["__qualname__"] = cls.__qualname__
    return kept


def _kept(owner: type[Any], fields: set[str]) -> dict[str, Any]:
    """Return the namespace of a class without its fields and generated methods."""
    return {
        name: value
        for name, value in owner.__dict__.items()
        if name not in _LEFT_OUT | fields
        and not name.startswith("__struct_")
        and not _is_generated(owner, name, value)
    }


def _is_generated(owner: type[Any], name: str, value: Any) -> bool:
    if isinstance(value, MemberDescriptorType):  # A slot; the message has its own.
        return True
    if name not in _GENERATED or not dataclasses.is_dataclass(owner):
        return False
    if value is None:  # No hash.
        return True
    code = getattr(inspect.unwrap(value) if callable(value) else value, "__code__", None)
    return code is not None and code.co_filename in _FILES_OF_GENERATED_CODE


def _options(cls: type[Any]) -> dict[str, Any]:
    is_struct = issubclass(cls, msgspec.Struct)
    found = getattr(cls, "__struct_config__" if is_struct else "__dataclass_params__", None)
    return {n: getattr(found, n) for n in ("frozen", "order", "eq")} if found is not None else {}


def _bases(cls: type[Any], base: type[Any], fields: set[str]) -> tuple[type[Any], ...]:
    """Return the bases; a parent with fields is replaced by a class with its methods."""
    bases: list[type[Any]] = []
    for parent in cls.__mro__[1:-1]:
        if parent in msgspec.Struct.__mro__:
            continue
        if dataclasses.is_dataclass(parent) or issubclass(parent, msgspec.Struct.__mro__[-2]):
            namespace = _kept(parent, fields) | {"__slots__": ()}
            bases.append(type(parent.__name__, (), namespace))
        elif parent in cls.__bases__:
            bases.append(parent)
    return (*bases, base)


def _point_at(made: type[Any], cls: type[Any], namespace: dict[str, Any]) -> None:
    """Have ``super()`` and ``__class__`` in the methods refer to the new class."""
    for value in namespace.values():
        inner = getattr(value, "__func__", None) or getattr(value, "fget", None) or value
        functions = [inner] if isinstance(inner, FunctionType) else []
        functions += [
            cell.cell_contents
            for function in list(functions)
            for cell in function.__closure__ or ()
            if _holds(cell, FunctionType)
        ]
        for function in functions:
            for cell in function.__closure__ or ():
                if _holds(cell, type) and cell.cell_contents is cls:
                    cell.cell_contents = made


def _holds(cell: CellType, kind: type[Any]) -> bool:
    try:
        return isinstance(cell.cell_contents, kind)
    except ValueError:  # An empty cell.
        return False
