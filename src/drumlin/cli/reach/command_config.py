"""`--command-config FILE`: properties of Kafka's clients, as Kafka's own tools take them.

Decides which of them affect a command: security, and a few timeouts. An invalid security
property is refused; other properties without an effect are listed in one warning.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Annotated, Any, Final

from drumlin.cli.terminal import output
from drumlin.cli.terminal.commands import Option

ENVIRONMENT: Final = "DRUMLIN_COMMAND_CONFIG"
CommandConfig = Annotated[
    Path | None,
    Option(
        "--command-config",
        envvar=ENVIRONMENT,
        metavar="FILE",
        help="Properties of Kafka's clients: TLS, login.",
    ),
]
_NUMBERS: Final = {
    "request.timeout.ms": "request_timeout_ms",
    "socket.connection.setup.timeout.ms": "connect_timeout_ms",
    "retry.backoff.ms": "retry_backoff_ms",
    "retry.backoff.max.ms": "retry_backoff_max_ms",
}


@functools.cache
def settings_of(path: Path | None) -> dict[str, Any]:
    """The settings in the file, by the names of `PeerOptions` and of `drumlin.connect`.

    Raises:
        output.Failure: the file does not exist, or is invalid.
    """
    from drumlin.config.properties import decode_properties
    from drumlin.peer.security.properties import PREFIXES
    from drumlin.peer.security.security import Security

    if path is None:
        return {}
    try:
        properties = decode_properties(path.read_bytes())
        settings: dict[str, Any] = {"security": Security.of(properties)}
        for name, keyword in _NUMBERS.items():
            if name in properties:
                settings[keyword] = _positive(name, properties[name])
    except OSError as error:
        raise output.Failure(f"{path}: {error.strerror}") from None
    except ValueError as error:
        raise output.Failure(f"{path}: {error}") from None
    if "client.id" in properties:
        settings["client_id"] = properties["client.id"]
    others = properties.keys() - _NUMBERS.keys() - {"client.id"}
    without_effect = sorted(each for each in others if not each.startswith(PREFIXES))
    if without_effect:
        output.note(f"drumlin: {path}: without effect here: {', '.join(without_effect)}")
    return settings


def _positive(name: str, text: str) -> int:
    if not text.strip().isdecimal() or int(text) == 0:
        raise ValueError(f"option '{name}': expected a positive number")
    return int(text)
