"""Selection of a command: policies, namespaces, users, a period."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, tzinfo

from msgspec import Struct

_GRAMMAR = (
    ("policy", "policies"),
    ("namespace", "namespaces"),
    ("user", "users"),
    ("workspace", "workspaces"),
)


class Focus(Struct, frozen=True):
    """The selection; empty means everything. Namespaces and users may have `*` and `?`; times are the user's texts."""

    policies: tuple[str, ...] = ()
    namespaces: tuple[str, ...] = ()
    users: tuple[str, ...] = ()
    since: str | None = None
    until: str | None = None
    zone: tzinfo = UTC
    workspaces: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """Return the selection in words; empty for everything."""
        kinds = (self.policies, self.namespaces, self.users, self.workspaces)
        restrictions = [
            f"{words[len(each) > 1]} {', '.join(each)}" for words, each in zip(_GRAMMAR, kinds, strict=True) if each
        ]
        restrictions += [f"{word} {each}" for word, each in (("since", self.since), ("until", self.until)) if each]
        return f"only {'; '.join(restrictions)}" if restrictions else ""

    @property
    def notes(self) -> Iterator[str]:
        """Yield notes for a partial replay."""
        if self.text:
            yield f"{self.text}: all else was left out, and what would follow from it is not told apart"
        if self.policies:
            yield "policies that were left out and validate are taken to admit everything"
