"""Functions on strings (cel-go `ext/strings.go`, version 2, as the API server enables it). Offsets count code points."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache, partial

from msgspec.structs import replace

from replay.cel.ast.tree import Const
from replay.cel.declare.cost import STRING_FACTOR, UNBOUNDED, AstNode, CallEstimate, CallEstimator, Range, fixed
from replay.cel.declare.library import CallCost, Function, Implementation, Library, overloaded
from replay.cel.release import Release
from replay.cel.value.bounds import check_elements, check_text, joined
from replay.cel.value.equality import elements
from replay.cel.value.text import display
from replay.cel.value.types import DYN, INT, STRING, Type, list_type
from replay.cel.value.values import EvalError, Value
from replay.cellib.library.cost import (
    elements_estimate,
    first_double_traversal,
    first_traversal,
    receiver_estimate,
    result_double_traversal,
    whole_traversal,
)
from replay.cellib.library.string_format import NARROW_SPACE, format_string
from replay.cellib.version import KubernetesVersion

GO_SPACE = "\t\n\v\f\r \x85\xa0\u1680" + "".join(map(chr, range(0x2000, 0x200B))) + "\u2028\u2029\u202f\u205f\u3000"
"""Code points that Go's `unicode.IsSpace` accepts."""

_LOWER = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}
_UPPER = {code: code - 32 for code in range(ord("a"), ord("z") + 1)}
_ESCAPES = str.maketrans(
    {
        "\a": "\\a",
        "\b": "\\b",
        "\f": "\\f",
        "\n": "\\n",
        "\r": "\\r",
        "\t": "\\t",
        "\v": "\\v",
        "\\": "\\\\",
        '"': '\\"',
    }
)


def _out_of_range(index: int) -> EvalError:
    return EvalError(f"index out of range: {index}")


def _char_at(text: str, index: int) -> str:
    # The index at the end is valid and gives the empty text.
    if not 0 <= index <= len(text):
        raise _out_of_range(index)
    return text[index : index + 1]


def _index_of(text: str, part: str, offset: int = 0) -> int:
    if offset < 0:
        raise _out_of_range(offset)
    if not part:
        return min(offset, len(text))
    return text.find(part, offset)


def _last_index_of(text: str, part: str, offset: int | None = None) -> int:
    if offset is None:
        return _last_index_anywhere(text, part)
    if offset < 0:
        raise _out_of_range(offset)
    if not part:
        return min(offset, len(text))
    return -1 if offset >= len(text) else text.rfind(part, 0, offset + len(part))


def _last_index_anywhere(text: str, part: str) -> int:
    # cel-go compares the UTF-8 lengths first, which spares an empty text the check of the offset -1.
    if part and len(text.encode("utf-8", "surrogateescape")) < len(part.encode("utf-8", "surrogateescape")):
        return -1
    return text.rfind(part)


def _index_of_until_0_26(text: str, part: str, offset: int = 0) -> int:
    return _index_of(text, part, offset) if part else offset


def _last_index_of_until_0_26(text: str, part: str, offset: int | None = None) -> int:
    return _last_index_of(text, part, offset) if part or offset is None else offset


def _last_index_of_until_0_23(text: str, part: str, offset: int | None = None) -> int:
    """Implement `lastIndexOf` of cel-go up to 0.23.

    Without an offset, the search begins at the last character. An empty text has none.
    """
    if offset is None and part and not text:
        raise _out_of_range(-1)
    return _last_index_of_until_0_26(text, part, offset)


def _index_of_until_0_20(text: str, part: str, offset: int = 0) -> int:
    if part and not 0 <= offset < len(text):
        raise _out_of_range(offset)
    return _index_of_until_0_26(text, part, offset)


def _last_index_of_until_0_20(text: str, part: str, offset: int | None = None) -> int:
    if offset is None:
        offset = len(text) - 1 if part else len(text)
    if part and not 0 <= offset < len(text):
        raise _out_of_range(offset)
    return _last_index_of_until_0_26(text, part, offset)


