"""Output about sets, as text, Markdown and JSON: of `replay diff`, and of conversions.

`replay diff` compares two manifest sets, pairs of policies, or the two sources of a template. Conversions are `replay
convert` (static manifests) and `replay check --migrate` (CEL policies).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import to_builtins

from replay.case.exported import yaml_text
from replay.compare.policy_pairs import PairComparison, SourceAnswers, SourceComparison
from replay.json import JSON
from replay.manifests.convert import Conversion
from replay.manifests.engine_object import Migrated
from replay.manifests.object_diff import FieldDiff, ObjectDiff, Verb
from replay.report.render.document import inert, number, plural

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


_SCREEN = 40
"""Maximum number of lines of a first screen."""
_FIRST = (Verb.CHANGED, Verb.ADDED, Verb.REMOVED)
"""Changes that stand first on the first screen: a rename seldom matters."""


def diff_screen(differences: Sequence[ObjectDiff]) -> Iterator[str]:
    """Yield the whole text if it fits on a screen, else a count and a line for each object."""
    lines = list(diff_text(differences))
    if len(lines) <= _SCREEN:
        yield from lines
        return
    counts = Counter(each.verb for each in differences)
    kinds = ", ".join(f"{number(count)} {verb.value}" for verb, count in counts.most_common())
    yield f"{plural(len(differences), 'object')} differ: {kinds}."
    order = sorted(differences, key=lambda each: _FIRST.index(each.verb) if each.verb in _FIRST else len(_FIRST))
    most = _SCREEN - 5
    for each in order[:most]:
        head = next(diff_text([each]))
        fields = f" ({plural(len(each.fields), 'field')})" if each.fields else ""
        yield f"  {head}{fields}"
    if len(order) > most:
        yield f"  … and {number(len(order) - most)} more"
    yield ""
    yield "Next steps"
    yield "  replay diff … --full  every field, with its old and new value"


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
    """Yield a list for a pull request."""
    if not differences:
        yield NO_DIFFERENCE.capitalize() + "."
    for each in differences:
        renamed = f" to `{each.new_name}`" if each.new_name else ""
        yield f"- **{each.verb.value}** {each.kind} `{each.name}`{renamed}"
        for field in each.fields:
            values = " → ".join(_code_span(text) for text in (field.old, field.new) if text)
            yield f"  - `{field.field}` {field.verb.value}: {values}"


def _code_span(text: str) -> str:
    """Return a code span on one line. Backticks inside need more backticks around them."""
    line = " ".join(text.split())
    fence = "`"
    while fence in line:
        fence += "`"
    pad = " " if fence != "`" else ""
    return f"{fence}{pad}{line}{pad}{fence}"


def diff_json(differences: Sequence[ObjectDiff]) -> list[JSON]:
    """Return plain JSON: `kind`, `name`, `change`, `newName`, and the `fields` with `before` and `after`."""
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


_WIDTH = 160


def pairs_text(compared: Sequence[PairComparison], *, code: str = "") -> Iterator[str]:
    """Yield the answer, then each differing pair with an example request. `code` is the quote around names."""
    differing = [each for each in compared if each.differs]
    yield f"{number(len(differing))} of {plural(len(compared), 'pair')} of policies decide requests of the log differently."
    for each in compared:
        if each.differs or each.undetermined:
            yield ""
            yield inert(f"{each.pair.title}{f' (paired by {each.pair.guessed})' if each.pair.guessed else ''}")
            yield f"  both deny {plural(each.both, 'request')}, {number(each.undetermined)} undetermined"
        for title, witnesses in (("baseline", each.old_only), ("candidate", each.new_only)):
            if witnesses:
                first = witnesses[0]
                yield f"  only the {title} denies {plural(len(witnesses), 'request')}, for example"
                yield f"    {code}{inert(first.request)}{code} ({inert(first.id)})"
                yield f"    {code}{_short(first.message)}{code}"


def _short(message: str) -> str:
    text = inert(" ".join(message.split()))
    return text if len(text) <= _WIDTH else f"{text[: _WIDTH - 1]}…"


def pairs_json(compared: Sequence[PairComparison]) -> JSON:
    """Return every pair with all its witnesses."""
    return [{**to_builtins(each), "differs": each.differs} for each in compared]


_ALLOWED = "allowed"


def sources_text(result: SourceComparison, rows: int = 20) -> Iterator[str]:
    """Yield lines for a terminal: the answer, then at most `rows` requests of each kind."""
    yield _verdict(result)
    for title, answers in _groups(result):
        yield ""
        yield f"{title}:"
        for each in answers[:rows]:
            yield f"  {inert(each.request)} ({inert(each.id)})"
            yield from (f"    {line}" for line in _answer_text(each))
        if len(answers) > rows:
            yield f"  … and {number(len(answers) - rows)} more (--format json lists all)"


def sources_markdown(result: SourceComparison, rows: int = 20) -> Iterator[str]:
    """Yield lines for a pull request: the answer, then at most `rows` requests of each kind."""
    yield _verdict(result)
    for title, answers in _groups(result):
        yield ""
        yield f"**{title}**"
        yield ""
        for each in answers[:rows]:
            yield f"- {_inert_code(each.request)} ({_inert_code(each.id)})"
            yield from (f"  - {_inert_code(line)}" for line in _answer_text(each))
        if len(answers) > rows:
            yield f"- … and {number(len(answers) - rows)} more"


def sources_json(result: SourceComparison) -> JSON:
    """Return the comparison as plain values."""
    return {
        "templates": list(result.templates),
        "requests": result.requests,
        "deniedAlike": result.denied,
        "decidedOtherwise": [_value(each) for each in result.differing],
        "deniedWithOtherMessages": [_value(each) for each in result.reworded],
        "undetermined": [
            {"id": each.id, "request": each.request, "reason": each.unknown} for each in result.undetermined
        ],
    }


def _value(each: SourceAnswers) -> JSON:
    return {"id": each.id, "request": each.request, "rego": list(each.rego), "cel": list(each.cel)}


def _verdict(result: SourceComparison) -> str:
    names = ", ".join(result.templates)
    asked = f"{inert(names)}: Rego and CEL decide"
    alike = f"{plural(result.denied, 'request')} denied by both with the same message"
    if not result.differing:
        return f"{asked} {plural(result.requests, 'request')} alike. {alike}."
    return f"{asked} {number(len(result.differing))} of {plural(result.requests, 'request')} differently. {alike}."


def _groups(result: SourceComparison) -> Iterator[tuple[str, Sequence[SourceAnswers]]]:
    """Yield the groups of differing requests that are not empty."""
    groups = (
        ("Rego denies, CEL allows", [each for each in result.differing if each.rego]),
        ("CEL denies, Rego allows", [each for each in result.differing if each.cel]),
        ("Both deny, with other messages", result.reworded),
        ("Undetermined", result.undetermined),
    )
    yield from ((f"{title}: {plural(len(answers), 'request')}", answers) for title, answers in groups if answers)


def _answer_text(each: SourceAnswers) -> Iterator[str]:
    if each.unknown:
        yield inert(each.unknown)
        return
    yield f"Rego: {inert('; '.join(each.rego)) or _ALLOWED}"
    yield f"CEL:  {inert('; '.join(each.cel)) or _ALLOWED}"


def _inert_code(text: str) -> str:
    return f"`{' '.join(inert(text).replace('`', chr(39)).split())}`"


def conversion_lines(
    conversion: Conversion, paths: Sequence[Path], configuration: Path | None, server_directory: str
) -> Iterator[str]:
    """Yield lines for a terminal: each file with its objects, the objects left out with positions, then the next steps."""
    for path, file in zip(paths, conversion.files, strict=True):
        names = ", ".join(f"{each['kind']}/{each['metadata']['name']}" for each in file.objects)
        yield f"{path}: {inert(names)}"
    for left in conversion.not_converted:
        yield f"{inert(left.text)}"
    for hint in conversion.hints:
        yield f"note: {inert(hint)}"
    counts = f"{plural(len(paths), 'file')} written"
    yield f"{counts}, {plural(len(conversion.not_converted), 'object')} left" if conversion.not_converted else counts
    if configuration is None:
        return
    out = configuration.parent
    yield f"{configuration}: names the directories below {server_directory}; next:"
    yield f"  replay run LOG --current NOW --candidate {out}   requests that the API objects miss before they exist or while they are deleted"
    yield f"  copy {out} to {server_directory} of each API server, start it with"
    yield f"  --admission-control-config-file={server_directory}/{configuration.name}, then delete the objects in the API"


_MOST_REASONS = 12
"""Maximum number of reasons that are shown. With the other lines they fit on one screen."""


def migration_lines(rules: Sequence[Migrated]) -> Iterator[str]:
    """Yield manifests for a set. A rule without policies becomes a comment with the reason."""
    said = sum(bool(each.policies) for each in rules)
    yield f"# {said} of {len(rules)} rules are written as policies of CEL.\n"
    for each in rules:
        if not each.policies:
            yield _comment(f"{each.policy}, rule {each.rule}: not written, because {each.reason}")
        for policy in each.policies:
            yield "---\n" + _comment(f"{each.policy}, rule {each.rule}") + yaml_text(policy)


def migration_summary(rules: Sequence[Migrated], out: Path) -> Iterator[str]:
    """Yield a summary for a terminal if the policies are in a file.

    It has the number of policies, and the reasons for rules without policies, the most frequent first.
    """
    written = [each for each in rules if each.policies]
    policies = sum(len(each.policies) for each in written)
    yield f"{out}: {plural(policies, 'policy of CEL', 'policies of CEL')} for {len(written)} of {plural(len(rules), 'rule')}"
    left: dict[str, list[Migrated]] = {}
    for each in rules:
        if not each.policies:
            left.setdefault(each.reason, []).append(each)
    if left:
        yield f"{plural(len(rules) - len(written), 'rule')} not written, because:"
    by_number = sorted(left.items(), key=lambda item: -len(item[1]))
    for reason, those in by_number[:_MOST_REASONS]:
        yield inert(f"  {len(those):>3}  {reason}: {those[0].policy}, rule {those[0].rule}")
    if more := by_number[_MOST_REASONS:]:
        yield f"  {sum(len(those) for _, those in more):>3}  have {plural(len(more), 'other reason')}: see the comments in {out}"


def migration_json(rules: Sequence[Migrated]) -> JSON:
    """Return the migrated rules as a JSON document."""
    return {
        "rules": [
            {
                "policy": each.policy,
                "rule": each.rule,
                **({"policies": list(each.policies)} if each.policies else {"reason": each.reason}),
            }
            for each in rules
        ]
    }


def _comment(text: str) -> str:
    """Return a comment line. Characters of names and messages that could end it become spaces."""
    shown = "".join(each if each.isprintable() else " " for each in text)
    return f"# {shown}\n"
