"""Options, and the objects of connections, as the API server's handlers build them.

Source: `apiserver/pkg/endpoints/handlers`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

from replay.go.format import parse_int
from replay.json import JSON
from replay.kube.attributes import Basis, Missing, Operation
from replay.kube.gvk import GroupVersionKind
from replay.reconstruct.record.exchange import Exchange, query_of
from replay.reconstruct.record.known import Known

_META = "meta.k8s.io/v1"
_TEXT_OPTIONS = ("fieldManager", "fieldValidation")


@lru_cache(maxsize=1024)
def write_options(query_text: str, operation: Operation) -> JSON:
    """Return the CreateOptions or UpdateOptions from the query; patches carry them too (`patchToUpdateOptions`).

    They are shared, because clients repeat their queries.
    """
    kind = "CreateOptions" if operation is Operation.CREATE else "UpdateOptions"
    options: dict[str, JSON] = {"kind": kind, "apiVersion": _META}
    query = query_of(f"?{query_text}")
    if query.get("dryRun"):
        options["dryRun"] = query["dryRun"]
    for name in _TEXT_OPTIONS:
        value = query.get(name, [""])[0]
        if value:
            options[name] = value
    return options


def delete_options(exchange: Exchange) -> JSON | Missing:
    """Return DeleteOptions from the body, or from the query without a body."""
    body_sent = exchange.request.json
    # An unusable body still shows that there was one, so the query does not count.
    if exchange.request.fault:
        return Missing("request.options", exchange.request.fault)
    if body_sent is None and exchange.record.level == "Metadata" and not query_of(exchange.record.request_uri):
        return Missing(
            "request.options",
            "audit level Metadata does not record DeleteOptions",
            "audit this resource at level Request or RequestResponse",
        )
    options: dict[str, JSON] = {"kind": "DeleteOptions", "apiVersion": _META}
    body = body_sent if isinstance(body_sent, dict) else _options_from_query(query_of(exchange.record.request_uri))
    options.update(
        {name: value for name, value in body.items() if name not in ("kind", "apiVersion") and value is not None}
    )
    return options


def _options_from_query(query: Mapping[str, Sequence[str]]) -> dict[str, JSON]:
    """Return the fields of `metav1.DeleteOptions` from a query (`Convert_url_Values_To_v1_DeleteOptions`)."""
    options: dict[str, JSON] = {}
    period = parse_int(query.get("gracePeriodSeconds", [""])[0])
    if period is not None:
        options["gracePeriodSeconds"] = period
    for name in ("orphanDependents", "ignoreStoreReadErrorWithClusterBreakingPotential"):
        if name in query:
            options[name] = _truth(query[name][0])
    if query.get("propagationPolicy", [""])[0]:
        options["propagationPolicy"] = query["propagationPolicy"][0]
    if query.get("dryRun"):
        options["dryRun"] = list(query["dryRun"])
    return options


def _truth(text: str) -> bool:
    """Return a boolean of a query: false for "false" and "0", otherwise true.

    Source: `runtime.Convert_Slice_string_To_bool`.
    """
    return text.lower() not in ("false", "0")


_CONNECT_FIELDS: dict[str, Mapping[str, type]] = {
    "PodExecOptions": {"stdin": bool, "stdout": bool, "stderr": bool, "tty": bool, "container": str, "command": list},
    "PodAttachOptions": {"stdin": bool, "stdout": bool, "stderr": bool, "tty": bool, "container": str},
    "PodPortForwardOptions": {"ports": list},
    "PodProxyOptions": {"path": str},
    "ServiceProxyOptions": {"path": str},
    "NodeProxyOptions": {"path": str},
}
"""Fields of the options kinds (`k8s.io/api/core/v1`), which the query has under their JSON names."""


def connect_object(exchange: Exchange) -> Known | Missing:
    """Return the options object of a CONNECT, built from the query (`handlers.ConnectResource`)."""
    kind = exchange.kind
    fields = _CONNECT_FIELDS.get(kind.kind) if kind else None
    if kind is None or fields is None:
        return Missing("", "the kind of the connection options is not known")
    if not exchange.has_query:
        return Missing("", "the connection options are in the query of the URL, which the log does not have")
    return Known(_connect_options(exchange, kind, fields), Basis.RECORDED)


def _connect_options(exchange: Exchange, kind: GroupVersionKind, fields: Mapping[str, type]) -> JSON:
    options: dict[str, JSON] = {"kind": kind.kind, "apiVersion": kind.api_version}
    query = query_of(exchange.record.request_uri)
    for name, field_type in fields.items():
        values = query.get(name)
        if values is None:
            continue
        if field_type is bool:
            if _truth(values[0]):
                options[name] = True
        elif name == "ports":
            options[name] = [
                number
                for text in values
                for port in text.split(",")
                if (number := parse_int(port, bits=32)) is not None
            ]
        elif field_type is list:
            options[name] = values
        elif values[0]:
            options[name] = values[0]
    if "path" in fields:
        options.update(_proxied_path(exchange))
    return options


def _proxied_path(exchange: Exchange) -> dict[str, JSON]:
    """Return the path after `/proxy`, which the handler puts before the query's `path`."""
    path, marker, rest = exchange.record.request_uri.partition("?")[0].partition("/proxy")
    return {"path": rest} if path and marker and rest else {}
