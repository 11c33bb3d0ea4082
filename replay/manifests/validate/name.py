"""The formats of names, keys and values (`k8s.io/apimachinery/pkg/api/validate/content`).

Each function returns the complaints about a value, in the server's order; none means that it is fine.
"""

from __future__ import annotations

import re

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_DNS_1035 = "[a-z]([-a-z0-9]*[a-z0-9])?"
_KEY = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_VALUE = f"({_KEY})?"
_CEL_IDENTIFIER = re.compile(r"[_a-zA-Z][_a-zA-Z0-9]*")
_CEL_RESERVED = frozenset(
    [
        "true",
        "false",
        "null",
        "in",
        "as",
        "break",
        "const",
        "continue",
        "else",
        "for",
        "function",
        "if",
        "import",
        "let",
        "loop",
        "package",
        "namespace",
        "return",
        "var",
        "void",
        "while",
    ]
)

_MAX_LABEL, _MAX_SUBDOMAIN = 63, 253


def dns_subdomain_problems(value: str) -> list[str]:
    """A lowercase RFC 1123 subdomain of at most 253 bytes: the name of an object."""
    return _subdomain_problems(value, "characters")


def _subdomain_problems(value: str, unit: str) -> list[str]:
    problems = _length_problems(value, _MAX_SUBDOMAIN, unit)
    if not re.fullmatch(_SUBDOMAIN, value):
        message = (
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must "
            "start and end with an alphanumeric character"
        )
        problems.append(_pattern_problem(message, _SUBDOMAIN, "example.com"))
    return problems


def object_name_problems(value: str, *, prefix: bool = False) -> list[str]:
    """A name, or with `prefix` a generateName, whose last hyphen is no fault."""
    if prefix and len(value) > 1 and value.endswith("-"):
        value = f"{value[:-2]}a"
    return dns_subdomain_problems(value)


def dns_1035_label_problems(value: str) -> list[str]:
    """A DNS-1035 label: a version, or a kind in lower case."""
    problems = _length_problems(value, _MAX_LABEL, "characters")
    if not re.fullmatch(_DNS_1035, value):
        message = (
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic "
            "character, and end with an alphanumeric character"
        )
        problems.append(_pattern_problem(message, _DNS_1035, "my-name", "abc-123"))
    return problems


def label_key_problems(value: str) -> list[str]:
    """A qualified name: a name of 63 bytes with an optional DNS subdomain and a slash before it."""
    message = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character"
    pattern_problem = _pattern_problem(message, _KEY, "MyName", "my.name", "123-abc")
    parts = value.split("/")
    if len(parts) > 2:
        return [
            f"a valid label key {pattern_problem} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        ]
    problems = _key_prefix_problems(parts[0]) if len(parts) == 2 else []
    name = parts[-1]
    if not name:
        problems.append("name part must be non-empty")
    problems += [f"name part {problem}" for problem in _length_problems(name, _MAX_LABEL)]
    if not re.fullmatch(_KEY, name):
        problems.append(f"name part {pattern_problem}")
    return problems


def _key_prefix_problems(prefix: str) -> list[str]:
    if not prefix:
        return ["prefix part must be non-empty"]
    return [f"prefix part {problem}" for problem in _subdomain_problems(prefix, "bytes")]


def label_value_problems(value: str) -> list[str]:
    """The value of a label: empty, or like the name part of a key."""
    problems = _length_problems(value, _MAX_LABEL)
    if not re.fullmatch(_VALUE, value):
        message = (
            "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must "
            "start and end with an alphanumeric character"
        )
        problems.append(_pattern_problem(message, _VALUE, "MyValue", "my_value", "12345"))
    return problems


def path_segment_problems(value: str) -> list[str]:
    """A name that can stand in a URL path."""
    if value in (".", ".."):
        return [f"may not be '{value}'"]
    return [f"may not contain '{illegal}'" for illegal in "/%" if illegal in value]


def is_cel_identifier(value: str) -> bool:
    """Whether a variable may have this name."""
    return _CEL_IDENTIFIER.fullmatch(value) is not None and value not in _CEL_RESERVED


def _length_problems(value: str, limit: int, unit: str = "bytes") -> list[str]:
    # The server counts bytes in both cases and calls them characters where the older of two functions does.
    return [f"must be no more than {limit} {unit}"] if len(value.encode()) > limit else []


def _pattern_problem(message: str, pattern: str, *examples: str) -> str:
    listed = " or ".join(f"'{example}', " for example in examples)
    return f"{message} (e.g. {listed}regex used for validation is '{pattern}')"
