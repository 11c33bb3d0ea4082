"""Reader of YAML text as `sigs.k8s.io/yaml` turns it into JSON: YAML 1.1, only the first document of the text.

libyaml parses, because the server's parser is a port of it. This module does what the server does between parser events
and JSON: anchors, merge keys, duplicate keys, the limit on aliases, and keys that become strings. Error texts are the
server's.
"""

from __future__ import annotations

import base64
import binascii
import math
import re

import yaml
from msgspec import Struct, field
from msgspec.structs import replace
from yaml._yaml import CParser

from replay.go.format import float_text, go_syntax
from replay.json import JSON
from replay.manifests.read.node import START, Entry, Mapping, Node, Number, Position, Scalar, Sequence

# Types of untagged and tagged YAML scalars, as `go.yaml.in/yaml/v2` resolves them: YAML 1.1 with deviations.
# `yes` and `on` are booleans, `0o17` and `017` are octal, `1_0` is ten, `0:20` and dates stay strings.

_YAMLValue = str | bool | int | float | None

_PREFIX = "tag:yaml.org,2002:"
_STR, _BOOL, _INT, _FLOAT, _NULL = (f"{_PREFIX}{name}" for name in ("str", "bool", "int", "float", "null"))
_TIMESTAMP, _BINARY, _MERGE = (f"{_PREFIX}{name}" for name in ("timestamp", "binary", "merge"))
_RESOLVABLE = frozenset({"", _STR, _BOOL, _INT, _FLOAT, _NULL, _TIMESTAMP})
_WORDS: dict[str, tuple[str, _YAMLValue]] = {
    **dict.fromkeys(["y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"], (_BOOL, True)),
    **dict.fromkeys(["n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"], (_BOOL, False)),
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), (_NULL, None)),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), (_FLOAT, math.nan)),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), (_FLOAT, math.inf)),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), (_FLOAT, -math.inf)),
    "<<": (_MERGE, "<<"),
}
_FLOAT_TEXT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_GO_FLOAT = re.compile(r"[-+]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]+)?")
_BASES = (
    (re.compile(r"0[xX]([0-9a-fA-F]+)"), 16),
    (re.compile(r"0[bB]([01]+)"), 2),
    (re.compile(r"0[oO]?([0-7]+)"), 8),
)
_DECIMAL = re.compile(r"(0|[1-9][0-9]*)")
_DATE = r"[0-9]{4}-(?:0?[1-9]|1[0-2])-(?:0?[1-9]|[12][0-9]|3[01])"
_TIME = r"(?:[01]?[0-9]|2[0-3]):[0-5]?[0-9]:[0-5]?[0-9](?:[.,][0-9]+)?"
_DATE_TIME = re.compile(rf"{_DATE}(?:[Tt]{_TIME}(?:Z|[-+][0-9]{{2}}:[0-9]{{2}})| {_TIME})?")


class UnresolvableError(Exception):
    """A value that does not fit its tag. `str()` is the reader's wording."""


def _is_merge(text: str, tag: str, *, implicit: bool) -> bool:
    """Return whether a key is the merge key `<<`."""
    return text == "<<" and (implicit or tag == _MERGE)


def resolve_scalar(text: str, tag: str, *, implicit: bool) -> _YAMLValue:
    """Return the value of a scalar. `implicit` is false for quoted and block scalars without a tag.

    Raises UnresolvableError.
    """
    if not tag and not implicit:
        return text
    if tag == _BINARY:
        return _binary(text)
    if tag not in _RESOLVABLE or tag == _STR:
        return text
    kind, value = _resolve(text, tag)
    if tag in ("", kind):
        return text if kind == _TIMESTAMP else value
    if tag == _FLOAT and kind == _INT and isinstance(value, int) and value < 2**63:
        return float(value)
    raise UnresolvableError(f"cannot decode {_short(kind)} `{text}` as a {_short(tag)}")


