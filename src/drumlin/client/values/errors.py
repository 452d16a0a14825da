"""The errors of schemas and their registry.

A record that cannot be decoded raises none of these errors: it is reported with the decoded ones.
"""

from __future__ import annotations

from drumlin.client.errors import ClientError


class SchemaError(ClientError, ValueError):
    """A schema is invalid, or has a part that cannot be mapped to columns, as the message says."""


class DecoderUnavailable(ClientError, RuntimeError):
    """A decoder needs a package, a compiler or kernels that are missing here, or have failed.

    Neither schema nor record is at fault: decoding may succeed later, or on another machine.
    """


class RegistryError(ClientError):
    """The schema registry refused a request. A retry does not help."""


class RegistryUnavailable(RegistryError, ConnectionError):
    """The schema registry could not be reached, or failed, until `patience_ms` was over."""


class UnknownSchema(RegistryError, LookupError):
    """The schema registry has no such id, subject or version."""
