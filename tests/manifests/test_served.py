"""What a server of a minor can be given: rows of the rules, and sets that are refused in one line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from replay.cellib.version import NEWEST_MINOR, OLDEST_MINOR, KubernetesVersion
from replay.errors import ManifestError
from replay.kube.admissionregistration import MutatingAdmissionPolicy, ValidatingAdmissionPolicy
from replay.manifests.check import check_set
from replay.manifests.plugin import PluginName
from replay.manifests.served import Gates, decides, is_suffix_reserved, served_problem, static_directory_problem
from replay.manifests.set_loader import load_manifest_set

GROUP = "admissionregistration.k8s.io"

SERVED = [
    ("v1", "ValidatingAdmissionPolicy", (30, 37)),
    ("v1beta1", "ValidatingAdmissionPolicyBinding", (30, 37)),
    ("v1alpha1", "ValidatingAdmissionPolicy", (30, 32)),
    ("v1", "MutatingAdmissionPolicy", (36, 37)),
    ("v1", "MutatingAdmissionPolicyBindingList", (36, 37)),
    ("v1beta1", "MutatingAdmissionPolicy", (36, 37)),
    ("v1", "ValidatingWebhookConfiguration", (30, 37)),
    ("v1", "MutatingWebhookConfiguration", (30, 37)),
]


@pytest.mark.parametrize(("version", "kind", "minors"), SERVED)
def test_served(version: str, kind: str, minors: tuple[int, int]) -> None:
    found = [
        minor
        for minor in range(OLDEST_MINOR, NEWEST_MINOR + 1)
        if not served_problem(f"{GROUP}/{version}", kind, KubernetesVersion(1, minor))
    ]
    assert (found[0], found[-1], len(found)) == (*minors, minors[1] - minors[0] + 1)


REASONS = [
    ("v1", "MutatingAdmissionPolicy", 31, "Kubernetes 1.31 has no MutatingAdmissionPolicy: it came with 1.32"),
    (
        "v1beta1",
        "MutatingAdmissionPolicy",
        33,
        f"Kubernetes 1.33 does not serve {GROUP}/v1beta1 of MutatingAdmissionPolicy: that is served from 1.34",
    ),
    (
        "v1beta1",
        "MutatingAdmissionPolicy",
        35,
        (
            "Kubernetes 1.35 has mutating policies only with the feature gate MutatingAdmissionPolicy, which is off by "
            "default before 1.36"
        ),
    ),
    (
        "v1alpha1",
        "ValidatingAdmissionPolicy",
        33,
        f"Kubernetes 1.33 does not serve {GROUP}/v1alpha1 of ValidatingAdmissionPolicy: that is served from 1.26 to 1.32",
    ),
]


@pytest.mark.parametrize(("version", "kind", "minor", "reason"), REASONS)
def test_why_not(version: str, kind: str, minor: int, reason: str) -> None:
    assert served_problem(f"{GROUP}/{version}", kind, KubernetesVersion(1, minor)) == reason


STATIC: Gates = {"ManifestBasedAdmissionControlConfig": True}
NOT_STATIC = "Kubernetes 1.35 reads no static manifests: `staticManifestsDir` came with 1.36; what the cluster holds goes into `api/`"
FORBIDDEN = (
    "staticManifestsDir: Forbidden: staticManifestsDir requires the ManifestBasedAdmissionControlConfig feature gate "
    "to be enabled"
)
DIRECTORIES = [
    ("no such field of policies", 35, {}, False, NOT_STATIC),
    ("no such field of webhooks", 35, STATIC, True, 'strict decoding error: unknown field "staticManifestsDir"'),
    ("off by default", 36, {}, False, FORBIDDEN),
    ("off by default for webhooks", 36, {}, True, FORBIDDEN),
    ("turned on", 36, STATIC, False, ""),
    ("turned on with all of its stage", 36, {"AllAlpha": True}, False, ""),
    ("on by default", 37, {}, False, ""),
    ("turned off", 37, {"ManifestBasedAdmissionControlConfig": False}, False, FORBIDDEN),
    ("turned off with all of its stage", 37, {"AllBeta": False}, True, FORBIDDEN),
]


@pytest.mark.parametrize(
    ("minor", "gates", "webhooks", "reason"), [row[1:] for row in DIRECTORIES], ids=[row[0] for row in DIRECTORIES]
)
def test_static_directories(minor: int, gates: Gates, webhooks: bool, reason: str) -> None:
    assert static_directory_problem(KubernetesVersion(1, minor), gates, webhooks=webhooks) == reason


GATED = [
    ("mutating policies, off by default", 35, {}, False),
    ("mutating policies, turned on", 35, {"MutatingAdmissionPolicy": True}, True),
    ("mutating policies, on with all of their stage", 34, {"AllBeta": True}, True),
    ("mutating policies, before they are there", 31, {"MutatingAdmissionPolicy": True}, False),
    ("mutating policies, on by default", 36, {}, True),
]


@pytest.mark.parametrize(("minor", "gates", "decided"), [row[1:] for row in GATED], ids=[row[0] for row in GATED])
def test_gates_of_mutating_policies(minor: int, gates: Gates, decided: bool) -> None:
    assert decides("MutatingAdmissionPolicy", KubernetesVersion(1, minor), gates) is decided


RESERVED = [(35, {}, None), (36, {}, False), (36, STATIC, True), (37, {}, True)]


@pytest.mark.parametrize(("minor", "gates", "reserved"), RESERVED)
def test_names_of_static_manifests(minor: int, gates: Gates, reserved: bool | None) -> None:
    assert is_suffix_reserved(KubernetesVersion(1, minor), gates) is reserved


POLICY = f"""apiVersion: {GROUP}/v1
kind: {{kind}}
metadata: {{{{name: {{name}}}}}}
spec:
  matchConstraints: {{{{resourceRules: [{{{{apiGroups: [''], apiVersions: [v1], operations: [CREATE], resources: [pods]}}}}]}}}}
  {{body}}
