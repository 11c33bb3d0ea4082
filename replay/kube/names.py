"""Valid names, labels and keys (`k8s.io/apimachinery/pkg/util/validation`, `pkg/api/validate/content`).

Each function about a text returns the API server's messages, none for a valid text. Lengths count UTF-8 bytes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from replay.json import JSON, FieldPath

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_LABEL_1035 = "[a-z]([-a-z0-9]*[a-z0-9])?"
_KEY = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_VALUE = f"({_KEY})?"

_RX_LABEL = re.compile(_LABEL)
_RX_SUBDOMAIN = re.compile(_SUBDOMAIN)
_RX_LABEL_1035 = re.compile(_LABEL_1035)
_RX_KEY = re.compile(_KEY)
_RX_VALUE = re.compile(_VALUE)

_SUBDOMAIN_MESSAGE = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', "
    "and must start and end with an alphanumeric character"
)
_LABEL_MESSAGE = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', "
    "and must start and end with an alphanumeric character"
)
_LABEL_1035_MESSAGE = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', "
    "start with an alphabetic character, and end with an alphanumeric character"
)
_KEY_MESSAGE = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character"
)
_VALUE_MESSAGE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', "
    "and must start and end with an alphanumeric character"
)

_MAX_LABEL = 63
_MAX_SUBDOMAIN = 253


def regex_message(message: str, pattern: str, *examples: str) -> str:
    """Return a message with examples and the pattern (`validation.RegexError`)."""
    shown = " or ".join(f"'{example}', " for example in examples)
    return f"{message} (e.g. {shown}regex used for validation is '{pattern}')"


class LabelWording(NamedTuple):
    """Words for lengths and keys in messages about labels."""

    unit: str
    key: str


WORDING = LabelWording("bytes", "a valid label key")
WORDING_UNTIL_1_34 = LabelWording("characters", "a qualified name")
"""Wording until 1.34. Since Kubernetes 1.35 these checks are in `k8s.io/apimachinery/pkg/api/validate/content`."""


def wording_of(minor: int) -> LabelWording:
    """Return the wording of a minor version of Kubernetes."""
    return WORDING if minor >= 35 else WORDING_UNTIL_1_34


def _length_messages(text: str, limit: int, unit: str) -> list[str]:
    too_long = len(text.encode("utf-8", "surrogateescape")) > limit
    return [f"must be no more than {limit} {unit}"] if too_long else []


def dns1123_label(text: str) -> list[str]:
    """Check a DNS label (`IsDNS1123Label`)."""
    messages = _length_messages(text, _MAX_LABEL, "characters")
    if not _RX_LABEL.fullmatch(text):
        if _RX_SUBDOMAIN.fullmatch(text):
            messages.append("must not contain dots")
        else:
            messages.append(regex_message(_LABEL_MESSAGE, _LABEL, "my-name", "123-abc"))
    return messages


def dns1123_subdomain(text: str, unit: str = "characters") -> list[str]:
    """Check a DNS subdomain (`IsDNS1123Subdomain`)."""
    messages = _length_messages(text, _MAX_SUBDOMAIN, unit)
    if not _RX_SUBDOMAIN.fullmatch(text):
        messages.append(regex_message(_SUBDOMAIN_MESSAGE, _SUBDOMAIN, "example.com"))
    return messages


def dns1035_label(text: str) -> list[str]:
    """Check a DNS label that begins with a letter (`IsDNS1035Label`)."""
    messages = _length_messages(text, _MAX_LABEL, "characters")
    if not _RX_LABEL_1035.fullmatch(text):
        messages.append(regex_message(_LABEL_1035_MESSAGE, _LABEL_1035, "my-name", "abc-123"))
    return messages


def qualified_name(text: str, words: LabelWording = WORDING) -> list[str]:
    """Check a label key: a name with an optional DNS subdomain before a slash (`IsQualifiedName`)."""
    key_message = regex_message(_KEY_MESSAGE, _KEY, "MyName", "my.name", "123-abc")
    prefix, slash, name = text.rpartition("/")
    if "/" in prefix:
        return [f"{words.key} {key_message} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"]
    messages = []
    if slash and not prefix:
        messages.append("prefix part must be non-empty")
    elif slash:
        messages += [f"prefix part {message}" for message in dns1123_subdomain(prefix, words.unit)]
    if not name:
        messages.append("name part must be non-empty")
    messages += [f"name part {message}" for message in _length_messages(name, _MAX_LABEL, words.unit)]
    if not _RX_KEY.fullmatch(name):
        messages.append(f"name part {key_message}")
    return messages


def label_value(text: str, words: LabelWording = WORDING) -> list[str]:
    """Check the value of a label (`IsValidLabelValue`)."""
    messages = _length_messages(text, _MAX_LABEL, words.unit)
    if not _RX_VALUE.fullmatch(text):
        messages.append(regex_message(_VALUE_MESSAGE, _VALUE, "MyValue", "my_value", "12345"))
    return messages


def masked_prefix(text: str) -> str:
    """Return a name's prefix as a whole name: a dash at its end is replaced (`maskTrailingDash`)."""
    return text[:-2] + "a" if len(text) > 1 and text.endswith("-") else text


def path_segment(text: str) -> list[str]:
    """Check a name for use in a URL path (`path.IsValidPathSegmentName`)."""
    if text in (".", ".."):
        return [f"may not be '{text}'"]
    return [f"may not contain '{illegal}'" for illegal in "/%" if illegal in text]


def broken_metadata(metadata: JSON, at: FieldPath) -> Iterator[FieldPath]:
    """Yield the invalid labels and annotations in the metadata at a path."""
    if not isinstance(metadata, dict):
        return
    for key, text in (metadata.get("labels") or {}).items():
        if qualified_name(key) or (isinstance(text, str) and label_value(text)):
            yield (*at, "labels", key)
    for key in metadata.get("annotations") or {}:
        # The case of an annotation key does not count (`ValidateAnnotations`).
        if qualified_name(key.lower()):
            yield (*at, "annotations", key)
