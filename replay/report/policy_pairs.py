"""`replay diff --log` as text and JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import to_builtins

from replay.compare.policy_pairs import PairComparison
from replay.json import JSON
from replay.report.render.document import inert, number, plural

_WIDTH = 160


def pairs_text(compared: Sequence[PairComparison], *, code: str = "") -> Iterator[str]:
    """Yield the answer, then each differing pair with an example request; `code` quotes names."""
    differing = [each for each in compared if each.differs]
    yield f"{number(len(differing))} of {plural(len(compared), 'pair')} of policies decide requests of the log otherwise."
    for each in compared:
        if each.differs or each.undetermined:
            yield ""
            yield inert(f"{each.pair.title}{f' (by {each.pair.guessed})' if each.pair.guessed else ''}")
            yield f"  both deny {plural(each.both, 'request')}, {number(each.undetermined)} undetermined"
        for title, witnesses in (("the old", each.old_only), ("the new", each.new_only)):
            if witnesses:
                first = witnesses[0]
                yield f"  {title} alone denies {plural(len(witnesses), 'request')}, for example"
                yield f"    {code}{inert(first.request)}{code} ({inert(first.id)})"
                yield f"    {code}{_short(first.message)}{code}"


def _short(message: str) -> str:
    text = inert(" ".join(message.split()))
    return text if len(text) <= _WIDTH else f"{text[: _WIDTH - 1]}…"


def pairs_json(compared: Sequence[PairComparison]) -> JSON:
    """Every pair with all its witnesses."""
    return [{**to_builtins(each), "differs": each.differs} for each in compared]
