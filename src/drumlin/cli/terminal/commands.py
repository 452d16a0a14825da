"""Commands as functions: the signature declares arguments and options, and click runs them.

    def consume(
        topic: Annotated[str, Argument("TOPIC", help="A topic.")],
        count: Annotated[int | None, Option("--count", "-n", min=0, help="How many.")] = None,
    ) -> None: ...

A parameter is required if it has no default. `bool` is a flag, a list may be given repeatedly (an
argument's list takes all remaining words), an `enum.StrEnum` is a choice. Every command of Drumlin
is declared in this way, so that all commands read alike; only click is loaded for that.
"""

from __future__ import annotations

import enum
import inspect
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

Complete = Callable[[click.Context, str], list[str]]
#: Words that other tools have for our commands.
_WORDS_OF_OTHERS: Final = {
    "ls": ("list",),
    "rm": ("delete", "remove"),
    "del": ("delete", "remove"),
    "remove": ("delete",),
    "delete": ("remove",),
    "new": ("create", "add"),
    "create": ("add",),
    "add": ("create",),
    "show": ("describe", "status"),
    "info": ("describe", "show"),
    "get": ("describe", "list"),
    "set": ("alter",),
    "seek": ("reset",),
    "list": ("describe",),
    "health": ("status",),
    "trim-prefix": ("delete-records",),
    "profile": ("context",),
    "perf": ("bench",),
}
_SETTINGS: Final = {"help_option_names": ["-h", "--help"]}


@dataclass(frozen=True)
class Argument:
    """A positional argument.

    `complete` returns values that begin with a text, for the shell; the words before it are in
    click's context.
    """

    metavar: str | None = None
    help: str = ""
    complete: Complete | None = None


class Option:
    """An option; without names it is `--` and the parameter's name.

    `choose` determines the final value: it sees the whole command line. `is_eager`: processed
    first, so that the `choose` of other options can use its value.
    """

    def __init__(
        self,
        *names: str,
        help: str,  # noqa: A002  click's own word
        metavar: str | None = None,
        envvar: str | None = None,
        min: int | None = None,  # noqa: A002
        max: int | None = None,  # noqa: A002
        complete: Complete | None = None,
        choose: Callable[[click.Context, Any], Any] | None = None,
        is_eager: bool = False,
    ) -> None:
        self.names = names
        self.help = help
        self.metavar = metavar
        self.envvar = envvar
        self.min, self.max = min, max
        self.complete = complete
        self.choose, self.is_eager = choose, is_eager


def command(
    function: Callable[..., Any], name: str | None = None, epilog: str | None = None
) -> click.Command:
    """The command that calls `function`; its help is the docstring."""
    parameters, enums = [], {}
    for parameter in inspect.signature(function, eval_str=True).parameters.values():
        kind, declared = typing.get_args(parameter.annotation)
        kind = _without_none(kind)
        if isinstance(kind, type) and issubclass(kind, enum.Enum):
            enums[parameter.name] = kind
        parameters.append(_declared(parameter, kind, declared))

    def call(**values: Any) -> Any:
        for key, kind in enums.items():
            if values[key] is not None:
                values[key] = kind(values[key])
        for key, value in values.items():
            if isinstance(value, tuple):
                values[key] = list(value)
        return function(**values)

    return click.Command(
        name or function.__name__.strip("_").replace("_", "-"),
        params=parameters,
        callback=call,
        help=inspect.getdoc(function),
        epilog=epilog,
        context_settings=_SETTINGS,
    )


def _without_none(kind: Any) -> Any:
    if isinstance(kind, types.UnionType):
        (kind,) = (each for each in typing.get_args(kind) if each is not type(None))
    return kind


