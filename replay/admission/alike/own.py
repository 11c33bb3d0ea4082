"""An object's own values: its name, the storage's counters, and for a pod the name of the token volume.

Two objects that differ only in these are alike for policies that read none of them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import orjson

from replay.admission.place import ANY, Place
from replay.json import JSON

OWN = ("name", "uid", "resourceVersion", "creationTimestamp", "managedFields")
"""The metadata that are an object's own: nothing of the server but its storage looks at them once they are valid."""
OWN_PLACES: frozenset[Place] = frozenset(("object", "metadata", name) for name in OWN)
_TOKEN = re.compile(rb'"name":"(kube-api-access-[a-z0-9]{5})"')
"""The name of the volume that the ServiceAccount plugin gives each pod (`plugin/pkg/admission/serviceaccount/admission.go`)."""
_OF_TOKENS = b"kube-api-access-"
_A_TOKEN = b'"name":\0'
"""Replacement of the token volume's name. No JSON text contains it."""
TOKEN_PLACES: frozenset[Place] = frozenset(
    {
        ("object", "spec", "volumes", ANY, "name"),
        *(("object", "spec", each, ANY, "volumeMounts", ANY, "name") for each in ("containers", "initContainers")),
    }
)
"""Places of that name."""
_PLAIN = frozenset({"add", "replace", "remove"})
"""JSON patch operations whose effect does not depend on other content."""


class Content(NamedTuple):
    """An object as JSON without its own values, and the removed texts."""

    text: bytes
    own: tuple[bytes, ...]


def content_of(value: dict[str, JSON], own: Sequence[str] = OWN, *, with_token: bool = False) -> Content:
    """An object without the metadata `own`, and unless it is `with_token` without the name of that. Raises TypeError for what JSON has not."""
    metadata = value.get("metadata")
    texts: list[bytes] = []
    if isinstance(metadata, dict):
        texts = [orjson.dumps(name)[1:-1] for each in ("name", "uid") if (name := metadata.get(each))]
        value = {**value, "metadata": {name: each for name, each in metadata.items() if name not in own}}
    text = orjson.dumps(value)
    token = None if with_token or _OF_TOKENS not in text else _TOKEN.search(text)
    if token is None:
        return Content(text, tuple(texts))
    return Content(text.replace(token[0], _A_TOKEN), (*texts, token[1]))


def sets_own(configuration: dict[str, Any]) -> bool:
    """Return whether an apply configuration sets one of the object's own values, or may name the token volume."""
    metadata = configuration.get("metadata")
    return (isinstance(metadata, dict) and not metadata.keys().isdisjoint(OWN)) or _names_token(configuration)


def patches_own(operations: Sequence[dict[str, Any]]) -> bool:
    """Return whether a JSON patch touches one of the object's own values, reads content, or may name the token volume."""
    return any(each["op"] not in _PLAIN or _is_of_own(each["path"]) for each in operations) or _names_token(operations)


def _is_of_own(path: str) -> bool:
    """Return whether a pointer leads to, or above, one of the object's own values."""
    _, *names = path.split("/")
    return not names or (names[0] == "metadata" and (len(names) == 1 or names[1] in OWN))


def _names_token(value: object) -> bool:
    try:
        return _OF_TOKENS in orjson.dumps(value)
    except TypeError:  # values that JSON does not have
        return True
