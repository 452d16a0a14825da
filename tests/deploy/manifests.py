"""The example for Kubernetes, as plain values, and what its pods are told."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

import yaml  # type: ignore[import-untyped]

from drumlin.config.properties import decode_properties

ROOT: Final = Path(__file__).parents[2]
FOLDER: Final = ROOT / "deploy" / "kubernetes"
#: Secrets that the document has its reader make: names of keys.
SECRETS: Final = {"drumlin-tls": {"broker.pem", "ca.pem"}, "drumlin-zookeeper": {"digest"}}


def resources() -> list[dict[str, Any]]:
    """Those of all files that the kustomization names."""
    named = yaml.safe_load((FOLDER / "kustomization.yaml").read_text("utf-8"))["resources"]
    found: list[dict[str, Any]] = []
    for name in named:
        found += yaml.safe_load_all((FOLDER / name).read_text("utf-8"))
    return found


def resource(kind: str, name: str) -> dict[str, Any]:
    (found,) = [
        each for each in resources() if (each["kind"], each["metadata"]["name"]) == (kind, name)
    ]
    return found


def container(name: str) -> dict[str, Any]:
    """The one of a StatefulSet's pods."""
    (found,) = resource("StatefulSet", name)["spec"]["template"]["spec"]["containers"]
    assert isinstance(found, dict)
    return found


def properties(name: str) -> dict[str, str]:
    return decode_properties((FOLDER / name).read_bytes())


def variables(name: str, number: int, secrets: dict[str, dict[str, str]]) -> dict[str, str]:
    """The variables of a StatefulSet's pod, as the kubelet makes them."""
    fields = {
        "metadata.name": f"{name}-{number}",
        "metadata.labels['apps.kubernetes.io/pod-index']": str(number),
    }
    found: dict[str, str] = {}
    for each in container(name)["env"]:
        source = each.get("valueFrom", {})
        if "fieldRef" in source:
            value = fields[source["fieldRef"]["fieldPath"]]
        elif "secretKeyRef" in source:
            value = secrets[source["secretKeyRef"]["name"]][source["secretKeyRef"]["key"]]
        else:
            value = re.sub(r"\$\((\w+)\)", lambda named: found[named[1]], each["value"])
        found[each["name"]] = value
    return found
