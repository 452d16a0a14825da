"""What the metrics say of elections, as brokers of a cluster are killed and stop."""

from __future__ import annotations

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from cluster.conftest import MakeBroker
from rig.brokers.prometheus import scrape
from rig.brokers.quorum import quorum
from rig.ports import free_ports
from rig.waiting import wait_until

pytestmark = [pytest.mark.zookeeper, pytest.mark.clients, pytest.mark.slow]

_ELECTIONS = "drumlin_controller_elections_total"
_SECONDS = "drumlin_controller_election_seconds_total"
_UNCLEAN = "drumlin_controller_unclean_elections_total"
_IS_CONTROLLER = "drumlin_replication_is_controller"


@pytest.mark.deep
def test_elections_are_counted_where_they_are_made(make_broker: MakeBroker) -> None:
    ports, servers = free_ports(3), {}
    for node_id, port in enumerate(ports, 1):
        settings = {"node.id": str(node_id), "drumlin.metrics.listener": f"127.0.0.1:{port}"}
        servers[node_id] = make_broker(settings, f"broker-{node_id}")
        servers[node_id].start()
    admin = AdminClient({"bootstrap.servers": servers[1].address})
    safe = NewTopic("safe", 2, replica_assignment=[[3, 1, 2], [2, 1, 3]])
    alone = NewTopic("alone", 1, replica_assignment=[[3]])
    for name, created in admin.create_topics([safe, alone]).items():
        created.result(20)
        wait_until(lambda name=name: name in admin.list_topics(timeout=10).topics, "the topic")  # type: ignore[misc]
    assert [scrape(port)[_IS_CONTROLLER] for port in ports] == [1, 0, 0]
    assert [scrape(port)[_ELECTIONS] for port in ports] == [0, 0, 0]
    assert {quorum(each.port).leader for each in servers.values()} == {1}
    epoch = quorum(servers[1].port).epoch

    servers[3].kill()
    wait_until(lambda: scrape(ports[0])[_ELECTIONS] == 1, "an election")
    known = scrape(ports[0])
    assert 0 < known[_SECONDS] < 60
    assert known["drumlin_replication_offline_partitions"] == 1
    assert known["drumlin_controller_queue"] == 0
    assert scrape(ports[1])[_ELECTIONS] == 0

    servers[1].kill()  # the controller, which leads what broker 3 had led
    wait_until(lambda: scrape(ports[1])[_IS_CONTROLLER] == 1, "another controller")
    wait_until(lambda: scrape(ports[1])[_ELECTIONS] == 1, "its election")
    assert scrape(ports[1])[_UNCLEAN] == 0
    wait_until(lambda: quorum(servers[2].port) == (2, epoch + 1, [2], []), "the new quorum")
