"""Named formats of Kubernetes strings (apiserver `pkg/cel/library/format.go`; apimachinery and kube-openapi `strfmt`)."""

from __future__ import annotations

import calendar
import re
from collections.abc import Callable, Sequence
from functools import lru_cache, partial

from replay.cel.declare.cost import REGEX_FACTOR, STRING_FACTOR, AstNode, CallEstimate, Range, regex_cost
from replay.cel.declare.library import Library, overloaded
from replay.cel.value.equality import NO_SUCH_OVERLOAD
from replay.cel.value.types import STRING, list_type, optional_type, struct_type
from replay.cel.value.values import OPTIONAL_NONE, EvalError, OpaqueValue, OptionalValue, Value
from replay.cellib.library.cost import nominal_cost
from replay.cellib.library.url import has_strict_colons
from replay.cellib.version import KubernetesVersion
from replay.go.url import URLError, parse_request_uri
from replay.kube.names import (
    dns1035_label,
    dns1123_label,
    dns1123_subdomain,
    label_value,
    masked_prefix,
    qualified_name,
    wording_of,
)

FORMAT_TYPE = struct_type("kubernetes.NamedFormat")

Validate = Callable[[str], list[str]]

_UUID = r"(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}$"
# As in the server, the dot before a fraction matches any character.
_TIME = r"^([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|([+-][0-9]{2}:[0-9]{2}))$"
"""Patterns whose length matters: the server charges for them as for regular expressions."""

# Python's `$` also matches before a final line break, Go's only at the end of the text.
_RX_UUID = re.compile(_UUID.removesuffix("$") + r"\Z", re.ASCII)
_RX_TIME = re.compile(_TIME.removesuffix("$") + r"\Z", re.ASCII)
_RX_DATE = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})", re.ASCII)
_RX_BASE64 = re.compile(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})", re.ASCII)


_PATTERN_SIZE = 128
"""Length of a pattern in estimates."""
_NAME_SIZE = Range(1, 64)
"""Length of a format's name in estimates."""


class FormatValue(OpaqueValue):
    """A named format. `regex_size` is the length of its pattern, or of one with the same cost."""

    __slots__ = ("name", "regex_size", "validate")
    cel_type = FORMAT_TYPE
    go_type = "cel.Format"

    def __init__(self, name: str, validate: Validate, regex_size: int) -> None:
        """`validate` returns the problems of a text, or an empty list if it has the format."""
        self.name = name
        self.validate = validate
        self.regex_size = regex_size

    def __str__(self) -> str:
        """Return the name."""
        return self.name

    def equal(self, other: Value) -> bool:
        """Return whether the names are equal. Raises `EvalError` for a value other than a format."""
        if not isinstance(other, FormatValue):
            raise EvalError(NO_SUCH_OVERLOAD)
        return self.name == other.name


def _uri(text: str, *, strict_colons: bool) -> list[str]:
    try:
        parse_request_uri(text, strict_colons=strict_colons)
    except URLError as error:
        return [str(error)]
    return []


def _is_date(text: str) -> bool:
    match = _RX_DATE.fullmatch(text)
    if match is None:
        return False
    year, month, day = map(int, match.groups())
    # The year 0 is a leap year, which `calendar` does not know.
    return 1 <= month <= 12 and 1 <= day <= calendar.monthrange(year or 2000, month)[1]


def _is_datetime(text: str) -> bool:
    parts = text.lower().split("t")
    if len(parts) < 2 or not _is_date(parts[0]):
        return False
    # As in `strfmt.IsDateTime`, a second `t` and everything after it is ignored.
    match = _RX_TIME.match(parts[1])
    return match is not None and match[1] <= "23" and match[2] <= "59" and match[3] <= "59"


def _plain(is_valid: Callable[[str], object], message: str) -> Validate:
    return lambda text: [] if is_valid(text) else [message]


def _prefix(validate: Validate) -> Validate:
    return lambda text: validate(masked_prefix(text))


_FORMATS: dict[str, FormatValue] = {
    "dns1123Label": FormatValue("DNS1123Label", dns1123_label, 30),
    "dns1123Subdomain": FormatValue("DNS1123Subdomain", dns1123_subdomain, 60),
    "dns1035Label": FormatValue("DNS1035Label", dns1035_label, 30),
    "dns1123LabelPrefix": FormatValue("DNS1123LabelPrefix", _prefix(dns1123_label), 30),
    "dns1123SubdomainPrefix": FormatValue("DNS1123SubdomainPrefix", _prefix(dns1123_subdomain), 60),
    "dns1035LabelPrefix": FormatValue("DNS1035LabelPrefix", _prefix(dns1035_label), 30),
    "uuid": FormatValue("uuid", _plain(_RX_UUID.match, "does not match the UUID format"), len(_UUID)),
    "byte": FormatValue("byte", _plain(_RX_BASE64.fullmatch, "invalid base64"), 84),
    "date": FormatValue("date", _plain(_is_date, "invalid date"), len(_TIME)),
    "datetime": FormatValue("datetime", _plain(_is_datetime, "invalid datetime"), len(_TIME)),
}
"""Formats by their name in `format.<name>()` and `format.named`."""


def formats(server: KubernetesVersion) -> dict[str, FormatValue]:
    """Return the formats of a server, whose messages have the server's wording."""
    words = wording_of(server.minor)
    return {
        **_FORMATS,
        "qualifiedName": FormatValue("QualifiedName", lambda text: qualified_name(text, words), 60),
        "labelValue": FormatValue("LabelValue", lambda text: label_value(text, words), 40),
        "uri": FormatValue("URI", partial(_uri, strict_colons=has_strict_colons(server)), 1103),
    }


def _named(formats_by_name: dict[str, FormatValue], name: str) -> Value:
    format_ = formats_by_name.get(name)
    return OPTIONAL_NONE if format_ is None else OptionalValue(format_)


def _validate(format_: FormatValue, text: str) -> Value:
    problems = format_.validate(text)
    return OptionalValue(problems) if problems else OPTIONAL_NONE


def _validate_cost(args: tuple[Value, ...], _result: Value) -> int:
    if not isinstance(args[0], FormatValue):
        return 1
    # Of a pattern only the length costs.
    return regex_cost(args[1], "." * args[0].regex_size)


def _validate_estimate(_target: AstNode | None, args: Sequence[AstNode]) -> CallEstimate:
    return CallEstimate(args[0].any_size.scaled(STRING_FACTOR).scaled(_PATTERN_SIZE * REGEX_FACTOR))


def _constant(value: FormatValue) -> Callable[[], FormatValue]:
    return lambda: value


@lru_cache
def named_formats(server: KubernetesVersion) -> Library:
    """Return the library of a server: `format.named`, a function for each format, and `validate`."""
    formats_by_name = formats(server)
    return Library(
        name="kubernetes.format",
        functions=(
            overloaded(
                "validate",
                ("format-validate", (FORMAT_TYPE, STRING), optional_type(list_type(STRING)), _validate),
                member=True,
                cost=_validate_cost,
                estimate=_validate_estimate,
            ),
            overloaded(
                "format.named",
                ("format-named", (STRING,), optional_type(FORMAT_TYPE), partial(_named, formats_by_name)),
                cost=nominal_cost,
            ),
            *(
                overloaded(f"format.{name}", (f"format.{name}", (), FORMAT_TYPE, _constant(value)))
                for name, value in formats_by_name.items()
            ),
        ),
        equality={FORMAT_TYPE.name: _NAME_SIZE.scaled(STRING_FACTOR)},
    )
