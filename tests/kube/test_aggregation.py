from __future__ import annotations

from replay.json import JSON
from replay.kube.rbac import aggregated


def role(name: str, *verbs: str, labels: JSON = None, collects: JSON = None) -> JSON:
    rules = [{"verbs": [verb]} for verb in verbs]
    metadata = {"name": name, "labels": labels}
    rule = {"aggregationRule": {"clusterRoleSelectors": collects}} if collects is not None else {}
    return {"metadata": metadata, "rules": rules, **rule}


def rules(roles: list[JSON], name: str) -> list[str]:
    return [
        rule["verbs"][0] for each in aggregated(roles) if each["metadata"]["name"] == name for rule in each["rules"]
    ]


def test_a_role_collects_from_roles_that_collect() -> None:
    roles = [
        role("admin", "stale", collects=[{"matchLabels": {"to-admin": "true"}}]),
        role(
            "edit",
            labels={"to-admin": "true"},
            collects=[{"matchExpressions": [{"key": "to-edit", "operator": "Exists"}]}],
        ),
        role("b", "list", "get", labels={"to-edit": "x"}),
        role("a", "get", labels={"to-edit": "x"}),
    ]
    assert rules(roles, "edit") == ["get", "list"]
    assert rules(roles, "admin") == ["get", "list"]


def test_a_role_that_collects_nothing_keeps_what_it_has() -> None:
    assert rules([role("admin", "get", collects=[{"matchLabels": {"to-admin": "true"}}])], "admin") == ["get"]


def test_expressions() -> None:
    def collected(expression: JSON) -> list[str]:
        return rules(
            [role("x", collects=[{"matchExpressions": [expression]}]), role("a", "get", labels={"l": "1"})], "x"
        )

    assert collected({"key": "l", "operator": "In", "values": ["1"]}) == ["get"]
    assert collected({"key": "l", "operator": "NotIn", "values": ["1"]}) == []
    assert collected({"key": "m", "operator": "DoesNotExist"}) == ["get"]
    assert collected({"key": "m", "operator": "Exists"}) == []