def _resolve(text: str, tag: str) -> tuple[str, _YAMLValue]:
    # The Go reader looks up words only after these characters, so that `<<` as a value stays text.
    if text in _WORDS and (not text or text[0] in "yYnNtTfFoO~.+-"):
        return _WORDS[text]
    if text.startswith("."):
        return (_FLOAT, float(text)) if _GO_FLOAT.fullmatch(text) and _is_finite(text) else (_STR, text)
    if not text or text[0] not in "+-0123456789":
        return _STR, text
    # The Go reader takes only untagged text, or text with this tag, for a date.
    if tag in ("", _TIMESTAMP) and _DATE_TIME.fullmatch(text):
        return _TIMESTAMP, text
    return _number(text)


def _number(text: str) -> tuple[str, _YAMLValue]:
    """Return an integer or a float, without underscores, or a string if the text is neither."""
    plain = text.replace("_", "")
    number = _integer(plain)
    if number is not None:
        return _INT, number
    if _FLOAT_TEXT.fullmatch(plain) and _is_finite(plain):
        return _FLOAT, float(plain)
    return _STR, text


def _integer(text: str) -> int | None:
    """Return the integer of `strconv.ParseInt` or `ParseUint` with base 0, or None.

    They have up to 64 bits, and a sign only if signed.
    """
    sign, digits = (text[0], text[1:]) if text[:1] in ("+", "-") else ("", text)
    value = None
    if _DECIMAL.fullmatch(digits):
        value = int(digits) if len(digits) < 30 else None  # no 64-bit number is longer
    for pattern, base in _BASES:
        if match := pattern.fullmatch(digits):
            value = int(match[1], base)
    if value is None:
        return None
    if sign == "-":
        return -value if value <= 2**63 else None
    return value if value < (2**63 if sign else 2**64) else None


def _is_finite(text: str) -> bool:
    return math.isfinite(float(text))


def _binary(text: str) -> str:
    """Return decoded Base64 without line breaks.

    Bytes that are not UTF-8 become U+FFFD when the value is written as JSON.
    """
    try:
        data = base64.b64decode(text.replace("\r", "").replace("\n", ""), validate=True)
    except binascii.Error as error:
        raise UnresolvableError("!!binary value contains invalid base64 data") from error
    return "".join("\ufffd" if "\udc80" <= c <= "\udcff" else c for c in data.decode("utf-8", errors="surrogateescape"))


def _short(tag: str) -> str:
    return f"!!{tag.removeprefix(_PREFIX)}" if tag.startswith(_PREFIX) else tag


def _key_text(key: _YAMLValue) -> str:
    """Return a mapping key as a JSON object key (`sigs.k8s.io/yaml`).

    Raises UnresolvableError for null and for integers over 63 bits.
    """
    if isinstance(key, bool):
        return "true" if key else "false"
    if isinstance(key, str):
        return key
    if isinstance(key, int) and key < 2**63:
        return str(key)
    if isinstance(key, float):
        return _float_key(key)
    raise UnresolvableError("%!s(<nil>)" if key is None else "uint64")


def _float_key(key: float) -> str:
    if not math.isfinite(key):
        return ".nan" if math.isnan(key) else (".inf" if key > 0 else "-.inf")
    return _shortest_single(key)


def _shortest_single(key: float) -> str:
    """Return the shortest text of a single-precision number (`strconv.FormatFloat(key, 'g', -1, 32)`)."""
    import struct  # noqa: PLC0415 - float keys are curiosities

    single = struct.unpack("f", struct.pack("f", key))[0]
    for precision in range(1, 18):
        text = f"{single:.{precision}g}"
        if struct.unpack("f", struct.pack("f", float(text)))[0] == single:
            break
    mantissa, _, exponent = f"{float(text):e}".partition("e")
    if -4 <= int(exponent) < 21:
        return f"{float(text):f}".rstrip("0").rstrip(".") if "e" in text else text
    return f"{mantissa.rstrip('0').rstrip('.')}e{int(exponent):+03d}"


_MAX_SERVER_DEPTH = 10_000
_MAX_DEPTH = 300
"""Maximum depth of a document that we read. The deepest field of any manifest is at 12."""


class YAMLSyntaxError(Exception):
    """Text that is not YAML or cannot become JSON. `str()` is the server's wording."""

    def __init__(self, message: str, position: Position) -> None:
        """`position` is that of the parser."""
        super().__init__(message)
        self.position = position


