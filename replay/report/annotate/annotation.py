"""One finding at a file and line, between reports and the formats of code hosts and CI servers."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from urllib.parse import quote

from msgspec import Struct, field


class FindingLevel(StrEnum):
    """How grave a finding is, in the words of SARIF."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


class FindingRule(Struct, frozen=True):
    """A class of findings: a sentence, and what to do."""

    id: str
    summary: str
    help: str = ""


class Annotation(Struct, frozen=True):
    """A finding. `subject` is a policy or object; `path` is empty if no file holds it.

    Rule, file, `subject` and `detail` form the fingerprint, because counts in `message` and lines change.
    """

    rule: str
    level: FindingLevel
    message: str
    subject: str = ""
    path: str = ""
    line: int = 0
    column: int = 0
    detail: str = ""

    @property
    def text(self) -> str:
        """Return the subject with its detail. Bytes that are not UTF-8 are spelled out."""
        text = f"{self.subject}: {self.message}" if self.subject else self.message
        return text.encode("utf-8", "backslashreplace").decode()

    @property
    def uri(self) -> str:
        """The file relative to the working directory, as a URI; an absolute `file:` URI where it lies elsewhere."""
        path = relative(self.path)
        return Path(path).as_uri() if Path(path).is_absolute() else quote(path)

    @property
    def fingerprint(self) -> str:
        """32 hexadecimal digits that stay the same from run to run."""
        parts = (self.rule, relative(self.path), self.subject, self.detail)
        return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:32]


class Annotations(Struct, frozen=True):
    """All findings of a command, their rules, and subjects without findings."""

    title: str
    findings: Sequence[Annotation]
    rules: Mapping[str, FindingRule] = field(default_factory=dict)
    clean: Sequence[tuple[str, str]] = ()


def relative(path: str) -> str:
    """A path as seen from the working directory, with `/`; as it is where it lies elsewhere."""
    if not path:
        return ""
    path_from_here = os.path.relpath(path)
    return Path(path).as_posix() if path_from_here.startswith("..") else Path(path_from_here).as_posix()
