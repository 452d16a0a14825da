"""An HDFS that is not there, or says nothing, is named soon."""

from __future__ import annotations

import socket

import pytest

from drumlin.spark.landing.lake_files import lake_files
from drumlin.spark.landing.targets import hdfs
from drumlin.spark.landing.targets.target import LandingRefused, StoreUnavailable
from drumlin.spark.landing.targets.urls import open_target
from rig.ports import free_ports


def test_nobody_listens() -> None:
    (port,) = free_ports(1)
    lake = f"hdfs://127.0.0.1:{port}/lake"
    with pytest.raises(StoreUnavailable, match=f"^{lake}: HDFS cannot be reached: Connection ref"):
        open_target(lake, "t", "append").position((0,))


def test_who_listens_is_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hdfs, "_ANSWER_S", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as server:
        lake = f"hdfs://127.0.0.1:{server.getsockname()[1]}/lake"
        with pytest.raises(StoreUnavailable, match=f"^{lake}: .*: no answer within 0"):
            open_target(lake, "t", "append").position((0,))
        with pytest.raises(StoreUnavailable, match=f"^{lake}: .*: no answer within 0"):
            lake_files(lake)


def test_hadoop_s_configuration_does_not_know_it() -> None:
    with pytest.raises(LandingRefused, match="other/lake: HDFS refuses this: No NameN"):
        open_target("hdfs://other/lake", "t", "append")
