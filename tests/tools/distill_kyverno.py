"""Make `replay/kyverno/data/schema.json` from the CustomResourceDefinitions of Kyverno.

    python -m tests.tools.distill_kyverno CRDS > replay/kyverno/data/schema.json

CRDS is a folder with the definitions of one release. The result has `kinds`, the schema of each `GROUP/VERSION/KIND`, and `shared`,
the parts that stand in more than one place; `{"$ref": NUMBER}` names one of them. Prose, `status` and rules of CEL are left out.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import yaml

_KINDS = (
    "ClusterPolicy",
    "Policy",
    "PolicyException",
    "GlobalContextEntry",
    "ValidatingPolicy",
    "MutatingPolicy",
    "GeneratingPolicy",
    "DeletingPolicy",
    "ImageValidatingPolicy",
    "NamespacedValidatingPolicy",
    "NamespacedMutatingPolicy",
    "NamespacedGeneratingPolicy",
    "NamespacedDeletingPolicy",
    "NamespacedImageValidatingPolicy",
)
_DROPPED = ("description", "x-kubernetes-validations", "example")
_LEAST = 60
"""How long a part is that is worth a name."""

Node = Any


def distill(source: Path) -> str:
    """The package data, one kind or shared part a line."""
    schemas: dict[str, Node] = {}
    for path in sorted(source.glob("*.yaml")):
        spec = yaml.safe_load(path.read_text("utf-8"))["spec"]
        kind = spec["names"]["kind"]
        if kind not in _KINDS:
            continue
        for version in spec["versions"]:
            schema = _pruned(version["schema"]["openAPIV3Schema"])
            schema["properties"] = {
                name: each
                for name, each in schema["properties"].items()
                if name not in ("apiVersion", "kind", "metadata", "status")
            }
            schemas[f"{spec['group']}/{version['name']}/{kind}"] = schema
    counts: Counter[str] = Counter()
    for schema in schemas.values():
        _count(schema, counts)
    named: dict[str, int] = {}
    shared: list[str] = []
    kinds = {name: _compact(_referred(schema, counts, named, shared)) for name, schema in sorted(schemas.items())}
    rows = ",\n".join(f"{json.dumps(name)}:{text}" for name, text in kinds.items())
    return f'{{"kinds":{{\n{rows}\n}},"shared":[\n' + ",\n".join(shared) + "\n]}\n"


def _pruned(node: Node, *, is_map: bool = False) -> Node:
    if isinstance(node, list):
        return [_pruned(each) for each in node]
    if not isinstance(node, dict):
        return node
    return {
        key: _pruned(value, is_map=key == "properties" and not is_map)
        for key, value in node.items()
        if is_map or key not in _DROPPED
    }


def _count(node: Node, counts: Counter[str]) -> None:
    if isinstance(node, dict):
        text = _compact(node)
        counts[text] += 1
        if counts[text] == 1:
            for value in node.values():
                _count(value, counts)
    elif isinstance(node, list):
        for value in node:
            _count(value, counts)


def _referred(node: Node, counts: Counter[str], named: dict[str, int], shared: list[str]) -> Node:
    if isinstance(node, list):
        return [_referred(each, counts, named, shared) for each in node]
    if not isinstance(node, dict):
        return node
    text = _compact(node)
    if counts[text] > 1 and len(text) >= _LEAST and "type" in node:
        if text not in named:
            inner = {key: _referred(value, counts, named, shared) for key, value in node.items()}
            named[text] = len(shared)
            shared.append(_compact(inner))
        return {"$ref": named[text]}
    return {key: _referred(value, counts, named, shared) for key, value in node.items()}


def _compact(value: Node) -> str:
    return json.dumps(value, separators=(",", ":"), sort_keys=True)


if __name__ == "__main__":
    sys.stdout.write(distill(Path(sys.argv[1])))
