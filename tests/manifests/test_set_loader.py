from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from msgspec.structs import replace

from replay.cellib.version import NEWEST, KubernetesVersion
from replay.errors import ManifestError
from replay.kube.admissionregistration import (
    FailurePolicy,
    MatchPolicy,
    MutatingAdmissionPolicy,
    Rule,
    ValidatingAdmissionPolicy,
    ValidatingAdmissionPolicyBinding,
)
from replay.manifests.set_loader import load_manifest_set, set_objects

POLICY = """apiVersion: admissionregistration.k8s.io/v1
kind: {kind}
metadata:
  name: {name}
spec:
  matchConstraints:
    resourceRules:
    - {{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}}
  {body}
"""
VALIDATING = "validations: [{expression: object.metadata.name != 'x'}]"
MUTATING = "reinvocationPolicy: Never\n  mutations: [{patchType: JSONPatch, jsonPatch: {expression: '[]'}}]"
BINDING = """apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {{name: {name}}}
spec: {{policyName: {policy}, validationActions: [Deny]}}
"""


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    """A set with two plugins and API-based objects."""
    for name in ("b", "a"):
        text = POLICY.format(kind="ValidatingAdmissionPolicy", name=f"{name}.static.k8s.io", body=VALIDATING)
        write(tmp_path / f"set/vap/{name}.yaml", text)
    write(tmp_path / "set/vap/z.yaml", BINDING.format(name="bind.static.k8s.io", policy="a.static.k8s.io"))
    mutating = POLICY.format(kind="MutatingAdmissionPolicy", name="m.static.k8s.io", body=MUTATING)
    write(tmp_path / "set/map/m.yaml", mutating.replace("'[]'", '\'[JSONPatch{op: "remove", path: "/x"}]\''))
    write(tmp_path / "set/api/p.yaml", POLICY.format(kind="ValidatingAdmissionPolicy", name="aa", body=VALIDATING))
    return tmp_path / "set"


def test_static_objects_come_first_by_name_with_defaults(scenario: Path) -> None:
    loaded = load_manifest_set(scenario, version=NEWEST)
    names = [(policy.name, policy.static) for policy in loaded.of(ValidatingAdmissionPolicy)]
    assert names == [("a.static.k8s.io", True), ("b.static.k8s.io", True), ("aa", False)]
    policy = loaded.of(ValidatingAdmissionPolicy)[0]
    assert policy.failure_policy is FailurePolicy.FAIL
    assert policy.match_constraints is not None
    assert policy.match_constraints.match_policy is MatchPolicy.EQUIVALENT
    assert policy.match_constraints.resource_rules == (Rule(("CREATE",), ("",), ("v1",), ("pods",)),)
    assert [binding.policy_name for binding in loaded.of(ValidatingAdmissionPolicyBinding)] == ["a.static.k8s.io"]
    assert [mutation.patch_type for mutation in loaded.of(MutatingAdmissionPolicy)[0].mutations] == ["JSONPatch"]
    assert sorted(loaded.hashes) == ["MutatingAdmissionPolicy", "ValidatingAdmissionPolicy"]


def test_objects_keep_where_they_were_read(scenario: Path) -> None:
    (scenario / "vap/b.yaml").unlink()
    text = POLICY.format(kind="ValidatingAdmissionPolicy", name="b.static.k8s.io", body=VALIDATING)
    write(scenario / "vap/z.yaml", (scenario / "vap/z.yaml").read_text() + "---\n# two\n" + text)
    loaded = load_manifest_set(scenario, version=NEWEST)
    assert loaded.origins == {
        ("ValidatingAdmissionPolicy", "a.static.k8s.io"): (f"{scenario}/vap/a.yaml", 1, 1),
        ("ValidatingAdmissionPolicyBinding", "bind.static.k8s.io"): (f"{scenario}/vap/z.yaml", 1, 1),
        ("ValidatingAdmissionPolicy", "b.static.k8s.io"): (f"{scenario}/vap/z.yaml", 7, 2),
        ("MutatingAdmissionPolicy", "m.static.k8s.io"): (f"{scenario}/map/m.yaml", 1, 1),
        ("ValidatingAdmissionPolicy", "aa"): (f"{scenario}/api/p.yaml", 1, 1),
    }
    assert replace(loaded, origins={}) == loaded


def test_a_flat_directory_means_the_same(scenario: Path, tmp_path: Path) -> None:
    flat = tmp_path / "flat"
    flat.mkdir()
    for file in (*scenario.glob("vap/*"), *scenario.glob("map/*")):
        shutil.copy(file, flat)
    shutil.rmtree(scenario / "api")
    one, other = (load_manifest_set(path, version=NEWEST) for path in (scenario, flat))
    assert one.of(ValidatingAdmissionPolicy) == other.of(ValidatingAdmissionPolicy)
    assert one.of(MutatingAdmissionPolicy) == other.of(MutatingAdmissionPolicy)


