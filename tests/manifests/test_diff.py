from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from replay.kube.admissionregistration import (
    LabelSelector,
    ManifestSet,
    MatchCondition,
    MatchPolicy,
    MatchResources,
    Rule,
    ValidatingAdmissionPolicy,
    ValidatingAdmissionPolicyBinding,
    Validation,
)
from replay.manifests.diff import diff_sets
from replay.manifests.object_diff import FieldDiff, ObjectDiff, Verb
from replay.report.diff_report import diff_json, diff_markdown, diff_screen, diff_text

PODS = Rule(("CREATE", "UPDATE"), ("",), ("v1",), ("pods",))
MATCH = MatchResources(resource_rules=(PODS,))
POLICY = ValidatingAdmissionPolicy("p", True, match_constraints=MATCH, validations=(Validation("a", "m"),))
BINDING = ValidatingAdmissionPolicyBinding("b", True, "p", ("Deny",))
KIND = "ValidatingAdmissionPolicy"


def changed(**fields: Any) -> tuple[FieldDiff, ...]:
    """The differences of the policy with other fields, in a set of its own."""
    [found] = diff_sets(ManifestSet((POLICY,)), ManifestSet((replace(POLICY, **fields),)))
    assert (found.kind, found.name, found.verb) == (KIND, "p", Verb.CHANGED)
    return found.fields


def rules(*changes: Rule) -> Verb:
    [found] = changed(match_constraints=replace(MATCH, resource_rules=changes))
    assert found.field == "matchConstraints.resourceRules"
    return found.verb


RULES = {
    "another resource": ((PODS, Rule(("CREATE",), ("apps",), ("v1",), ("deployments",))), Verb.WIDENED),
    "every operation": ((replace(PODS, operations=("*",)),), Verb.WIDENED),
    "every resource": ((replace(PODS, resources=("*",)),), Verb.WIDENED),
    "one operation less": ((replace(PODS, operations=("CREATE",)),), Verb.NARROWED),
    "some names": ((replace(PODS, resource_names=("x",)),), Verb.NARROWED),
    "namespaced only": ((replace(PODS, scope="Namespaced"),), Verb.NARROWED),
    "one thing for another": ((replace(PODS, resources=("secrets",)),), Verb.CHANGED),
    "subresources are not resources": ((replace(PODS, resources=("pods/*",)),), Verb.CHANGED),
}


@pytest.mark.parametrize("name", RULES)
def test_rules(name: str) -> None:
    assert rules(*RULES[name][0]) is RULES[name][1]


def test_equal_sets() -> None:
    assert diff_sets(ManifestSet((POLICY,)), ManifestSet((POLICY,))) == ()


def test_expressions_and_messages() -> None:
    found = changed(validations=(Validation("b", "m"), Validation("c")))
    assert found == (
        FieldDiff("validations[0].expression", Verb.CHANGED, "a", "b"),
        FieldDiff("validations[1]", Verb.ADDED, "", "c"),
    )


def test_named_items_are_compared_by_name() -> None:
    conditions = (MatchCondition("x", "1"), MatchCondition("y", "2"))
    current = replace(POLICY, match_conditions=conditions)
    [found] = diff_sets(ManifestSet((current,)), ManifestSet((replace(POLICY, match_conditions=conditions[::-1]),)))
    assert found.fields == (FieldDiff("matchConditions", Verb.CHANGED, "in order x, y", "in order y, x"),)
    [found] = diff_sets(ManifestSet((current,)), ManifestSet((replace(POLICY, match_conditions=conditions[1:]),)))
    assert found.fields == (FieldDiff("matchConditions[x]", Verb.REMOVED, "x: 1", ""),)


def test_selectors_and_exclusions() -> None:
    selector = LabelSelector({"a": "b"})
    assert changed(match_constraints=replace(MATCH, namespace_selector=selector)) == (
        FieldDiff("matchConstraints.namespaceSelector", Verb.NARROWED, "everything", "a=b"),
    )
    assert changed(match_constraints=replace(MATCH, exclude_resource_rules=(PODS,))) == (
        FieldDiff("matchConstraints.excludeResourceRules", Verb.NARROWED, "", "CREATE, UPDATE pods in core/v1"),
    )
    assert changed(match_constraints=replace(MATCH, match_policy=MatchPolicy.EXACT)) == (
        FieldDiff("matchConstraints.matchPolicy", Verb.NARROWED, "Equivalent", "Exact"),
    )


def test_a_renamed_policy_takes_its_binding_along() -> None:
    current = ManifestSet((POLICY, BINDING))
    policy = replace(POLICY, name="q")
    binding = replace(BINDING, name="c", policy_name="q", validation_actions=("Audit",))
    assert diff_sets(current, ManifestSet((policy, binding))) == (
        ObjectDiff(KIND, "p", Verb.RENAMED, (), "q"),
        ObjectDiff(
            f"{KIND}Binding", "b", Verb.RENAMED, (FieldDiff("validationActions", Verb.CHANGED, "Deny", "Audit"),), "c"
        ),
    )


SET = (ManifestSet((POLICY, BINDING)), ManifestSet((replace(POLICY, validations=(Validation("b`c", "m" * 90),)),)))
TEXT = f"""~ ValidatingAdmissionPolicy/p changed
    validations[0].expression changed: a -> b`c
    validations[0].message changed:
      - m
      + {"m" * 90}
- ValidatingAdmissionPolicyBinding/b removed"""
MARKDOWN = f"""- **changed** ValidatingAdmissionPolicy `p`
  - `validations[0].expression` changed: `a` → `` b`c ``
  - `validations[0].message` changed: `m` → `{"m" * 90}`
- **removed** ValidatingAdmissionPolicyBinding `b`"""


def test_printed() -> None:
    found = diff_sets(*SET)
    assert "\n".join(diff_text(found)) == TEXT
    assert "\n".join(diff_markdown(found)) == MARKDOWN
    assert [each["change"] for each in diff_json(found)] == ["changed", "removed"]
    assert list(diff_text(())) == ["the sets do not differ"]


def test_a_long_difference_begins_with_what_changed() -> None:
    renamed = [ObjectDiff("Policy", f"old-{i}", Verb.RENAMED, (), f"new-{i}") for i in range(50)]
    changed = ObjectDiff("Policy", "p", Verb.CHANGED, (FieldDiff("a", Verb.CHANGED, "1", "2"),))
    lines = list(diff_screen((*renamed, changed)))
    assert lines[:3] == [
        "51 objects differ: 50 renamed, 1 changed.",
        "  ~ Policy/p changed (1 field)",
        "  ~ Policy/old-0 renamed to new-0",
    ]
    assert lines[-4:] == [
        "  … and 16 more",
        "",
        "Next steps",
        "  replay diff … --full  every field, with its old and new value",
    ]
    assert len(lines) == 40
    assert list(diff_screen((changed,))) == list(diff_text((changed,)))
