"""Data in which a rule looks up its variables (`pkg/engine/context`).

Only `sort_by` changes a value in place, so a checkpoint is a reference to the data at that time. Entries of `context`
are loaded when an expression first names them. An entry loaded at an outer level stays when an inner level ends.
"""

from __future__ import annotations

import re
from contextlib import suppress
from copy import deepcopy
from typing import Any, Protocol

import orjson

from replay.go.format import marshal
from replay.json import JSON
from replay.kyverno.rules.errors import JMESPathError, RuleError
from replay.kyverno.rules.go_value import with_floats
from replay.kyverno.rules.jmespath.interpreter import Library

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
