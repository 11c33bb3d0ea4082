"""Whether a webhook can be called with a kubeconfig file (`k8s.io/client-go/tools/clientcmd`), as far as the file itself tells.

What its user says, and the certificates in it, is not looked at.
"""

from __future__ import annotations

from pathlib import Path

from replay.go.format import quote
from replay.json import JSON
from replay.manifests.go_type.decode import json_type, plain
from replay.manifests.read.document_reader import UndecodableError, read_untyped
from replay.manifests.read.documents import os_reason
from replay.manifests.read.node import Mapping, Node, Scalar, Sequence

_EMPTY = "invalid configuration: no configuration has been provided, try setting KUBERNETES_MASTER environment variable"
_LISTS = {"clusters": "NamedCluster", "users": "NamedAuthInfo", "contexts": "NamedContext"}


def kubeconfig_error(local: Path, path: str) -> str | None:
    """The server's text for a file that it cannot use, None if it can; `path` is what the configuration calls it."""
    try:
        node = read_untyped(local.read_bytes(), "v1", "Config")
    except OSError as error:
        return f"error loading config file {quote(path)}: open {path}: {os_reason(error)}"
    except UndecodableError as error:
        return f"error loading config file {quote(path)}: {error}"
    if not isinstance(node, Mapping):
        return _EMPTY
    mismatch = _mismatch(node)
    if mismatch is not None:
        return f"error loading config file {quote(path)}: {mismatch}"
    problems = _problems(plain(node))
    if not problems or problems[0] == _EMPTY:
        return problems[0] if problems else None
    message = problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]"
    return f"invalid configuration: {message}"


def _mismatch(node: Mapping) -> str | None:
    """Return the first invalid list, as Go's JSON decoder reports it."""
    for entry in node.entries:
        if entry.key in _LISTS and not isinstance(entry.value, Sequence) and not _is_null(entry.value):
            go_type = f"Config.{entry.key} of type []v1.{_LISTS[entry.key]}"
            return f"json: cannot unmarshal {json_type(entry.value)} into Go struct field {go_type}"
    return None


def _is_null(node: Node) -> bool:
    return isinstance(node, Scalar) and node.value is None


def _problems(config: JSON) -> list[str]:
    """Return what makes the current context unusable (`ConfirmUsable`)."""
    contexts, clusters = _named(config, "contexts", "context"), _named(config, "clusters", "cluster")
    current = config.get("current-context") or ""
    if not current:
        return [_EMPTY]
    if current not in contexts:
        return [f"context was not found for specified context: {current}", "cluster has no server defined"]
    name = contexts[current].get("cluster") or ""
    cluster = clusters.get(name)
    if not cluster:
        return [_EMPTY]
    return [] if cluster.get("server") else [f"no server found for cluster {quote(name)}"]


def _named(config: JSON, field: str, inner: str) -> dict[str, JSON]:
    entries = (entry for entry in config.get(field) or () if isinstance(entry, dict))
    return {str(entry.get("name") or ""): entry.get(inner) or {} for entry in entries}
