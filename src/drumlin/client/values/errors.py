"""The errors of schemas and their registry.

A record that cannot be decoded raises none of these: it is reported beside those that can.
"""

from __future__ import annotations

from drumlin.client.errors import ClientError


class SchemaError(ClientError, ValueError):
    """A schema is invalid, or has something that cannot become columns; the message says what."""


class DecoderUnavailable(ClientError, RuntimeError):
    """A decoder's means are missing here, or have failed: a package, a compiler, kernels.

    That is no fault of a schema, and none of a record: it may go well later, or elsewhere.
    """


class RegistryError(ClientError):
    """The schema registry refused a request. Trying again does not help."""


class RegistryUnavailable(RegistryError, ConnectionError):
    """The schema registry could not be reached, or failed, for as long as its settings allow."""


class UnknownSchema(RegistryError, LookupError):
    """The schema registry has no such id, subject or version."""