def test_an_admission_configuration_means_the_same(scenario: Path, tmp_path: Path) -> None:
    shutil.rmtree(scenario / "api")
    entries = "".join(
        f"- name: {plugin}\n  configuration:\n    apiVersion: apiserver.config.k8s.io/v1\n"
        f"    kind: {plugin}Configuration\n    staticManifestsDir: {scenario / directory}\n"
        for plugin, directory in (("ValidatingAdmissionPolicy", "vap"), ("MutatingAdmissionPolicy", "map"))
    )
    header = "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\nplugins:\n"
    write(tmp_path / "admission.yaml", header + entries)
    assert load_manifest_set(tmp_path / "admission.yaml", version=NEWEST) == load_manifest_set(scenario, version=NEWEST)


def test_api_objects_of_the_cluster_stand_in_for_api(scenario: Path) -> None:
    rules = [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["*"]}]
    stored = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "from-cluster", "uid": "u", "unknownField": 1},
        "spec": {
            "matchConstraints": {"resourceRules": rules},
            "validations": [{"expression": "params.x"}],
            "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
        },
    }
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}}
    with_own = load_manifest_set(scenario, version=NEWEST, api_objects=[stored, pod])
    assert [policy.name for policy in with_own.of(ValidatingAdmissionPolicy) if not policy.static] == ["aa"]
    shutil.rmtree(scenario / "api")
    without = load_manifest_set(scenario, version=NEWEST, api_objects=[stored, pod])
    assert [policy.name for policy in without.of(ValidatingAdmissionPolicy) if not policy.static] == ["from-cluster"]


API_POLICY = """apiVersion: admissionregistration.k8s.io/{version}
kind: ValidatingAdmissionPolicy
metadata: {{name: aa}}
spec: {{{body}}}
"""
PARAM_BINDING = """apiVersion: admissionregistration.k8s.io/{version}
kind: ValidatingAdmissionPolicyBinding
metadata: {{name: b}}
spec: {{policyName: aa, paramRef: {{name: x}}, validationActions: [Deny]}}
"""


def test_alpha_bindings_deny_where_no_parameter_is_found(scenario: Path) -> None:
    write(scenario / "api/q.yaml", PARAM_BINDING.format(version="v1alpha1"))
    for static in ("vap", "map"):
        shutil.rmtree(scenario / static)
    binding = load_manifest_set(scenario, version=KubernetesVersion(1, 32)).of(ValidatingAdmissionPolicyBinding)[-1]
    assert binding.param_ref is not None
    assert (binding.name, binding.param_ref.parameter_not_found_action) == ("b", "Deny")


def test_stored_objects_of_older_versions_count_once(scenario: Path) -> None:
    shutil.rmtree(scenario / "api")
    spec = {"policyName": "p", "paramRef": {"name": "x"}, "validationActions": ["Deny"]}
    stored = [
        {
            "apiVersion": f"admissionregistration.k8s.io/{version}",
            "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": {"name": "b"},
            "spec": spec,
        }
        for version in ("v1alpha1", "v1")
    ]
    loaded = load_manifest_set(scenario, version=NEWEST, api_objects=stored).of(ValidatingAdmissionPolicyBinding)
    found = [(each.name, each.param_ref and each.param_ref.parameter_not_found_action) for each in loaded]
    assert found == [("bind.static.k8s.io", None), ("b", "Deny")]


