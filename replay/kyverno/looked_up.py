"""Kinds of cluster objects that the policies of a set read: by API calls, global context entries and CEL calls."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import orjson

from replay.json import JSON
from replay.kube.attributes import Missing, PartialObject
from replay.kube.discovery import Discovery, builtin_discovery
from replay.kube.gvk import GroupVersionKind
from replay.kube.lister import Lister
from replay.kyverno.rules.go_value import as_map
from replay.kyverno.rules.webhook import RulePolicy
from replay.kyverno.wildcard import matches_wildcard

Kind = tuple[str, str]
"""Group and kind."""

_VARIABLE: Final = re.compile(r"\{\{.*?\}\}", re.DOTALL)
_CALL: Final = re.compile(r"""resource\s*\.\s*(?:Get|List)\(\s*(['"])([^'"]+)\1\s*,\s*(['"])([^'"]+)\3""")
_SOME: Final = "\0"


def looked_up(objects: Iterable[Mapping[str, Any]]) -> frozenset[Kind]:
    """Return the kinds that policies and global entries name. A kind given by a variable is not found."""
    found: set[tuple[str, str]] = set()
    for obj in objects:
        found.update(_resources(obj))
        text = orjson.dumps(obj.get("spec")).decode().replace('\\"', '"').replace("\\n", "\n")
        for match in _CALL.finditer(text):
            found.add((match[2].rpartition("/")[0], match[4].partition("/")[0]))
    discovery: Discovery = builtin_discovery()
    return frozenset(
        (each.kind.group, each.kind.kind)
        for each in discovery
        if (each.resource.group, each.resource.resource) in found
    )


def _resources(value: JSON) -> Iterator[tuple[str, str]]:
    """Yield the group and resource of each API call and of each GlobalContextEntry."""
    if isinstance(value, dict):
        path = value.get("urlPath")
        if isinstance(path, str) and (place := _place(path)) is not None:
            yield place
        selected = as_map(value.get("kubernetesResource"))
        if selected:
            yield str(selected.get("group") or ""), str(selected.get("resource") or "")
        for each in value.values():
            yield from _resources(each)
    elif isinstance(value, list):
        for each in value:
            yield from _resources(each)


def _place(path: str) -> tuple[str, str] | None:
    """Return the group and resource of an API path, or None if a variable may change them."""
    parts = [part for part in _VARIABLE.sub(_SOME, path).partition("?")[0].split("/") if part]
    if parts[:1] == ["api"]:
        group, rest = "", parts[2:]
    elif parts[:1] == ["apis"] and len(parts) > 1:
        group, rest = parts[1], parts[3:]
    else:
        return None
    rest = rest[2:] if rest[:1] == ["namespaces"] and len(rest) > 2 else rest
    return (group, rest[0]) if rest and _SOME not in group + rest[0] else None


class LookedUpLister:
    """Lister that knows only the kinds that were read from the log because a policy names them."""

    def __init__(self, origin: Lister, kinds: frozenset[Kind]) -> None:
        """Limit `origin` to `kinds`. Objects of any other kind were not read from the log, so they are unknown."""
        self.origin = origin
        self._kinds = kinds

    def get(self, kind: GroupVersionKind, namespace: str, name: str) -> JSON | Missing | None:
        """See `Lister.get`."""
        return self._unread(kind) or self.origin.get(kind, namespace, name)

    def list(self, kind: GroupVersionKind, namespace: str | None) -> Sequence[JSON] | Missing:
        """See `Lister.list`."""
        return self._unread(kind) or self.origin.list(kind, namespace)

    def _unread(self, kind: GroupVersionKind) -> Missing | None:
        if (kind.group, kind.kind) in self._kinds:
            return None
        return Missing(kind.kind, f"no policy names the kind {kind.kind} literally, so replay did not read its objects")


# Objects whose unknown fields are written by the server and read by no rule.

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

    def known_parts(self, request: Mapping[str, Any]) -> dict[str, JSON] | Missing:
        """Return the objects and options of a request without unknown parts, or an unknown part that a rule may read."""
        parts = {name: self.known(request.get(name)) for name in ("object", "oldObject", "options")}
        if isinstance(parts["options"], Missing) and not self.reads("options"):
            parts["options"] = None
        return next((part for part in parts.values() if isinstance(part, Missing)), parts)

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


class RuleTexts:
    """Texts of policies and of their exceptions, each read once."""

    def __init__(self, exceptions: Sequence[Mapping[str, Any]]) -> None:
        """`exceptions` are whole objects."""
        self._exceptions = exceptions
        self._made: dict[tuple[int, ...], RuleText] = {}

    def of(self, policies: Sequence[RulePolicy]) -> RuleText:
        """Return the text of these policies, which tells which fields they read."""
        key = tuple(map(id, policies))
        if key not in self._made:
            self._made[key] = RuleText((each.policy for each in policies), self._exceptions)
        return self._made[key]


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
