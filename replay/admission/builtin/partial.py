"""Partly known objects for plugins: reading an unknown part raises, any other use does not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NoReturn

from replay.kube.attributes import Missing


class UnknownInputError(Exception):
    """A plugin read an unknown value."""

    def __init__(self, missing: Missing) -> None:
        """Keep the unknown part and the reason in `missing`."""
        super().__init__(missing.reason)
        self.missing = missing


class _UnknownItem:
    """Unknown list item. Any use of it raises UnknownInputError."""

    def __init__(self, missing: Missing) -> None:
        self.missing = missing

    def _raise(self, *_: object) -> NoReturn:
        raise UnknownInputError(self.missing)

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):  # what copies look for
            raise AttributeError(name)
        raise UnknownInputError(self.missing)

    def __deepcopy__(self, memo: object) -> _UnknownItem:
        return self

    __getitem__ = __setitem__ = __delitem__ = __iter__ = __len__ = __contains__ = __bool__ = __str__ = __hash__ = _raise
    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __int__ = __float__ = __index__ = __format__ = _raise
    __add__ = __radd__ = __sub__ = __rsub__ = __or__ = __ror__ = __call__ = _raise


class _PartialMap(dict[str, Any]):
    """A map with unknown entries: it is unknown even whether these entries exist."""

    def _check(self, key: Any) -> None:
        # The methods of `dict` are called directly, because those of this class would raise.
        entry: object = dict.get(self, key)
        if isinstance(entry, Missing):
            raise UnknownInputError(entry)

    def _check_all(self) -> None:
        for value in dict.values(self):
            if isinstance(value, Missing):
                raise UnknownInputError(value)

    def get(self, key: str, default: Any = None) -> Any:
        self._check(key)
        return dict.get(self, key, default)

    def __getitem__(self, key: str) -> Any:
        self._check(key)
        return dict.__getitem__(self, key)

    def __contains__(self, key: object) -> bool:
        self._check(key)
        return dict.__contains__(self, key)

    def setdefault(self, key: str, default: Any = None) -> Any:
        self._check(key)
        return dict.setdefault(self, key, default)

    def pop(self, key: str, *default: Any) -> Any:
        self._check(key)
        return dict.pop(self, key, *default)

    def __iter__(self) -> Any:
        self._check_all()
        return dict.__iter__(self)

    def __len__(self) -> int:
        self._check_all()
        return dict.__len__(self)

    def __bool__(self) -> bool:
        # One known entry makes the map non-empty, whatever the unknown entries are.
        return any(not isinstance(value, Missing) for value in dict.values(self)) or bool(len(self))

    def __eq__(self, other: object) -> bool:
        self._check_all()
        return dict.__eq__(self, other)

    # `dict` has a `!=` of its own, which would not check.
    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = None

    def __or__(self, other: Any) -> Any:
        self._check_all()
        return dict.__or__(self, other)

    def __ror__(self, other: Any) -> Any:
        self._check_all()
        return dict.__ror__(self, other)

    def copy(self) -> Any:
        return _PartialMap(self.items_or_missing())

    def items_or_missing(self) -> Any:
        """Return all entries; unknown ones are `Missing`."""
        return dict.items(self)

    def keys(self) -> Any:
        self._check_all()
        return dict.keys(self)

    def values(self) -> Any:
        self._check_all()
        return dict.values(self)

    def items(self) -> Any:
        self._check_all()
        return dict.items(self)


def guarded(value: Any) -> Any:
    """Return a copy in which reading an unknown value raises UnknownInputError."""
    if isinstance(value, dict):
        inner = {key: each if isinstance(each, Missing) else guarded(each) for key, each in value.items()}
        return _PartialMap(inner) if _holds_missing(inner.values()) else inner
    if isinstance(value, list):
        return [_UnknownItem(each) if isinstance(each, Missing) else guarded(each) for each in value]
    return value


def replaced(value: dict[str, Any], changes: Mapping[str, Any], removed: Iterable[str] = ()) -> dict[str, Any]:
    """Return a copy of a map with changed and removed entries. Unknown values stay guarded."""
    gone = frozenset(removed)
    entries = {**{key: each for key, each in dict.items(value) if key not in gone}, **changes}
    return _PartialMap(entries) if _holds_missing(entries.values()) else entries


def unguarded(value: Any) -> Any:
    """Return the plain value again, with `Missing` as leaves."""
    if isinstance(value, dict):
        return {key: unguarded(each) for key, each in dict.items(value)}
    if isinstance(value, list):
        return [unguarded(each) for each in value]
    return value.missing if isinstance(value, _UnknownItem) else value


def require_known(value: Any) -> None:
    """Raise UnknownInputError if a part of a value is unknown."""
    if isinstance(value, Missing):
        raise UnknownInputError(value)
    inner = dict.values(value) if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
    for each in inner:
        require_known(each)


def _holds_missing(values: Iterable[object]) -> bool:
    return any(isinstance(each, Missing) for each in values)
