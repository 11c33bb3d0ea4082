"""One record, parsed: resource, kind, query, bodies."""

from __future__ import annotations

from functools import lru_cache
from urllib.parse import parse_qs

from replay.audit.event import RequestRecord
from replay.kube.discovery import APIResource, Discovery
from replay.kube.gvk import GroupVersionKind, GroupVersionResource, split_api_version
from replay.reconstruct.record.body import Body, BodyShape

CONNECT_SUBRESOURCES = frozenset({"exec", "attach", "portforward", "proxy"})
"""Subresources whose requests are CONNECT with any verb (`apiserver/pkg/endpoints/installer.go`, `rest.Connecter`)."""

NOT_THE_OBJECT = frozenset({"binding", "eviction", "token", "scale", "log", *CONNECT_SUBRESOURCES})
"""Subresources with bodies of their own kind. Others have the parent object."""


class Exchange:
    """A record with what follows from it alone; bodies are decoded when they are read.

    `resource` is the requested one; `succeeded` tells whether the API server answered with success; `is_connect` whether
    admission sees a CONNECT; `concerns_parent` whether the bodies are the object of the history itself, not a kind of a
    subresource.
    """

    __slots__ = (
        "_discovery",
        "_dry_run",
        "_kind",
        "_parent_kind",
        "_query",
        "_shape",
        "concerns_parent",
        "is_connect",
        "record",
        "request",
        "resource",
        "response",
        "succeeded",
    )

    def __init__(self, record: RequestRecord, discovery: Discovery, *, checked: bool = False) -> None:
        """Look the resource up; a resource that is not known takes its kind from the bodies. `checked` as for `Body`."""
        self.record = record
        self.resource = GroupVersionResource(record.api_group, record.api_version, record.resource)
        self.request = Body(record.request_object, "request", checked=checked)
        self.response = Body(record.response_object, checked=checked)
        self.succeeded = 200 <= record.code < 300
        self.is_connect = record.subresource in CONNECT_SUBRESOURCES
        self.concerns_parent = record.subresource not in NOT_THE_OBJECT
        self._discovery = discovery = discovery.of(record.workspace) if record.workspace else discovery
        self._parent_kind: GroupVersionKind | None = discovery.kind(self.resource)
        self._kind: GroupVersionKind | None = None
        self._query: dict[str, list[str]] | None = None
        self._dry_run: bool | None = None
        self._shape: BodyShape | None = None

    @property
    def parent_kind(self) -> GroupVersionKind | None:
        """The kind of the resource itself, None if neither discovery nor a body tells it."""
        if self._parent_kind is None and self.concerns_parent:
            for body in (self.response.json, self.request.json):
                if isinstance(body, dict) and split_api_version(str(body.get("apiVersion"))) == self.resource[:2]:
                    self._parent_kind = GroupVersionKind(*self.resource[:2], str(body.get("kind")))
                    break
        return self._parent_kind

    @property
    def kind(self) -> GroupVersionKind | None:
        """The kind that admission names for the request (`Scale` for `deployments/scale`)."""
        if self._kind is None:
            subresource = self.record.subresource
            kind = self._discovery.kind(self.resource, subresource) if subresource else None
            self._kind = kind or (self.parent_kind if self.concerns_parent else None)
        return self._kind

    @property
    def api_resource(self) -> APIResource | None:
        """Return the resource in the discovery, None if unknown."""
        return self._discovery.resource(self.resource)

    @property
    def query(self) -> dict[str, list[str]]:
        """The query of the request URI."""
        if self._query is None:
            uri = self.record.request_uri
            self._query = query_of(uri)
        return self._query

    @property
    def dry_run(self) -> bool:
        """Whether nothing was to be stored: `dryRun` in the query or, for a deletion, in its options."""
        if self._dry_run is None:
            self._dry_run = is_dry_run(self.record.request_uri, self.record.verb, self.request)
        return self._dry_run

    @property
    def shape(self) -> BodyShape:
        """What the response is, compared with the kind of the request."""
        if self._shape is None:
            self._shape = self.response.shape(self.kind)
        return self._shape


def is_dry_run(request_uri: str, verb: str, request: Body) -> bool:
    """Whether nothing was to be stored; a deletion with a body has its options there alone (`handlers.DeleteResource`)."""
    if verb in ("delete", "deletecollection") and isinstance(request.json, dict):
        return bool(request.json.get("dryRun"))
    return "dryRun" in request_uri and bool(query_of(request_uri).get("dryRun"))


def query_of(request_uri: str) -> dict[str, list[str]]:
    """The query of a request URI."""
    return _parsed(request_uri.partition("?")[2]) if "?" in request_uri else {}


@lru_cache(maxsize=1024)
def _parsed(text: str) -> dict[str, list[str]]:
    """Return a parsed query string, shared because clients repeat theirs."""
    return parse_qs(text.partition("#")[0], keep_blank_values=True)
