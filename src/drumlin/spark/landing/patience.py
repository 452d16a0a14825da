"""Retries of a round while brokers, a registry or a database are unavailable.

A retry is always safe, as each batch begins at the target's position.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final

from drumlin.client.errors import BrokerUnreachable, RequestTimedOut
from drumlin.spark.landing.run import Landing, Run

_FIRST_PAUSE_S: Final = 0.5
_LONGEST_PAUSE_S: Final = 10.0
_MAY_PASS: Final = (BrokerUnreachable, RequestTimedOut)
#: Names that identify errors in tasks, of which Spark passes on only the text.
_NAMES: Final = (
    "drumlin.client.errors.BrokerUnreachable",
    "drumlin.client.errors.RequestTimedOut",
    "drumlin.client.values.errors.RegistryUnavailable",
    "drumlin.spark.landing.targets.target.StoreUnavailable",
    "obstore.exceptions.GenericError",  # of a task that writes
    "psycopg.OperationalError",
)


def patiently(
    run: Run,
    patience_s: float,
    stop: threading.Event,
    on_end: Callable[[Landing], None],
    on_progress: Callable[[Landing], None],
    on_retry: Callable[[Exception], None],
) -> None:
    """Run a round of `run`, and retry it for `patience_s` after transient errors.

    If something was never reached, the first error is raised: an address may be wrong.

    Args:
        on_end: called once a round is complete; `on_progress`: after each batch.
    """
    pause_s, failed_s = _FIRST_PAUSE_S, 0.0
    batches = run.batches - 1
    while True:
        try:
            run.round(stop, on_progress)
            on_end(run.tell())
            return
        except Exception as error:
            if not run.has_begun or not may_pass(error):
                raise
            now_s = time.monotonic()
            if run.batches > batches:  # since the last failure
                batches, failed_s, pause_s = run.batches, now_s, _FIRST_PAUSE_S
            if now_s - failed_s + pause_s > patience_s:
                raise
            on_retry(error)
        if stop.wait(pause_s):
            return
        pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)


def may_pass(error: BaseException) -> bool:
    """Whether something could not be reached, by the driver or by a task."""
    if isinstance(error, _MAY_PASS):
        return True
    names = {f"{each.__module__}.{each.__qualname__}" for each in type(error).__mro__}
    if names & {*_NAMES, "psycopg.OperationalError"}:
        return True
    if error.__cause__ is not None and may_pass(error.__cause__):
        return True
    is_of_spark = any(each.startswith(("pyspark.", "py4j.")) for each in names)
    return is_of_spark and any(each in str(error) for each in _NAMES)
