"""`drumlin console`: a page that shows a cluster, served to browsers of this machine.

Reads the arguments, and finds the way of an operator to brokers, which the console is handed.
"""

from __future__ import annotations

import dataclasses
import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import click

from drumlin.cli.reach.broker_http import BrokerHttp, broker_at, broker_on
from drumlin.cli.reach.command_config import CommandConfig, settings_of
from drumlin.cli.reach.schema_registry import registry_of
from drumlin.cli.terminal import output
from drumlin.cli.terminal.commands import Option, command
from drumlin.cli.terminal.options import DEFAULT_BOOTSTRAP, Bootstrap, examples
from drumlin.peer.broker_connections import parse_bootstrap
from drumlin.peer.options import PeerOptions
from drumlin.peer.security.security import Security
from drumlin.peer.security.settings import Login, OAuthBearer, Plain

if TYPE_CHECKING:
    from drumlin.console.serving.settings import Mechanism

_EXIT_USAGE: Final = 2
_PACKAGES: Final = ("starlette", "uvicorn")
_PORT_MAX: Final = 65535
#: Nobody waits longer for a page.
_OPTIONS: Final = PeerOptions(
    client_id="drumlin-console", request_timeout_ms=15_000, connect_timeout_ms=5_000
)


def console(
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    listen: Annotated[
        str, Option("--listen", metavar="HOST:PORT", help="Where browsers connect.")
    ] = "127.0.0.1:8404",
    login: Annotated[
        str | None,
        Option(
            "--login",
            metavar="MECHANISM",
            help="Users log in as users of the cluster: plain, scram-sha-256, scram-sha-512, or "
            "oauthbearer with a token that they paste.",
        ),
    ] = None,
    single_user: Annotated[
        bool,
        Option(
            "--single-user",
            help="Act with the certificate or login of --config, for who has the key that is "
            "shown at the start.",
        ),
    ] = False,
    data: Annotated[
        list[Path] | None,
        Option("--data", "-d", metavar="DIR", help="A broker's data directory, to show cleaning."),
    ] = None,
    http: Annotated[
        list[str] | None,
        Option("--http", metavar="HOST:PORT", help="... or its drumlin.metrics.listener."),
    ] = None,
    registry: Annotated[
        str | None,
        Option(
            "--registry",
            metavar="URL",
            help="Show keys and values by the schemas of this registry. Its login is in --config, "
            "and is used for all users.",
        ),
    ] = None,
    tls_certificate: Annotated[
        Path | None,
        Option("--tls-certificate", metavar="FILE", help="Serve by TLS; PEM, with its chain."),
    ] = None,
    tls_key: Annotated[
        Path | None, Option("--tls-key", metavar="FILE", help="Its key, if in another file.")
    ] = None,
    allow_host: Annotated[
        list[str] | None,
        Option("--allow-host", metavar="NAME", help="A name that browsers know it by; repeatable."),
    ] = None,
    read_only: Annotated[
        bool, Option("--read-only", help="Change nothing in the cluster, whoever asks.")
    ] = False,
    editor: Annotated[
        list[str] | None,
        Option(
            "--editor",
            metavar="USER",
            help="Only these users may change something; repeatable. Default: all, as far as their "
            "rights go.",
        ),
    ] = None,
    open_to_all: Annotated[
        bool,
        Option("--open-to-all", help="Serve other machines without TLS or without a login."),
    ] = False,
) -> None:
    """Show a cluster in a web browser: topics, records, groups, cleaning and more.

    It writes records and resets groups as well, unless it is told --read-only.

    It listens on this machine only, unless told otherwise: other addresses take --tls-certificate
    and --login. With a login each user sees what their rights in the cluster allow. A login in
    --config only says by which mechanism users log in, unless it is for a --single-user.
    """
    try:
        from drumlin.console.serving.server import run
        from drumlin.console.serving.settings import NotSafe, Settings
    except ModuleNotFoundError as error:
        if error.name not in _PACKAGES:
            raise
        raise output.Failure(
            "the console needs a web server: pip install starlette uvicorn"
        ) from None
    host, port = _address(listen)
    parse_bootstrap(bootstrap)
    options, found = _options(command_config, single_user)
    own_key = secrets.token_urlsafe(32) if single_user else None
    try:
        settings = Settings(
            bootstrap=bootstrap,
            options=options,
            mechanism=_mechanism(login) or found,
            host=host,
            port=port,
            certificate=tls_certificate,
            key=tls_key,
            allowed_hosts=tuple(allow_host or ()),
            is_open_to_all=open_to_all,
            own_key=own_key,
            registry=None if registry is None else registry_of(registry, command_config),
            is_read_only=read_only,
            editors=tuple(editor or ()),
            operators=[
                *(_Operator(str(each), _running(each), True) for each in data or ()),
                *(_Operator(each, broker_at(each), False) for each in http or ()),
            ],
        )
    except NotSafe as error:
        raise output.Failure(str(error), _EXIT_USAGE) from None

    def ready(url: str) -> None:
        shown = url if own_key is None else f"{url}#key={own_key}"
        print(f"drumlin console: ready on {shown}", flush=True)

    try:
        run(settings, ready)
    except OSError as error:
        what = listen if tls_certificate is None else f"{listen} with {tls_certificate}"
        raise output.Failure(f"{what}: {error.strerror or error}") from None


