"""The flags of a kube-apiserver in the files that hold them, and the plugins that they turn on."""

from __future__ import annotations

from pathlib import Path

import pytest

from replay.cellib.version import NEWEST, KubernetesVersion
from replay.errors import ManifestError
from replay.kube.admissionregistration import ValidatingAdmissionPolicy
from replay.manifests.plugin import PluginName
from replay.manifests.server.flags import default_plugins, is_server_file, read_server_flags
from replay.manifests.server.settings import server_of_directory
from replay.manifests.set_loader import load_manifest_set

POD = """apiVersion: v1
kind: Pod
metadata: {name: kube-apiserver, namespace: kube-system}
spec:
  containers:
  - name: proxy
    command: [proxy, --enable-admission-plugins=AlwaysDeny]
  - name: kube-apiserver
    command: [kube-apiserver, --advertise-address=10.0.0.1]
    args: [--enable-admission-plugins, "NodeRestriction,AlwaysPullImages", --default_not_ready_toleration_seconds=60]
"""
OLD_KUBEADM = """apiVersion: kubeadm.k8s.io/v1beta3
kind: InitConfiguration
---
apiVersion: kubeadm.k8s.io/v1beta3
kind: ClusterConfiguration
apiServer:
  extraArgs:
    disable-admission-plugins: PodSecurity
"""
KUBEADM = """apiVersion: kubeadm.k8s.io/v1beta4
kind: ClusterConfiguration
apiServer:
  extraArgs:
  - {name: disable-admission-plugins, value: "PodSecurity,Priority"}
"""
DEFAULTS = default_plugins(NEWEST)

FILES = [
    ("a static pod", POD, DEFAULTS | {"NodeRestriction", "AlwaysPullImages"}),
    ("kubeadm with a map", OLD_KUBEADM, (DEFAULTS | {"NodeRestriction"}) - {"PodSecurity"}),
    ("kubeadm with a list", KUBEADM, (DEFAULTS | {"NodeRestriction"}) - {"PodSecurity", "Priority"}),
    ("words alone", "--enable-admission-plugins=AlwaysDeny\n# no\n--v=2\n", DEFAULTS | {"AlwaysDeny"}),
    (
        "a list given twice",
        "kube-apiserver \\\n  --enable-admission-plugins=AlwaysDeny --enable-admission-plugins AlwaysAdmit",
        DEFAULTS | {"AlwaysDeny", "AlwaysAdmit"},
    ),
    (
        "an environment file",
        'KUBE_API_ARGS="--v=2 --disable-admission-plugins=PodSecurity"',
        DEFAULTS - {"PodSecurity"},
    ),
    (
        "both, of another plugin",
        "--enable-admission-plugins=AlwaysAdmit --disable-admission-plugins=Priority",
        (DEFAULTS | {"AlwaysAdmit"}) - {"Priority"},
    ),
    ("only some", "--admission-control=PodSecurity,AlwaysAdmit", {"PodSecurity", "AlwaysAdmit"}),
    ("nothing about plugins", "--v=2", DEFAULTS),
]


@pytest.mark.parametrize(("text", "plugins"), [row[1:] for row in FILES], ids=[row[0] for row in FILES])
def test_plugins_that_are_on(text: str, plugins: set[str], tmp_path: Path) -> None:
    path = tmp_path / "server"
    path.write_text(text)
    assert is_server_file(path)
    assert read_server_flags(path, NEWEST).plugins(NEWEST) == plugins


REFUSED = [
    ("--enable-admission-plugins=NoSuch", 'enable-admission-plugins plugin "NoSuch" is unknown'),
    ("--disable-admission-plugins=NoSuch", 'disable-admission-plugins plugin "NoSuch" is unknown'),
    (
        "--enable-admission-plugins=Priority --disable-admission-plugins=Priority",
        "[Priority] in enable-admission-plugins and disable-admission-plugins overlapped",
    ),
    ("--enable-admission-plugins=Priority,", 'enable-admission-plugins plugin "" is unknown'),
    ("--enable-admission-plugins='Priority, PodSecurity'", 'enable-admission-plugins plugin " PodSecurity" is unknown'),
    (
        "--enable-admission-plugins=A,Priority --disable-admission-plugins=B,Priority",
        (
            '[enable-admission-plugins plugin "A" is unknown, disable-admission-plugins plugin "B" is unknown, '
            "[Priority] in enable-admission-plugins and disable-admission-plugins overlapped]"
        ),
    ),
    ("--enable-admission-plugin=Priority", "unknown flag: --enable-admission-plugin"),
    (
        POD.replace("--advertise-address=10.0.0.1", "--advertize-address=10.0.0.1"),
        "unknown flag: --advertize-address",
    ),
    (KUBEADM.replace("disable-admission-plugins", "no-such"), "unknown flag: --no-such"),
    (
        OLD_KUBEADM.replace("disable-admission-plugins", "default-not-ready-toleration-seconds"),
        (
            'invalid argument "PodSecurity" for '
            '"--default-not-ready-toleration-seconds" flag: strconv.ParseInt: parsing "PodSecurity": invalid syntax'
        ),
    ),
    ("kind: Pod\nspec: [kube-apiserver]", "is not a manifest of its kind"),
    (
        "--admission-control=AlwaysAdmit --enable-admission-plugins=Priority",
        "admission-control and enable-admission-plugins/disable-admission-plugins flags are mutually exclusive",
    ),
    (
        "--feature-gates=NodeDeclaredFeatures=false",
        "cannot set feature gate NodeDeclaredFeatures to false, feature is locked to true",
    ),
]


