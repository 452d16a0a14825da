"""Messages between a broker's process and the process that starts it, except those about metadata.

The first message on the connection that the broker's process inherits is the greeting; those of the
channel follow (`metadata/shared/channel.py`).
"""

from __future__ import annotations

import json
import socket
import struct
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Final

#: Sent by a broker when it serves, with its addresses.
READY: Final = "ready"
#: Sent to a broker, to ask for its part of an answer to the operator, or for its measures.
INSPECT: Final = "inspect"
MEASURE: Final = "measure"
#: Sent by a broker, and to the others: what clients have used of their quotas.
USED: Final = "used"
#: The exit code of a broker that has logged why it could not start.
EXIT_FAILED: Final = 1

_LENGTH: Final = struct.Struct(">I")


@dataclass(frozen=True, slots=True)
class Greeting:
    """The settings with which a broker starts. `brokers`: the number of brokers on the machine."""

    properties: Mapping[str, str]
    brokers: int
    log_level: str
    parent: int
    #: Descriptors of the locks on the broker's log dirs, by path.
    locks: Mapping[str, int]
    #: The secret with which the brokers authenticate each other (`login/machine_secret.py`).
    secret: str = field(repr=False)


def greet(sock: socket.socket, greeting: Greeting) -> None:
    """Send the greeting. If it is long, this blocks until the other side has received it.

    Raises:
        OSError: the other side has ended.
    """
    text = json.dumps(asdict(greeting)).encode()
    sock.sendall(_LENGTH.pack(len(text)) + text)


def receive_greeting(sock: socket.socket) -> Greeting:
    """
    Raises:
        EOFError: the sender has ended.
    """
    (length,) = _LENGTH.unpack(_receive(sock, _LENGTH.size))
    return Greeting(**json.loads(_receive(sock, length)))


def _receive(sock: socket.socket, count: int) -> bytes:
    received = b""
    while len(received) < count:
        piece = sock.recv(count - len(received))
        if not piece:
            raise EOFError
        received += piece
    return received