def _declared(
    parameter: inspect.Parameter, kind: Any, declared: Argument | Option
) -> click.Parameter:
    is_list = typing.get_origin(kind) is list
    element = typing.get_args(kind)[0] if is_list else kind
    default = None if parameter.default is parameter.empty else parameter.default
    required = parameter.default is parameter.empty
    how: dict[str, Any] = {"required": required, "shell_complete": _completion(declared.complete)}
    if default is not None:
        how["default"] = default.value if isinstance(default, enum.Enum) else default
    if isinstance(declared, Argument):
        return _Argument(
            [parameter.name],
            type=_type(element),
            nargs=-1 if is_list else 1,
            metavar=declared.metavar,
            help=declared.help,
            **how,
        )
    names = declared.names or (f"--{parameter.name.replace('_', '-')}",)
    if kind is bool:
        how["is_flag"] = True
    else:
        how["type"] = _type(element)
        how["multiple"] = is_list
        how["callback"] = _chosen(declared.choose) or _limits(declared.min, declared.max)
    return click.Option(
        [parameter.name, *names],
        help=declared.help,
        metavar=declared.metavar,
        envvar=declared.envvar,
        is_eager=declared.is_eager,
        show_default=default not in (None, False, ""),
        show_envvar=declared.envvar is not None,
        **how,
    )


def _chosen(choose: Callable[[click.Context, Any], Any] | None) -> Callable[..., Any] | None:
    if choose is None:
        return None

    def chosen(context: click.Context, _: click.Parameter, value: Any) -> Any:
        return value if context.resilient_parsing else choose(context, value)

    return chosen


def _limits(least: int | None, most: int | None) -> Callable[..., Any] | None:
    """Refuses numbers out of range. Click's own type would also show the range in the help."""
    if least is None and most is None:
        return None

    def check(_: click.Context, __: click.Parameter, value: Any) -> Any:
        for each in value if isinstance(value, tuple) else (value,):
            if each is not None and least is not None and each < least:
                raise click.BadParameter(f"must be at least {least}")
            if each is not None and most is not None and each > most:
                raise click.BadParameter(f"must be at most {most}")
        return value

    return check


def _type(kind: Any) -> click.ParamType[Any]:
    if kind is int:
        return click.INT
    if kind is float:
        return click.FLOAT
    if kind is Path:
        return click.Path(path_type=Path)
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return click.Choice([each.value for each in kind])
    return click.STRING


def _completion(complete: Complete | None) -> Callable[..., list[CompletionItem]] | None:
    if complete is None:
        return None

    def items(context: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        return [CompletionItem(each) for each in complete(context, incomplete)]

    return items


class _Argument(click.Argument):
    """An argument that the help shows as it is declared, including brackets."""

    def make_metavar(self, ctx: click.Context) -> str:
        return self.metavar or super().make_metavar(ctx)


class Group(click.Group):
    """Commands below one name. Their functions are given to `add`, or decorated with it."""

    def __init__(self, *, help: str, epilog: str | None = None) -> None:  # noqa: A002
        super().__init__(help=help, epilog=epilog, no_args_is_help=True, context_settings=_SETTINGS)

    def add(
        self, name: str | None = None, *, epilog: str | None = None
    ) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
            self.add_command(command(function, name, epilog))
            return function

        return decorate

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.NoSuchCommand as error:
            name, known = error.command_name, self.list_commands(ctx)
            root = ctx.find_root()
            meant = [each for each in _WORDS_OF_OTHERS.get(name, ()) if each in known]
            if not meant and ctx is not root and name in root.command.list_commands(root):  # type: ignore[attr-defined]
                meant = [f"{root.info_name} {name}"]
            if meant:
                said = f"No such command {name!r}. Did you mean {meant[0]!r}?"
                raise click.NoSuchCommand(name, said, ctx=ctx) from None
            # Click suggests loaded commands only.
            raise click.NoSuchCommand(name, possibilities=known, ctx=ctx) from None


@dataclass(frozen=True)
class Place:
    """The place of a command, and its line in the help, which does not load the command."""

    module: str
    attribute: str
    help: str


class LazyGroup(Group):
    """A group that loads a command only when this command is run.

    `topic` also means `topics`, as other tools have the singular. The help does not show it.
    """

    def __init__(self, places: Mapping[str, Place], **how: Any) -> None:
        super().__init__(**how)
        self._places = places

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(self._places)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        place = self._places.get(cmd_name) or self._places.get(f"{cmd_name}s")
        if place is None:
            return None
        found: click.Command = getattr(import_module(place.module), place.attribute)
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl([(name, place.help) for name, place in self._places.items()])
