"""A mypy plugin: types for `shape("ClassName", field=...)`, by the schemas of the Kafka protocol.

`drumlin.wire.messages.Shape` builds the classes of one version of a message by name. Here such a
call gets the parameters of the newest version that has the class, and the fields that only older
ones have: a misspelt name, a missing field and a value of another type are errors. Numbers and
names for which the schemas have types of their own (`i32`, `TopicName`) are plain int and str.

In a handler the message is that of its file's name. Elsewhere, a class name that belongs to several
messages has its field names checked, and nothing else.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from mypy.nodes import ARG_NAMED, ARG_NAMED_OPT, ARG_POS, MypyFile, StrExpr, TypeInfo
from mypy.plugin import MethodSigContext, Plugin
from mypy.types import AnyType, CallableType, Instance, Type, TypeOfAny, UnionType, get_proper_type

from drumlin.broker.apis.served import SERVED
from drumlin.wire.compiled.schema_fields import SCHEMAS, classes_in

_SHAPE: Final = "drumlin.wire.messages.Shape.__call__"
_HANDLERS: Final = "drumlin.broker.handlers."
_CALL: Final = re.compile(r'shape\(\s*"(\w+)"')
_PLAIN: Final = (
    "builtins.bool",
    "builtins.int",
    "builtins.str",
    "datetime.datetime",
    "datetime.timedelta",
)
_PRIORITY: Final = 10


class Place(NamedTuple):
    """A class of one message: its newest version, and its fields in some version and in all."""

    module: str
    fields: frozenset[str]
    in_all: frozenset[str]


@functools.cache
def _places(api: str) -> dict[str, Place]:
    """The classes of an API's messages by name, in the versions that are served."""
    found: dict[str, Place] = {}
    lowest, highest = SERVED.get(api, (0, 1_000))
    versions = sorted(int(each.name[1:]) for each in (SCHEMAS / api).glob("v*"))
    for version in versions:
        if not lowest <= version <= highest:
            continue
        for kind in ("request", "response"):
            classes = classes_in(SCHEMAS / api / f"v{version}" / f"{kind}.py")
            for name, fields in classes.items():
                _, some, every = found.get(name, Place("", fields, fields))
                module = f"kio.schema.{api}.v{version}.{kind}"
                found[name] = Place(module, some | fields, every & fields)
    return found


@functools.cache
def _apis() -> list[str]:
    return sorted({each.parents[1].name for each in SCHEMAS.glob("*/v*/response.py")})


@functools.cache
def _candidates(file: str, name: str) -> tuple[Place, ...]:
    """Where a class may be that a file names."""
    api = file.removeprefix(_HANDLERS)
    if file.startswith(_HANDLERS) and name in _places(api):
        return (_places(api)[name],)
    return tuple(_places(each)[name] for each in _apis() if name in _places(each))


class ShapePlugin(Plugin):
    """See above."""

    def get_additional_deps(self, file: MypyFile) -> list[tuple[int, str, int]]:
        if "site-packages" in file.path or not file.path.endswith(".py"):
            return []
        names = set(_CALL.findall(Path(file.path).read_text()))
        places = [_candidates(file.fullname, name) for name in names]
        return [(_PRIORITY, each[0].module, -1) for each in places if len(each) == 1]

    def get_method_signature_hook(
        self, fullname: str
    ) -> Callable[[MethodSigContext], CallableType] | None:
        return _signature if fullname == _SHAPE else None


def _signature(context: MethodSigContext) -> CallableType:
    default = context.default_signature
    (first, *_), *_ = context.args
    if not isinstance(first, StrExpr):
        return default
    file = context.api.path
    modules = context.api.modules  # type: ignore[attr-defined]
    # The plugin API tells the path alone.
    module = next(name for name, tree in modules.items() if tree.path == file)
    places = _candidates(module, first.value)
    if not places:
        context.api.fail(f"no message has a class {first.value}", context.context)
        return default
    fields = frozenset[str]().union(*(each.fields for each in places))
    known: dict[str, tuple[Type, bool]] = {}
    result: Type = AnyType(TypeOfAny.special_form)
    if len(places) == 1 and places[0].module in modules:
        info = modules[places[0].module].names[first.value].node
        assert isinstance(info, TypeInfo)
        result = Instance(info, [])
        made = info.names["__init__"].type
        assert isinstance(made, CallableType)
        for name, type_, kind in zip(made.arg_names, made.arg_types, made.arg_kinds, strict=True):
            if name is not None and name in fields:
                needed = kind is ARG_NAMED and name in places[0].in_all
                known[name] = _taken(context, type_), needed
    names = sorted(fields)
    unknown = AnyType(TypeOfAny.special_form), False
    types = [known.get(name, unknown) for name in names]
    return default.copy_modified(
        arg_types=[default.arg_types[0], *(type_ for type_, _ in types)],
        arg_kinds=[ARG_POS, *(ARG_NAMED if needed else ARG_NAMED_OPT for _, needed in types)],
        arg_names=[None, *names],
        ret_type=result,
    )


def _taken(context: MethodSigContext, type_: Type) -> Type:
    """What the encoder takes for a field: also an array that is encoded already."""
    plain = _plain(type_)
    if not isinstance(plain, Instance) or plain.type.fullname != "builtins.tuple":
        return plain
    encoder = context.api.modules["drumlin.wire.compiled.encoder"]  # type: ignore[attr-defined]
    return UnionType.make_union([plain, Instance(encoder.names["EncodedItems"].node, [])])


def _plain(type_: Type) -> Type:
    """A type without what the schemas add to int and str."""
    proper = get_proper_type(type_)
    if isinstance(proper, UnionType):
        return UnionType.make_union([_plain(each) for each in proper.items])
    if not isinstance(proper, Instance):
        return type_
    if proper.type.fullname.endswith(".Records"):  # the encoder takes bytes and slices of files
        return AnyType(TypeOfAny.special_form)
    for base in proper.type.mro:
        if base.fullname in _PLAIN and not proper.type.is_enum:
            return Instance(base, [])
    arguments = [_plain(each) for each in proper.args]
    return proper.copy_modified(args=arguments) if arguments else proper


def plugin(_version: str) -> type[Plugin]:
    """What mypy asks for."""
    return ShapePlugin
