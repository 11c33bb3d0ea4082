"""Inputs changed at random: events, cluster objects and manifests with fields of other types, depths, sizes and names.

Everything follows from the random numbers given, so that a seed tells which input failed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from random import Random
from typing import Any

import orjson

Document = dict[str, Any]

_RAW = "raw-text-goes-here"
_TOO_DEEP = (40, 240, 260, 1100, 5000)
_VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 7, 2**31, 2**63, 2**64 - 1, 1.5, -0.0, 1e308),
    *(
        "",
        "x",
        " ",
        "0",
        "null",
        "*",
        "a/b",
        "../..",
        "'; drop table request; --",
        "\x00",
        "\x1b[31m",
        "\u202e",
        "é" * 300,
    ),
    *("2026-11-21T03:03:00Z", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "1Gi", "-1m", "1e400", "x" * 70_000),
    *(
        [],
        {},
        [None],
        [[]],
        [{}],
        {"": ""},
        {"a": 1},
        ["x", 1, None, {}],
        {"metadata": "x"},
        {"name": [1]},
        {"key": None},
    ),
)
_TEXTS = ("1e999", "-", "NaN", "01", "1" * 400, '"\\ud800"', '{"a":1,"a":2}', '"\\u0000"')


def changed_lines(random: Random, documents: Sequence[Document], chosen: Sequence[int]) -> list[bytes]:
    """All documents as JSON lines, those chosen changed; a changed one may be no JSON, or several lines."""
    lines = [orjson.dumps(document) for document in documents]
    for index in chosen:
        lines[index] = _changed_text(random, changed(random, documents[index], documents))
    return lines


def changed(random: Random, document: Document, others: Sequence[Document]) -> tuple[Document, str]:
    """A copy with one to three changes, and the text that stands where a changed value is `_RAW`."""
    copied: Document = orjson.loads(orjson.dumps(document))
    raw = ""
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        raw = _change(random, copied, others) or raw
    return copied, raw


def _changed_text(random: Random, found: tuple[Document, str]) -> bytes:
    document, raw = found
    text = orjson.dumps(document).replace(f'"{_RAW}"'.encode(), raw.encode())
    if random.random() < 0.06:
        return random.choice(_BROKEN)(random, text)
    return text


def _cut(random: Random, text: bytes) -> bytes:
    return text[: random.randrange(len(text))]


def _garbled(random: Random, text: bytes) -> bytes:
    at = random.randrange(len(text))
    return text[:at] + random.randbytes(3).replace(b"\n", b"") + text[at:]


def _twice(_: Random, text: bytes) -> bytes:
    return text + b"\n" + text


def _marked(_: Random, text: bytes) -> bytes:
    return b"\xef\xbb\xbf" + text


_BROKEN: tuple[Callable[[Random, bytes], bytes], ...] = (_cut, _garbled, _twice, _marked)


def _change(random: Random, document: Document, others: Sequence[Document]) -> str:
    """Change one place in a document; returns the text that is to replace `_RAW` there, if any."""
    holder, key = _place(random, document)
    kind = random.random()
    if kind < 0.55:
        holder[key] = deepcopy(random.choice(_VALUES))
    elif kind < 0.65:
        del holder[key]
    elif kind < 0.75:
        _rename(random, holder, key)
    elif kind < 0.82:
        holder[key] = _grown(random, holder[key])
    elif kind < 0.90:
        _, other_key = (other := _place(random, random.choice(others)))
        holder[key] = deepcopy(other[0][other_key])
    else:
        holder[key] = _RAW
        return _deep(random) if kind < 0.96 else random.choice(_TEXTS)
    return ""


def _place(random: Random, document: Document) -> tuple[Any, Any]:
    """A container and a key of it; the deeper, the more of the way down it is."""
    holder: Any = document
    while True:
        key = random.choice(list(holder)) if isinstance(holder, dict) else random.randrange(len(holder))
        inner = holder[key]
        if not isinstance(inner, dict | list) or not inner or random.random() < 0.15:
            return holder, key
        holder = inner


def _rename(random: Random, holder: Any, key: Any) -> None:
    if isinstance(holder, dict):
        holder[random.choice((key.upper(), key + "x", "", "metadata", "spec", "$patch", "kind", "\x00"))] = holder.pop(
            key
        )
    else:
        holder.insert(key, deepcopy(holder[key]))


def _grown(random: Random, value: Any) -> Any:
    many = random.choice((2, 300, 3000))
    match value:
        case str():
            return value * many
        case list():
            return value * many
        case dict():
            return {**value, **{f"key-{number}": next(iter(value.values()), None) for number in range(many)}}
        case int() | float():
            return value * many % 2**63
    return [deepcopy(value) for _ in range(many)]


def _deep(random: Random) -> str:
    levels, form = random.choice(_TOO_DEEP), random.randrange(3)
    if form == 0:
        return "[" * levels + "]" * levels
    if form == 1:
        return '{"a":' * levels + "{}" + "}" * levels
    return '[{"spec":' * levels + "null" + "}]" * levels