"""
VALIDATING = "validations: [{expression: 'true'}]"
MUTATING = """reinvocationPolicy: Never
  mutations: [{patchType: JSONPatch, jsonPatch: {expression: '[JSONPatch{op: "remove", path: "/spec"}]'}}]"""


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    """A set for each way to be given something."""
    static = POLICY.format(kind="ValidatingAdmissionPolicy", name="p.static.k8s.io", body=VALIDATING)
    for path in ("plugin/vap/p.yaml", "flat/p.yaml"):
        (tmp_path / path).parent.mkdir(parents=True)
        (tmp_path / path).write_text(static)
    api = tmp_path / "api/api/p.yaml"
    api.parent.mkdir(parents=True)
    api.write_text(
        POLICY.format(kind="ValidatingAdmissionPolicy", name="p", body=VALIDATING)
        + "---\n"
        + POLICY.format(kind="MutatingAdmissionPolicy", name="m", body=MUTATING)
    )
    configuration = {"kind": "AdmissionConfiguration", "apiVersion": "apiserver.config.k8s.io/v1"}
    text = "".join(f"{key}: {value}\n" for key, value in configuration.items())
    (tmp_path / "config.yaml").write_text(
        f"{text}plugins:\n- name: ValidatingAdmissionPolicy\n  configuration:\n"
        "    kind: ValidatingAdmissionPolicyConfiguration\n    apiVersion: apiserver.config.k8s.io/v1\n"
        f"    staticManifestsDir: {tmp_path}/flat\n"
    )
    return tmp_path


REFUSED = [
    ("plugin", "plugin/vap: "),
    ("flat", "flat: "),
    ("config.yaml", 'config.yaml: couldn\'t init admission plugin "ValidatingAdmissionPolicy": '),
]


@pytest.mark.parametrize(("name", "location"), REFUSED)
def test_static_sets_are_refused_with_the_place_first(scenario: Path, name: str, location: str) -> None:
    with pytest.raises(ManifestError) as error:
        load_manifest_set(scenario / name, version=KubernetesVersion(1, 35))
    assert str(error.value).startswith(f"{scenario}/{location}{NOT_STATIC}")
    assert len(load_manifest_set(scenario / name, version=KubernetesVersion(1, 37)).of(ValidatingAdmissionPolicy)) == 1


def test_mutating_policies_are_refused_with_the_place_first(scenario: Path) -> None:
    with pytest.raises(ManifestError) as error:
        load_manifest_set(scenario / "api", version=KubernetesVersion(1, 31))
    problem = "Kubernetes 1.31 has no MutatingAdmissionPolicy: it came with 1.32"
    assert str(error.value).endswith(f"{problem}")
    assert str(error.value).startswith(f"{scenario}/api/api/p.yaml:8:")
    assert len(load_manifest_set(scenario / "api", version=KubernetesVersion(1, 36)).of(MutatingAdmissionPolicy)) == 1


def test_mutating_policies_of_the_cluster_decide_nothing_before_1_36(tmp_path: Path) -> None:
    objects: list[dict[str, Any]] = [
        {"apiVersion": f"{GROUP}/v1", "kind": kind, "metadata": {"name": "p"}, "spec": {"matchConstraints": {}}}
        for kind in ("ValidatingAdmissionPolicy", "MutatingAdmissionPolicy")
    ]
    (tmp_path / "empty").mkdir()
    for minor, count in ((35, 0), (36, 1)):
        loaded = load_manifest_set(tmp_path / "empty", version=KubernetesVersion(1, minor), api_objects=objects)
        assert (len(loaded.of(ValidatingAdmissionPolicy)), len(loaded.of(MutatingAdmissionPolicy))) == (1, count)


def test_check_of_a_directory_for_one_plugin(scenario: Path) -> None:
    with pytest.raises(ManifestError, match=NOT_STATIC):
        check_set(scenario / "flat", KubernetesVersion(1, 35), plugin=PluginName.VALIDATING_ADMISSION_POLICY)
