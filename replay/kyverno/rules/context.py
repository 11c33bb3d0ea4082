"""Data in which a rule looks up its variables (`pkg/engine/context`).

Only `sort_by` changes a value in place, so a checkpoint is a reference to the data at that time. Entries of `context`
are loaded when an expression first names them. An entry loaded at an outer level stays when an inner level ends.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from typing import Any, Protocol
from urllib.parse import unquote

import orjson
from msgspec import Struct

from replay.go.format import marshal, quote
from replay.go.url import URLError, URLPart, clean_path, parse_url, to_bytes, unescape
from replay.json import JSON
from replay.kube.attributes import Missing
from replay.kyverno.rules.go_value import sprint, type_name, with_floats
from replay.kyverno.rules.jmespath.library import Library
from replay.kyverno.rules.response import GoPanicError, JMESPathError, RuleError, UndeterminedError
from replay.kyverno.rules.substitution import substitute

MAX_CONTEXT_BYTES = 2 * 1024 * 1024
"""Maximum size of a rule's context, in bytes (`DefaultMaxContextSize`)."""
_SORTS = "sort_by"
"""Prefix of the function that sorts a list in place. The data is copied before, to protect checkpoints and the request.
"""


class Loader(Protocol):
    """Source of one context entry."""

    @property
    def has_loaded(self) -> bool:
        """Return whether the entry was loaded."""
        ...

    def load(self, context: Context) -> None:
        """Load the entry into the context. Raises RuleError."""
        ...


class _Deferred:
    """Loader that waits until an expression names its entry. `level` is the number of checkpoints at its declaration."""

    def __init__(self, name: str, loader: Loader, level: int) -> None:
        # The name is compared on word boundaries of ASCII, and not behind a dot: `x` is named by `x.y`, not by `y.x`.
        self.pattern = re.compile(rf"(?:\A|\Z|\s|[^.0-9A-Za-z]){re.escape(name)}\b", re.ASCII)
        self.name = name
        self.loader = loader
        self.level = level
        self.matched = False


class Context:
    """Data of one request. `library` evaluates the expressions."""

    def __init__(self, library: Library) -> None:
        """Start with an empty context."""
        self.library = library
        self.raw: dict[str, Any] = {}
        self.operation = ""
        self._checkpoints: list[dict[str, Any]] = []
        self._deferred: list[_Deferred] = []
        self._level = -1
        self._index = -1
        self._size = 0

    def query(self, expression: str) -> JSON:
        """Return the value of an expression. Entries that it names are loaded first. Raises RuleError."""
        self._load_matching(expression)
        expression = expression.strip()
        if not expression:
            raise RuleError("invalid query (nil)")
        try:
            query = self.library.query(expression)
        except JMESPathError as error:
            raise RuleError(f"incorrect query {expression}: {error}") from None
        if _SORTS in expression:
            self.raw = deepcopy(self.raw)
        try:
            return query.search(self.raw)
        except JMESPathError as error:
            raise RuleError(f"JMESPath query failed: {error}") from None

    def put(self, value: JSON, *path: str, overwrite: bool = False) -> None:
        """Merge a value at a path. With `overwrite`, a map replaces the existing map."""
        for key in reversed(path):
            value = {key: value}
        self.raw = _merged(value, self.raw, overwrite=overwrite)

    def set_object(self, obj: JSON, *path: str) -> None:
        """Replace the object at a path."""
        self.raw = _without(self.raw, path)
        self.put(obj, *path)

    def set_operation(self, operation: str) -> None:
        """Set the operation of the request."""
        self.put(operation, "request", "operation")
        self.operation = operation

    def add_entry(self, name: str, data: JSON, *, replacing: bool = False) -> None:
        """Add an entry of the rule's `context`, with numbers as JSON decodes them.

        Raises RuleError above the size limit.
        """
        size = _json_size(data)
        if self._size + size > MAX_CONTEXT_BYTES:
            raise RuleError(
                f"context size limit exceeded: {self._size + size} bytes exceeds limit of {MAX_CONTEXT_BYTES} bytes"
            )
        self._size += size
        if replacing:
            # Without this, keys of an earlier entry with the same name would stay.
            self.put(None, name)
        self.put(with_floats(data), name)

    def checkpoint(self) -> None:
        """Save the current state."""
        self._checkpoints.append(self.raw)

    def reset(self) -> None:
        """Return to the last checkpoint and keep it."""
        self._go_back(restore=False)

    def restore(self) -> None:
        """Return to the last checkpoint and remove it."""
        self._go_back(restore=True)

    def defer(self, name: str, loader: Loader) -> None:
        """Load an entry when an expression first names it."""
        self._deferred.append(_Deferred(name, loader, len(self._checkpoints)))

    def _go_back(self, *, restore: bool) -> None:
        if not self._checkpoints:
            return
        self.raw = self._checkpoints.pop() if restore else self._checkpoints[-1]
        level = len(self._checkpoints)
        kept: list[_Deferred] = []
        deferred, self._deferred = self._deferred, kept
        for each in deferred:
            each.matched = False
        for each in deferred:
            if each.level > level:
                continue
            if each.loader.has_loaded and (restore or each.level < level):
                with suppress(RuleError):  # Kyverno logs it and goes on
                    self._load(each, len(kept))
            if each.level == level and (each.loader.has_loaded or not restore):
                continue
            kept.append(each)

    def _load_matching(self, expression: str) -> None:
        if not self._deferred:
            return
        level = self._level if self._level >= 0 else len(self._checkpoints)
        index = self._index if self._index >= 0 else len(self._deferred)
        while (number := self._next_match(expression, level, index)) is not None:
            self._load(self._deferred[number], number)

    def _next_match(self, expression: str, level: int, index: int) -> int | None:
        for number, each in enumerate(self._deferred[:index]):
            if each.matched or each.loader.has_loaded:
                continue
            if each.level <= level and each.pattern.search(expression):
                each.matched = True
                return number
        return None

    def _load(self, deferred: _Deferred, index: int) -> None:
        """Load one entry, which can use only the entries declared before it."""
        self._level, self._index = deferred.level, index
        try:
            deferred.loader.load(self)
        finally:
            self._level = self._index = -1


