"""A Prometheus of its own for a test, that scrapes one broker each second. Debian has it."""

from __future__ import annotations

import json
import shutil
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

from monitoring.dashboard import ALERTS
from rig.brokers.process import BrokerProcess
from rig.ports import free_ports
from rig.waiting import wait_until

PROGRAM, PROMTOOL = shutil.which("prometheus"), shutil.which("promtool")
WHY_NOT = "there is no prometheus: apt-get install prometheus"


class PrometheusServer(BrokerProcess):
    """With the rules of ours, evaluated each second; the job is called `drumlin`."""

    def __init__(self, directory: Path, metrics_port: int) -> None:
        super().__init__(directory / "prometheus.out")
        self._directory, self._metrics_port = directory, metrics_port
        self._port = free_ports(1)[0]

    def start(self) -> None:
        target = f"127.0.0.1:{self._metrics_port}"
        settings = {
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": [str(ALERTS)],
            "scrape_configs": [{"job_name": "drumlin", "static_configs": [{"targets": [target]}]}],
        }
        file = self._directory / "prometheus.yml"
        file.write_text(json.dumps(settings))  # JSON is YAML, too
        assert PROGRAM is not None
        data = f"--storage.tsdb.path={self._directory / 'prometheus'}"
        address = f"--web.listen-address=127.0.0.1:{self._port}"
        self.launch([PROGRAM, f"--config.file={file}", data, address])
        wait_until(self._is_ready, "Prometheus to be ready")

    def values(self, query: str) -> list[float]:
        """The values that a query has now."""
        found = self._get("query", query=query)["result"]
        return [float(each["value"][1]) for each in found]

    def rules(self) -> list[dict[str, Any]]:
        """All alerting rules, with their alerts."""
        return [rule for group in self._get("rules")["groups"] for rule in group["rules"]]

    def are_rules_well(self) -> bool:
        """Whether each rule has been evaluated, and without an error."""
        return all(rule["health"] == "ok" for rule in self.rules())

    def _is_ready(self) -> bool:
        self.fail_if_ended()
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._port}/-/ready", timeout=30):
                return True
        except OSError:
            return False

    def _get(self, what: str, **parameters: str) -> Any:
        query = urllib.parse.urlencode(parameters)
        url = f"http://127.0.0.1:{self._port}/api/v1/{what}?{query}"
        with urllib.request.urlopen(url, timeout=30) as answer:
            return json.load(answer)["data"]