def _replace(text: str, old: str, new: str, limit: int = -1) -> str:
    # The length is known beforehand, so a text that is too long is never built.
    times = text.count(old) if old else len(text) + 1
    check_text(len(text) + (times if limit < 0 else min(times, limit)) * (len(new) - len(old)))
    return text.replace(old, new, max(limit, -1))


def _split(text: str, separator: str, limit: int = -1) -> list[str]:
    """Split a text as Go's `strings.SplitN`.

    An empty separator splits between code points, and a limit of 0 returns nothing.
    """
    if limit == 0:
        return []
    pieces = text.count(separator) + 1 if separator else len(text)
    check_elements(pieces if limit < 0 else min(pieces, limit))
    if separator:
        return text.split(separator, limit - 1 if limit > 0 else -1)
    if limit < 0 or limit > len(text):
        return list(text)
    return [*text[: limit - 1], text[limit - 1 :]]


def _substring(text: str, start: int, end: int | None = None) -> str:
    # cel-go compares the bounds with each other before it compares them with the length (`substrRange`).
    if end is not None and start > end:
        raise EvalError(f"invalid substring range. start: {start}, end: {end}")
    if not 0 <= start <= len(text):
        raise _out_of_range(start)
    if end is not None and not 0 <= end <= len(text):
        raise _out_of_range(end)
    return text[start:end]


def _join(parts: Value, separator: str = "") -> str:
    texts = []
    for part in elements(parts):
        if not isinstance(part, str):
            raise EvalError(f"join: invalid input: {display(part)}")
        texts.append(part)
    return joined(separator, texts)


def _quote(text: str) -> str:
    return '"' + text.translate(_ESCAPES) + '"'


def _members(
    name: str,
    cost: CallCost | None,
    *rows: tuple[str, Sequence[Type], Type, Implementation],
    estimate: CallEstimator | None = None,
) -> Function:
    return overloaded(name, *rows, member=True, cost=cost, estimate=estimate)


def _replace_estimate(target: AstNode | None, args: Sequence[AstNode]) -> CallEstimate | None:
    if target is None or len(args) < 2:
        return None
    size, old, new = target.any_size, args[0].any_size, args[1].any_size
    count_most, kept_most = _replaced(size.most, old.least, grows=new.most > old.least)
    count_least, kept_least = _replaced(size.least, old.most, grows=old.most > new.least)
    result = Range(count_least, count_most).times(new).plus(Range(kept_least, kept_most))
    return CallEstimate(size.scaled(2 * STRING_FACTOR), result)


def _replaced(size: int, part: int, *, grows: bool) -> tuple[int, int]:
    """Return how often a part of a given length can be replaced in a text, and the length of the rest."""
    if part == 0:
        return min(size + 1, UNBOUNDED), size
    if not grows:
        return 0, size
    return min(math.ceil(float(size) / float(part)), UNBOUNDED), 0


def _split_estimate(target: AstNode | None, args: Sequence[AstNode]) -> CallEstimate | None:
    if target is None:
        return None
    size = target.any_size
    most = size.most
    if len(args) > 1 and isinstance(args[1].expr, Const) and type(args[1].expr.value) is int:
        # cel-go converts the limit to an unsigned number, so a negative one is huge.
        most = args[1].expr.value % 2**64
    return CallEstimate(size.scaled(2 * STRING_FACTOR), Range(0, most))


def _join_estimate(target: AstNode | None, args: Sequence[AstNode]) -> CallEstimate | None:
    if target is None:
        return None
    count = target.any_size
    size = count.times(target.assumed) if target.type.parameters else fixed(0)
    if args:
        separators = Range(max(count.least - 1, 0), max(count.most - 1, 0))
        size = size.plus(args[0].any_size.times(separators))
    return CallEstimate(size.scaled(STRING_FACTOR), size)


