"""Both brokers with a listener of TLS beside their plain one, and the same certificates."""

from __future__ import annotations

import contextlib
import ssl
from collections.abc import Iterator, Mapping

from bench.brokers import KAFKA_JVM, Broker, require_no_error
from bench.dial import Dial, through_tls
from bench.harness import Options
from rig.brokers.drumlin_with_listeners import DrumlinWithListeners
from rig.data.raw import RawClient
from rig.servers.certificates import Certificates
from rig.servers.secured_kafka import SecuredKafka


class TlsBroker(Broker):
    """A broker that is asked in the plain, and whose loads come through TLS."""

    def __init__(
        self,
        name: str,
        process: DrumlinWithListeners | SecuredKafka,
        context: ssl.SSLContext,
        certificates: Certificates,
    ) -> None:
        super().__init__(name, process)
        self.tls_port = int(process.addresses["tls"].rpartition(":")[2])
        self.login_port = int(process.addresses["login"].rpartition(":")[2])
        self.context = context
        #: The paths of the broker's certificate and its key.
        self.certificate = certificates.path("server.crt"), certificates.path("server.key")

    def login(self, user: str, password: str) -> RawClient:
        """A connection on which a user has logged in, without TLS."""
        client = RawClient(self.login_port)
        client.ask("sasl_handshake", 1, mechanism="PLAIN")
        answer = client.ask("sasl_authenticate", 2, auth_bytes=f"\0{user}\0{password}".encode())
        require_no_error(answer)
        return client

    @property
    def dial(self) -> Dial:
        return through_tls(self.tls_port, self.context)


@contextlib.contextmanager
def both_with_tls(
    options: Options, settings: Mapping[str, str] | None = None
) -> Iterator[tuple[TlsBroker, TlsBroker]]:
    """Drumlin and Apache Kafka, both running and both empty; `settings` are those of both."""
    certificates = Certificates(options.directory / "certificates")
    context = ssl.create_default_context(cafile=certificates.path("ca.crt"))
    with contextlib.ExitStack() as stack:
        folders = [options.directory / name for name in ("drumlin", "kafka")]
        for each in folders:
            each.mkdir()
        ours = DrumlinWithListeners(folders[0], certificates, settings)
        theirs = SecuredKafka(folders[1], certificates, jvm=KAFKA_JVM)
        theirs.settings |= settings or {}
        for server in (ours, theirs):
            stack.enter_context(contextlib.closing(server))
            server.start()
        yield (
            TlsBroker("Drumlin", ours, context, certificates),
            TlsBroker("Kafka", theirs, context, certificates),
        )
