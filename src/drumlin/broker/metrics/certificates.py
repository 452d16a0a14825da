"""Measures of the certificates that listeners present."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from drumlin.broker.login.certificates.replacement import shown_in
from drumlin.broker.loop.measures import Kind, Measure, Sample, Source
from drumlin.peer.security.secret import Secret
from drumlin.peer.security.settings import SecurityOptionError


def begin_to_measure_certificates(presented: Mapping[str, Secret]) -> Source:
    """Begin on the loop; the source that is returned is for a thread.

    presented: certificate and key of each listener with TLS, as PEM.
    """

    def measure() -> Iterator[Measure]:
        yield Measure(
            "drumlin_certificate_end_timestamp_seconds",
            Kind.GAUGE,
            "When a listener's certificate ends, in seconds since 1970.",
            ("listener",),
            tuple(_ends(presented)),
        )

    return measure


def _ends(presented: Mapping[str, Secret]) -> Iterator[Sample]:
    for listener, pem in presented.items():
        try:
            end = shown_in(pem.reveal()).ends_at
        except SecurityOptionError:  # OpenSSL reads it, though
            continue
        yield Sample((listener,), end.timestamp())