class _Operator:
    """The way to one broker, as the console knows it."""

    def __init__(self, name: str, broker: BrokerHttp, can_simulate: bool) -> None:
        self.name = name
        self.can_simulate = can_simulate
        self._broker = broker

    def get(self, path: str, timeout_s: float, **query: str | int) -> Any:
        from drumlin.console.answers.compaction import OperatorFailed

        try:
            return self._broker.get(path, timeout_s=timeout_s, **query)
        except output.Failure as error:
            raise OperatorFailed(str(error)) from None


def _running(directory: Path) -> BrokerHttp:
    broker = broker_on(directory)
    if broker is None:
        raise output.Failure(f"no broker runs on {directory}")
    return broker


def _options(
    command_config: Path | None, single_user: bool
) -> tuple[PeerOptions, Mechanism | None]:
    """The options of connections without their login, and its mechanism; all, for a single user."""
    options = dataclasses.replace(_OPTIONS, **settings_of(command_config))
    login = options.security.login
    if login is None or single_user:
        return options, None
    mechanism = _mechanism_of(login)
    output.note(f"drumlin: {command_config}: its user is not used: users log in by {mechanism}")
    security = Security(options.security.tls)
    return dataclasses.replace(options, security=security), mechanism


def _mechanism_of(login: Login) -> Mechanism:
    if isinstance(login, OAuthBearer):
        return "OAUTHBEARER"
    return "PLAIN" if isinstance(login, Plain) else login.mechanism


def _mechanism(text: str | None) -> Mechanism | None:
    from drumlin.console.serving.settings import MECHANISMS

    if text is None:
        return None
    for each in MECHANISMS:
        if text.upper() == each:
            return each
    raise click.BadParameter(f"--login {text}: there are {', '.join(MECHANISMS).lower()}")


def _address(text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not colon or not host or not (port.isascii() and port.isdecimal()) or len(port) > 5:
        raise click.BadParameter(f"--listen {text}: expected HOST:PORT, as 127.0.0.1:8404")
    if int(port) > _PORT_MAX:
        raise click.BadParameter(f"--listen {text}: ports end at {_PORT_MAX}")
    return host.strip("[]"), int(port)


console_command: Final = command(
    console,
    epilog=examples(
        "drumlin console",
        "drumlin console --bootstrap broker1:9092 --data /var/lib/drumlin",
        "drumlin console --config users.properties --login scram-sha-512",
        "drumlin console --config mine.properties --single-user",
        "drumlin console --registry http://registry:8081 --read-only",
        "drumlin console --config users.properties --listen 192.0.2.1:8404 "
        "--tls-certificate console.pem --allow-host console.example.org",
    ),
)
