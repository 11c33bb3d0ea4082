"""Texts that a regular expression finds, or just fails to find."""

from __future__ import annotations

import random
import re
import warnings
from collections.abc import Iterator
from re import _constants as sre
from re import _parser as parser
from typing import Any

_MOST_REPEATS = 3
_SEED = 20


def samples_of_pattern(pattern: str, most: int) -> Iterator[str]:
    """Some texts around a pattern, the same each time; none where Python cannot read the pattern.

    They are guesses: whoever uses one asks the matcher.
    """
    chooser = random.Random(_SEED)  # noqa: S311 - nothing depends on its being secret
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = parser.parse(pattern)
    except (re.error, RecursionError, OverflowError):
        return
    for _ in range(most):
        text = "".join(_sample(tree, chooser))
        yield text
    yield "x" + text + "x"
    yield text.replace(".", "x")


def _sample(tree: Any, chooser: random.Random) -> Iterator[str]:
    for kind, argument in tree:
        yield from _part(kind, argument, chooser)


def _part(kind: Any, argument: Any, chooser: random.Random) -> Iterator[str]:
    if kind is sre.LITERAL:
        yield chr(argument)
    elif kind in {sre.ANY, sre.NOT_LITERAL}:
        yield chooser.choice("ax1")
    elif kind is sre.IN:
        yield _member(argument, chooser)
    elif kind is sre.BRANCH:
        yield from _sample(chooser.choice(argument[1]), chooser)
    elif kind is sre.SUBPATTERN:
        yield from _sample(argument[3], chooser)
    elif kind in {sre.MAX_REPEAT, sre.MIN_REPEAT}:
        least, most, inner = argument
        for _ in range(chooser.randint(least, min(int(most), least + _MOST_REPEATS))):
            yield from _sample(inner, chooser)


def _member(items: Any, chooser: random.Random) -> str:
    if items and items[0][0] is sre.NEGATE:
        return chooser.choice("ax1")
    kind, argument = chooser.choice(items)
    if kind is sre.LITERAL:
        return chr(argument)
    if kind is sre.RANGE:
        return chr(chooser.randint(*argument))
    return {sre.CATEGORY_DIGIT: "7", sre.CATEGORY_SPACE: " "}.get(argument, "a")
