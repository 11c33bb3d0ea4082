"""Objects whose unknown fields are written by the server and read by no rule."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from replay.json import JSON
from replay.kube.attributes import Missing, PartialObject
from replay.kyverno.rules.go_value import as_map
from replay.kyverno.wildcard import matches_wildcard

_MATCHED: Final = frozenset({"name", "generateName", "namespace", "labels"})
"""Fields of `metadata` that `match` reads. To read others, a rule has to name them, or all of `metadata`."""
_TYPE: Final = frozenset({"apiVersion", "kind", "metadata"})
"""Fields that `match` reads of each object."""
_WHOLE: Final = re.compile(r"\b(?:request|element\d*|(?:object|oldObject)(?:\.metadata)?)(?![\w.?])|@(?![\w.?])|\.\*")
"""Expressions that read a request, an object, `metadata` or another part as a whole."""
_PATHS: Final = re.compile(r"[\w.\[\]\s,|`]*")
"""Lists of `foreach` that are paths alone. A rule reads of their elements what it says about `element`."""
_ADDED: Final = frozenset({"template", "jobTemplate"})
"""Path elements that generated rules for pod controllers have and the written rule lacks."""


class RuleText:
    """Text of the rules and exceptions of policies without messages, and the keys of their patterns."""

    def __init__(self, policies: Iterable[Mapping[str, Any]], exceptions: Iterable[Mapping[str, Any]] = ()) -> None:
        """Read the rules of whole policies and exceptions."""
        rules = [rule for policy in policies for rule in as_map(policy.get("spec")).get("rules") or ()]
        rules += [as_map(each.get("spec")) for each in exceptions]
        self._text = json.dumps([_without_messages(rule) for rule in rules])
        self._without_lists = json.dumps([_without_messages(rule, drops_lists=True) for rule in rules])
        self._reads_whole = _WHOLE.search(self._text) is not None
        keys = {key for rule in rules for key in _keys(rule)}
        self._patterns = {key for key in keys if "*" in key or "?" in key}
        self._reads_specs = bool(keys & {"podSecurity", "cel"})

    def reads(self, *path: str) -> bool:
        """Return whether a rule may read a path: it names each part, or reads a containing part as a whole."""
        if self._reads_whole or any(matches_wildcard(key, name) for key in self._patterns for name in path):
            return True
        named = [name for name in path if name not in _ADDED]
        return all(name in self._text for name in named) or any(map(self._takes_whole, named[:-1]))

    def _takes_whole(self, name: str) -> bool:
        """Return whether an expression reads a whole field: it ends with the field, or does not continue with a part."""
        return re.search(rf"\b{re.escape(name)}(?:\[[^\[\]]*\])*(?!\w|[.?\[]|\)?\":)", self._without_lists) is not None

    def known(self, value: JSON | PartialObject | Missing | None) -> JSON | Missing | None:
        """Return an object without its unknown fields, or `Missing` if a rule may read one of them."""
        return self._known(value.value, ()) if isinstance(value, PartialObject) else value

    def _known(self, value: JSON, path: tuple[str, ...]) -> JSON | Missing:
        if isinstance(value, list):
            items = [self._known(each, path) for each in value]
            return next((each for each in items if isinstance(each, Missing)), items)
        if not isinstance(value, dict):
            return value
        made = {}
        for name, part in value.items():
            found = self._known(part, (*path, name))
            if not isinstance(found, Missing):
                made[name] = found
            elif found is not part or self._may_read(path, name):
                return found
        return made

    def _may_read(self, path: tuple[str, ...], name: str) -> bool:
        """Return whether a rule or its match may read a field."""
        if path == ("metadata",):
            return name in _MATCHED or (self._reads_specs and name == "annotations") or self.reads(name)
        if not path and name in _TYPE:
            return True
        return self._reads_specs or "metadata" in path or self.reads(*path, name)


def _without_messages(value: JSON, *, drops_lists: bool = False) -> JSON:
    if isinstance(value, list):
        return [_without_messages(each, drops_lists=drops_lists) for each in value]
    if not isinstance(value, dict):
        return value
    dropped = {"message"}
    if drops_lists and _PATHS.fullmatch(str(value.get("list"))):
        dropped.add("list")
    return {key: _without_messages(each, drops_lists=drops_lists) for key, each in value.items() if key not in dropped}


def _keys(value: JSON) -> Iterable[str]:
    if isinstance(value, dict):
        for key, each in value.items():
            yield key
            yield from _keys(each)
    elif isinstance(value, list):
        for each in value:
            yield from _keys(each)
