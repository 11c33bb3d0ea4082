"""What is not known: it stays undetermined only where it matters, and what is certain is said all the same."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from replay.admission.decision import Decision, Denial, Undetermined, Verdict
from replay.admission.validating.outcome import VALIDATION_FAILURE_KEY
from replay.admission.validating.plugin import ValidatingAdmission
from replay.cellib.version import NEWEST
from replay.json import JSON
from replay.kube.admissionregistration import (
    AuditAnnotation,
    FailurePolicy,
    LabelSelector,
    ManifestSet,
    MatchCondition,
    MatchResources,
    ParamKind,
    ParamRef,
    Rule,
    ValidatingAdmissionPolicy,
    ValidatingAdmissionPolicyBinding,
    Validation,
)
from replay.kube.attributes import Attributes, Missing, PartialObject
from replay.kube.discovery import builtin_discovery
from replay.kube.gvk import GroupVersionKind
from tests.support.creation import creation_of_pod

NO_BODY = Missing("object", "the log has no body", "level: Request")
NO_NAMESPACE = Missing("namespaceObject", "no snapshot")
NO_PARAMS = Missing("params", "no snapshot")
EVERYTHING = (Rule(("*",), ("*",), ("*",), ("*",)),)


class Nothing:
    """A lister that knows nothing."""

    def get(self, kind: GroupVersionKind, namespace: str, name: str) -> JSON | Missing | None:  # noqa: ARG002
        return NO_PARAMS

    def list(self, kind: GroupVersionKind, namespace: str | None) -> Sequence[JSON] | Missing:  # noqa: ARG002
        return NO_PARAMS


def pod(**changes: Any) -> Attributes:
    return creation_of_pod({"metadata": {"name": "web"}, "spec": {"hostNetwork": True}}, **changes)


def policy(*validations: str | Validation, **fields: Any) -> ValidatingAdmissionPolicy:
    listed = tuple(Validation(each, "no") if isinstance(each, str) else each for each in validations)
    constraints = fields.pop("match_constraints", MatchResources(resource_rules=EVERYTHING))
    return ValidatingAdmissionPolicy("p", static=True, match_constraints=constraints, validations=listed, **fields)


def binding(*actions: str, **fields: Any) -> ValidatingAdmissionPolicyBinding:
    return ValidatingAdmissionPolicyBinding(
        "b", static=True, policy_name="p", validation_actions=actions or ("Deny",), **fields
    )


def decide(of: ValidatingAdmissionPolicy, bound: ValidatingAdmissionPolicyBinding, request: Attributes) -> Decision:
    manifests = ManifestSet((of, bound))
    return ValidatingAdmission([manifests], NEWEST, builtin_discovery()).decide(request, Nothing())[0]


def undetermined(missing: Missing, bound: str = "b", *, never_refuses: bool = False) -> Undetermined:
    reason = f"`{missing.path}` is not known: {missing.reason}"
    return Undetermined("p", bound, reason, missing.path, missing.fix, never_refuses)


ADMITTED = Decision(Verdict.ADMITTED)
UNKNOWN_OBJECT = Decision(Verdict.UNDETERMINED, undetermined=(undetermined(NO_BODY),))
DENIAL = Denial("p", "b", 0, "no", "Invalid", 422)
HIDES = pod(object=NO_BODY)
OBJECT_NAME = "object.metadata.name == 'web'"
SELECTED = MatchResources(resource_rules=EVERYTHING, object_selector=LabelSelector({"a": "b"}))
CONDITION = (MatchCondition("c", OBJECT_NAME),)


@pytest.mark.parametrize(
    ("name", "of", "bound", "request_", "expected"),
    [
        ("the object decides", policy(OBJECT_NAME), binding(), HIDES, UNKNOWN_OBJECT),
        ("the user decides", policy("request.userInfo.username == 'jane'"), binding(), HIDES, ADMITTED),
        ("true whatever the object is", policy(f"{OBJECT_NAME} || true"), binding(), HIDES, ADMITTED),
        (
            "false whatever the object is",
            policy(f"{OBJECT_NAME} && false"),
            binding(),
            HIDES,
            Decision(Verdict.DENIED, (DENIAL,)),
        ),
        (
            "a certain denial beside an unknown one",
            policy("false", OBJECT_NAME),
            binding(),
            HIDES,
            Decision(Verdict.UNDETERMINED, (DENIAL,), undetermined=(undetermined(NO_BODY),)),
        ),
        (
            "the message depends on the object",
            policy(Validation("false", "no", "string(object.metadata.name)")),
            binding(),
            HIDES,
            Decision(Verdict.UNDETERMINED, (replace(DENIAL, message=""),), undetermined=(undetermined(NO_BODY),)),
        ),
        (
            "an open list of failures is no annotation",
            policy("false", OBJECT_NAME),
            binding("Audit", "Warn"),
            HIDES,
            Decision(
                Verdict.UNDETERMINED,
                warnings=("Validation failed for ValidatingAdmissionPolicy 'p' with binding 'b': no",),
                undetermined=(undetermined(NO_BODY, never_refuses=True),),
            ),
        ),
        (
            "a certain list of failures beside an unknown warning",
            policy(OBJECT_NAME),
            binding("Warn"),
            HIDES,
            Decision(Verdict.UNDETERMINED, undetermined=(undetermined(NO_BODY, never_refuses=True),)),
        ),
        (
            "a match condition is false for certain",
            policy("false", match_conditions=(*CONDITION, MatchCondition("d", "false"))),
            binding(),
            HIDES,
            ADMITTED,
        ),
        (
            "a match condition is unknown, Fail: it may be an error",
            policy("true", match_conditions=CONDITION),
            binding(),
            HIDES,
            UNKNOWN_OBJECT,
        ),
        (
            "a match condition is unknown, Ignore, and nothing would deny",
            policy("true", match_conditions=CONDITION, failure_policy=FailurePolicy.IGNORE),
            binding(),
            HIDES,
            ADMITTED,
        ),
        (
            "a match condition is unknown, Ignore, and something would deny",
            policy("false", match_conditions=CONDITION, failure_policy=FailurePolicy.IGNORE),
            binding(),
            HIDES,
            UNKNOWN_OBJECT,
        ),
        (
            "a match condition is unknown and another an error, Ignore",
            policy(
                "false",
                match_conditions=(*CONDITION, MatchCondition("d", "oldObject.x == 1")),
                failure_policy=FailurePolicy.IGNORE,
            ),
            binding(),
            HIDES,
            ADMITTED,
        ),
        (
            "the selector is unknown, and nothing would deny",
            policy("true", match_constraints=SELECTED),
            binding(),
            HIDES,
            ADMITTED,
        ),
        (
            "the selector is unknown, and something would deny",
            policy("false", match_constraints=SELECTED),
            binding(),
            HIDES,
            Decision(Verdict.UNDETERMINED, undetermined=(undetermined(NO_BODY, ""),)),
        ),
        (
            "the binding's selector is unknown, and nothing would deny",
            policy("true"),
            binding(match_resources=SELECTED),
            HIDES,
            ADMITTED,
        ),
        (
            "the binding's selector is unknown, and something would deny",
            policy("false"),
            binding(match_resources=SELECTED),
            HIDES,
            UNKNOWN_OBJECT,
        ),
        (
            "an annotation depends on the object",
            policy("true", audit_annotations=(AuditAnnotation("k", "string(object.x)"), AuditAnnotation("l", "'x'"))),
            binding(),
            HIDES,
            Decision(Verdict.UNDETERMINED, audit_annotations={"p/l": "x"}, undetermined=(undetermined(NO_BODY),)),
        ),
        (
            "the namespace is unknown and not read",
            policy(OBJECT_NAME),
            binding(),
            pod(namespace_object=NO_NAMESPACE),
            ADMITTED,
        ),
        (
            "the namespace is unknown and read",
            policy("namespaceObject.metadata.name == 'x'"),
            binding(),
            pod(namespace_object=NO_NAMESPACE),
            Decision(Verdict.UNDETERMINED, undetermined=(undetermined(NO_NAMESPACE),)),
        ),
        (
            "the namespace's labels are unknown, and something would deny",
            policy(
                "false",
                match_constraints=MatchResources(
                    resource_rules=EVERYTHING, namespace_selector=LabelSelector({"a": "b"})
                ),
            ),
            binding(),
            pod(namespace_object=NO_NAMESPACE),
            Decision(Verdict.UNDETERMINED, undetermined=(undetermined(NO_NAMESPACE, ""),)),
        ),
        (
            "the parameters are unknown",
            policy("params == null", param_kind=ParamKind("v1", "ConfigMap")),
            binding(param_ref=ParamRef("limits", parameter_not_found_action="Deny")),
            pod(),
            Decision(Verdict.UNDETERMINED, undetermined=(undetermined(NO_PARAMS),)),
        ),
        (
            "the kind of the parameters is unknown",
            policy("true", param_kind=ParamKind("x.io/v1", "Limit")),
            binding(param_ref=ParamRef("limits")),
            pod(),
            Decision(
                Verdict.UNDETERMINED,
                undetermined=(undetermined(Missing("params", "the kind x.io/v1 Limit is not known: no snapshot"), ""),),
            ),
        ),
        (
            "permissions are unknown",
            policy("authorizer.path('/healthz').check('get').allowed()"),
            binding(),
            pod(),
            Decision(Verdict.UNDETERMINED, undetermined=(undetermined(NO_PARAMS),)),
        ),
        (
            "the known part of an object decides",
            policy("object.spec.hostNetwork != true"),
            binding(),
            pod(object=PartialObject({"metadata": {"uid": NO_BODY}, "spec": {"hostNetwork": True}}, (NO_BODY,))),
            Decision(Verdict.DENIED, (DENIAL,)),
        ),
        (
            "the unknown part of an object decides",
            policy("object.metadata.uid != ''"),
            binding(),
            pod(object=PartialObject({"metadata": {"uid": NO_BODY}, "spec": {"hostNetwork": True}}, (NO_BODY,))),
            UNKNOWN_OBJECT,
        ),
    ],
)
def test_unknown_input(
    name: str,
    of: ValidatingAdmissionPolicy,
    bound: ValidatingAdmissionPolicyBinding,
    request_: Attributes,
    expected: Decision,
) -> None:
    assert decide(of, bound, request_) == expected, name


def test_a_policy_that_may_match_leaves_the_failures_of_others_open() -> None:
    certain = replace(policy("false"), name="a")
    manifests = ManifestSet(
        (
            *(certain, policy("false", match_constraints=SELECTED)),
            *(replace(binding("Audit"), policy_name="a"), binding("Audit")),
        )
    )
    decision = ValidatingAdmission([manifests], NEWEST, builtin_discovery()).decide(HIDES, Nothing())[0]
    assert decision == Decision(Verdict.UNDETERMINED, undetermined=(undetermined(NO_BODY, ""),))
    assert VALIDATION_FAILURE_KEY not in decision.audit_annotations


def test_a_namespace_that_is_not_there_is_not_known() -> None:
    decision = decide(policy("namespaceObject == null"), binding(), pod(namespace_object=None))
    assert [each.path for each in decision.undetermined] == ["namespaceObject"]


def test_several_missing_parts_are_one_entry() -> None:
    namespace_too = policy("object.metadata.name == 'a' || namespaceObject.metadata.name == 'b'")
    decision = decide(namespace_too, binding(), pod(object=NO_BODY, namespace_object=NO_NAMESPACE))
    reason = "`object` is not known: the log has no body (and 1 more)"
    assert decision.undetermined == (Undetermined("p", "b", reason, "object", "level: Request"),)
