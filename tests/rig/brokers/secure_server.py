"""`drumlin server --secure` as a subprocess."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rig.brokers.drumlin_server import DrumlinServer


class SecureServer(DrumlinServer):
    """One server; what is in its data directory says how to connect."""

    is_program = True  # where its secrets show is what tests are about

    def command(self) -> list[str]:
        return [*super().command(), "--secure"]

    @property
    def client_properties(self) -> Path:
        return self.data / "client.properties"

    def librdkafkas(self, **changes: Any) -> dict[str, Any]:
        """The settings of a client of confluent-kafka, who is the administrator."""
        found: dict[str, Any] = json.loads((self.data / "client.json").read_text())
        return found | {name.replace("_", "."): each for name, each in changes.items()}
