"""Workflow commands, which annotate the lines of a pull request."""

from __future__ import annotations

from collections.abc import Iterator

from replay.report.annotate.annotation import Annotations, FindingLevel, relative

_COMMANDS = {FindingLevel.ERROR: "error", FindingLevel.WARNING: "warning", FindingLevel.NOTE: "notice"}


def github_lines(annotations: Annotations) -> Iterator[str]:
    """Yield one command per finding, the most severe first, because GitHub shows ten per severity and step."""
    for each in annotations.findings:
        place = f"file={github_property(relative(each.path))}," if each.path else ""
        place += f"line={each.line}," if each.line else ""
        place += f"col={each.column}," if each.column else ""
        title = github_property(f"{annotations.title}: {each.rule}")
        yield f"::{_COMMANDS[each.level]} {place}title={title}::{github_data(each.text)}"


def github_data(text: str) -> str:
    """The message of a workflow command, escaped."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def github_property(text: str) -> str:
    """A property of a workflow command, escaped."""
    return github_data(text).replace(":", "%3A").replace(",", "%2C")
