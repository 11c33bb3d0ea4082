"""Which rules cover which, against the answers of the server's own comparison (data/covers.jsonl)."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from replay.json import JSON
from replay.kube.rbac import Permission, compacted, permissions_of, rule_text, uncovered

ROWS = [orjson.loads(line) for line in (Path(__file__).parent / "data" / "covers.jsonl").read_bytes().splitlines()]


def permissions(rules: list[JSON]) -> list[Permission]:
    return [each for rule in rules for each in permissions_of(rule)]


@pytest.mark.parametrize("row", [pytest.param(row, id=str(number)) for number, row in enumerate(ROWS)])
def test_what_no_rule_covers(row: JSON) -> None:
    missing = list(dict.fromkeys(permissions(row["missing"])))
    assert uncovered(row["owner"], permissions(row["servant"])) == missing


@pytest.mark.parametrize("row", [pytest.param(row, id=str(number)) for number, row in enumerate(ROWS)])
def test_few_rules_give_the_same(row: JSON) -> None:
    wanted = set(permissions(row["servant"]))
    assert set(permissions(compacted(wanted))) == wanted


@pytest.mark.parametrize(
    ("wanted", "rules", "texts"),
    [
        pytest.param([], [], [], id="nothing"),
        pytest.param(
            [Permission(verb, "", each) for verb in ("list", "get") for each in ("pods", "pods/log")],
            [{"apiGroups": [""], "resources": ["pods", "pods/log"], "verbs": ["get", "list"]}],
            ["get, list: pods, pods/log"],
            id="resources with the same verbs",
        ),
        pytest.param(
            [Permission("get", "apps", "deployments", name) for name in ("b", "a", None)],
            [
                {"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["get"]},
                {"apiGroups": ["apps"], "resources": ["deployments"], "resourceNames": ["a", "b"], "verbs": ["get"]},
            ],
            ["get: deployments.apps", "get: deployments.apps named a, b"],
            id="names stand apart from all names",
        ),
        pytest.param(
            [Permission("get", url="/b"), Permission("get", url="/a"), Permission("post", url="/a")],
            [
                {"nonResourceURLs": ["/b"], "verbs": ["get"]},
                {"nonResourceURLs": ["/a"], "verbs": ["get", "post"]},
            ],
            ["get: /b", "get, post: /a"],
            id="URLs",
        ),
    ],
)
def test_rules_of_permissions(wanted: list[Permission], rules: list[JSON], texts: list[str]) -> None:
    compact = compacted(wanted)
    assert (compact, [rule_text(rule) for rule in compact]) == (rules, texts)
