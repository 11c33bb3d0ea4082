"""Values of Go types that JSON lacks, between CEL and structured merge."""

from __future__ import annotations

from msgspec import Struct

from replay.json import JSON


class GoValue(Struct, frozen=True):
    """Value of a Go type that JSON lacks. `text` is how Go prints it, `json` how encoding/json writes it.

    `json` is None if encoding/json refuses the type. `syntax` is the result of `%#v`, empty if it equals `text`.
    """

    go_type: str
    text: str
    json: JSON = None
    syntax: str = ""

    def __str__(self) -> str:
        """Return the result of `%v`."""
        return self.text
