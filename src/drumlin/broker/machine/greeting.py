"""What the process of a broker and the one that starts it say to each other, beside the metadata.

The first thing that a broker is told comes over the connection that it has inherited; what comes
after it are messages (`metadata/shared/channel.py`).
"""

from __future__ import annotations

import json
import socket
import struct
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Final

#: Told when a broker serves: its addresses.
READY: Final = "ready"
#: Asked of a broker: what its operator is answered, and what it measures.
INSPECT: Final = "inspect"
MEASURE: Final = "measure"
#: Of a broker that has said why it gives up.
EXIT_FAILED: Final = 1

_LENGTH: Final = struct.Struct(">I")


@dataclass(frozen=True, slots=True)
class Greeting:
    """What a broker starts with. `brokers` counts all of the machine."""

    properties: Mapping[str, str]
    brokers: int
    log_level: str
    parent: int
    #: Descriptors that lock its log dirs, by path.
    locks: Mapping[str, int]


def greet(sock: socket.socket, greeting: Greeting) -> None:
    """Send it. Blocks, if there is a lot of it, until the other side has received it.

    Raises:
        OSError: the other side is gone.
    """
    text = json.dumps(asdict(greeting)).encode()
    sock.sendall(_LENGTH.pack(len(text)) + text)


def receive_greeting(sock: socket.socket) -> Greeting:
    """
    Raises:
        EOFError: whoever was to send it is gone.
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