def _merged(source: dict[str, Any], target: dict[str, Any], *, overwrite: bool) -> dict[str, Any]:
    result = dict(target)
    for key, value in source.items():
        old = result.get(key)
        both = type(value) is dict and type(old) is dict
        result[key] = _merged(value, old, overwrite=overwrite) if both and old is not None and not overwrite else value
    return result


def _without(data: dict[str, Any], path: tuple[str, ...]) -> dict[str, Any]:
    if path[0] not in data:
        return data
    if len(path) == 1:
        return {key: value for key, value in data.items() if key != path[0]}
    inner = data[path[0]]
    return {**data, path[0]: _without(inner, path[1:])} if type(inner) is dict else data


def _json_size(data: JSON) -> int:
    try:
        return len(orjson.dumps(data))
    except TypeError:
        return len(marshal(data))


# Loaders for a rule's `context`: variables, ConfigMaps, API calls, global entries (`pkg/engine/context/loaders`).

_NOT_FOUND = "the server could not find the requested resource"
"""Error of a raw GET for NotFound. The client does not read the server's message (`rest.Request.DoRaw`)."""
_NAMESPACE_IN_PATH = re.compile(r"/(api|apis)/.*?/namespaces/([^/]+)")


class ClusterReads(Protocol):
    """Cluster reads of rules, at the time of the request."""

    def namespace(self, name: str) -> JSON | Missing | None:
        """Return a Namespace, or None if it does not exist."""
        ...

    def config_map(self, namespace: str, name: str) -> JSON | Missing | None:
        """Return a ConfigMap, or None if it does not exist."""
        ...

    def get_path(self, path: str) -> JSON | Missing | None:
        """Return the API server's answer to a GET of a path, or None for NotFound."""
        ...

    def global_entry(self, name: str, projection: str) -> JSON | Missing | None:
        """Return the data of a GlobalContextEntry or of its projection, or None if there is no such entry."""
        ...


class LoaderSource(Struct, frozen=True):
    """Source of context entries. `policy_namespace` is empty for a ClusterPolicy.

    The other fields reproduce Kyverno's CLI without a cluster. `values` are given in place of entries, by path. Entries
    of the types in `ignored` are not loaded. `answers` are the results of calls by method and URL.
    """

    cluster: ClusterReads
    policy_namespace: str
    values: Sequence[tuple[tuple[str, ...], JSON]] = ()
    ignored: frozenset[str] = frozenset()
    answers: Mapping[tuple[str, str], JSON] = {}


def declare_entries(context: Context, entries: JSON, source: LoaderSource) -> None:
    """Declare the entries of a `context`, which are loaded when an expression first names them. Raises RuleError."""
    for path, value in source.values:
        context.put(value, *path)
    for entry in entries or ():
        name = str(entry.get("name") or "")
        field, kind = next(((field, kind) for field, kind in _KINDS if entry.get(field) is not None), ("", None))
        if kind is None:
            raise RuleError(f"failed to create deferred loader for context entry {name}")
        if field not in source.ignored:
            context.defer(name, kind(name, entry, source))


