"""Make `data/discovery.json` from the aggregated discovery documents of an API server.

    python -m tests.tools.distill_discovery DIR > replay/kube/data/discovery.json

DIR holds `discovery-api.json` and `discovery-apis.json`: the answers of `/api` and `/apis` for
`Accept: application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def distill(source: Path) -> str:
    """The package data, one resource a line, sorted."""
    rows = sorted(row for name in ("discovery-api.json", "discovery-apis.json") for row in _rows(source / name))
    return "[\n" + ",\n".join(json.dumps(row, separators=(",", ":")) for row in rows) + "\n]\n"


def _rows(path: Path) -> Iterator[list[Any]]:
    """Rows `[group, version, resource, kind, namespaced, {subresource: [group, version, kind]}]` of one document."""
    for group in json.loads(path.read_text("utf-8"))["items"]:
        name = group["metadata"].get("name", "")
        if "." in name and not name.endswith(".k8s.io"):
            continue  # a custom group of that cluster: Kubernetes' own end in k8s.io or, the oldest, have no dot
        for version in group["versions"]:
            for resource in version["resources"]:
                subresources = {
                    sub["subresource"]: _kind(sub, name, version) for sub in resource.get("subresources", ())
                }
                kind = _kind(resource, name, version)[2]
                namespaced = resource["scope"] == "Namespaced"
                yield [name, version["version"], resource["resource"], kind, namespaced, subresources]


def _kind(described: dict[str, Any], group: str, version: dict[str, Any]) -> list[str]:
    """`responseKind`, whose empty group and version mean those of the resource."""
    kind = described["responseKind"]
    if not kind["group"] and not kind["version"]:
        return [group, version["version"], kind["kind"]]
    return [kind["group"], kind["version"], kind["kind"]]


if __name__ == "__main__":
    sys.stdout.write(distill(Path(sys.argv[1])))
