"""Findings of `replay check`: one error or warning at one place of a manifest."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from replay.manifests.read.node import NOWHERE, Position

SERVER = "server"
"""Name of every finding that the API server itself would refuse."""


class Severity(StrEnum):
    """Severity of a finding.

    An error stops the server (or a reload). A warning is ours alone. An information needs no action.
    """

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


class Finding(Struct, frozen=True):
    """One finding. `name` is `server` or the name of a lint. `field_path` is empty if it is about the whole document.

    `object` is `Kind/name` of the object if one could be read. `first` marks the part that is in the server's own
    refusal. `fix` is advice if the server's words have none. It is part of the one line of an error.
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
