"""One record taken apart: resource, kind, query, bodies."""

from __future__ import annotations

from functools import cached_property
from urllib.parse import parse_qs, urlsplit

from replay.audit.event import RequestRecord
from replay.kube.discovery import Discovery
from replay.kube.gvk import GroupVersionKind, GroupVersionResource, split_api_version
from replay.reconstruct.body import Body, Shape

CONNECT_SUBRESOURCES = frozenset({"exec", "attach", "portforward", "proxy"})
"""Subresources whose requests are CONNECT, whatever the verb (`apiserver/pkg/endpoints/installer.go`, `rest.Connecter`)."""

NOT_THE_OBJECT = frozenset({"binding", "eviction", "token", "scale", "log", *CONNECT_SUBRESOURCES})
"""Subresources whose bodies are of a kind of their own; those of all others are the parent object."""


class Exchange:
    """A record with what follows from it alone; bodies are decoded when they are read."""

    def __init__(self, record: RequestRecord, discovery: Discovery) -> None:
        """Look the resource up; a resource that is not known takes its kind from the bodies."""
        self.record = record
        self.resource = GroupVersionResource(record.api_group, record.api_version, record.resource)
        self.request = Body(record.request_object)
        self.response = Body(record.response_object)
        self._discovery = discovery

    @cached_property
    def parent_kind(self) -> GroupVersionKind | None:
        """The kind of the resource itself, None if neither discovery nor a body tells it."""
        api_resource = self._discovery.resource(self.resource)
        if api_resource is not None:
            return api_resource.kind
        if self.record.subresource in NOT_THE_OBJECT:
            return None
        for body in (self.response.json, self.request.json):
            if isinstance(body, dict) and split_api_version(str(body.get("apiVersion"))) == self.resource[:2]:
                return GroupVersionKind(self.resource.group, self.resource.version, str(body.get("kind")))
        return None

    @cached_property
    def kind(self) -> GroupVersionKind | None:
        """The kind that admission names for the request (`Scale` for `deployments/scale`)."""
        if not self.record.subresource:
            return self.parent_kind
        known = self._discovery.kind(self.resource, self.record.subresource)
        if known is not None:
            return known
        return self.parent_kind if self.record.subresource not in NOT_THE_OBJECT else None

    @cached_property
    def query(self) -> dict[str, list[str]]:
        """The query of the request URI."""
        uri = self.record.request_uri
        return parse_qs(urlsplit(uri).query, keep_blank_values=True) if "?" in uri else {}

    @cached_property
    def dry_run(self) -> bool:
        """Whether nothing was to be stored: `dryRun` in the query or, for a deletion, in its options."""
        if "dryRun" in self.record.request_uri and self.query.get("dryRun"):
            return True
        if self.record.verb not in ("delete", "deletecollection"):
            return False
        options = self.request.json
        return isinstance(options, dict) and bool(options.get("dryRun"))

    @cached_property
    def shape(self) -> Shape:
        """What the response is, compared with the kind of the request."""
        return self.response.shape(self.kind)

    @property
    def succeeded(self) -> bool:
        """Whether the API server answered with success."""
        return 200 <= self.record.code < 300

    @property
    def is_connect(self) -> bool:
        """Whether admission sees a CONNECT."""
        return self.record.subresource in CONNECT_SUBRESOURCES

    @property
    def concerns_parent(self) -> bool:
        """Whether the bodies are the object of the history itself, not a kind of a subresource."""
        return self.record.subresource not in NOT_THE_OBJECT
