"""The sources of a broker's properties, and their precedence.

    command line (`--set key=value`)  >  environment  >  properties file  >  default

In the environment a key is written as `DRUMLIN_` and its name in capitals, with underscores for
dots: `DRUMLIN_LOG_SEGMENT_BYTES=1048576`; our own keys, which begin with that already, have no
second prefix: `DRUMLIN_METRICS_LISTENER`. The keys of listeners and plugins, which are in no table,
are written as for Kafka's container image: `_` for a dot, `__` for an underscore, `___` for a dash.
A variable `DRUMLIN_...` that names no key is ignored (other programs may use such names) but
returned, so that the broker can report it.
"""

from __future__ import annotations

import difflib
import functools
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from drumlin.config.config_error import ConfigError
from drumlin.config.hints import todays_broker_keys
from drumlin.config.keys import FREE_PREFIXES, broker_keys
from drumlin.config.properties import decode_properties

ENVIRONMENT_PREFIX: Final = "DRUMLIN_"
_IMAGE_PREFIX: Final = "KAFKA_"


def read_properties_file(path: Path) -> dict[str, str]:
    """The properties of a file.

    Raises:
        ConfigError: the file cannot be read.
    """
    try:
        return decode_properties(path.read_bytes())
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise ConfigError(str(path), None, f"cannot be read: {reason}") from None


def read_environment(environment: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """The properties in an environment, and the `DRUMLIN_...` variables that do not name a
    property.
    """
    properties: dict[str, str] = {}
    unknown: list[str] = []
    for variable, value in sorted(environment.items()):
        if not variable.startswith(ENVIRONMENT_PREFIX):
            continue
        key = _key_of_variable(variable.removeprefix(ENVIRONMENT_PREFIX))
        if key is None:
            unknown.append(variable)
        else:
            properties[key] = value
    return properties, unknown


def variables_of_kafkas_images(environment: Mapping[str, str]) -> list[tuple[str, str]]:
    """Environment variables that configure Kafka's images, each with the corresponding variable
    here.
    """
    found = []
    for variable in sorted(environment):
        name = variable.removeprefix(_IMAGE_PREFIX)
        if name != variable and name.upper() in _variables():
            found.append((variable, ENVIRONMENT_PREFIX + name.upper()))
    return found


def nearest_variable(variable: str) -> str | None:
    """The variable that was probably meant; None if no variable is similar."""
    key = variable.upper().removeprefix(ENVIRONMENT_PREFIX).replace("_", ".").lower()
    todays = todays_broker_keys(key)
    if todays:
        return ENVIRONMENT_PREFIX + todays[0].replace(".", "_").upper()
    known = [ENVIRONMENT_PREFIX + name for name in _variables()]
    return next(iter(difflib.get_close_matches(variable.upper(), known, 1)), None)


@functools.cache
def _variables() -> dict[str, str]:
    # Our own keys begin with `drumlin.`, like every variable, so the prefix is not repeated.
    return {name.removeprefix("drumlin.").replace(".", "_").upper(): name for name in broker_keys()}


def _key_of_variable(name: str) -> str | None:
    known = _variables().get(name.upper())
    if known is not None:
        return known
    dashed = name.lower().replace("___", "-").replace("__", "\0").replace("_", ".")
    free = dashed.replace("\0", "_")
    return free if free.startswith(FREE_PREFIXES) else None


def read_assignments(assignments: Iterable[str]) -> dict[str, str]:
    """Properties from the command line, each as `key=value`.

    Raises:
        ConfigError: a property without `=`.
    """
    properties: dict[str, str] = {}
    for assignment in assignments:
        key, equals, value = assignment.partition("=")
        if not equals or not key.strip():
            raise ConfigError(assignment, None, "must be written key=value")
        properties[key.strip()] = value.strip()
    return properties