NOT_BOOL = 'spec.validations[0].expression: Invalid value: "1": must evaluate to bool but got int'
REFUSED = {
    "nothing there": ("none", "", "none: no such file or directory"),
    "a fault with its place": (
        "vap/b.yaml",
        POLICY.format(
            kind="ValidatingAdmissionPolicy", name="b.static.k8s.io", body="validations: [{expression: '1'}]"
        ),
        f"vap/b.yaml:9:30: ValidatingAdmissionPolicy/b.static.k8s.io: {NOT_BOOL}",
    ),
    "an api object without a name": (
        "api/p.yaml",
        POLICY.format(kind="ValidatingAdmissionPolicy", name="''", body=VALIDATING),
        "api/p.yaml:4:9: ValidatingAdmissionPolicy/: metadata.name: Required value: name or generateName is required",
    ),
    "an api object that decides nothing": (
        "api/p.yaml",
        "apiVersion: v1\nkind: Status\n",
        "api/p.yaml:2:7: kind `Status` decides about no requests",
    ),
    "an api policy that does not compile": (
        "api/p.yaml",
        POLICY.format(kind="ValidatingAdmissionPolicy", name="aa", body="validations: [{expression: '1'}]"),
        f"api/p.yaml:9:30: ValidatingAdmissionPolicy/aa: {NOT_BOOL}",
    ),
    "an api policy without constraints": (
        "api/p.yaml",
        API_POLICY.format(version="v1", body="validations: [{expression: 'true'}]"),
        "api/p.yaml:4:1: ValidatingAdmissionPolicy/aa: spec.matchConstraints: Required value",
    ),
    "a static policy without a static name": (
        "vap/c.yaml",
        POLICY.format(kind="ValidatingAdmissionPolicy", name="c", body=VALIDATING),
        (
            'vap/c.yaml:4:9: ValidatingAdmissionPolicy/c: "c" in file "vap/c.yaml" must have a name ending with '
            '".static.k8s.io"; a static manifest needs such a name; what is created through the API stands in the set\'s `api/`'
        ),
    ),
    "an object of another kind": (
        "vap/c.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\n",
        (
            'vap/c.yaml:2:7: no kind "ConfigMap" is registered for version "v1"; a set holds policies, bindings '
            "and webhook configurations of admissionregistration.k8s.io/v1; keep other objects in another directory"
        ),
    ),
    "an api policy with a static name": (
        "api/p.yaml",
        POLICY.format(kind="ValidatingAdmissionPolicy", name="aa.static.k8s.io", body=VALIDATING),
        (
            'api/p.yaml:4:9: ValidatingAdmissionPolicy/aa.static.k8s.io: metadata.name: Invalid value: "aa.static.k8s.io": '
            'names ending with ".static.k8s.io" are reserved for static manifest-based configurations and cannot be managed '
            "via the API"
        ),
    ),
    "an api object that is there twice": (
        "api/q.yaml",
        POLICY.format(kind="ValidatingAdmissionPolicy", name="aa", body=VALIDATING),
        (
            'api/q.yaml:4:9: ValidatingAdmissionPolicy/aa: validatingadmissionpolicies.admissionregistration.k8s.io "aa" '
            "already exists (in api/p.yaml)"
        ),
    ),
    "an api binding that does not say what to do without a parameter": (
        "api/q.yaml",
        PARAM_BINDING.format(version="v1beta1"),
        "api/q.yaml:4:24: ValidatingAdmissionPolicyBinding/b: spec.paramRef.parameterNotFoundAction: Required value",
    ),
    "a webhook configuration of a version that is gone": (
        "api/q.yaml",
        "apiVersion: admissionregistration.k8s.io/v1beta1\nkind: ValidatingWebhookConfiguration\nmetadata: {name: w}\n",
        (
            "api/q.yaml:1:13: no server serves ValidatingWebhookConfiguration in admissionregistration.k8s.io/v1beta1: it is "
            "admissionregistration.k8s.io/v1 since 1.16, and alone since 1.22"
        ),
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_in_one_line(name: str, scenario: Path) -> None:
    file, text, message = REFUSED[name]
    path = scenario
    if text:
        write(scenario / file, text)
    else:
        path = scenario / file
    with pytest.raises(ManifestError) as caught:
        load_manifest_set(path, version=NEWEST)
    assert str(caught.value).replace(f"{scenario}/", "") == message


def test_a_file_of_policies_is_a_set(tmp_path: Path) -> None:
    static = POLICY.format(kind="ValidatingAdmissionPolicy", name="b.static.k8s.io", body=VALIDATING)
    through_api = POLICY.format(kind="ValidatingAdmissionPolicy", name="a", body=VALIDATING)
    path = write(tmp_path / "policy.yaml", f"{static}---\n{through_api}")
    loaded = set_objects(path, NEWEST)
    found = [(policy.name, policy.static) for policy in loaded.manifest_set(NEWEST).of(ValidatingAdmissionPolicy)]
    assert found == [("b.static.k8s.io", True), ("a", False)]
    assert [hint.removeprefix(f"{path}: ") for hint in loaded.hints] == [
        "treated as policies of the API: `a` (the name of a static manifest ends with `.static.k8s.io`)",
        "`b.static.k8s.io` has no binding in this file, without which it decides nothing",
        "`a` has no binding in this file, without which it decides nothing",
    ]


def test_a_set_on_top_of_another_replaces_what_has_the_same_name(tmp_path: Path) -> None:
    old, new = (
        POLICY.format(kind="ValidatingAdmissionPolicy", name="a", body=f"failurePolicy: {each}\n  {VALIDATING}")
        for each in ("Fail", "Ignore")
    )
    base, added = (
        set_objects(write(tmp_path / f"{name}.yaml", text), NEWEST) for name, text in (("o", old), ("n", new))
    )
    policies = base.with_added(added, NEWEST).manifest_set(NEWEST).of(ValidatingAdmissionPolicy)
    assert [(policy.name, policy.failure_policy.value) for policy in policies] == [("a", "Ignore")]


def test_a_file_without_policies_says_what_a_set_is(tmp_path: Path) -> None:
    path = write(tmp_path / "cm.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\n")
    with pytest.raises(ManifestError, match=r"cm.yaml: holds v1 objects, and no policy: a set is a directory"):
        load_manifest_set(path, version=NEWEST)
