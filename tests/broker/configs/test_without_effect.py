"""Keys that do nothing here: whoever sets them in a running broker is told so in its log."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from drumlin.broker.configs.config_changes import tell_without_effect
from drumlin.metadata.image import Resource, ResourceType
from rig.brokers.drumlin_server import DrumlinServer
from rig.waiting import wait_until


def test_what_has_no_effect_is_told_at_run_time_too(caplog: pytest.LogCaptureFixture) -> None:
    tell_without_effect(Resource(ResourceType.TOPIC, "t"), ["retention.ms", "preallocate"])
    assert caplog.messages == ["topic 't': without effect here: preallocate"]
    caplog.clear()
    tell_without_effect(Resource(ResourceType.BROKER, ""), ["log.cleaner.threads", "no.such.key"])
    assert caplog.messages == ["broker '': without effect here: 1 that Kafka does not know"]
    caplog.clear()
    names = [f"{number}\n" * 999 for number in range(99)]
    tell_without_effect(Resource(ResourceType.GROUP, "g" * 30_000), names)
    (message,) = caplog.messages
    assert len(message) < 400
    assert "\n" not in message
    caplog.clear()
    tell_without_effect(Resource(ResourceType.TOPIC, "t"), ["retention.ms"])
    keys = ["listener.name.outside.ssl.keystore.location", "log.retention.ms"]
    tell_without_effect(Resource(ResourceType.BROKER, "1"), keys)
    assert not caplog.messages


@pytest.mark.parametrize("api", ["alter_configs", "incremental_alter_configs"])
def test_whoever_sets_them_is_told(
    api: str, server: DrumlinServer, ask: Callable[..., Any], create: Callable[..., str]
) -> None:
    topic = create(f"idle-{api.replace('_', '-')}")
    entries = [("retention.ms", "99000"), ("preallocate", "true")]
    operation = {"config_operation": 0} if api == "incremental_alter_configs" else {}
    configs = [{"name": name, "value": value} | operation for name, value in entries]
    resource = {"resource_type": 2, "resource_name": topic, "configs": configs}
    (answer,) = ask(api, 1, resources=[resource], validate_only=True)["responses"]
    assert answer["error_code"] == "none"
    (answer,) = ask(api, 1, resources=[resource], validate_only=False)["responses"]
    assert answer["error_code"] == "none"
    line = f"topic '{topic}': without effect here: preallocate"
    wait_until(lambda: line in server.said(), "it to be told")
    assert server.said().count(line) == 1  # not for what was only tried