_LOWER_ASCII: Callable[[str], str] = lambda text: text.translate(_LOWER)  # noqa: E731 - one of a pair
_UPPER_ASCII: Callable[[str], str] = lambda text: text.translate(_UPPER)  # noqa: E731 - one of a pair
_STRINGS = list_type(STRING)


def _searches(index_of: Implementation, last_index_of: Implementation) -> tuple[Function, Function]:
    return (
        _members(
            "indexOf",
            whole_traversal,
            ("string_index_of_string", (STRING, STRING), INT, index_of),
            ("string_index_of_string_int", (STRING, STRING, INT), INT, index_of),
            estimate=elements_estimate,
        ),
        _members(
            "lastIndexOf",
            whole_traversal,
            ("string_last_index_of_string", (STRING, STRING), INT, last_index_of),
            ("string_last_index_of_string_int", (STRING, STRING, INT), INT, last_index_of),
            estimate=elements_estimate,
        ),
    )


def _format(body: Implementation) -> Function:
    return _members("format", None, ("string_format", (STRING, list_type(DYN)), STRING, body))


STRINGS = Library(
    name="cel.lib.ext.strings",
    functions=(
        _members("charAt", None, ("string_char_at_int", (STRING, INT), STRING, _char_at)),
        *_searches(_index_of, _last_index_of),
        _members(
            "lowerAscii",
            first_traversal,
            ("string_lower_ascii", (STRING,), STRING, _LOWER_ASCII),
            estimate=receiver_estimate,
        ),
        _members(
            "replace",
            first_double_traversal,
            ("string_replace_string_string", (STRING, STRING, STRING), STRING, _replace),
            ("string_replace_string_string_int", (STRING, STRING, STRING, INT), STRING, _replace),
            estimate=_replace_estimate,
        ),
        _members(
            "split",
            first_double_traversal,
            ("string_split_string", (STRING, STRING), _STRINGS, _split),
            ("string_split_string_int", (STRING, STRING, INT), _STRINGS, _split),
            estimate=_split_estimate,
        ),
        _members(
            "substring",
            first_traversal,
            ("string_substring_int", (STRING, INT), STRING, _substring),
            ("string_substring_int_int", (STRING, INT, INT), STRING, _substring),
            estimate=receiver_estimate,
        ),
        _members(
            "trim",
            first_traversal,
            ("string_trim", (STRING,), STRING, lambda text: text.strip(GO_SPACE)),
            estimate=receiver_estimate,
        ),
        _members(
            "upperAscii",
            first_traversal,
            ("string_upper_ascii", (STRING,), STRING, _UPPER_ASCII),
            estimate=receiver_estimate,
        ),
        _format(format_string),
        overloaded("strings.quote", ("strings_quote", (STRING,), STRING, _quote)),
        _members(
            "join",
            result_double_traversal,
            ("list_join", (_STRINGS,), STRING, _join),
            ("list_join_string", (_STRINGS, STRING), STRING, _join),
            estimate=_join_estimate,
        ),
    ),
)
"""Extended strings."""

_SEARCHES_UNTIL_0_20 = _searches(_index_of_until_0_20, _last_index_of_until_0_20)
_SEARCHES_UNTIL_0_23 = _searches(_index_of_until_0_26, _last_index_of_until_0_23)
_SEARCHES_UNTIL_0_26 = _searches(_index_of_until_0_26, _last_index_of_until_0_26)


@lru_cache
def strings(server: KubernetesVersion) -> Library:
    """Return the library of a server.

    The search functions depend on its cel-go. `%e` depends on its `golang.org/x/text`, which writes narrow spaces until
    1.32.
    """
    release = server.cel_go
    if release >= Release.V0_29:
        return STRINGS
    searches = _SEARCHES_UNTIL_0_20
    if release >= Release.V0_22:
        searches = _SEARCHES_UNTIL_0_26 if release >= Release.V0_26 else _SEARCHES_UNTIL_0_23
    formats = () if server.minor >= 33 else (_format(partial(format_string, exponent_space=NARROW_SPACE)),)
    return replace(STRINGS, functions=(*STRINGS.functions, *searches, *formats))
