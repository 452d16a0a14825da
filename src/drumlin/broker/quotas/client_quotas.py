"""The quotas of a broker's clients, taken from the metadata."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Final

from drumlin.broker.quotas.connection_rates import ConnectionRates
from drumlin.broker.quotas.entities import CONNECTION_RATE, IP, Entity, quotas_in, quotas_of
from drumlin.broker.quotas.mutations import MutationQuota
from drumlin.broker.quotas.rate import Window
from drumlin.broker.quotas.rate_quota import RateQuota
from drumlin.broker.quotas.throttled import ThrottledTime
from drumlin.broker.quotas.untold import Untold, Used
from drumlin.metadata.image import ClusterImage, ResourceType
from drumlin.metadata.store.changes import Change, ConfigsChanged

if TYPE_CHECKING:
    from drumlin.clock import Clock
    from drumlin.config.broker import BrokerConfig

_TYPE: Final = "User:"
_FETCH_BYTES_MAX: Final = 2**31 - 1


class ClientQuotas:
    """All limits, and the usage under each. The broker uses `active`, which is mostly None."""

    def __init__(self, config: BrokerConfig, clock: Clock) -> None:
        self._clock = clock
        window = Window(config.quota_window_num, config.quota_window_size_seconds * 1000)
        self.produced = RateQuota(window)
        self.fetched = RateQuota(window)
        #: The time that requests take, in per cent of a processor.
        self.request_time = RateQuota(window, throttle_ms_max=window.sample_ms)
        self.mutations = MutationQuota(
            Window(
                config.controller_quota_window_num,
                config.controller_quota_window_size_seconds * 1000,
            )
        )
        self.connections = ConnectionRates(window)
        self.throttled = ThrottledTime(
            config.drumlin_metrics_clients, config.drumlin_metrics_clients_max
        )
        self._of_requests: dict[str, RateQuota | MutationQuota] = {
            "producer_byte_rate": self.produced,
            "consumer_byte_rate": self.fetched,
            "request_percentage": self.request_time,
            "controller_mutation_rate": self.mutations,
        }
        self._all = self._of_requests | {CONNECTION_RATE: self.connections}

    @property
    def active(self) -> ClientQuotas | None:
        """This object if any limit on requests is set, else None."""
        return self if any(each.limits for each in self._of_requests.values()) else None

    def now_ms(self) -> int:
        return int(self._clock.monotonic() * 1000)

    def fetch_bytes_max(self, client: tuple[str, str]) -> int:
        """The maximum number of bytes that a fetch can get."""
        most = self.fetched.at_once_max(*client)
        return _FETCH_BYTES_MAX if most is None else int(min(most, _FETCH_BYTES_MAX))

    def delay_of_fetch(self, client: tuple[str, str], size: int) -> int:
        """Count the bytes that a fetch has found; or return the time that it has to wait first."""
        now_ms = self.now_ms()
        overdue_ms = self.request_time.overdue_ms(*client, now_ms)
        return overdue_ms or self.fetched.admit(*client, size, now_ms)

    def learn(self, image: ClusterImage) -> None:
        """Set all quotas in the metadata."""
        for entity, values in quotas_in(image):
            self._put(entity, values)

    def follow(self, change: Change) -> None:
        """Apply a change of the metadata, if it changes quotas."""
        if isinstance(change, ConfigsChanged) and change.resource.type is ResourceType.QUOTA:
            found = quotas_of(change.resource, change.configs)
            if found is not None:
                self._put(*found)

    def _put(self, entity: Entity, values: Mapping[str, float]) -> None:
        if IP in entity:
            self.connections.put(entity[IP], values.get(CONNECTION_RATE))
            return
        for key, quota in self._of_requests.items():
            quota.limits.put(entity, values.get(key))

    def share(self, untold: Untold) -> None:
        """Note from now on what other brokers have to know."""
        for key, quota in self._all.items():
            quota.tell = partial(untold.add, key)

    def hear(self, used: Used) -> None:
        """Count what was used at another broker."""
        self._all[used.key].usages.hear(used, self.now_ms())


def user_of(principal: str) -> str:
    """The name by which quotas know a principal."""
    return principal.removeprefix(_TYPE)