@pytest.mark.parametrize(("text", "message"), REFUSED)
def test_what_the_server_refuses(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "flags"
    path.write_text(text)
    with pytest.raises(ManifestError) as refused:
        read_server_flags(path, NEWEST).plugins(NEWEST)
    assert refused.value.message == message


@pytest.mark.parametrize(
    "text", ["apiVersion: v1\nkind: Pod\n", "a: b\n", "just --dashes in a text about nothing\n", ""]
)
def test_files_that_hold_no_flags(text: str, tmp_path: Path) -> None:
    path = tmp_path / "other.yaml"
    path.write_text(text)
    assert not is_server_file(path)


def test_older_servers_have_fewer_plugins() -> None:
    newer = {
        "MutatingAdmissionPolicy",
        "NodeDeclaredFeatureValidator",
        "PodGroupProtection",
        "PodResizeValidator",
        "PodTopologyLabels",
    }
    assert DEFAULTS - default_plugins(KubernetesVersion(1, 30)) == newer


GATED = [
    ("1.37 as it is", NEWEST, "", {"PodGroupProtection"}),
    (
        "one turned off",
        NEWEST,
        "--feature-gates=PodTopologyLabelsAdmission=false,X=true",
        {"PodTopologyLabels", "PodGroupProtection"},
    ),
    ("one turned on", NEWEST, "--feature-gates=kube:GenericWorkload=True --feature-gates=X=true", set()),
    (
        "all that are beta turned off",
        NEWEST,
        "--feature-gates=AllBeta=false",
        {"PodTopologyLabels", "PodGroupProtection"},
    ),
    ("all that are beta turned on", NEWEST, "--feature-gates=AllBeta=true", set()),
    ("beta before it is on", KubernetesVersion(1, 34), "--feature-gates=AllBeta=true", {"PodTopologyLabels"}),
    (
        "all that are alpha turned on",
        KubernetesVersion(1, 36),
        "--feature-gates=AllAlpha=true",
        {"ClusterTrustBundleAttest"},
    ),
    ("not yet on", KubernetesVersion(1, 34), "", {"ClusterTrustBundleAttest", "PodTopologyLabels"}),
    (
        "some of 1.36 alone",
        KubernetesVersion(1, 36),
        "",
        {"ClusterTrustBundleAttest", "PodGroupProtection", "PodGroupWorkloadExists", "JobValidation"},
    ),
]


@pytest.mark.parametrize(("version", "text", "idle"), [row[1:] for row in GATED], ids=[row[0] for row in GATED])
def test_plugins_behind_a_gate_that_is_off_do_nothing(
    version: KubernetesVersion, text: str, idle: set[str], tmp_path: Path
) -> None:
    (tmp_path / "flags").write_text(f"--v=2 {text}")
    found = load_manifest_set(tmp_path, version=version)
    on = read_server_flags(tmp_path / "flags", version).plugins(version) - set(PluginName)
    assert on - {each.name for each in found.builtin} == idle


def test_a_directory_says_all_of_it(tmp_path: Path) -> None:
    (tmp_path / "kube-apiserver.yaml").write_text(POD)
    (tmp_path / "admission.yaml").write_text(
        "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\nplugins:\n"
        "- name: PodNodeSelector\n  configuration: {podNodeSelectorPluginConfig: {a: b=c}}\n"
    )
    (tmp_path / "objects").mkdir()
    (tmp_path / "objects" / "n.yaml").write_text(
        "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: Namespace, metadata: {name: n}}\n"
    )
    found = load_manifest_set(tmp_path, version=NEWEST)
    by_name = {each.name: each for each in found.builtin}
    assert "AlwaysPullImages" in by_name
    assert by_name["DefaultTolerationSeconds"].flags["default-not-ready-toleration-seconds"] == "60"
    assert found.objects == ({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"}},)
    assert found.names_plugins


def test_policies_are_left_out_where_their_plugin_is_off(tmp_path: Path) -> None:
    (tmp_path / "flags").write_text("--disable-admission-plugins=ValidatingAdmissionPolicy")
    (tmp_path / "p.yaml").write_text(
        "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicy\nmetadata: {name: p.static.k8s.io}\n"
        "spec: {matchConstraints: {resourceRules: [{apiGroups: [''], apiVersions: [v1], operations: [CREATE], "
        "resources: [pods]}]}, validations: [{expression: 'true'}]}\n---\n"
        "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicyBinding\n"
        "metadata: {name: b.static.k8s.io}\nspec: {policyName: p.static.k8s.io, validationActions: [Deny]}\n"
    )
    assert load_manifest_set(tmp_path, version=NEWEST).of(ValidatingAdmissionPolicy) == ()


def test_two_files_of_flags_are_one_too_many(tmp_path: Path) -> None:
    for name in ("a.flags", "b.flags"):
        (tmp_path / name).write_text("--v=2")
    with pytest.raises(ManifestError, match="both hold flags"):
        server_of_directory(tmp_path, NEWEST)


def test_an_amount_that_is_none_is_refused_as_the_api_server_does(tmp_path: Path) -> None:
    (tmp_path / "objects").mkdir()
    (tmp_path / "objects" / "q.yaml").write_text(
        "apiVersion: v1\nkind: ResourceQuota\nmetadata: {name: q, namespace: n}\nspec: {hard: {cpu: many}}\n"
    )
    with pytest.raises(
        ManifestError, match='ResourceQuota in version "v1" cannot be handled as a ResourceQuota: quantities must'
    ):
        load_manifest_set(tmp_path, version=NEWEST)
