"""Which policies are asked at all, in which order, and that sets share what is equal."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from replay.admission.decision import Decision, Denial, Verdict
from replay.admission.validating.plugin import ValidatingAdmission
from replay.cellib.composition import Evaluated, Evaluation
from replay.cellib.expression import CompiledExpression
from replay.cellib.version import NEWEST
from replay.kube.admissionregistration import (
    LabelSelector,
    LabelSelectorRequirement,
    ManifestSet,
    MatchResources,
    Rule,
    ValidatingAdmissionPolicy,
    ValidatingAdmissionPolicyBinding,
    Validation,
)
from replay.kube.attributes import Attributes, Missing, Operation, UserInfo
from replay.kube.discovery import builtin_discovery
from replay.kube.gvk import GroupVersionKind, GroupVersionResource
from replay.kube.lister import ObjectTracker

RULES = (Rule(("*",), ("*",), ("*",), ("*/*",)),)


def policy(name: str, expression: str = "false", *, static: bool = True) -> ValidatingAdmissionPolicy:
    constraints = MatchResources(resource_rules=RULES)
    return ValidatingAdmissionPolicy(
        name, static=static, match_constraints=constraints, validations=(Validation(expression, "no"),)
    )


def binding(name: str, policy_name: str, *, static: bool = True) -> ValidatingAdmissionPolicyBinding:
    return ValidatingAdmissionPolicyBinding(name, static, policy_name, ("Deny",))


def request(group: str, resource: str, kind: str) -> Attributes:
    gvk, gvr = GroupVersionKind(group, "v1", kind), GroupVersionResource(group, "v1", resource)
    return Attributes(Operation.CREATE, gvk, gvr, "", "", "x", UserInfo("alice"), object={"metadata": {"name": "x"}})


NODE = request("", "nodes", "Node")
ADMISSION = "admissionregistration.k8s.io"
SET = ManifestSet(
    (
        *(policy("static"), policy("api", static=False)),
        *(binding("sb", "static"), binding("ab", "api", static=False)),
    )
)


def denying(manifests: ManifestSet, attributes: Attributes) -> list[tuple[str, str]]:
    decision = ValidatingAdmission([manifests], NEWEST, builtin_discovery()).decide(attributes, ObjectTracker())[0]
    return [(denial.policy, denial.binding) for denial in decision.denials]


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        (NODE, ["static", "api"]),
        (request(ADMISSION, "validatingadmissionpolicies", "ValidatingAdmissionPolicy"), ["static"]),
        (request(ADMISSION, "mutatingadmissionpolicybindings", "MutatingAdmissionPolicyBinding"), ["static"]),
        (request(ADMISSION, "validatingwebhookconfigurations", "ValidatingWebhookConfiguration"), ["static", "api"]),
        (request("authentication.k8s.io", "tokenreviews", "TokenReview"), []),
        (request("authorization.k8s.io", "subjectaccessreviews", "SubjectAccessReview"), []),
        (request("example.com", "tokenreviews", "TokenReview"), ["static", "api"]),
    ],
)
def test_excluded_resources(attributes: Attributes, expected: list[str]) -> None:
    assert [name for name, _ in denying(SET, attributes)] == expected


def test_a_binding_belongs_to_the_policy_of_its_own_source() -> None:
    bindings = binding("b", "api"), binding("c", "static", static=False)
    manifests = ManifestSet((*SET.policies, *bindings))
    assert denying(manifests, NODE) == []


def test_a_policy_without_constraints_is_misconfigured() -> None:
    manifests = ManifestSet((replace(policy("static"), match_constraints=None), *SET.bindings))
    decision = ValidatingAdmission([manifests], NEWEST, builtin_discovery()).decide(NODE, ObjectTracker())[0]
    text = "failed to configure policy: policy contained no match constraints, a required field"
    assert decision == Decision(Verdict.DENIED, (Denial("static", "", None, text, "Invalid", 422, is_error=True),))


def test_an_api_policy_without_bindings_is_never_asked() -> None:
    misconfigured = replace(policy("api", static=False), match_constraints=None)
    assert denying(ManifestSet((misconfigured,)), NODE) == []


def test_equal_policies_of_several_sets_are_evaluated_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    evaluate = Evaluation.evaluate

    def watched(self: Evaluation, compiled: CompiledExpression) -> Evaluated:
        calls.append(compiled.expression)
        return evaluate(self, compiled)

    monkeypatch.setattr(Evaluation, "evaluate", watched)
    other = ManifestSet(
        (policy("renamed"), policy("different", "1 == 2"), binding("rb", "renamed"), binding("db", "different"))
    )
    decisions = ValidatingAdmission([SET, other], NEWEST, builtin_discovery()).decide(NODE, ObjectTracker())
    assert [[denial.policy for denial in decision.denials] for decision in decisions] == [
        ["static", "api"],
        ["renamed", "different"],
    ]
    assert calls == ["false", "1 == 2"]


NOT_SYSTEM = LabelSelector({}, (LabelSelectorRequirement("system", "DoesNotExist", ()),))
POLICIES = {
    "all": MatchResources(resource_rules=RULES),
    "by namespace": MatchResources(resource_rules=RULES, namespace_selector=NOT_SYSTEM),
    "by object": MatchResources(resource_rules=RULES, object_selector=LabelSelector({"app": "web"})),
    "by name": MatchResources(resource_rules=(replace(RULES[0], resource_names=("web",)),)),
}
BOUND = ManifestSet(
    (
        *(replace(policy(name), match_constraints=match) for name, match in POLICIES.items()),
        *(binding(f"{name} 1", name) for name in POLICIES),
        replace(binding("all 2", "all"), match_resources=MatchResources(namespace_selector=NOT_SYSTEM)),
    ),
)
SYSTEM: dict[str, str] = {"system": ""}


def pod(name: str, labels: object, app: str = "") -> Attributes:
    gvk, gvr = GroupVersionKind("", "v1", "Pod"), GroupVersionResource("", "v1", "pods")
    namespace = labels if isinstance(labels, Missing) else {"metadata": {"name": "n", "labels": labels}}
    metadata = {"name": name, "labels": {"app": app}}
    return Attributes(
        Operation.CREATE,
        gvk,
        gvr,
        "",
        "n",
        name,
        UserInfo("alice"),
        object={"metadata": metadata},
        namespace_object=namespace,
    )


KINDS: list[tuple[str, Attributes, list[str]]] = [
    ("plain", pod("x", {}), ["all 1", "all 2", "by namespace 1"]),
    ("system namespace", pod("x", SYSTEM), ["all 1"]),
    ("other labels", pod("x", {"a": "b"}), ["all 1", "all 2", "by namespace 1"]),
    ("object", pod("x", {}, "web"), ["all 1", "all 2", "by namespace 1", "by object 1"]),
    ("name", pod("web", SYSTEM), ["all 1", "by name 1"]),
    ("a label that is not a string", pod("x", {"system": ["?"]}), ["all 1"]),
    ("labels not known", pod("x", Missing("namespaceObject", "not recorded")), ["all 1"]),
    ("cluster scope", NODE, ["all 1", "all 2", "by namespace 1"]),
]


def test_requests_of_one_kind_are_matched_alike_and_others_on_their_own() -> None:
    admission = ValidatingAdmission([BOUND], NEWEST, builtin_discovery())
    for _ in range(2):  # nothing known, then all known
        found = []
        for name, attributes, _expected in KINDS:
            decision = admission.decide(attributes, ObjectTracker())[0]
            found.append((name, [denial.binding for denial in decision.denials]))
        assert found == [(name, expected) for name, _, expected in KINDS]