class _Loader:
    """Loader that fetches its data once and adds it to each context that asks."""

    def __init__(self, name: str, entry: Mapping[str, Any], source: LoaderSource) -> None:
        self.name = name
        self.entry = entry
        self.source = source
        self.has_loaded = False

    def load(self, context: Context) -> None:
        """See `Loader.load`."""
        raise NotImplementedError


class _VariableLoader(_Loader):
    """Loader of `variable`: a value, an expression or a default."""

    def load(self, context: Context) -> None:
        variable = self.entry["variable"]
        output = self._output(context, variable)
        if output is None:
            raise RuleError(f"failed to add context entry for variable {self.name} since it evaluated to nil")
        self.has_loaded = True
        # Only a variable replaces an entry of the same name. Other kinds are merged into it.
        context.add_entry(self.name, output, replacing=True)

    def _output(self, context: Context, variable: Mapping[str, Any]) -> JSON:
        path = ""
        if variable.get("jmesPath"):
            path = self._substituted(context, variable["jmesPath"], variable["jmesPath"])
            if not isinstance(path, str):
                raise RuleError(f"jmespath value must be a string {self.name} {variable['jmesPath']}: <nil>")
        default = None
        if variable.get("default") is not None:
            shown = sprint(with_floats(variable["default"]))
            default = self._substituted(context, with_floats(variable["default"]), shown)
        if variable.get("value") is not None:
            value = with_floats(variable["value"])
            value = self._substituted(context, value, sprint(value))
            return self._of_value(context, path, value, default) if path else value
        if not path:
            return default
        try:
            found = context.query(path)
        except RuleError as error:
            if default is None:
                raise RuleError(f"failed to apply jmespath {path} to variable <nil>: {error}") from None
            return default
        return default if found is None else found

    def _of_value(self, context: Context, path: str, value: JSON, default: JSON) -> JSON:
        try:
            return _applied(context, path, value)
        except RuleError as error:
            if default is None:
                raise RuleError(f"failed to apply jmespath {path} to variable <nil>: {error}") from None
            return default

    def _substituted(self, context: Context, document: JSON, shown: str) -> JSON:
        try:
            return substitute(context, document)
        except RuleError as error:
            raise RuleError(f"failed to substitute variables in context entry {self.name} {shown}: {error}") from None


def _applied(context: Context, path: str, value: JSON) -> JSON:
    try:
        query = context.library.query(path)
    except JMESPathError as error:
        raise RuleError(f"failed to compile JMESPath: {path}, error: {error}") from None
    return query.search(value)


class _ConfigMapLoader(_Loader):
    """Loader of `configMap`: its data and metadata. A namespaced policy reads only its own namespace."""

    _data: JSON = None

    def load(self, context: Context) -> None:
        if self._data is None:
            try:
                self._data = self._fetched(context)
            except RuleError as error:
                raise RuleError(f"failed to retrieve config map for context entry {self.name}: {error}") from None
            self.has_loaded = True
        try:
            context.add_entry(self.name, self._data)
        except RuleError as error:
            raise RuleError(f"failed to add config map for context entry {self.name}: {error}") from None

    def _fetched(self, context: Context) -> JSON:
        name = self._text(context, "name")
        namespace = self._text(context, "namespace")
        own = self.source.policy_namespace
        namespace = namespace or own or "default"
        if own and namespace != own:
            raise RuleError(
                f"context entry {self.name}: configMap namespace {quote(namespace)} "
                f"is different from policy namespace {quote(own)}"
            )
        config_map = self.source.cluster.config_map(namespace, name)
        if isinstance(config_map, Missing):
            raise UndeterminedError(f"ConfigMap {namespace}/{name}: {config_map.reason}")
        if config_map is None:
            raise RuleError(f"failed to get configmap {namespace}/{name} : configmaps {quote(name)} not found")
        return {"data": config_map.get("data"), "metadata": config_map.get("metadata") or {}}

    def _text(self, context: Context, field: str) -> str:
        written = self.entry["configMap"].get(field) or ""
        place = f"failed to substitute variables in context {self.name} configMap.{field} {written}"
        try:
            text = substitute(context, written)
        except RuleError as error:
            raise RuleError(f"{place}: {error}") from None
        if not isinstance(text, str):
            raise RuleError(f"{place}: expected string, got {type_name(text)}")
        return text


