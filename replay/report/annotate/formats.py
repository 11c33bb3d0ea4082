"""Annotations in every format there is, by its name."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from replay.report.annotate.annotation import Annotations
from replay.report.annotate.github import github_lines
from replay.report.annotate.gitlab import gitlab
from replay.report.annotate.junit import junit
from replay.report.annotate.sarif import sarif


def _github(annotations: Annotations) -> str:
    return "".join(f"{line}\n" for line in github_lines(annotations))


ANNOTATED: Mapping[str, Callable[[Annotations], str]] = {
    "github": _github,
    "sarif": sarif,
    "junit": junit,
    "gitlab": gitlab,
}
