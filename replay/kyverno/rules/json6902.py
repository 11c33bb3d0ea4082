"""RFC 6902 patches of rules (`pkg/engine/mutate/patch`; evanphx/json-patch v5 with Kyverno's options).

`add` creates the containers along its path. `remove` of a missing value changes nothing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from replay.json import JSON, decode_json
from replay.kube.json_patch import JSONPatchError, apply, tokens
from replay.kyverno.rules.errors import RuleError
from replay.kyverno.rules.go_value import json_kind
from replay.manifests.go_type.decode import plain
from replay.manifests.read.json_reader import JSONSyntaxError, read_json
from replay.manifests.read.yaml_reader import YAMLSyntaxError, read_yaml

_INDEX = re.compile(r"-|-?[0-9]+", re.ASCII)
_MOST_INDEX = 10_000
"""Limit of ours for the index at which `add` creates items."""


def apply_json6902(resource: JSON, text: str) -> JSON:
    """Return an object with a JSON or YAML patch applied. Raises RuleError."""
    operations = read_operations(text)
    for operation in operations:
        path = operation.get("path")
        try:
            # Kyverno's patch options: paths are created for `add`, and may be missing for `remove`.
            if operation.get("op") == "add" and isinstance(path, str):
                resource = _with_path(resource, tokens(path))
            elif isinstance(path, str) and not _is_there(resource, tokens(path)):
                if operation.get("op") == "remove":
                    continue
                if operation.get("op") == "replace" and _is_there(resource, tokens(path)[:-1]):
                    raise RuleError(f"replace operation does not apply: doc is missing key: {path}: missing value")
            resource = apply(resource, [operation])
        except JSONPatchError as error:
            raise RuleError(str(error)) from None
    if resource is None and operations:  # operations that all change nothing leave no object to write
        raise RuleError(
            "json: error calling MarshalJSON for type *jsonpatch.partialDoc: invalid value, expected object"
        )
    return resource


def read_operations(text: str) -> list[Mapping[str, Any]]:
    """Parse the operations of a JSON or YAML patch. Raises RuleError."""
    try:
        if text.startswith("["):
            read_json(text.encode())
            decoded = decode_json(text)
        else:
            decoded = plain(read_yaml(text.encode()).node)
    except JSONSyntaxError as error:
        raise RuleError(f"failed to decode patches: {error}") from None
    except YAMLSyntaxError as error:
        raise RuleError(f"failed to convert patchesJSON6902 to JSON: {error}") from None
    if not isinstance(decoded, list) or not all(isinstance(each, dict) for each in decoded):
        wrong, of = (
            (decoded, "jsonpatch.Patch") if not isinstance(decoded, list) else (_no_map(decoded), "jsonpatch.Operation")
        )
        text = f"json: cannot unmarshal {json_kind(wrong)} into Go value of type {of}"
        raise RuleError(f"failed to decode patches: {text}")
    return decoded


def _no_map(items: list[JSON]) -> JSON:
    return next(each for each in items if not isinstance(each, dict))


def _is_there(node: JSON, path: tuple[str, ...]) -> bool:
    for key in path:
        if isinstance(node, dict):
            if key not in node:
                return False
            node = node[key]
        elif isinstance(node, list) and _INDEX.fullmatch(key) and key != "-":
            if not -len(node) <= int(key) < len(node):
                return False
            node = node[int(key)]
        else:
            return False
    return True


def _with_path(node: JSON, path: tuple[str, ...]) -> JSON:
    """Return a node with containers created along a path: a list before an index, otherwise an object."""
    if len(path) < 2:
        return node
    key, following = path[0], path[1]
    if isinstance(node, dict):
        inner = node.get(key)
        return {**node, key: _with_path(_container(following) if inner is None else inner, path[1:])}
    if isinstance(node, list) and _INDEX.fullmatch(key) and key != "-":
        index = int(key)
        if index == -1 and not node:
            return [_with_path(_container(following), path[1:])]
        if index > _MOST_INDEX:
            return node
        items = [*node, *[None] * (index + 1 - len(node))] if index >= len(node) else list(node)
        if -len(items) <= index < len(items):
            items[index] = _with_path(_container(following) if items[index] is None else items[index], path[1:])
        return items
    return node


def _container(key: str) -> JSON:
    """Return the container for a missing key: a list with nulls before an index, or an object. Raises RuleError."""
    if not _INDEX.fullmatch(key):
        return {}
    index = 0 if key == "-" else int(key)
    if index < -1:
        raise RuleError(f"Unable to ensure path for negative index other than -1: {key}: invalid index referenced")
    return [None] * max(0, min(index, _MOST_INDEX))
