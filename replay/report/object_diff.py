"""Two states of an object as a unified diff of YAML, the way `kubectl diff` readers know it."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import SequenceMatcher

import yaml

from replay.json import JSON
from replay.report.render.document import inert

CONTEXT = 2
_Dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


def object_diff(old_value: JSON, new_value: JSON) -> str:
    """Return the differences with a few lines of context. Each hunk starts with its field path."""
    old, new = _lines(old_value), _lines(new_value)
    matcher = SequenceMatcher(None, old, new, autojunk=False)
    return "\n".join(line for hunk in matcher.get_grouped_opcodes(CONTEXT) for line in _hunk(hunk, old, new))


def _hunk(opcodes: list[tuple[str, int, int, int, int]], old: list[str], new: list[str]) -> Iterator[str]:
    first = next(opcode for opcode in opcodes if opcode[0] != "equal")
    yield f"@@ {_path(new, first[3]) if first[0] == 'insert' else _path(old, first[1])} @@"
    for tag, old_start, old_end, new_start, new_end in opcodes:
        if tag == "equal":
            yield from (f"  {line}" for line in old[old_start:old_end])
        else:
            yield from (f"- {line}" for line in old[old_start:old_end])
            yield from (f"+ {line}" for line in new[new_start:new_end])


def _path(lines: list[str], at: int) -> str:
    """Return the fields that enclose a line: the less indented lines above it."""
    enclosing: list[str] = []
    depth = _depth(lines[at]) if at < len(lines) else 0
    for line in reversed(lines[:at]):
        if depth and _depth(line) < depth:
            depth = _depth(line)
            enclosing.append(line.strip().removeprefix("- ").partition(":")[0])
    return " > ".join(reversed(enclosing)) or "the object"


def _depth(line: str) -> int:
    """Return a line's indentation. List items are below their field."""
    text = line.lstrip(" ")
    return 2 * (len(line) - len(text)) + text.startswith("- ")


def _lines(value: JSON) -> list[str]:
    text: str = yaml.dump(
        value, Dumper=_Dumper, sort_keys=True, default_flow_style=False, allow_unicode=True, width=10_000
    )
    return [inert(line) for line in text.splitlines()]
