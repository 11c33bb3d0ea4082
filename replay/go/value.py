"""Values of Go types that JSON lacks, between CEL and structured merge."""

from __future__ import annotations

from msgspec import Struct

from replay.json import JSON


class GoValue(Struct, frozen=True):
    """A value of a Go type that is none of JSON's: `text` is how Go prints it, `json` how encoding/json writes it.

    `json` is None where encoding/json refuses the type. `syntax` is what `%#v` prints, empty where that is `text`.
    """

    go_type: str
    text: str
    json: JSON = None
    syntax: str = ""

    def __str__(self) -> str:
        """Format with `%v`."""
        return self.text