class DuplicateKey(Struct, frozen=True):
    """A key that occurs twice in a mapping, an error only in strict decoding.

    The line in `message` counts in the document.
    """

    message: str
    position: Position


class YAMLDocument(Struct, frozen=True):
    """Value of a document and its duplicate keys, in the server's order."""

    node: Node
    duplicates: tuple[DuplicateKey, ...]


class _Event(Struct, eq=False):
    """A node of the event stream.

    It is a scalar (`children` is None), a sequence, or a mapping (keys and values in turn).
    """

    line: int
    column: int
    tag: str = ""
    implicit: bool = False
    text: str = ""
    children: list[_Event] | None = None
    is_mapping: bool = False
    alias_of: _Event | None = None


def read_yaml(document: bytes, first_line: int = 1) -> YAMLDocument:
    """Return the first YAML document of the text, which begins at line `first_line` of its file. Raises YAMLSyntaxError."""
    try:
        root = _compose(document)
    except yaml.YAMLError as error:
        raise _syntax_error(error, first_line) from error
    except _UnsupportedScalarError as error:
        place = error.position
        raise YAMLSyntaxError(str(error), place._replace(line=first_line - 1 + place.line)) from error
    if root is None:
        return YAMLDocument(Scalar(Position(first_line, 1), None), ())
    decoder = _Decoder(first_line)
    node = decoder.decode(root)
    # The server converts to JSON after decoding, where it meets keys before it writes values.
    for refusal in (*decoder.key_refusals, *decoder.value_refusals):
        raise refusal
    return YAMLDocument(node, tuple(decoder.duplicates))


def _compose(document: bytes) -> _Event | None:
    """Return the tree of the first document. Aliases refer to their anchors."""
    parser = CParser(document)
    anchors: dict[str, _Event] = {}
    open_nodes: list[_Event] = []
    flow: list[bool] = [False]
    deepest = 0
    while True:
        event = parser.get_event()
        if isinstance(event, yaml.StreamEndEvent):
            return None
        if isinstance(event, yaml.NodeEvent):
            if flow[-1]:
                _check_flow_scalar(event, is_mapping=open_nodes[-1].is_mapping)
            root = node = _node(event, anchors)
            if open_nodes and (siblings := open_nodes[-1].children) is not None:
                siblings.append(node)
            if node.children is not None:
                open_nodes.append(node)
                flow.append(flow[-1] or bool(getattr(event, "flow_style", False)))
                deepest = max(deepest, len(open_nodes))
        elif isinstance(event, yaml.CollectionEndEvent):
            root = open_nodes.pop()
            flow.pop()
        else:
            continue
        if not open_nodes:
            parser.get_event()  # the end of the document, which may be a syntax error
            _check_depth(deepest)
            return root
        # Checked while reading, so that a hostile document is not composed to its end.
        _check_depth(deepest, _MAX_SERVER_DEPTH)


def _check_flow_scalar(event: yaml.NodeEvent, *, is_mapping: bool) -> None:
    """Apply a rule of the server's older parser: in flow style a plain scalar ends at `?`."""
    if isinstance(event, yaml.ScalarEvent) and not event.style and "?" in event.value[1:]:
        position, closer = _place(event.end_mark), "}" if is_mapping else "]"
        where = f"line {position.line - 1}: " if position.line > 1 else ""
        problem = f"yaml: {where}did not find expected ',' or '{closer}'"
        raise _UnsupportedScalarError(problem, position)


class _UnsupportedScalarError(Exception):
    """A scalar that the server's parser refuses and ours accepts."""

    def __init__(self, problem: str, position: Position) -> None:
        super().__init__(problem)
        self.position = position


def _check_depth(depth: int, limit: int = _MAX_DEPTH) -> None:
    if depth > _MAX_SERVER_DEPTH:
        raise YAMLSyntaxError(f"yaml: exceeded max depth of {_MAX_SERVER_DEPTH}", Position(1, 1))
    if depth > limit:
        raise YAMLSyntaxError(f"nested {depth} levels deep; over {limit} levels a document is not read", Position(1, 1))


