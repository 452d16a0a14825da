"""Java, and jars from Maven Central, which the scripts `script/*-jars` fetch. Once in each process.

Nothing happens on import. `Unavailable` says why a machine cannot have them; tests skip with it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from functools import cache
from pathlib import Path

_SCRIPTS = Path(__file__).parents[3] / "script"
#: Less than a test and its fixtures may take; script/test fetches all of them beforehand.
_TIMEOUT_S = 240.0


class Unavailable(Exception):
    """This machine lacks something that Apache Kafka needs."""


@cache
def _outcome(find: Callable[..., str], *arguments: object) -> str | Unavailable:
    """What cannot be had is not asked for again: each test would wait as long as the first."""
    try:
        return find(*arguments)
    except Unavailable as reason:
        return reason


def _once(find: Callable[..., str], *arguments: object) -> str:
    outcome = _outcome(find, *arguments)
    if isinstance(outcome, Unavailable):
        raise Unavailable(*outcome.args)
    return outcome


def java() -> str:
    """The Java launcher.

    Raises:
        Unavailable: this machine has none.
    """
    return _once(_find_java)


def jar_folder(script: str, version: str | None = None) -> str:
    """The folder with what a script fetches; another version than the script's own, if named.

    Raises:
        Unavailable: this machine cannot have them.
    """
    java()
    return _once(_fetch, script, version)


def _find_java() -> str:
    home = os.environ.get("JAVA_HOME")
    found = f"{home}/bin/java" if home else shutil.which("java")
    if not found or not Path(found).exists():
        raise Unavailable("Java is not installed")
    return found


def _fetch(script: str, version: str | None) -> str:
    environment = dict(os.environ)
    if version is not None:
        name = script.removesuffix("-jars").upper()
        environment.pop(f"{name}_LIBS", None)  # it names jars of the script's own version
        environment[f"{name}_VERSION"] = version
    try:
        done = subprocess.run(
            [_SCRIPTS / script],
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
            check=False,
            env=environment,
        )
    except subprocess.TimeoutExpired:
        raise Unavailable(f"script/{script} took more than {_TIMEOUT_S:.0f} s") from None
    if done.returncode:
        reason = done.stderr.strip().splitlines() or [f"script/{script} failed"]
        raise Unavailable(reason[-1])
    return done.stdout.strip()
