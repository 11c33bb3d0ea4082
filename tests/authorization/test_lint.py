"""Warnings about the match conditions of authorization webhooks."""

from __future__ import annotations

import pytest
import yaml

from replay.authorization.check import lint_configuration
from replay.authorization.configuration import ServerFiles
from replay.authorization.start import check_start
from replay.cellib.version import NEWEST
from replay.manifests.lint import catalogue

HAS_RESOURCE, HAS_PATH = "has(request.resourceAttributes)", "has(request.nonResourceAttributes)"
VERB, NAMESPACE = "request.resourceAttributes.verb", "request.resourceAttributes.namespace"
PATH = "request.nonResourceAttributes.path"


def found(conditions: list[str], failure_policy: str) -> list[tuple[str, str]]:
    webhook = {
        "timeout": "3s",
        "subjectAccessReviewVersion": "v1",
        "matchConditionSubjectAccessReviewVersion": "v1",
        "failurePolicy": failure_policy,
        "connectionInfo": {"type": "KubeConfigFile", "kubeConfigFile": "/etc/kubernetes/guard.kubeconfig"},
        "matchConditions": [{"expression": expression} for expression in conditions],
    }
    configuration = {
        "apiVersion": "apiserver.config.k8s.io/v1",
        "kind": "AuthorizationConfiguration",
        "authorizers": [{"type": "Webhook", "name": "guard", "webhook": webhook}, {"type": "RBAC", "name": "rbac"}],
    }
    checked = check_start(yaml.safe_dump(configuration).encode(), NEWEST, ServerFiles())
    assert checked.is_accepted, checked.error
    prefix, suffix = "authorizers[0].webhook.matchConditions[", "].expression"
    warnings = lint_configuration(checked, NEWEST)
    return [(each.name, each.path.removeprefix(prefix).removesuffix(suffix)) for each in warnings]


@pytest.mark.parametrize(
    ("conditions", "names"),
    [
        pytest.param([HAS_RESOURCE, f"{VERB} == 'create'"], [], id="tested before"),
        pytest.param([f"{VERB} == 'create'", HAS_RESOURCE], [], id="tested after, which counts as much"),
        pytest.param(
            [f"{NAMESPACE} == 'prod'"], [(catalogue.UNGUARDED_ATTRIBUTES, "0")], id="not tested, as for paths"
        ),
        pytest.param(
            ["request.user != 'a'", f"{NAMESPACE} == 'prod'"],
            [(catalogue.UNGUARDED_ATTRIBUTES, "1")],
            id="not tested, beside another condition",
        ),
        pytest.param(
            [f"request.user == 'a' && {NAMESPACE} == 'prod'"],
            [(catalogue.UNGUARDED_ATTRIBUTES, "0")],
            id="not tested, for some users",
        ),
        pytest.param([f"!{HAS_RESOURCE} || {NAMESPACE} == 'prod'"], [], id="tested in the same condition"),
        pytest.param([f"{HAS_RESOURCE} ? {VERB} == 'get' : true"], [], id="tested by a conditional"),
        pytest.param(["request.?resourceAttributes.?verb.orValue('') == 'get'"], [], id="read as an optional"),
        pytest.param(
            [f"{PATH}.startsWith('/metrics')"],
            [(catalogue.UNGUARDED_ATTRIBUTES, "0")],
            id="not tested, as for resources",
        ),
        pytest.param([HAS_PATH, f"{PATH} == '/metrics'"], [], id="a path, tested"),
        pytest.param(
            [HAS_RESOURCE, f"{VERB} == 'create'", f"{VERB} == 'patch'"],
            [(catalogue.NEVER_TOGETHER, "2")],
            id="two verbs at once",
        ),
        pytest.param(
            [HAS_RESOURCE, f"{VERB} == 'create'", f"{VERB} in ['patch', 'update']"],
            [(catalogue.NEVER_TOGETHER, "2")],
            id="a verb that is none of a list",
        ),
        pytest.param([HAS_RESOURCE, HAS_PATH], [(catalogue.NEVER_TOGETHER, "1")], id="a resource and a path"),
        pytest.param(["false"], [(catalogue.NEVER_TRUE, "0")], id="never true"),
        pytest.param([HAS_RESOURCE, f"{VERB} == 'create'", f"{NAMESPACE} != 'a'"], [], id="true together"),
    ],
)
def test_match_conditions(conditions: list[str], names: list[tuple[str, str]]) -> None:
    assert found(conditions, "Deny") == names
    assert found(conditions, "NoOpinion") == [each for each in names if each[0] != catalogue.UNGUARDED_ATTRIBUTES]


ADMISSION, AUTHENTICATION, ENCRYPTION, TRACING = (
    f"apiVersion: apiserver.config.k8s.io/v1\nkind: {name}Configuration\n"
    for name in ("Admission", "Authentication", "Encryption", "Tracing")
)
EGRESS = "apiVersion: apiserver.k8s.io/v1beta1\nkind: EgressSelectorConfiguration\n"


@pytest.mark.parametrize(
    ("text", "error"),
    [
        pytest.param(
            ADMISSION + "plugins: []\n",
            "expected AuthorizationConfiguration, got *apiserver.AdmissionConfiguration",
            id="its kind",
        ),
        pytest.param(
            AUTHENTICATION + "jwt: []\n",
            "expected AuthorizationConfiguration, got *apiserver.AuthenticationConfiguration",
            id="how users authenticate",
        ),
        pytest.param(
            AUTHENTICATION + "wrong: 1\njwt: [{issuer: {url: https://a, colour: red}}]\n",
            'strict decoding error: unknown field "jwt[0].issuer.colour", unknown field "wrong"',
            id="fields that nobody authenticates by",
        ),
        pytest.param(
            AUTHENTICATION + "anonymous: {enabled: 3}\n",
            "json: cannot unmarshal number into Go struct field AnonymousAuthConfig.anonymous.enabled of type bool",
            id="a type before its kind",
        ),
        *(
            pytest.param(text + "wrong: 1\n", 'strict decoding error: unknown field "wrong"', id=f"a field of {name}")
            for text, name in ((ENCRYPTION, "encryption"), (TRACING, "tracing"), (EGRESS, "egress"))
        ),
        pytest.param(
            ADMISSION + "foo: 1\n", 'strict decoding error: unknown field "foo"', id="a field before its kind"
        ),
        pytest.param(
            ADMISSION + "plugins: []\nplugins: []\n",
            'strict decoding error: yaml: unmarshal errors:\n  line 4: key "plugins" already set in map',
            id="a key given twice before its kind",
        ),
    ],
)
def test_a_file_of_another_kind(text: str, error: str) -> None:
    """Strict decoding comes first (`load.LoadFromData`)."""
    checked = check_start(text.encode(), NEWEST, ServerFiles())
    assert checked.error == f"failed to load AuthorizationConfiguration from file: {error}"