def _place(mark: yaml.error.Mark | yaml._yaml.Mark | None) -> Position:
    """Return a mark, which counts from 0, as a position within the document."""
    return Position(mark.line + 1, mark.column + 1) if mark is not None else START


def _node(event: yaml.NodeEvent, anchors: dict[str, _Event]) -> _Event:
    place = _place(event.start_mark)
    line, column = place.line - 1, place.column - 1
    if isinstance(event, yaml.AliasEvent):
        if event.anchor not in anchors:
            raise YAMLSyntaxError(f"yaml: unknown anchor '{event.anchor}' referenced", Position(line + 1, column + 1))
        return _Event(line, column, text=event.anchor, alias_of=anchors[event.anchor])
    if isinstance(event, yaml.ScalarEvent):
        node = _Event(line, column, event.tag or "", event.implicit[0], event.value)
    else:
        node = _Event(line, column, children=[], is_mapping=isinstance(event, yaml.MappingStartEvent))
    if event.anchor is not None:
        anchors[event.anchor] = node
    return node


def _syntax_error(error: yaml.YAMLError, first_line: int) -> YAMLSyntaxError:
    """Return the parser's error in the server's form.

    Only scanner errors count lines from 1, and line 0 is omitted.
    """
    if isinstance(error, yaml.reader.ReaderError):
        return YAMLSyntaxError(f"yaml: {error.reason}", Position(first_line, 1))
    assert isinstance(error, yaml.MarkedYAMLError)
    problem, context = error.problem_mark, error.context_mark
    where = ""
    if problem is not None and problem.line:
        line = problem.line + isinstance(error, yaml.scanner.ScannerError)
        where = f"line {line}: "
    elif context is not None and context.line:
        where = f"line {context.line}: "
    mark = problem or context
    position = Position(first_line + mark.line, mark.column + 1) if mark else Position(first_line, 1)
    return YAMLSyntaxError(f"yaml: {where}{error.problem}", position)


class _Table(Struct):
    """A mapping that is being filled. The identity of a key is its type and value, as in a Go map."""

    entries: dict[object, tuple[_YAMLValue, Position, Node]] = field(default_factory=dict)


