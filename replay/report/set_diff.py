"""The difference of two manifest sets as text, Markdown and JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from replay.json import JSON
from replay.manifests.object_diff import FieldDiff, ObjectDiff, Verb

_SIGNS = {Verb.ADDED: "+", Verb.REMOVED: "-"}
NO_DIFFERENCE = "the sets do not differ"


def diff_text(differences: Sequence[ObjectDiff]) -> Iterator[str]:
    """Yield terminal lines: an object, then its fields. Long values get their own lines."""
    for each in differences:
        renamed = f" to {each.new_name}" if each.new_name else ""
        yield f"{_SIGNS.get(each.verb, '~')} {each.kind}/{each.name} {each.verb.value}{renamed}"
        for field in each.fields:
            yield from _field_text(field)
    if not differences:
        yield NO_DIFFERENCE


def _field_text(field: FieldDiff) -> Iterator[str]:
    short = len(field.old) + len(field.new) < 80 and "\n" not in field.old + field.new
    if short and field.old and field.new:
        yield f"    {field.field} {field.verb.value}: {field.old} -> {field.new}"
    elif short or not field.old:
        yield f"    {field.field}{'' if field.verb is Verb.ADDED else ' ' + field.verb.value}: {field.new or field.old}"
    else:
        yield f"    {field.field} {field.verb.value}:"
        for sign, text in (("-", field.old), ("+", field.new)):
            for line in text.splitlines():
                yield f"      {sign} {line}"


def diff_markdown(differences: Sequence[ObjectDiff]) -> Iterator[str]:
    """A list for a pull request."""
    if not differences:
        yield NO_DIFFERENCE.capitalize() + "."
    for each in differences:
        renamed = f" to `{each.new_name}`" if each.new_name else ""
        yield f"- **{each.verb.value}** {each.kind} `{each.name}`{renamed}"
        for field in each.fields:
            values = " → ".join(_code(text) for text in (field.old, field.new) if text)
            yield f"  - `{field.field}` {field.verb.value}: {values}"


def _code(text: str) -> str:
    """A code span on one line; backticks inside need more around them."""
    line = " ".join(text.split())
    fence = "`"
    while fence in line:
        fence += "`"
    pad = " " if fence != "`" else ""
    return f"{fence}{pad}{line}{pad}{fence}"


def diff_json(differences: Sequence[ObjectDiff]) -> list[JSON]:
    """Plain JSON: `kind`, `name`, `change`, `newName`, and the `fields` with `before` and `after`."""
    return [
        {
            "kind": each.kind,
            "name": each.name,
            "change": each.verb.value,
            **({"newName": each.new_name} if each.new_name else {}),
            "fields": [
                {"field": field.field, "change": field.verb.value, "before": field.old, "after": field.new}
                for field in each.fields
            ],
        }
        for each in differences
    ]
