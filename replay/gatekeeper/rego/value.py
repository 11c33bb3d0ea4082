"""Rego values: Python's JSON, plus sets, objects with any keys, and OPA's numbers (`opa/v1/ast/term.go`).

Strings, lists, booleans, None and dicts with string keys are Python's own. An int is a number whose text is that of the
int. Any other number is a `Number`, which keeps its text. An absent value is `UNDEFINED`. A value that the log does not
hold is an `UnknownValue`: reading it ends the evaluation.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from functools import cmp_to_key
from typing import Any, Final, NoReturn

import orjson

from replay.go.format import general, general_text
from replay.kube.attributes import Missing

# Go's `big.Float` with 64 bits, in which OPA calculates unless numbers are small integers.
# The rules are those of `opa/v1/topdown/arithmetic.go`.

_BITS = 64


def rounded(value: Fraction) -> Fraction:
    """Return the nearest number with a mantissa of 64 bits. Ties go to the even one."""
    if not value:
        return value
    sign, value = (-1, -value) if value < 0 else (1, value)
    shift = _exponent(value) - _BITS
    scaled = value / Fraction(2) ** shift
    return sign * round(scaled) * Fraction(2) ** shift


def _exponent(value: Fraction) -> int:
    """Return the exponent `e` with `2**(e-1) <= value < 2**e`."""
    exponent = value.numerator.bit_length() - value.denominator.bit_length()
    return exponent + 1 if value >= Fraction(2) ** exponent else exponent


def float_text(value: Fraction) -> str:
    """Return a number as `builtins.FloatToNumber` does.

    An integer is written in full, another number with the fewest digits that identify the 64 bits.
    """
    digits, point = _shortest(abs(value)) if value else ("0", 1)
    sign = "-" if value < 0 else ""
    if value.denominator == 1:
        return sign + digits.ljust(point, "0")
    return sign + general(digits, point)


def _shortest(value: Fraction) -> tuple[str, int]:
    """Return the fewest digits that round to `value` at 64 bits, and the position of the decimal point."""
    shift = _exponent(value) - _BITS
    unit = Fraction(2) ** shift
    mantissa = value / unit
    low, high = value - unit / 2, value + unit / 2  # the same below a power of two, where numbers lie closer
    is_even = mantissa.numerator % 2 == 0
    point = len(str(value.numerator // value.denominator)) if value >= 1 else -_leading_zeros(value)
    for count in range(1, 30):
        scale = Fraction(10) ** (count - point)
        scaled = value * scale
        down = scaled.numerator // scaled.denominator
        near = round(scaled)
        for candidate in (near, down, down + 1):
            number = candidate / scale
            if low < number < high or (is_even and number in (low, high)):
                text = str(candidate)
                return text.rstrip("0"), point + len(text) - count
    raise AssertionError


def _leading_zeros(value: Fraction) -> int:
    """Return the number of zeros between the point and the first other digit."""
    zeros = 0
    while value * 10 < 1:
        value *= 10
        zeros += 1
    return zeros


Value = Any
"""Rego value."""


class Undefined:
    """Absence of a value."""

    def __repr__(self) -> str:
        """Return the name."""
        return "undefined"


_MOST_DIGITS = 4_000
"""Limit of ours for digits. Python parses integers of up to 4,300 digits."""
UNDEFINED: Final = Undefined()


class UnknownTouchedError(Exception):
    """Evaluation that needs an unknown value. `str()` is the reason."""


class UnknownValue:
    """Unknown value. Any use of it raises UnknownTouchedError."""

    __slots__ = ("reason",)

    def __init__(self, reason: str) -> None:
        """`reason` says why it is unknown."""
        self.reason = reason

    def touched(self, *_: object) -> NoReturn:
        """Raise UnknownTouchedError with the reason."""
        raise UnknownTouchedError(self.reason)

    __eq__ = __hash__ = __getitem__ = __iter__ = __len__ = __bool__ = __str__ = touched


class PartialObject(dict[str, Value]):
    """Object with known fields. The fields in `absent` are certainly missing, all others are unknown."""

    __slots__ = ("absent", "reason")

    def __init__(self, fields: Mapping[str, Value], absent: frozenset[str], reason: str) -> None:
        """`reason` says why the other fields are unknown."""
        super().__init__(fields)
        self.absent = absent
        self.reason = reason

    def __missing__(self, key: str) -> NoReturn:
        """Raise KeyError for an absent field and UnknownTouchedError for an unknown one."""
        if key in self.absent or not isinstance(key, str):
            raise KeyError(key)
        raise UnknownTouchedError(self.reason)

    def touched(self, *_: object) -> NoReturn:
        """Raise UnknownTouchedError with the reason."""
        raise UnknownTouchedError(self.reason)

    __eq__ = __hash__ = __iter__ = __len__ = keys = items = values = __contains__ = touched  # type: ignore[assignment]


def _fraction(text: str) -> Fraction:
    exponent = text.lower().partition("e")[2]
    if len(text) > _MOST_DIGITS or (exponent and abs(int(exponent)) > _MOST_DIGITS):
        raise MemoryError(f"the number {text[:40]} is too large")
    return Fraction(text)


class Number:
    """Number whose text differs from that of an int: with a fraction, an exponent or the sign of -0."""

    __slots__ = ("text", "value")

    def __init__(self, text: str, value: Fraction | None = None) -> None:
        """Keep the text, and the value if it is already known."""
        self.text = text
        self.value = _fraction(text) if value is None else value

    def __eq__(self, other: object) -> bool:
        """Return whether both are the same number, in whatever notation."""
        if type(other) is Number:
            return self.value == other.value
        return self.value == other if type(other) is int else NotImplemented

    def __hash__(self) -> int:
        """Return the hash of the value. Equal numbers have equal hashes."""
        return hash(self.value)


class Object:
    """Object with at least one key that is not a string."""

    __slots__ = ("entries",)

    def __init__(self, entries: dict[str | bytes, tuple[Value, Value]]) -> None:
        """`entries` holds each key and value by `key_of(key)`."""
        self.entries = entries

    def __getitem__(self, key: Value) -> Value:
        """Return the value of a key."""
        return self.entries[key_of(key)][1]


class Set:
    """Set of values. Members with an unknown part are kept apart: each certainly differs from all other members."""

    __slots__ = ("known", "partial")

    def __init__(self, values: Iterable[Value] = ()) -> None:
        """Start with these values."""
        self.known: dict[str | bytes, Value] = {}
        self.partial: list[Value] = []
        for value in values:
            self.add(value)

    @property
    def size(self) -> int:
        """Number of members."""
        return len(self.known) + len(self.partial)

    @property
    def members(self) -> dict[str | bytes, Value]:
        """Members by key. Raises UnknownTouchedError if one is unknown in part."""
        for value in self.partial:
            key_of(value)
        return self.known

    def __getitem__(self, value: Value) -> Value:
        """Return the value itself if it is a member. Raises KeyError and UnknownTouchedError."""
        if not self.has(value):
            raise KeyError(value)
        return value

    def has(self, value: Value) -> bool:
        """Return whether a value is a member. Raises UnknownTouchedError if that is unknown."""
        try:
            if key_of(value) in self.known:
                return True
            others = self.partial
        except UnknownTouchedError:
            if any(value is each for each in self.partial):
                return True
            others = [*self.partial, *self.known.values()]
        for each in others:
            if not _certainly_differ(value, each):
                raise UnknownTouchedError(_reason(value) or _reason(each))
        return False

    def add(self, value: Value) -> None:
        """Add a value. Raises UnknownTouchedError if it may be a member already."""
        try:
            key = value if type(value) is str else key_of(value)
        except UnknownTouchedError:
            if not self.has(value):
                self.partial.append(value)
            return
        if not self.partial or not self.has(value):
            self.known.setdefault(key, value)


def _reason(value: Value) -> str:
    """Return why a value is unknown in part, or an empty text if it is known."""
    try:
        key_of(value)
    except UnknownTouchedError as error:
        return str(error)
    return ""


_ABSENT: Final = object()


def _certainly_differ(a: Value, b: Value) -> bool:
    """Return whether two values differ, whatever their unknown parts are. An unknown field may be absent."""
    if type(a) is dict and type(b) is dict:
        pairs = ((a.get(key, _ABSENT), b.get(key, _ABSENT)) for key in a.keys() | b.keys())
        return any(_certainly_differ(*pair) for pair in pairs)
    if UnknownValue in (type(a), type(b)):
        return False
    if a is _ABSENT or b is _ABSENT:
        return True
    if type(a) is list and type(b) is list and UnknownValue not in map(type, (*a, *b)):
        return len(a) != len(b) or any(map(_certainly_differ, a, b))
    try:
        return not equal(a, b)
    except UnknownTouchedError:
        return False


def key_of(value: Value) -> str | bytes:
    """Return a hashable key for a value. Two values are equal exactly if their keys are."""
    if type(value) is str:
        return value
    try:
        # A copy: what `dumps` returns keeps the room of its buffer, a kibibyte.
        return bytes(memoryview(orjson.dumps(value, default=_plain, option=orjson.OPT_SORT_KEYS)))
    except (TypeError, ValueError):
        if isinstance(value, UnknownValue):
            value.touched()
        return repr(_name(value)).encode("utf-8", "surrogatepass")


def _plain(value: Value) -> Value:
    """Return a replacement for a value that is not JSON, distinct from every JSON value."""
    match value:
        case Number():
            if value.value.denominator == 1:
                return int(value.value)
            return {"\0number": str(value.value)}
        case Set():
            return {"\0set": sorted(repr(key) for key in value.members)}
        case Object():
            return {"\0object": sorted((repr(key), repr(key_of(item))) for key, (_, item) in value.entries.items())}
    raise TypeError


def _name(value: Value) -> tuple[Any, ...]:
    """Return the input of `key_of` for values that orjson refuses: integers above 64 bits, lone surrogates."""
    match value:
        case UnknownValue():
            value.touched()
        case bool() | None:
            return ("literal", value)
        case int():
            return ("number", str(value))
        case Number():
            return ("number", str(value.value))
        case list():
            return ("array", *map(key_of, value))
        case Set():
            return ("set", *sorted(map(repr, value.members)))
        case dict():
            return ("object", *sorted((key, repr(key_of(item))) for key, item in value.items()))
        case Object():
            return ("object", *sorted((repr(key), repr(key_of(item))) for key, (_, item) in value.entries.items()))
    return ("string", value)


def object_of(pairs: Iterable[tuple[Value, Value]]) -> Value:
    """Return the object of these keys and values. A later pair replaces an earlier one."""
    plain: dict[str, Value] = {}
    others: dict[str | bytes, tuple[Value, Value]] = {}
    for key, value in pairs:
        if type(key) is str:
            plain[key] = value
        else:
            others[key_of(key)] = (key, value)
    if not others:
        return plain
    return Object({**{key: (key, value) for key, value in plain.items()}, **others})


def pairs_of(value: Value) -> list[tuple[Value, Value]]:
    """Return the keys and values of an object, ordered by key."""
    if isinstance(value, dict):
        if isinstance(value, PartialObject):
            value.touched()
        return [(key, value[key]) for key in sorted(value)]
    return sorted(value.entries.values(), key=_BY_FIRST)


def members_of(value: Set) -> list[Value]:
    """Return the members of a set in order."""
    members = value.known
    if value.size < 2:
        return [*members.values(), *value.partial]
    if not value.partial and all(type(key) is str for key in members):
        return sorted(members)
    return sorted([*members.values(), *value.partial], key=ORDER)


# The ranks 4 and 5 are those of variables and references, which no value is.
_RANK = {type(None): 0, bool: 1, int: 2, Number: 2, str: 3, list: 6, dict: 7, PartialObject: 7, Object: 7, Set: 8}


def compare(a: Value, b: Value) -> int:
    """Return -1, 0 or 1 for the order of two values (`ast/compare.go`).

    The types are ordered: null, booleans, numbers, strings, arrays, objects, sets.
    """
    try:
        rank, other = _RANK[type(a)], _RANK[type(b)]
    except KeyError:
        return _touch(a) or _touch(b)
    if rank != other:
        return -1 if rank < other else 1
    if rank == 0:
        return 0
    if rank <= 3:
        if type(a) is Number:
            a = a.value
        if type(b) is Number:
            b = b.value
        return int(a > b) - int(a < b)
    if rank == 6:
        return _compare_all(a, b)
    if rank == 8:
        return _compare_all(members_of(a), members_of(b))
    return _compare_pairs(pairs_of(a), pairs_of(b))


def _compare_pairs(ours: list[tuple[Value, Value]], theirs: list[tuple[Value, Value]]) -> int:
    for (key, item), (other, value) in zip(ours, theirs, strict=False):
        if difference := compare(key, other):
            _touch(item if difference < 0 else value)  # an unknown field may also be absent
            return difference
        if difference := compare(item, value):
            return difference
    shared = min(len(ours), len(theirs))
    for _, item in (*ours[shared:], *theirs[shared:]):
        _touch(item)
    return (len(ours) > len(theirs)) - (len(ours) < len(theirs))


def _compare_all(ours: list[Value], theirs: list[Value]) -> int:
    for mine, other in zip(ours, theirs, strict=False):
        if difference := compare(mine, other):
            return difference
    return (len(ours) > len(theirs)) - (len(ours) < len(theirs))


def _touch(value: Value) -> int:
    if isinstance(value, UnknownValue):
        value.touched()
    return 0


ORDER = cmp_to_key(compare)


def _compare_first(one: tuple[Value, Value], other: tuple[Value, Value]) -> int:
    return compare(one[0], other[0])


_BY_FIRST = cmp_to_key(_compare_first)


def equal(a: Value, b: Value) -> bool:
    """Return whether two values are equal. True is not equal to 1."""
    kind = type(a)
    if kind is str:
        return bool(a == b)
    if kind is bool or a is None:
        return bool(a is b or _touch(b))
    if kind is int or kind is Number:
        return type(b) is not bool and bool(a == b)
    if kind is list and type(b) is list:
        return len(a) == len(b) and all(equal(mine, other) for mine, other in zip(a, b, strict=True))
    if kind is dict and type(b) is dict:
        return a.keys() == b.keys() and all(equal(item, b[key]) for key, item in a.items())
    if kind is Set and type(b) is Set:
        return bool(a.members.keys() == b.members.keys())
    return compare(a, b) == 0


def kind_name(value: Value) -> str:
    """Return the name of a value's type, as `type_name` does."""
    return {0: "null", 1: "boolean", 2: "number", 3: "string", 6: "array", 7: "object", 8: "set"}[_rank(value)]


