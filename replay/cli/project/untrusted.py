"""Values of a project's file that need the user's trust, because a pull request may have written them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_args

from msgspec import Struct

from replay.checkout import is_inside, root_of

_REASONS = {
    **dict.fromkeys(("scheduler", "listen", "address", "host", "kubeconfig", "context"), "reaches out"),
    **dict.fromkeys(("client-ca-file", "tls-cert-file", "tls-private-key-file"), "decides who may send"),
    **dict.fromkeys(("listen-client-ca-file", "listen-cert-file", "listen-key-file"), "decides who may send"),
    **dict.fromkeys(("reader-token-file", "trusted-proxy", "notify-secret-file"), "decides who may read"),
    **dict.fromkeys(("keep", "keep-size", "before"), "removes requests"),
}
"""Why an option needs trust, whatever its value."""
_PATHS = ("logs", "store", "webhook", "query", "authorization-mode", "trial", "follow", "pull")
"""Options whose values are texts that may be paths."""
_SCHEME = "://"
_STREAM = "-"


class Untrusted(Struct, frozen=True):
    """A value that counts only with trust: its place, line, text, and effect."""

    place: tuple[str, ...]
    line: int
    value: Any
    reason: str


def reason_for_trust(key: str, value: Any, kind: Any, file: Path) -> str:
    """Return why a value of a file needs trust; empty if it does not.

    `value` is the file's value, `kind` the annotation of its option.
    """
    texts = [str(each) for each in (value if isinstance(value, list) else [value])]
    if any(_SCHEME in text for text in texts):
        return "reaches out"
    if key in _REASONS:
        return _REASONS[key]
    if (key == "redact" and value is False) or (key == "secrets" and value is True):
        return "weakens redaction"
    if is_path(key, kind) and not all(_is_ours(text, file) for text in texts):
        return "leads out of the checkout"
    return ""


def is_path(key: str, kind: Any) -> bool:
    """Whether the values of an option are, or may be, paths; `kind` is its annotation."""
    return kind is Path or Path in get_args(kind) or key in _PATHS


def path_in(text: str) -> str:
    """The path in `NAME=FILE`, or the text itself."""
    name, _, path = text.rpartition("=")
    return path if name and "/" not in name and not Path(text).exists() else text


def _is_ours(text: str, file: Path) -> bool:
    """Return whether a text names something in the file's checkout. Of `NAME=FILE`, the file counts too."""
    root = root_of(file) or file.absolute().parent
    path = text.rpartition("=")[2]
    return text == _STREAM or all(is_inside(file.parent / each, root) for each in (text, path))


def notice(file: Path, found: Sequence[Untrusted]) -> str:
    """The line that says what of a file is not used, and how it would be."""
    values = ", ".join(
        f"`{'.'.join(each.place)}` ({f'line {each.line}, ' if index else ''}{each.reason})"
        for index, each in enumerate(found)
    )
    return (
        f"{file}:{found[0].line}: not used without trust: {values}; "
        "run `replay trust` once, or give `replay --trust-project`"
    )
