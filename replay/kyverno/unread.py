"""Objects that are known but for fields that the server writes and no rule reads."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from replay.json import JSON
from replay.kube.attributes import Missing, PartialObject
from replay.kyverno.rules.go_value import as_map
from replay.kyverno.wildcard import matches_wildcard

_SERVER_WRITTEN: Final = frozenset(
    {
        "resourceVersion",
        "uid",
        "managedFields",
        "generation",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
    }
)
"""The fields of `metadata` that a rule has to name to read, unless it reads all of `metadata`."""
_WHOLE: Final = re.compile(r"\b(?:request|(?:object|oldObject)(?:\.metadata)?)(?![\w.?])")
"""How a rule reads a request, an object or its metadata as a whole."""


class RuleText:
    """What the rules of some policies say, but for their messages, and the keys of their patterns."""

    def __init__(self, policies: Iterable[Mapping[str, Any]]) -> None:
        """`policies` are whole objects."""
        rules = [rule for policy in policies for rule in as_map(policy.get("spec")).get("rules") or ()]
        self._text = json.dumps([_without_messages(rule) for rule in rules])
        self._reads_whole = _WHOLE.search(self._text) is not None
        self._keys = {key for rule in rules for key in _keys(rule) if "*" in key or "?" in key}

    def reads(self, field: str) -> bool:
        """Whether a rule may read a field of `metadata`, or of the request."""
        return self._reads_whole or field in self._text or any(matches_wildcard(key, field) for key in self._keys)

    def known(self, value: JSON | PartialObject | Missing | None) -> JSON | Missing | None:
        """An object without the fields that are not known and not read, or what else is not known of it."""
        if not isinstance(value, PartialObject):
            return value
        obj = dict(value.value)
        metadata = obj.get("metadata")
        if isinstance(metadata, dict):
            unread = {
                name
                for name, part in metadata.items()
                if isinstance(part, Missing) and name in _SERVER_WRITTEN and not self.reads(name)
            }
            obj["metadata"] = {name: part for name, part in metadata.items() if name not in unread}
        return next(iter(_missing(obj)), obj)


def _missing(value: JSON) -> Iterable[Missing]:
    if isinstance(value, Missing):
        yield value
    elif isinstance(value, dict):
        for each in value.values():
            yield from _missing(each)
    elif isinstance(value, list):
        for each in value:
            yield from _missing(each)


def _without_messages(value: JSON) -> JSON:
    if isinstance(value, dict):
        return {key: _without_messages(each) for key, each in value.items() if key != "message"}
    return [_without_messages(each) for each in value] if isinstance(value, list) else value


def _keys(value: JSON) -> Iterable[str]:
    if isinstance(value, dict):
        for key, each in value.items():
            yield key
            yield from _keys(each)
    elif isinstance(value, list):
        for each in value:
            yield from _keys(each)