class _APICallLoader(_Loader):
    """Loader of `apiCall`: a plain GET of the API server. Calls of services and POSTs are undetermined."""

    _data: JSON = None
    _is_default = False

    def load(self, context: Context) -> None:
        if not self.has_loaded:
            try:
                self._data = self._fetched(context)
            except RuleError as error:
                raise RuleError(f"failed to fetch data for APICall: {error}") from None
            self.has_loaded = True
        try:
            self._store(context)
        except RuleError as error:
            raise RuleError(f"failed to store data for APICall: {error}") from None

    def _fetched(self, context: Context) -> JSON:
        call = self.entry["apiCall"]
        written = call.get("urlPath") or ""
        try:
            call = substitute(context, with_floats(call))
        except RuleError as error:
            raise RuleError(f"failed to substitute variables in context entry {self.name} {written}: {error}") from None
        path = str(call.get("urlPath") or "")
        method = call.get("method") or "GET"
        answers, url = self.source.answers, str((call.get("service") or {}).get("url") or path)
        for key in ((method, url), ("", url)):
            if key in answers:
                return answers[key]
        self._check_namespace(path)
        if not path:
            raise UndeterminedError(f"context entry {self.name} calls an external service")
        if method != "GET" or call.get("data"):
            raise UndeterminedError(f"context entry {self.name} sends data to {path}")
        try:
            parse_url(path)
        except URLError as error:
            return self._failed(path, str(error))
        answer = self.source.cluster.get_path(path)
        if isinstance(answer, Missing):
            raise UndeterminedError(f"{path}: {answer.reason}")
        return self._failed(path, _NOT_FOUND) if answer is None else answer

    def _failed(self, path: str, reason: str) -> JSON:
        """Return the default of a GET that failed. Raises RuleError without one."""
        default = self.entry["apiCall"].get("default")
        if default is None:
            raise RuleError(f"failed to GET resource with raw url: {path}: {reason}")
        self._is_default = True
        return default

    def _check_namespace(self, path: str) -> None:
        own = self.source.policy_namespace
        if not own:
            return
        # `..` cannot lead into another namespace. A path with a bad escape is taken as written: no server takes it.
        try:
            unescape(to_bytes(path), URLPart.PATH)
        except URLError:
            clean = clean_path(path)
        else:
            clean = clean_path(unquote(path))
        match = _NAMESPACE_IN_PATH.match(clean)
        if match is None:
            raise RuleError(
                f"path {clean} does not contain a namespace segment, which is required for namespaced policies"
            )
        if match[2] != own:
            raise RuleError(
                f"path {clean} refers to namespace {match[2]}, which is different from the policy namespace {own}"
            )

    def _store(self, context: Context) -> None:
        written = self.entry["apiCall"].get("jmesPath") or ""
        if self._is_default or not written:
            context.add_entry(self.name, self._data)
            return
        try:
            path = substitute(context, written)
        except RuleError as error:
            raise RuleError(
                f"failed to substitute variables in context entry {self.name} JMESPath {written}: {error}"
            ) from None
        if not isinstance(path, str):
            raise GoPanicError(f"interface conversion: interface {{}} is {type_name(path)}, not string")
        try:
            results = context.library.query(path).search(with_floats(self._data))
        except RuleError as error:
            raise RuleError(f"failed to apply JMESPath {path} for context entry {self.name}: {error}") from None
        context.add_entry(self.name, results)


class _GlobalReferenceLoader(_Loader):
    """Loader of `globalReference`: the data of a GlobalContextEntry."""

    def load(self, context: Context) -> None:
        if self.source.policy_namespace:
            raise RuleError(f"context entry {self.name}: globalReference is not allowed in namespaced policies")
        try:
            data = self._fetched(context)
        except RuleError as error:
            raise RuleError(f"failed to marshal APICall data for context entry {self.name}: {error}") from None
        self.has_loaded = True
        context.add_entry(self.name, data)

    def _fetched(self, context: Context) -> JSON:
        reference = substitute(context, with_floats(self.entry["globalReference"]))
        name, _, projection = str(reference.get("name") or "").partition(".")
        data = self.source.cluster.global_entry(name, projection.partition(".")[0])
        if isinstance(data, Missing):
            raise UndeterminedError(f"GlobalContextEntry {name}: {data.reason}")
        if data is None:
            raise RuleError(f"failed to fetch entry key={name}")
        path = reference.get("jmesPath") or ""
        if not path:
            return data
        try:
            return context.library.query(path).search(with_floats(data))
        except RuleError as error:
            raise RuleError(f"failed to apply JMESPath {path} for context entry {self.name}: {error}") from None


class _ImageRegistryLoader(_Loader):
    """Loader of `imageRegistry`, always undetermined: registries are never contacted."""

    def load(self, context: Context) -> None:  # noqa: ARG002 - see `Loader.load`
        raise UndeterminedError(f"context entry {self.name} reads from an image registry")


_KINDS: tuple[tuple[str, type[_Loader]], ...] = (
    ("configMap", _ConfigMapLoader),
    ("apiCall", _APICallLoader),
    ("globalReference", _GlobalReferenceLoader),
    ("imageRegistry", _ImageRegistryLoader),
    ("variable", _VariableLoader),
)
"""Loaders by field, in the order in which Kyverno looks for the fields."""
