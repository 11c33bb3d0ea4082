"""Random changes of a request at the places that policies read."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

from replay.json import JSON
from replay.kube.schema import Schema
from replay.prove.search.interest import ANY, InterestingValues, PathSteps
from replay.prove.search.skeleton import item_name, least, with_members

_USUAL_TEXTS = ("", "x", "example", "true", "a/b:c", "1")
_PERCENTS = ("50%", "100%", "0%")
_USUAL_NUMBERS = (0, 1, 2, -1, 100)
_MOST_ITEMS = 60


class Variation:
    """Random changes of values. The result shares all unchanged parts with the argument."""

    def __init__(self, interest: InterestingValues, chooser: Random) -> None:
        """`chooser` decides everything. The same chooser makes the same changes."""
        self._chooser = chooser
        self._texts = tuple(interest.texts) or _USUAL_TEXTS
        self._by_field = {name: tuple(texts) for name, texts in interest.by_field.items()}
        self._numbers = tuple(interest.numbers) or _USUAL_NUMBERS
        self._sizes = tuple(int(each) for each in interest.numbers if 0 <= each <= _MOST_ITEMS) or (0, 1, 2)

    def text(self, field: str) -> str:
        """Return a text for a field."""
        own = self._by_field.get(field)
        roll = self._chooser.random()
        if own and roll < 0.7:
            return self._chooser.choice(own)
        return self._chooser.choice(self._texts if roll < 0.95 else _USUAL_TEXTS)

    def number(self) -> int:
        """Return a whole number."""
        return int(self._chooser.choice(self._numbers if self._chooser.random() < 0.85 else _USUAL_NUMBERS))

    def change(self, value: JSON, schema: Schema | None, steps: PathSteps, field: str = "") -> JSON:
        """Return a copy with another value at a path. Missing parts of the path are created."""
        if not steps:
            return self._different_value(value, schema, field)
        if schema is not None and not (schema.fields or schema.items or schema.values or schema.allows_any_field):
            return self._different_value(value, schema, field)
        head, rest = steps[0], steps[1:]
        if head == ANY:
            return self._change_element(value, schema, rest, field)
        return self._change_field(value, schema, head, rest)

    def _change_field(self, value: JSON, schema: Schema | None, name: str, rest: PathSteps) -> JSON:
        copy: dict[str, Any] = dict(value) if isinstance(value, dict) else {}
        if schema is not None and schema.fields and name not in schema.fields:
            return value
        below = None if schema is None else schema.field(name)
        is_required = schema is not None and name in schema.required
        if not is_required and name in copy and self._chooser.random() < (0.25 if not rest else 0.12):
            del copy[name]
            return copy
        if name not in copy:
            copy[name] = _beginning(below, rest)
            if type(copy[name]) is bool:
                copy[name] = self._chooser.random() < 0.5  # changed right below
        copy[name] = self.change(copy[name], below, rest, name)
        return with_members(copy, schema, (name,))

    def _change_element(self, value: JSON, schema: Schema | None, rest: PathSteps, field: str) -> JSON:
        if isinstance(value, dict) or (schema is not None and schema.items is None):
            return self._change_entry(value, schema, rest)
        items = list(value) if isinstance(value, list) else []
        below = None if schema is None else schema.items
        roll = self._chooser.random()
        if items and roll < 0.12:
            del items[self._chooser.randrange(len(items))]
            return items
        if roll < 0.17:
            return self._resized(items, below, self._chooser.choice(self._sizes), field)
        if not items or roll < 0.4:
            items.append(self._fresh(below, items, rest, field))
            at = len(items) - 1
        else:
            at = self._chooser.randrange(len(items))
        items[at] = self.change(items[at], below, rest, field)
        return items

    def _resized(self, items: list[JSON], below: Schema | None, size: int, field: str) -> list[JSON]:
        while len(items) < size:
            items.append(self._fresh(below, items, (), field))
        return items[:size]

    def _fresh(self, below: Schema | None, items: Sequence[JSON], rest: PathSteps, field: str) -> JSON:
        """Return a new item whose name and port differ from those of the other items."""
        sample = _beginning(below, rest)
        if isinstance(sample, dict) and isinstance(sample.get("name"), str):
            sample["name"] = item_name(sample["name"], field, len(items))
        if isinstance(sample, dict) and "containerPort" in sample:
            sample["containerPort"] = 8080 + len(items)
        return sample

    def _change_entry(self, value: JSON, schema: Schema | None, rest: PathSteps) -> JSON:
        copy: dict[str, Any] = dict(value) if isinstance(value, dict) else {}
        below = None if schema is None else schema.values
        if copy and self._chooser.random() < 0.2:
            del copy[self._chooser.choice(sorted(copy))]
            return copy
        is_new = not copy or self._chooser.random() < 0.4
        key = self.text("key") if is_new else self._chooser.choice(sorted(copy))
        copy.setdefault(key, _beginning(below, rest))
        copy[key] = self.change(copy[key], below, rest, key)
        return copy

    def _different_value(self, value: JSON, schema: Schema | None, field: str) -> JSON:  # noqa: PLR0911 - one case a kind
        """Return another value in place of one."""
        if schema is None or (schema.type == "" and not schema.fields):
            return self._any(value, field)
        if schema.format == "int-or-string":
            texts = (self.text(field), self._chooser.choice(_PERCENTS))
            return self.number() if self._chooser.random() < 0.5 else self._chooser.choice(texts)
        if schema.name.endswith("resource.Quantity"):
            return self.text(field)
        match schema.type:
            case "string":
                return self.text(field)
            case "integer":
                return self.number()
            case "number":
                return float(self.number())
            case "boolean":
                return self._chooser.random() < 0.5 if value is None else not value
            case "array":
                return self._other_list(value, schema, field)
        return self._other_map(value, schema)

    def _other_list(self, value: JSON, schema: Schema, field: str) -> JSON:
        if schema.items is not None and schema.items.is_text:
            count = self._chooser.choice((0, 1, 1, 2))
            return [self.text(field) for _ in range(count)]
        return self._change_element(value, schema, (), field)

    def _other_map(self, value: JSON, schema: Schema) -> JSON:
        if schema.values is not None:
            return self._change_entry(value, schema, ())
        if not schema.fields:
            return value if isinstance(value, dict) else {}
        name = self._chooser.choice(sorted(schema.fields))
        if not isinstance(value, dict):
            return least(schema)
        return self._change_field(value, schema, name, ())

    def _any(self, value: JSON, field: str) -> JSON:
        """Return a value where any type is allowed. It mostly has the current type."""
        roll = self._chooser.random()
        if isinstance(value, dict | list) and roll < 0.5:
            return value
        if type(value) is bool and roll < 0.6:
            return not value
        choices: tuple[JSON, ...] = (
            self.text(field),
            self.text(field),
            self.number(),
            self.number(),
            True,
            False,
            None,
            1.5,
            [],
            {},
            [self.text(field)],
        )
        return self._chooser.choice(choices)


def _beginning(schema: Schema | None, rest: PathSteps) -> JSON:
    """Return the initial value of a place before something below it is changed."""
    if schema is not None:
        return least(schema)
    if not rest:
        return None
    return [] if rest[0] == ANY else {}
