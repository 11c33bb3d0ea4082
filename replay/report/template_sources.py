"""`replay diff --engines` as text, Markdown and JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from replay.compare.template_sources import SourceAnswers, SourceComparison
from replay.json import JSON
from replay.report.render.document import inert, number, plural

_ALLOWED = "allowed"


def sources_text(result: SourceComparison, rows: int = 20) -> Iterator[str]:
    """Lines for a terminal: the answer, then at most `rows` requests of each kind."""
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
    """The same for a pull request."""
    yield _verdict(result)
    for title, answers in _groups(result):
        yield ""
        yield f"**{title}**"
        yield ""
        for each in answers[:rows]:
            yield f"- {_code(each.request)} ({_code(each.id)})"
            yield from (f"  - {_code(line)}" for line in _answer_text(each))
        if len(answers) > rows:
            yield f"- … and {number(len(answers) - rows)} more"


def sources_json(result: SourceComparison) -> JSON:
    """Everything as plain values."""
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


def _code(text: str) -> str:
    return f"`{' '.join(inert(text).replace('`', chr(39)).split())}`"
