"""`--registry URL`: a schema registry, with its login from the configuration file."""

from __future__ import annotations

from pathlib import Path

from drumlin.cli.reach.command_config import REGISTRY, properties_of
from drumlin.cli.terminal import output
from drumlin.client.values.registry import SchemaRegistry
from drumlin.client.values.registry_properties import registry_in


def registry_of(url: str, config: Path | None) -> SchemaRegistry:
    """The registry at this address, with the login in the configuration file, if it is for it.

    Raises:
        output.Failure: a property or the address is invalid.
    """
    properties = {} if config is None else properties_of(config)
    found = {name: text for name, text in properties.items() if name.startswith(REGISTRY)}
    if found.get(f"{REGISTRY}url", url).rstrip("/") != url.rstrip("/"):
        found = {}  # a login is for one registry
    try:
        return registry_in(found | {f"{REGISTRY}url": url})
    except ValueError as error:
        raise output.Failure(f"--registry {url}: {error}") from None
