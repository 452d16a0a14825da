"""The broker's loggers as configuration: the BROKER_LOGGER resource of the config APIs.

Names are Python's, levels are Kafka's: `root`, `drumlin.storage.recovery`; TRACE,
DEBUG, INFO, WARN, ERROR, FATAL. A change lasts until the broker stops.
"""

from __future__ import annotations

import logging
from typing import Final

from drumlin.wire.error_codes import ErrorCode, KafkaError

ROOT: Final = "root"
_LEVELS: Final = {
    "TRACE": 5,
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
}


def levels() -> dict[str, str]:
    """The effective level of each logger."""
    names = sorted(name for name in logging.root.manager.loggerDict if name.startswith("drumlin"))
    return {ROOT: _level_of(logging.root)} | {
        name: _level_of(logging.getLogger(name)) for name in names
    }


def _level_of(logger: logging.Logger) -> str:
    level = logger.getEffectiveLevel()
    return max(
        (name for name, number in _LEVELS.items() if number <= level),
        key=_LEVELS.__getitem__,
        default="TRACE",
    )


def check(name: str, level: str | None) -> None:
    """Check that the logger can have this level; None means its parent's level.

    Raises:
        KafkaError: INVALID_CONFIG, INVALID_REQUEST.
    """
    if name != ROOT and name not in levels():
        raise KafkaError(ErrorCode.invalid_config, f"there is no logger {name}")
    if level is None:
        if name == ROOT:
            message = "the root logger must have a level of its own"
            raise KafkaError(ErrorCode.invalid_request, message)
    elif level not in _LEVELS:
        message = f"{level} is not a level for logger {name}: levels are {', '.join(_LEVELS)}"
        raise KafkaError(ErrorCode.invalid_config, message)


def set_level(name: str, level: str | None) -> None:
    """Set a level, which `check` must have accepted."""
    logger = logging.getLogger(None if name == ROOT else name)
    logger.setLevel(logging.NOTSET if level is None else _LEVELS[level])
