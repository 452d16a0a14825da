"""An OpenSearch of one node from Maven Central, on loopback, that survives being killed.

Nothing happens on import. Tests are skipped where a machine cannot have one.
"""

from __future__ import annotations

import contextlib
import http.client
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rig.brokers.process import BrokerProcess
from rig.jvm.jars import jar_folder, java
from rig.jvm.java import SHORT_LIVED_JVM
from rig.ports import free_ports
from rig.servers.running import skipped_where_unavailable
from rig.waiting import wait_until

_SOURCE = Path(__file__).with_name("OpenSearchNode.java")


class OpenSearch(BrokerProcess):
    def __init__(self, directory: Path) -> None:
        super().__init__(directory / "opensearch.out")
        with skipped_where_unavailable():
            jars = f"{jar_folder('opensearch-jars')}/*"
            self._java = [java(), "-Xmx256m", *SHORT_LIVED_JVM.split(), "-cp", jars]
        self._directory = directory / "opensearch"
        self.port = free_ports(1)[0]

    @property
    def url(self) -> str:
        return f"opensearch+http://127.0.0.1:{self.port}"

    def start(self) -> None:
        said_before = len(self.said())
        self.launch([*self._java, str(_SOURCE), str(self._directory), str(self.port)])

        def is_ready() -> bool:
            self.fail_if_ended()
            return "ready" in self.said()[said_before:]

        wait_until(is_ready, "OpenSearch to be ready", 120)
        self.ask("GET", "/_cluster/health?wait_for_status=yellow&timeout=60s")

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """What it answers, whatever that is."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            data = None if body is None else json.dumps(body)
            connection.request(method, path, data, {"Content-Type": "application/json"})
            return json.loads(connection.getresponse().read())
        finally:
            connection.close()

    def documents(self, index: str) -> dict[str, Any]:
        """All documents by their ids."""
        self.ask("POST", f"/{index}/_refresh")
        asked = {"size": 10_000, "query": {"match_all": {}}}
        found = self.ask("POST", f"/{index}/_search", asked)["hits"]["hits"]
        return {each["_id"]: each["_source"] for each in found}


@contextlib.contextmanager
def running_opensearch(directory: Path) -> Iterator[OpenSearch]:
    server = OpenSearch(directory)
    try:
        server.start()
        yield server
    finally:
        server.close()