def _rank(value: Value) -> int:
    rank = _RANK.get(type(value))
    return _touch(value) if rank is None else rank


def from_json(value: Any) -> Value:
    """Return a JSON value whose numbers went through Go's float64, as those of an input do.

    A value that does not change is returned itself.
    """
    kind = type(value)
    if kind is dict:
        changed: dict[str, Value] | None = None
        for key, item in value.items():
            inner = type(item)
            if inner is str or inner is bool or item is None:
                continue
            new = from_json(item)
            if new is not item:
                changed = dict(value) if changed is None else changed
                changed[key] = new
        return value if changed is None else changed
    if kind is list:
        items = [from_json(item) for item in value]
        return value if all(map(_is, items, value)) else items
    if kind is int:
        # From a million on, `FormatFloat` with 'g' writes an exponent.
        return value if -1_000_000 < value < 1_000_000 else _double(float(value))
    if kind is Missing:
        return UnknownValue(value.reason)
    return _double(value) if kind is float else value


def _is(one: object, other: object) -> bool:
    return one is other


def _double(value: float) -> Value:
    """Return a float64 as the number that `strconv.FormatFloat(x, 'g', -1, 64)` writes."""
    text = general_text(value)
    return int(text) if text.lstrip("-").isdecimal() and text != "-0" else Number(text)


def number_of(text: str) -> Value:
    """Return a number that keeps its text."""
    digits = text.removeprefix("-")
    if len(digits) > _MOST_DIGITS:
        raise MemoryError(f"the number {text[:40]} is too large")
    if digits.isdecimal() and (digits == "0" or not digits.startswith("0")) and text != "-0":
        return int(text)
    return Number(text)


def text_of_number(value: int | Number) -> str:
    """Return the text of a number."""
    return value.text if type(value) is Number else str(value)


def iterate(value: Value) -> Iterator[Value]:
    """Return the elements of a collection, or the values of an object, in order."""
    if isinstance(value, list):
        return iter(value)
    return iter(members_of(value)) if isinstance(value, Set) else (item for _, item in pairs_of(value))
