"""`jsonpatch.escapeKey` (apiserver `pkg/cel/library/jsonpatch.go`; RFC 6901, section 3)."""

from __future__ import annotations

from replay.cel.declare.library import Function, Library, Overload
from replay.cel.value.types import STRING
from replay.cellib.library.cost import argument_estimate, first_traversal

_ESCAPES = str.maketrans({"/": "~1", "~": "~0"})


def escape_key(key: str) -> str:
    """A key as one segment of a JSON pointer."""
    return key.translate(_ESCAPES)


JSONPATCH = Library(
    name="kubernetes.jsonpatch",
    functions=(
        Function(
            "jsonpatch.escapeKey",
            (
                Overload(
                    "string_jsonpatch_escapeKey_string",
                    (STRING,),
                    STRING,
                    implementation=escape_key,
                    cost=first_traversal,
                    estimate=argument_estimate(sized=True),
                ),
            ),
        ),
    ),
)
"""`jsonpatch.escapeKey`."""
