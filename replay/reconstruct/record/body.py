"""A body of the log: JSON text that is decoded when somebody reads it, and once."""

from __future__ import annotations

from enum import Enum
from functools import cache

import orjson

from replay.json import JSON, decode_json
from replay.kube.gvk import GroupVersionKind


class Shape(Enum):
    """What a response body is, compared with the kind of the requested object."""

    ABSENT = "absent"
    OBJECT = "object"
    OTHER_VERSION = "other version"
    PARTIAL_METADATA = "PartialObjectMetadata"
    LIST = "list"
    OTHER = "other"


class Body:
    """One body; `json` is None where there is none or it is not JSON (cut by the API server's size limit)."""

    __slots__ = ("_json", "text")

    def __init__(self, text: str | None) -> None:
        """Keep the text."""
        self.text = text
        self._json: JSON = ...

    @property
    def json(self) -> JSON:
        """The decoded body."""
        if self._json is ...:
            self._json = None
            if self.text:
                try:
                    self._json = decode_json(self.text)
                except orjson.JSONDecodeError:
                    self._json = None
        return self._json

    @property
    def metadata(self) -> dict[str, JSON]:
        """`metadata` of the body, empty where it has none."""
        body = self.json
        metadata = body.get("metadata") if isinstance(body, dict) else None
        return metadata if isinstance(metadata, dict) else {}

    def shape(self, kind: GroupVersionKind | None) -> Shape:
        """What the body is, for a request whose object is of `kind` (None: a kind that is not known)."""
        if self._json is ... and self.text and kind is not None and self.text.startswith(_beginning(kind)):
            return Shape.OBJECT
        body = self.json
        if not isinstance(body, dict):
            return Shape.ABSENT
        of, api_version = body.get("kind"), body.get("apiVersion")
        if of == "PartialObjectMetadata":
            return Shape.PARTIAL_METADATA
        if isinstance(body.get("items"), list):
            return Shape.LIST
        if kind is None or of != kind.kind:
            return Shape.OTHER
        return Shape.OBJECT if api_version == kind.api_version else Shape.OTHER_VERSION


@cache
def _beginning(kind: GroupVersionKind) -> str:
    """How the JSON of a built-in object begins, whose Go type has `kind` and `apiVersion` first."""
    return f'{{"kind":"{kind.kind}","apiVersion":"{kind.api_version}",'


def revision(metadata: JSON) -> int | None:
    """`resourceVersion` as the number that etcd's revision is, None where there is none (KEP-5504: comparable)."""
    text = metadata.get("resourceVersion") if isinstance(metadata, dict) else None
    return int(text) if isinstance(text, str) and text.isdecimal() and text != "0" else None
