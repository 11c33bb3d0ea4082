"""One record, parsed: resource, kind, query, bodies."""

from __future__ import annotations

from functools import lru_cache
from urllib.parse import parse_qs

from replay.audit.event import RequestRecord
from replay.kcp.user import scoped_user
from replay.kube.discovery import Discovery
from replay.kube.gvk import GroupVersionKind, GroupVersionResource, split_api_version
from replay.reconstruct.record.body import Body, BodyShape

CONNECT_SUBRESOURCES = frozenset({"exec", "attach", "portforward", "proxy"})
"""Subresources whose requests are CONNECT for any verb (`apiserver/pkg/endpoints/installer.go`, `rest.Connecter`)."""

NOT_THE_OBJECT = frozenset({"binding", "eviction", "token", "scale", "log", *CONNECT_SUBRESOURCES})
"""Subresources with bodies of their own kind. Others have the parent object."""


_DELETIONS = frozenset({"delete", "deletecollection"})


class Exchange:
    """A record with everything that follows from it alone; bodies are decoded on demand.

    `resource` is the requested resource, `api_resource` what discovery says of it, and `parent_kind` its kind, None if neither discovery nor a body tells it.
    `kind` is the one that admission sees (`Scale` for `deployments/scale`). `succeeded` says that the API server
    answered with success, `is_connect` that admission sees a CONNECT. `concerns_parent` says that the bodies are the
    object itself, and not the kind of a subresource. `dry_run` says that nothing was to be stored. `shape` is the form
    of a successful response, compared with `kind`, and `ABSENT` for other requests. `has_query` is false in logs of other
    APIs, which have neither the query nor the whole user. `namespace` and `user` are those that admission sees.
    """

    __slots__ = (
        "api_resource",
        "concerns_parent",
        "dry_run",
        "has_query",
        "is_connect",
        "kind",
        "namespace",
        "parent_kind",
        "record",
        "request",
        "resource",
        "response",
        "shape",
        "succeeded",
        "user",
    )

    def __init__(self, record: RequestRecord, discovery: Discovery, *, checked: bool = False) -> None:
        """Look the resource up. An unknown resource gets its kind from the bodies. For `checked` see `Body`."""
        self.record = record
        self.resource = _resource(record.api_group, record.api_version, record.resource)
        self.request = Body(record.request_object, "request", checked)
        self.response = Body(record.response_object, "response", checked)
        # A Namespace is its own namespace (`request.RequestInfoFactory`, `createHandler`).
        is_namespace = record.resource == "namespaces" and not record.api_group
        self.namespace = record.name or record.namespace if is_namespace else record.namespace
        self.user = scoped_user(record.user, record.workspace) if record.scoped else record.user
        self.succeeded = 200 <= record.code < 300
        self.is_connect = record.subresource in CONNECT_SUBRESOURCES
        self.concerns_parent = record.subresource not in NOT_THE_OBJECT
        discovery = discovery.in_workspace(record.workspace) if record.workspace else discovery
        self.api_resource = known = discovery.resource(self.resource)
        self.parent_kind = known.kind if known is not None else self._kind_in_bodies()
        kind = known.subresources.get(record.subresource) if record.subresource and known is not None else None
        # Subresources such as `status` have the kind of their parent.
        self.kind = kind or (self.parent_kind if self.concerns_parent else None)
        # Only a deletion can ask for a dry run in its body. Hardly any does, so that no body is decoded for this.
        is_asked_in_body = record.verb in _DELETIONS and "dryRun" in (record.request_object or "")
        may_be_dry_run = is_asked_in_body or "dryRun" in record.request_uri
        self.dry_run = may_be_dry_run and is_dry_run(record.request_uri, record.verb, self.request)
        self.has_query = not record.user.missing
        self.shape = self.response.shape(self.kind) if self.succeeded else BodyShape.ABSENT

    def _kind_in_bodies(self) -> GroupVersionKind | None:
        """Return the kind that a body tells of a resource that discovery does not know."""
        for body in (self.response.json, self.request.json) if self.concerns_parent else ():
            if isinstance(body, dict) and split_api_version(str(body.get("apiVersion"))) == self.resource[:2]:
                return GroupVersionKind(*self.resource[:2], str(body.get("kind")))
        return None


def is_dry_run(request_uri: str, verb: str, request: Body) -> bool:
    """Return whether nothing was to be stored.

    A deletion with a body has its options only there (`handlers.DeleteResource`).
    """
    if verb in _DELETIONS and isinstance(request.json, dict):
        return bool(request.json.get("dryRun"))
    return "dryRun" in request_uri and bool(query_of(request_uri).get("dryRun"))


def query_of(request_uri: str) -> dict[str, list[str]]:
    """Return the query of a request URI."""
    return _parsed(request_uri.partition("?")[2]) if "?" in request_uri else {}


@lru_cache(maxsize=1024)
def _resource(group: str, version: str, resource: str) -> GroupVersionResource:
    """Return a resource, shared because most requests are about few of them."""
    return GroupVersionResource(group, version, resource)


@lru_cache(maxsize=1024)
def _parsed(text: str) -> dict[str, list[str]]:
    """Return a parsed query string, shared because clients repeat theirs."""
    return parse_qs(text.partition("#")[0], keep_blank_values=True)
