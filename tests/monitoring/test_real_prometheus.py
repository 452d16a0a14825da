"""Real Prometheus takes the alert rules and the dashboard's queries, and gets answers."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import pytest
from cryptography import x509

from monitoring.dashboard import ALERTS, ROOT, alerts, shown
from monitoring.prometheus_server import PROGRAM, PROMTOOL, WHY_NOT, PrometheusServer
from monitoring.traffic import Traffic
from rig.brokers.machine_server import MachineServer
from rig.brokers.secure_server import SecureServer
from rig.ports import free_ports
from rig.waiting import wait_until

pytestmark = [
    pytest.mark.deep,
    pytest.mark.clients,
    pytest.mark.skipif(PROGRAM is None or PROMTOOL is None, reason=WHY_NOT),
]

#: What has nothing to show on a broker that is well, by a part of its query.
_NOTHING = {
    "drumlin_throttled_seconds_total": "there are no quotas",
    "drumlin_event_loop_longest_turn_code_seconds": "no turn is long",
    "drumlin_request_throttled_seconds_total": "there are no quotas",
    "drumlin_compaction_failures_total": "no cleaning fails",
}


def _promtool(*arguments: str) -> str:
    assert PROMTOOL is not None
    done = subprocess.run([PROMTOOL, *arguments], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_rules_are_rules_and_say_what_they_should() -> None:
    assert f"{len(alerts())} rules found" in _promtool("check", "rules", str(ALERTS))
    _promtool("test", "rules", "tests/monitoring/alert_cases.yml")


def test_the_queries_are_queries(tmp_path: Path) -> None:
    rules = [
        {"record": f"shown:{number}", "expr": each.asked("1m")}
        for number, each in enumerate(shown())
    ]
    file = tmp_path / "rules.yml"
    file.write_text(json.dumps({"groups": [{"name": "dashboard", "rules": rules}]}))
    assert f"{len(rules)} rules found" in _promtool("check", "rules", str(file))


def test_the_documented_configuration_is_one(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "metrics.md").read_text("utf-8")
    (shown_there,) = re.findall(
        r"^```yaml\n(scrape_configs:.*?)^```$", text, re.MULTILINE | re.DOTALL
    )
    file = tmp_path / "prometheus.yml"
    file.write_text(shown_there.replace("/etc/prometheus/drumlin-alerts.yml", str(ALERTS)))
    assert "SUCCESS" in _promtool("check", "config", str(file))


class _Watched(NamedTuple):
    broker: SecureServer
    prometheus: PrometheusServer


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[_Watched]:
    (port,) = free_ports(1)
    settings = {"drumlin.metrics.listener": f"127.0.0.1:{port}"}
    broker, prometheus = SecureServer(tmp_path, settings), PrometheusServer(tmp_path, port)
    with closing(broker), closing(prometheus):
        broker.start()
        prometheus.start()
        yield _Watched(broker, prometheus)


def test_every_panel_has_something_to_show(watched: _Watched) -> None:
    prometheus, left = watched.prometheus, {each.asked("10s"): each for each in shown()}
    with closing(Traffic(watched.broker)) as traffic:

        def are_answered() -> bool:
            traffic.flow()
            for query in list(left):
                if prometheus.values(query):
                    del left[query]
            return all(any(name in query for name in _NOTHING) for query in left)

        wait_until(are_answered, "answers to all queries", 120)
    assert all(any(name in each.query for each in shown()) for name in _NOTHING)
    pem = (watched.broker.data / "broker.pem").read_bytes()
    end = x509.load_pem_x509_certificates(pem)[0].not_valid_after_utc
    assert prometheus.values("drumlin_certificate_end_timestamp_seconds") == [end.timestamp()]


def test_no_alert_fires_until_the_broker_is_down(watched: _Watched) -> None:
    prometheus = watched.prometheus

    def states() -> dict[str, str]:
        return {rule["name"]: rule["state"] for rule in prometheus.rules()}

    wait_until(lambda: prometheus.values("count_over_time(up[1m]) > 5"), "some scrapes")
    rules = prometheus.rules()
    assert len(rules) == len(alerts())
    wait_until(prometheus.are_rules_well, "all rules to be evaluated")
    firing = {name for name, state in states().items() if state == "firing"}
    assert firing <= {"DrumlinEventLoopStalls"}, "only a busy machine is a reason"
    watched.broker.kill()
    wait_until(lambda: states()["DrumlinBrokerDown"] == "pending", "the alert")


def test_queries_and_rules_hold_for_several_brokers_at_one_address(tmp_path: Path) -> None:
    """Their metrics have the label `broker`, which must not be in the way of any."""
    (port,) = free_ports(1)
    server = MachineServer(tmp_path, {"drumlin.metrics.listener": f"127.0.0.1:{port}"})
    prometheus = PrometheusServer(tmp_path, port)
    with closing(server), closing(prometheus):
        server.start_brokers(2)
        prometheus.start()
        alive = "max(drumlin_replication_live_brokers)"
        wait_until(lambda: prometheus.values(alive) == [2], "both brokers")
        assert prometheus.values("sum by (job) (drumlin_replication_is_controller)") == [1]
        assert len(prometheus.values("process_open_fds and on (job, instance) up")) == 2
        for each in shown():
            prometheus.values(each.asked("10s"))  # fails where it cannot be answered
        wait_until(prometheus.are_rules_well, "all rules to be evaluated")
