"""`replay diff --engines`: the requests that Rego and CEL of one template decide otherwise."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from replay.compare.policy_pairs import SourceComparison
from replay.errors import ReplayError
from replay.json import JSON
from replay.pipeline.diff_requests import compare_sources
from replay.pipeline.options import Options
from replay.pipeline.scenario import Scenario
from replay.report.diff_report import sources_json, sources_markdown, sources_text

TEMPLATE = """\
apiVersion: templates.gatekeeper.sh/v1
kind: ConstraintTemplate
metadata: {name: needs}
spec:
  crd: {spec: {names: {kind: Needs}}}
  targets:
  - target: admission.k8s.gatekeeper.sh
    code:
    - engine: K8sNativeValidation
      source:
        validations:
        - {expression: "has(object.metadata.labels) && 'team' in object.metadata.labels", message: no team}
        - {expression: "object.metadata.name != 'b'", message: b is no name}
    - engine: Rego
      source:
        rego: |
          package needs
          violation[{"msg": "no team"}] { not input.review.object.metadata.labels.team }
          violation[{"msg": "b is not a name"}] { input.review.object.metadata.name == "b" }
          violation[{"msg": "c is not a name"}] { input.review.object.metadata.name == "c" }
"""
CONSTRAINT = """\
---
apiVersion: constraints.gatekeeper.sh/v1beta1
kind: Needs
metadata: {name: team}
spec:
  enforcementAction: dryrun
  match: {kinds: [{apiGroups: [''], kinds: [ConfigMap]}]}
"""
OTHER = TEMPLATE.replace("needs", "other").replace("Needs", "Other").replace("engine: Rego", "engine: Other")


def silent(_what: str, _done: int, _total: int) -> None:
    """No progress shown."""


def _case(name: str, labels: JSON) -> JSON:
    value = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": labels}}
    kind = {"group": "", "version": "v1", "kind": "ConfigMap"}
    resource = {"group": "", "version": "v1", "resource": "configmaps"}
    request = {"uid": "", "kind": kind, "resource": resource, "operation": "CREATE", "name": name, "object": value}
    return {"id": f"id-{name}", "request": {**request, "userInfo": {"username": "jane"}}}


@pytest.fixture
def found(tmp_path: Path) -> SourceComparison:
    (tmp_path / "t.yaml").write_text(TEMPLATE + CONSTRAINT + "---\n" + OTHER, "utf-8")
    rows = [_case("a", {"team": "x"}), _case("b", {"team": "x"}), _case("c", {"team": "x"}), _case("d", {})]
    (tmp_path / "cases.jsonl").write_text("\n".join(map(json.dumps, rows)), "utf-8")
    return compare_sources(tmp_path / "t.yaml", Scenario(), [tmp_path / "cases.jsonl"], Options(), silent)


def test_cases(found: SourceComparison) -> None:
    assert sources_json(found) == {
        "templates": ["needs"],
        "requests": 4,
        "deniedAlike": 1,
        "decidedOtherwise": [
            {"id": "id-c", "request": "CREATE ConfigMap c by jane", "rego": ["[team] c is not a name"], "cel": []}
        ],
        "deniedWithOtherMessages": [
            {
                "id": "id-b",
                "request": "CREATE ConfigMap b by jane",
                "rego": ["[team] b is not a name"],
                "cel": ["[team] b is no name"],
            }
        ],
        "undetermined": [],
    }


def test_what_is_printed(found: SourceComparison) -> None:
    assert list(sources_text(found)) == [
        "needs: Rego and CEL decide 1 of 4 requests differently. 1 request denied by both with the same message.",
        "",
        "Rego denies, CEL allows: 1 request:",
        "  CREATE ConfigMap c by jane (id-c)",
        "    Rego: [team] c is not a name",
        "    CEL:  allowed",
        "",
        "Both deny, with other messages: 1 request:",
        "  CREATE ConfigMap b by jane (id-b)",
        "    Rego: [team] b is not a name",
        "    CEL:  [team] b is no name",
    ]
    assert "- `CREATE ConfigMap c by jane` (`id-c`)" in list(sources_markdown(found))


def test_a_log(tmp_path: Path, short_sample: Path) -> None:
    """A template without a constraint is asked about everything: what is called `c` is denied by Rego alone, and all lacks a team."""
    (tmp_path / "t.yaml").write_text(TEMPLATE, "utf-8")
    found = compare_sources(
        tmp_path / "t.yaml", Scenario((str(short_sample),)).resolved(), [], Options(workers=1), silent
    )
    assert found.denied > 50
    assert (found.differing, found.reworded) == ((), ())


REFUSED = [
    ("no template with both", OTHER, "no ConstraintTemplate has both Rego and CEL"),
    ("Rego that does not compile", TEMPLATE.replace("not input", "nowhere(input)"), "ConstraintTemplate/needs: "),
    ("no requests", TEMPLATE, "no requests: give a log after the template"),
]


@pytest.mark.parametrize(("text", "message"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
def test_what_is_refused(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "t.yaml").write_text(text, "utf-8")
    with pytest.raises(ReplayError, match=message):
        compare_sources(tmp_path / "t.yaml", Scenario(), [], Options(), silent)
