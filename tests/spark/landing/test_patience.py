"""A round that fails is tried again, if it may pass, and for as long as is said."""

from __future__ import annotations

import threading
import urllib.request
from typing import Any

import psycopg
import pytest
from pyspark.errors import PythonException

from drumlin.client.errors import BrokerUnreachable, RequestTimedOut
from drumlin.metrics_server import metrics_served
from drumlin.spark.landing.metrics import LandingMetrics
from drumlin.spark.landing.patience import may_pass, patiently
from drumlin.spark.landing.run import Landing
from drumlin.spark.landing.targets.target import LandingRefused, OtherRun, StoreUnavailable
from rig.ports import free_ports

NOW = Landing("t", "id", "delta:/t", "append", 5, 2, 4, 300, {0: 5, 1: 0}, {0: 7, 1: 0})


class Round:
    """A run that fails in these ways, and then does not."""

    def __init__(self, *failures: Exception) -> None:
        self._failures = list(failures)
        self.batches, self.has_begun = 0, True

    def round(self, *_: Any) -> None:
        if self._failures:
            raise self._failures.pop(0)

    def tell(self) -> Landing:
        return NOW


def _patiently(run: Round, patience_s: float) -> list[Exception]:
    failures, stop = list[Exception](), Stop()
    given: Any = run
    patiently(given, patience_s, stop, lambda _: None, lambda _: None, failures.append)
    return failures


class Stop(threading.Event):
    """Waits for nothing."""

    def wait(self, timeout: float | None = None) -> bool:
        return False


def test_what_may_pass_is_tried_again() -> None:
    failures = [BrokerUnreachable("b"), RequestTimedOut("b"), BrokerUnreachable("b")]
    assert _patiently(Round(*failures), 10) == failures
    with pytest.raises(BrokerUnreachable):
        _patiently(Round(BrokerUnreachable("b")), 0)
    with pytest.raises(OtherRun):
        _patiently(Round(BrokerUnreachable("b"), OtherRun("r")), 10)


def test_a_pause_that_is_longer_than_the_patience_is_none() -> None:
    with pytest.raises(BrokerUnreachable):
        _patiently(Round(*[BrokerUnreachable("b")] * 5), 1)


def test_what_was_never_reached_is_told_at_once() -> None:
    run = Round(BrokerUnreachable("b"))
    run.has_begun = False
    with pytest.raises(BrokerUnreachable):
        _patiently(run, 10)


def test_what_may_pass() -> None:
    refused = LandingRefused("postgresql://h/d: connection refused")
    refused.__cause__ = psycopg.OperationalError("connection refused")
    assert may_pass(refused)
    assert not may_pass(LandingRefused("this is a table that no topic was landed in"))
    text = "Traceback\n drumlin.client.errors.BrokerUnreachable: no broker of h:9092"
    assert may_pass(PythonException(text))
    assert not may_pass(PythonException("Traceback\n ValueError: no"))
    assert may_pass(StoreUnavailable("s3://b/lake: S3 cannot be reached"))
    assert may_pass(
        PythonException("Traceback\n obstore.exceptions.GenericError: Generic S3 error")
    )
    assert not may_pass(ValueError(text))


def test_prometheus_finds_the_progress() -> None:
    metrics, address = LandingMetrics(), f"127.0.0.1:{free_ports(1)[0]}"
    metrics.tell(NOW)
    metrics.tell_retry()
    with metrics_served(address, metrics):
        with urllib.request.urlopen(f"http://{address}/metrics") as answer:
            found = answer.read().decode()
        with pytest.raises(ValueError, match="cannot be served"), metrics_served(address, metrics):
            pass
    lines, labels = found.splitlines(), '{to="delta:/t",topic="t"}'
    for name, value in (("offsets_total", 5), ("rows_total", 4), ("bytes_total", 300)):
        assert f"drumlin_landing_{name}{labels} {value}.0" in lines
    assert f"drumlin_landing_lag_offsets{labels} 2.0" in lines
    assert 'drumlin_landing_position_offset{partition="0",to="delta:/t",topic="t"} 5.0' in lines
    assert "drumlin_landing_retries_total 1.0" in lines
    for wrong in ("nowhere", "h:99999", ""):
        with pytest.raises(ValueError, match="cannot be served"), metrics_served(wrong, metrics):
            pass
