"""The Code Quality report of GitLab, which a merge request shows beside the changed lines."""

from __future__ import annotations

import json

from replay.report.annotate.annotation import Annotations, FindingLevel, relative

_SEVERITIES = {FindingLevel.ERROR: "major", FindingLevel.WARNING: "minor", FindingLevel.NOTE: "info"}


def gitlab(annotations: Annotations) -> str:
    """Return a list of issues. A finding without a file is shown at the file `cluster`."""
    issues = [
        {
            "description": each.text,
            "check_name": each.rule,
            "fingerprint": each.fingerprint,
            "severity": _SEVERITIES[each.level],
            "location": {"path": relative(each.path) or "cluster", "lines": {"begin": max(each.line, 1)}},
        }
        for each in annotations.findings
    ]
    return json.dumps(issues, indent=1, ensure_ascii=False) + "\n"
