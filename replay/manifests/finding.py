"""Findings of `replay check`: one error or warning at one place of a manifest."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from replay.manifests.read.node import NOWHERE, Position

SERVER = "server"
"""The name of every finding that the API server itself would refuse."""


class Severity(StrEnum):
    """An error stops the server (or a reload); a warning is ours alone; an information needs no action."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


class Finding(Struct, frozen=True):
    """One finding; `name` is `server` or that of a lint, `field_path` empty where the document as a whole is meant.

    `object` is `Kind/name` of the object where one could be read. `first` marks what is part of the text with which the
    server itself refuses. `fix` says what to do where the server's words do not; it stands in the one line of an error.
    """

    severity: Severity
    name: str
    message: str
    path: str
    position: Position = NOWHERE
    field_path: str = ""
    object: str = ""
    first: bool = False
    fix: str = ""


class ManifestRefusal(Struct, frozen=True):
    """One error in the server's words (it stops at the first), with its findings."""

    text: str
    findings: tuple[Finding, ...]