class _Decoder:
    """Decoder of the event tree into nodes. It also counts the expansion of aliases (`go.yaml.in/yaml/v2` decoder)."""

    def __init__(self, first_line: int) -> None:
        self.duplicates: list[DuplicateKey] = []
        self.key_refusals: list[YAMLSyntaxError] = []
        self.value_refusals: list[YAMLSyntaxError] = []
        self._first_line = first_line
        self._decoded = 0
        self._aliased = 0
        self._expanding: list[_Event] = []

    def decode(self, event: _Event) -> Node:
        """Return the node of an event. An alias gives the node that it names, at the alias's position.

        Raises YAMLSyntaxError.
        """
        self._count()
        if event.alias_of is not None:
            return self._alias(event, event.alias_of)
        if event.children is None:
            return self._scalar(event)
        if event.is_mapping:
            table = _Table()
            self._fill(table, event)
            return self._mapping(event, table)
        return Sequence(self._position(event), tuple([self.decode(child) for child in event.children]))

    def _count(self) -> None:
        self._decoded += 1
        self._aliased += bool(self._expanding)
        # The figures are those of the Go decoder, which guards against exponential expansion.
        if self._aliased > 100 and self._decoded > 1000 and self._aliased / self._decoded > self._allowed_ratio():
            raise YAMLSyntaxError("yaml: document contains excessive aliasing", Position(self._first_line, 1))

    def _allowed_ratio(self) -> float:
        """Return the share of a document that may come from aliases: 99 % of a small one, 10 % of a very large one."""
        if self._decoded <= 400_000:
            return 0.99
        if self._decoded >= 4_000_000:
            return 0.10
        return 0.99 - 0.89 * ((self._decoded - 400_000) / 3_600_000)

    def _alias(self, event: _Event, target: _Event) -> Node:
        if event in self._expanding:
            raise self._error(event, f"yaml: anchor '{event.text}' value contains itself")
        self._expanding.append(event)
        node = self.decode(target)
        self._expanding.pop()
        return replace(node, position=self._position(event))

    def _scalar(self, event: _Event) -> Scalar:
        value = self._value(event)
        if isinstance(value, float) and not math.isfinite(value):
            text = "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"
            self.value_refusals.append(self._error(event, f"json: unsupported value: {text}"))
            value = None
        if isinstance(value, bool) or not isinstance(value, int | float):
            return Scalar(self._position(event), value)
        return Scalar(self._position(event), Number(float_text(value) if isinstance(value, float) else str(value)))

    def _value(self, event: _Event) -> _YAMLValue:
        try:
            return resolve_scalar(event.text, event.tag, implicit=event.implicit)
        except UnresolvableError as error:
            raise self._error(event, f"yaml: {error}") from error

    def _fill(self, table: _Table, event: _Event) -> None:
        """Add the entries of a mapping in order. A later key replaces an earlier one and counts as a duplicate."""
        assert event.children is not None
        for key, value in zip(event.children[::2], event.children[1::2], strict=True):
            if key.children is None and _is_merge(key.text, key.tag, implicit=key.implicit) and key.alias_of is None:
                self._merge(table, value)
                continue
            name = self._key(key)
            node = self.decode(value)
            identity = (type(name), name)
            if identity in table.entries:
                line = value.line + 1
                message = f"line {line}: key {go_syntax(name)} already set in map"
                self.duplicates.append(DuplicateKey(message, self._position(key)))
            table.entries[identity] = (name, self._position(key), node)

    def _key(self, event: _Event) -> _YAMLValue:
        """Return the value of a key. Only scalars can be keys."""
        self._count()
        target = event.alias_of or event
        if target.children is not None:
            shown = go_syntax(_plain(self.decode(target)))
            raise self._error(event, f"yaml: invalid map key: {shown}")
        return self._value(target)

    def _merge(self, table: _Table, value: _Event) -> None:
        """Merge `<<`: a mapping, an alias of one, or a list of these. The last is merged first, so that the first wins."""
        if value.children is None or value.is_mapping:
            self._merge_one(table, value)
            return
        for source in reversed(value.children):
            self._merge_one(table, source)

    def _merge_one(self, table: _Table, source: _Event) -> None:
        target = source.alias_of or source
        if not target.is_mapping:
            raise self._error(source, "yaml: map merge requires map or sequence of maps as the value")
        self._count()
        if target is source:
            self._fill(table, target)
            return
        if source in self._expanding:
            raise self._error(source, f"yaml: anchor '{source.text}' value contains itself")
        self._expanding.append(source)
        # Go counts the alias and then the mapping that it names: `decoder.unmarshal` is called for both.
        self._count()
        self._fill(table, target)
        self._expanding.pop()

    def _mapping(self, event: _Event, table: _Table) -> Mapping:
        """Return the mapping with string keys, sorted as Go writes a map."""
        entries: dict[str, Entry] = {}
        for key, position, node in table.entries.values():
            try:
                text = _key_text(key)
            except UnresolvableError as error:
                shown = f"key: {go_syntax(key)}, value: {go_syntax(_plain(node))}"
                message = f"unsupported map key of type: {error}, {shown}"
                self.key_refusals.append(YAMLSyntaxError(message, position))
                continue
            entries[text] = Entry(text, position, node)
        return Mapping(self._position(event), tuple(entries[text] for text in sorted(entries)))

    def _position(self, event: _Event) -> Position:
        return Position(self._first_line + event.line, event.column + 1)

    def _error(self, event: _Event, message: str) -> YAMLSyntaxError:
        return YAMLSyntaxError(message, self._position(event))


def _plain(node: Node) -> JSON:
    """Return a node as plain values, for the few errors that print one."""
    if isinstance(node, Mapping):
        return {entry.key: _plain(entry.value) for entry in node.entries}
    if isinstance(node, Sequence):
        return [_plain(item) for item in node.items]
    if isinstance(node.value, Number):
        return float(node.value.text) if set(".eE") & set(node.value.text) else int(node.value.text)
    return node.value
