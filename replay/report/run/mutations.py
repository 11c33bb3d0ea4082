"""Mutations in the report of `replay run`: which policy changes what, and how that affects validation.

Two states of an object are shown as a unified diff of YAML, as in `kubectl diff`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from difflib import SequenceMatcher

import orjson
import yaml

from replay.compare.effect import CAUSED, MutationConsequence
from replay.compare.outcome import MUTATIONS, WORDS, OutcomeKind
from replay.compare.summary import Cell, CellKey, Summary
from replay.json import JSON
from replay.report.render.document import (
    Align,
    Column,
    Listing,
    Section,
    Table,
    Tone,
    inert,
    number,
    plural,
    without_empty,
)
from replay.report.run.views import CellItems, Group, cells_with, counted, grouped

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


FEW_ROWS, FEW_EXAMPLES, MOST_EXAMPLES = 8, 3, 12
MOST_LINES = 60
"""Maximum number of lines of a diff that are shown."""


def mutation_sections(summary: Summary, rows: int, where: Callable[[str], str] = str) -> Iterator[Section]:
    """Yield the sections with at most `rows` rows a table. `where` returns the file and line of a policy."""
    if section := _mutated(summary, rows, where):
        yield section
    if section := _chains(summary, rows):
        yield section


def mutation_groups(summary: Summary) -> list[Group]:
    """Return groups by outcome, policy and changed paths, the largest first. Labels are `outcome NUL policy NUL paths`."""
    return grouped(cells_with(summary, *MUTATIONS), _changes)


def _mutated(summary: Summary, rows: int, where: Callable[[str], str]) -> Section | None:
    cells = cells_with(summary, *MUTATIONS)
    if not cells:
        return None
    groups = mutation_groups(summary)
    columns = (
        Column("what"),
        Column("policy", Align.CODE),
        Column("change", Align.CODE),
        Column("direct", Align.NUMBER),
        Column("consequences", Align.NUMBER),
        Column("workloads", Align.NUMBER, optional=True),
        Column("where", Align.ID, optional=True),
    )
    shown = tuple(
        (
            *_words(group.label),
            number(group.requests),
            number(group.consequences),
            number(len(group.workloads)),
            where(group.label.split("\0")[1]),
        )
        for group in groups[:rows]
    )
    listings = _examples(summary, groups, FEW_EXAMPLES if rows <= FEW_ROWS else MOST_EXAMPLES)
    count, follows = counted(cells)
    lead = f"{plural(count, 'request')} would be mutated differently. `change` lists the paths of the patch without values."
    if follows:
        lead += f" Another {number(follows)} change as a consequence."
    also = summary.also_mutated[OutcomeKind.NEWLY_DENIED]
    if also:
        lead += f" {plural(also, 'denied request')} would also be mutated before validation."
    table = without_empty(Table("mutations", "", columns, shown, len(groups)))
    return Section("newly-mutated", _title(cells), lead, (table, *listings), Tone.WARN)


def _title(cells: CellItems) -> str:
    """Return the title: the outcome if all are equal, otherwise a general one."""
    kinds = {key.outcome for key, _ in cells}
    return WORDS[kinds.pop()].capitalize() if len(kinds) == 1 else "Mutations"


def _words(label: str) -> tuple[str, str, str]:
    outcome, policy, shape = label.split("\0")
    return WORDS[OutcomeKind(outcome)], inert(policy), inert(shape)


def _changes(key: CellKey) -> Iterator[str]:
    for policy, shape in zip(key.policies, key.shapes, strict=True):
        yield f"{key.outcome}\0{policy}\0{', '.join(shape)}"


def _examples(summary: Summary, groups: list[Group], most: int) -> tuple[Listing, ...]:
    """Return an object before and after, for the largest groups, each object once."""
    listings: dict[str, Listing] = {}
    for group in groups:
        if len(listings) == most or not group.examples:
            break  # the others are consequences
        example, key = group.examples[0]
        name = f"{key.namespace}/{example.name}" if key.namespace else example.name
        change = summary.changes.groups.get((key.outcome, key.policies, key.shapes))
        if change is not None:
            caption, text = change.about, object_diff(change.current, change.candidate)
        else:
            caption, text = f"{example.operation} {key.resource} {name} by {key.user}", ""
        text = text or "\n".join(inert(orjson.dumps(operation).decode()) for operation in example.patch)
        caption = inert(f"{WORDS[key.outcome]} by {', '.join(key.policies)}, for example {caption}")
        listings.setdefault(caption, Listing(caption, _shortened(text)))
    return tuple(listings.values())


def _shortened(text: str) -> str:
    lines = text.split("\n")
    if len(lines) <= MOST_LINES:
        return text
    return "\n".join([*lines[:MOST_LINES], f"… and {plural(len(lines) - MOST_LINES, 'more line')}"])


def chain_cells(summary: Summary) -> list[tuple[MutationConsequence, tuple[Cell, Cell]]]:
    """Return each mutation that decides a validation, with its direct findings and its consequences."""
    chains = sorted({chain._replace(follows=False) for chain in summary.chains})
    cells = summary.chains
    return [(chain, (cells.get(chain, Cell()), cells.get(chain._replace(follows=True), Cell()))) for chain in chains]


def _chains(summary: Summary, rows: int) -> Section | None:
    if not summary.chains:
        return None
    chains = sorted(chain_cells(summary), key=lambda item: (item[0].effect, -item[1][0].count, item[0]))
    columns = (
        Column("what"),
        Column("mutated by", Align.CODE),
        Column("policy that denies", Align.CODE),
        Column("direct", Align.NUMBER),
        Column("consequences", Align.NUMBER),
        Column("outcome"),
        Column("message", optional=True),
    )
    shown = tuple(
        (
            "denied because of the mutation" if chain.effect == CAUSED else "admitted because of the mutation",
            inert(", ".join(chain.mutators)),
            inert(chain.policy),
            number(root.count),
            number(other.count),
            chain.outcome.replace("_", " "),
            inert((root.examples or other.examples)[0].messages[0]),
        )
        for chain, (root, other) in chains[:rows]
    )
    lead = "Validation sees the mutated object. The mutation causes or prevents the denial of these requests."
    table = Table("chains", "", columns, shown, len(chains))
    return Section("chains", "Mutations that decide a validation", lead, (table,), Tone.WARN)
