"""A case as a gator suite: a template with one constraint per denial, the request, and the looked-up objects."""

from __future__ import annotations

import re

from replay.case.exported import Exported, UnrepresentableError
from replay.case.write.own import yaml_text
from replay.case.write.review import review
from replay.gatekeeper.constraint import GATOR
from replay.gatekeeper.policy_set import GatekeeperPolicies
from replay.gatekeeper.suite import SuiteTest
from replay.json import JSON
from replay.kube.engine_policy import policy_name

_API_VERSION = "test.gatekeeper.sh/v1alpha1"
_META, _ESCAPED = re.compile(r"([\\.+*?()|\[\]{}^$])"), r"\\\1"
"""Characters with a special meaning in Go's regular expressions."""
_REVIEW, _INVENTORY = "review.yaml", "inventory.yaml"


def gator_files(exported: Exported) -> dict[str, str]:
    """Return the files by name. Raises UnrepresentableError for a case that a suite cannot represent."""
    denying = dict.fromkeys(denial.policy for denial in exported.decision.denials if denial.of_webhook)
    constraints = {policy_name(each): each for each in exported.engine_objects}
    named = [name for name in denying if name in constraints]
    if not named:
        raise UnrepresentableError("no constraint of Gatekeeper denies it")
    templates = {str(each["metadata"]["name"]): each for each in exported.engine_objects if "targets" in _spec(each)}
    request = {key: value for key, value in review(exported).items() if key != "response"}
    inventory = [*exported.objects, *_namespaces(exported)]
    files: dict[str, str] = {_REVIEW: yaml_text(request)}
    tests: list[JSON] = []
    for name in named:
        constraint = constraints[name]
        template = templates[str(constraint["kind"]).lower()]
        paths = f"template-{template['metadata']['name']}.yaml", f"constraint-{constraint['metadata']['name']}.yaml"
        files |= dict(zip(paths, (yaml_text(_as_written(template)), yaml_text(_as_written(constraint))), strict=True))
        case = {
            "name": exported.name,
            "object": _REVIEW,
            **({"inventory": [_INVENTORY]} if inventory else {}),
            "assertions": _assertions(template, constraint, request, inventory),
        }
        tests.append({"name": name, "template": paths[0], "constraint": paths[1], "cases": [case]})
    if inventory:
        files[_INVENTORY] = "---\n".join(map(yaml_text, inventory))
    suite = {"apiVersion": _API_VERSION, "kind": "Suite", "metadata": {"name": "replay"}, "tests": tests}
    return {"suite.yaml": yaml_text(suite), **files}


def _assertions(template: JSON, constraint: JSON, request: JSON, inventory: list[JSON]) -> list[JSON]:
    """Return one assertion for each message, in the words of gator's enforcement point."""
    bare = [_as_written(template), _as_written(constraint)]
    (own,) = GatekeeperPolicies(bare).constraints.values()
    if not own.actions_at(GATOR):
        raise UnrepresentableError(f"{own.key} does not act at the enforcement point of gator, {GATOR}")
    violations, unknown = SuiteTest(bare, "").violations(request, inventory)
    if unknown:
        raise UnrepresentableError(f"{own.key} cannot be decided without the cluster: {unknown[0]}")
    messages = [violation.message for violation in violations]
    if not messages:
        raise UnrepresentableError(
            f"gator finds no violation of {own.key}: the object that is denied is one that it expands to"
        )
    return [
        {"violations": messages.count(message), "message": f"^{_META.sub(_ESCAPED, message)}$"}
        for message in dict.fromkeys(messages)
    ]


def _spec(value: JSON) -> JSON:
    return value.get("spec") or {}


def _as_written(value: JSON) -> JSON:
    """Return an object without the fields that only a stored object has."""
    metadata = {"name": value["metadata"]["name"]}
    return {"apiVersion": value["apiVersion"], "kind": value["kind"], "metadata": metadata, "spec": _spec(value)}


def _namespaces(exported: Exported) -> list[JSON]:
    """Return the namespace of the request, which selectors read."""
    namespace = exported.validated.namespace_object
    return [{"apiVersion": "v1", "kind": "Namespace", **namespace}] if isinstance(namespace, dict) else []
