"""Certificates and keys for a test, made by Java, which every test with a Kafka has."""

from __future__ import annotations

import subprocess
from pathlib import Path

from rig.jvm.jars import java
from rig.jvm.java import SHORT_LIVED_JVM

_SOURCE = Path(__file__).with_name("Certificates.java")
_EXPORTS = "java.base/sun.security.tools.keytool=ALL-UNNAMED"
#: Of the `…-locked.key`.
KEY_PASSWORD = "locked"


class Certificates:
    """A folder with the PEM files of `ca`, `server`, `client`, and some that are no good.

    `expired` and `elsewhere` (another host's name) are signed by `ca`; `foreign` by `stranger`,
    which no broker trusts.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        command = [java(), *SHORT_LIVED_JVM.split(), "--add-exports", _EXPORTS, str(_SOURCE)]
        done = subprocess.run(
            [*command, str(folder)], capture_output=True, text=True, timeout=120, check=False
        )
        assert done.returncode == 0, done.stderr

    def path(self, name: str) -> str:
        """The path of a file such as "ca.crt"."""
        return str(self.folder / name)

    def text(self, name: str) -> str:
        return (self.folder / name).read_text()
