"""Place in the object of a request: how CEL reads it, and what the schema says about it."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Final

from msgspec import Struct

from replay.kube.schema import Encoding, Schema
from replay.kyverno.migrate.formula import Formula, UnsaidError, compared

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_KEYWORDS: Final = frozenset(
    [
        "as",
        "break",
        "const",
        "continue",
        "else",
        "false",
        "for",
        "function",
        "if",
        "import",
        "in",
        "let",
        "loop",
        "null",
        "package",
        "return",
        "true",
        "var",
        "void",
        "while",
    ]
)
_QUANTITY: Final = ".api.resource.Quantity"


class Type(StrEnum):
    """Types of values that the translation distinguishes."""

    OBJECT = "object"
    LIST = "array"
    TEXT = "string"
    QUANTITY = "quantity"
    INTEGER = "integer"
    BOOLEAN = "boolean"
    INTEGER_OR_TEXT = "int-or-string"


class Place(Struct, frozen=True):
    """Place in an object. `plain` is the expression of its value, `optional` that of an optional or of a present value.

    `schemas` are the place's schemas in the kinds that a rule matches.
    """

    optional: str
    plain: str
    schemas: tuple[Schema, ...]
    path: str = ""
    is_there: bool = False

    @property
    def type(self) -> Type:
        """Type of the value. Raises UnsaidError if it is unknown or differs between kinds."""
        types = {_type(schema) for schema in self.schemas}
        known = types.pop() if len(types) == 1 else None
        if known is None:
            raise UnsaidError(f"the type of {self.path or 'the object'} is not known")
        return known

    def field(self, name: str) -> Place:
        """Return the place of a field. Raises UnsaidError if no kind has the field."""
        path = f"{self.path}.{name}".lstrip(".")
        found = [each for schema in self.schemas if (each := schema.field(name)) is not None]
        if not found:
            raise UnsaidError(f"the schema does not have {path}")
        if _IDENTIFIER.fullmatch(name) and name not in _KEYWORDS:
            optional, plain = f"{self.optional}.?{name}", f"{self.plain}.{name}"
        else:
            quoted = name.replace("\\", "\\\\").replace("'", "\\'")
            optional, plain = f"{self.optional}[?'{quoted}']", f"{self.plain}['{quoted}']"
        return Place(optional, plain, tuple(found), path)

    def item(self, name: str) -> Place:
        """Return the place of a list item, which CEL calls `name`."""
        found = tuple(each for schema in self.schemas if (each := schema.items) is not None)
        return Place(name, name, found, f"{self.path}[]", is_there=True)

    @property
    def exists(self) -> Formula:
        """Condition that the field is present, even if it is null."""
        return Formula(f"{self.optional}.hasValue()")

    @property
    def has_value(self) -> Formula:
        """Condition that the field is present and not null."""
        return compared(self.optional if self.is_there else f"{self.optional}.orValue(null)", "!=", "null")

    def default(self, text: str) -> str:
        """Return the value, or `text` if the field is absent."""
        return self.plain if self.is_there else f"{self.optional}.orValue({text})"

    def requires(self, name: str) -> bool:
        """Return whether every object of the API has the field."""
        return all(
            name in schema.required or ((field := schema.field(name)) is not None and field.encoding is Encoding.ALWAYS)
            for schema in self.schemas
        )


def _type(schema: Schema) -> Type | None:
    if schema.int_or_string:
        return Type.INTEGER_OR_TEXT
    if schema.name.endswith(_QUANTITY):
        return Type.QUANTITY
    if schema.preserve_unknown_fields and not schema.fields:
        return None
    return Type(schema.type) if schema.type in set(Type) else None


def singular(name: str, taken: int) -> str:
    """Return the CEL name of a list's item. `taken` is the number of enclosing lists."""
    name = name.removesuffix("s") if _IDENTIFIER.fullmatch(name) and name.endswith("s") else "item"
    if name in _KEYWORDS or name in ("object", "oldObject", "request", "variable", "int", "string", "type"):
        name = "item"
    return f"{name}{taken + 1}" if taken else name
