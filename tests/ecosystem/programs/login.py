"""How a program here logs in: by SCRAM over TLS if APP_LOGIN says who, else not at all."""

import json
import os
import ssl

told = json.loads(os.environ.get("APP_LOGIN", "null"))


def librdkafkas() -> dict[str, str]:
    """Settings of clients with librdkafka in them."""
    if told is None:
        return {}
    return {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": told["user"],
        "sasl.password": told["password"],
        "ssl.ca.location": told["ca"],
    }


def tls() -> ssl.SSLContext:
    return ssl.create_default_context(cafile=told["ca"])
