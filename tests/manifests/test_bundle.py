"""Bundles: what counts of objects of any kinds, how files and folders are read, and what is to be rendered first."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from replay.authorization.manifest import load_authorization
from replay.cellib.version import NEWEST
from replay.errors import ManifestError
from replay.manifests.bundle import is_bundle
from replay.manifests.set_loader import SetObjects, applied_objects, set_objects

POLICY = """\
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: small}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [apps], apiVersions: [v1], operations: [CREATE], resources: [deployments]}]
  validations: [{expression: "object.spec.replicas <= 1"}]
"""
STATIC_POLICY = POLICY.replace("name: small", "name: small.static.k8s.io")
BINDING = """\
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: small}
spec: {policyName: small, validationActions: [Deny]}
"""
WEBHOOK = """\
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: hook}
webhooks:
- name: a.example.com
  admissionReviewVersions: [v1]
  sideEffects: None
  clientConfig: {service: {name: s, namespace: ns}}
"""
CLUSTER_POLICY = "apiVersion: kyverno.io/v1\nkind: ClusterPolicy\nmetadata: {name: k}\nspec: {rules: []}\n"
ROLE = "apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata: {name: r}\nrules: []\n"
NAMESPACE = "apiVersion: v1\nkind: Namespace\nmetadata: {name: web, namespace: odd, labels: {team: a}}\n"
LIMITS = "apiVersion: v1\nkind: LimitRange\nmetadata: {name: l}\nspec: {limits: []}\n"
DEPLOYMENT = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d, namespace: web}\n"
CRD = """\
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: parts.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: parts, kind: Part}
  versions: [{name: v1, served: true, storage: true}]
"""
PART = "apiVersion: example.com/v1\nkind: Part\nmetadata: {name: p}\n"
VALUES = "replicas: 1\n"


def listed(*documents: str) -> str:
    """A `List` of documents, as `kubectl get -o yaml` prints it."""
    items = ("- " + document.rstrip("\n").replace("\n", "\n  ") for document in documents)
    return "apiVersion: v1\nkind: List\nitems:\n" + "\n".join(items) + "\n"


def together(*documents: str) -> str:
    """Documents in one file."""
    return "---\n".join(documents)


def written(directory: Path, files: Mapping[str, str]) -> Path:
    """A bundle of files: the one file, or the directory of several."""
    for name, text in files.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    return directory / next(iter(files)) if list(files) == ["bundle.yaml"] else directory


def told(objects: SetObjects) -> dict[str, list[str]]:
    """What a bundle holds: how each object is told, by what it counts as."""
    groups = {
        "static": objects.static,
        "api": objects.api or (),
        "engine": objects.engine or (),
        "rbac": objects.rbac or (),
        "others": objects.others,
    }
    return {
        group: [
            "/".join(filter(None, (obj["kind"], obj["metadata"].get("namespace"), obj["metadata"]["name"])))
            for obj in held
        ]
        for group, held in groups.items()
        if held
    }


POLICIES = {"api": ["ValidatingAdmissionPolicy/small", "ValidatingAdmissionPolicyBinding/small"]}
READ = {
    "a policy and its binding in one file": ({"bundle.yaml": together(POLICY, BINDING)}, POLICIES),
    "a policy in one file and its binding in another": ({"a.yaml": POLICY, "b.yaml": BINDING}, POLICIES),
    "in folders": ({"a/b/policy.yaml": POLICY, "c/binding.yml": BINDING}, POLICIES),
    "a list": ({"bundle.yaml": listed(POLICY, BINDING)}, POLICIES),
    "a list of several kinds": (
        {"bundle.yaml": listed(DEPLOYMENT, POLICY, ROLE)},
        {"api": ["ValidatingAdmissionPolicy/small"], "rbac": ["Role/default/r"], "others": ["Deployment/web/d"]},
    ),
    "everything at once": (
        {"bundle.yaml": together(NAMESPACE, CRD, PART, WEBHOOK, CLUSTER_POLICY, ROLE, LIMITS, DEPLOYMENT)},
        {
            "api": ["ValidatingWebhookConfiguration/hook"],
            "engine": ["ClusterPolicy/k"],
            "rbac": ["Role/default/r"],
            "others": [
                "Namespace/web",
                "CustomResourceDefinition/parts.example.com",
                "Part/default/p",
                "LimitRange/default/l",
                "Deployment/web/d",
            ],
        },
    ),
    "nothing that decides": ({"bundle.yaml": DEPLOYMENT}, {"others": ["Deployment/web/d"]}),
    "the later of two counts": (
        {"a.yaml": LIMITS, "b.yaml": LIMITS, "c.yaml": together(POLICY, POLICY)},
        {"api": ["ValidatingAdmissionPolicy/small"], "others": ["LimitRange/default/l"]},
    ),
    "hidden folders and files are left out": (
        {".git/config.yaml": "{", ".hidden.yaml": "{", "policy.yaml": POLICY},
        {"api": ["ValidatingAdmissionPolicy/small"]},
    ),
    "an empty file, comments and other files": (
        {
            "a.yaml": "",
            "b.yaml": "# nothing\n",
            "README.md": "{{",
            "policy.json": '{"apiVersion": "v1", "kind": "List"}',
        },
        {},
    ),
    "a kustomization that lists what is there": (
        {
            "kustomization.yaml": "resources: [policy.yaml, ./sub/, deep/er/d.yaml]\n",
            "policy.yaml": POLICY,
            "sub/b.yaml": BINDING,
            "deep/er/d.yaml": "# nothing\n",
        },
        POLICIES,
    ),
    "the objects of Flux and Argo CD": (
        {
            "flux.yaml": "apiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\nmetadata: {name: apps}\n",
            "argo.yaml": "apiVersion: argoproj.io/v1alpha1\nkind: Application\nmetadata: {name: apps}\n",
        },
        {"others": ["Application/apps", "Kustomization/apps"]},
    ),
    "a value that looks like a template": (
        {"bundle.yaml": CLUSTER_POLICY.replace("{rules: []}", "{note: '{{ request.object }}'}")},
        {"engine": ["ClusterPolicy/k"]},
    ),
}


SAID = {
    "nothing": ({"a.yaml": POLICY}, []),
    "a file without objects": (
        {"a.yaml": POLICY, "values.yaml": VALUES, "d/x.json": "{}"},
        ["DIR: left out what holds no objects of Kubernetes: `x.json`, `values.yaml`"],
    ),
    "a kind that is not served": (
        {"a.yaml": together(POLICY, CRD.replace("k8s.io/v1", "k8s.io/v1beta1"))},
        [
            'DIR/a.yaml:9: not applied: no matches for kind "CustomResourceDefinition" in version "apiextensions.k8s.io/v1beta1"',
        ],
    ),
}


@pytest.mark.parametrize("name", SAID)
def test_what_is_said(name: str, tmp_path: Path) -> None:
    files, expected = SAID[name]
    found = applied_objects(written(tmp_path, files), NEWEST)
    assert [each.replace(str(tmp_path), "DIR") for each in found.hints] == expected
    assert told(found) == {"api": ["ValidatingAdmissionPolicy/small"]}


RBAC_OF = {
    "beside policies": ({"bundle.yaml": together(POLICY, ROLE)}, ["Role/r"], False),
    "beside other objects": ({"bundle.yaml": together(DEPLOYMENT, ROLE)}, ["Role/r"], False),
    "alone": ({"bundle.yaml": ROLE.replace("{name: r}", "{name: r, namespace: n}")}, ["Role/r"], True),
    "in none": ({"bundle.yaml": POLICY}, None, False),
}


@pytest.mark.parametrize("name", RBAC_OF)
def test_what_a_bundle_says_about_authorization(name: str, tmp_path: Path) -> None:
    files, expected, is_alone = RBAC_OF[name]
    path = written(tmp_path, files)
    found = load_authorization(path, NEWEST).rbac
    assert (found and [f"{each['kind']}/{each['metadata']['name']}" for each in found]) == expected
    assert is_bundle(path) is not is_alone


@pytest.mark.parametrize("name", READ)
def test_read_as_kubectl_apply_would(name: str, tmp_path: Path) -> None:
    files, expected = READ[name]
    assert told(applied_objects(written(tmp_path, files), NEWEST)) == expected


REFUSED = {
    "nothing there": ({}, "none.yaml", "none.yaml: no such file or directory"),
    "a policy that does not compile": (
        {"bundle.yaml": together(DEPLOYMENT, POLICY.replace("<= 1", "<=") + "#\n")},
        "bundle.yaml",
        (
            "bundle.yaml:11:30: ValidatingAdmissionPolicy/small: spec.validations[0].expression: Invalid value: "
            "\"object.spec.replicas <=\": compilation failed: ERROR: <input>:1:24: Syntax error: mismatched input '<EOF>' expecting "
            "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}"
        ),
    ),
    "a kind that the group does not have": (
        {"bundle.yaml": listed(POLICY.replace("Policy", "Polici"))},
        "bundle.yaml",
        (
            'bundle.yaml:5:9: no kind "ValidatingAdmissionPolici" is registered for version "admissionregistration.k8s.io/v1"; did you '
            "mean `ValidatingAdmissionPolicy`?"
        ),
    ),
    "a reserved name": (
        {"bundle.yaml": STATIC_POLICY},
        "bundle.yaml",
        (
            "bundle.yaml:3:18: ValidatingAdmissionPolicy/small.static.k8s.io: metadata.name: Invalid value: "
            '"small.static.k8s.io": names ending with ".static.k8s.io" are reserved for static manifest-based configurations and cannot '
            "be managed via the API"
        ),
    ),
    "no object": (
        {"bundle.yaml": VALUES},
        "bundle.yaml",
        "bundle.yaml:1:1: is not a Kubernetes object: `apiVersion` and `kind` not set",
    ),
    "no mapping": (
        {"bundle.yaml": "- 1\n"},
        "bundle.yaml",
        "bundle.yaml:1:1: is not a Kubernetes object: it is not a mapping",
    ),
    "no name": (
        {"bundle.yaml": "apiVersion: v1\nkind: Pod\n"},
        "bundle.yaml",
        "bundle.yaml:1:1: Pod has no `metadata.name`",
    ),
    "a generated name": (
        {"bundle.yaml": "apiVersion: v1\nkind: Pod\nmetadata: {generateName: p-}\n"},
        "bundle.yaml",
        "bundle.yaml:1:1: Pod `p-`: cannot use generate name with apply",
    ),
    "an amount that is none": (
        {"bundle.yaml": LIMITS.replace("[]", "[{type: Pod, max: {cpu: many}}]")},
        "bundle.yaml",
        (
            'bundle.yaml: LimitRange `l`: LimitRange in version "v1" cannot be handled as a LimitRange: quantities must match the '
            "regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
        ),
    ),
    "labels that are none": (
        {"bundle.yaml": NAMESPACE.replace("{team: a}", "[a]")},
        "bundle.yaml",
        "bundle.yaml:1:1: Namespace `web`: `metadata.labels` is not a mapping of strings",
    ),
    "a definition without versions": (
        {
            "bundle.yaml": "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: a}\nspec: [1]\n"
        },
        "bundle.yaml",
        "bundle.yaml:1:1: CustomResourceDefinition `a`: `spec` is not of the form that its kind has: it needs a group, names and versions",
    ),
    "a kustomization": (
        {"kustomization.yaml": "resources: [policy.yaml]\npatches: []\n", "policy.yaml": POLICY},
        "",
        (
            "DIR/kustomization.yaml: this kustomization does more than list its files (`patches`): `kustomize build DIR | replay run LOG "
            "--apply -` renders it"
        ),
    ),
    "a kustomization of what is elsewhere": (
        {"prod/kustomization.yaml": "resources: [../base]\n", "base/policy.yaml": POLICY},
        "",
        (
            "DIR/prod/kustomization.yaml: this kustomization lists `../base`, which is not a manifest or folder below it: `kustomize build DIR/prod | replay "
            "run LOG --apply -` renders it"
        ),
    ),
    "a kustomization that leaves a file out": (
        {"kustomization.yaml": "resources: [a.yaml]\n", "a.yaml": POLICY, "b.yaml": BINDING},
        "",
        "DIR/kustomization.yaml: this kustomization does not list `b.yaml`: `kustomize build DIR | replay run LOG --apply -` renders it",
    ),
    "a kustomization itself": (
        {"kustomization.yaml": "resources: []\n"},
        "kustomization.yaml",
        "DIR/kustomization.yaml: this is a kustomization: `kustomize build DIR | replay run LOG --apply -` renders it",
    ),
    "a chart": (
        {"chart/Chart.yaml": "name: c\n", "chart/templates/p.yaml": POLICY},
        "",
        "DIR/chart/Chart.yaml: this is a chart of Helm: `helm template chart DIR/chart | replay run LOG --apply -` renders it",
    ),
    "a template of a chart": (
        {"Chart.yaml": "name: c\n", "templates/p.yaml": POLICY.replace("name: small", "name: {{ .Values.name }}")},
        "templates/p.yaml",
        (
            "DIR/templates/p.yaml:3:19: is a template that is not rendered: `helm template NAME DIR | replay run LOG --apply -` renders a "
            "chart of Helm"
        ),
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_in_one_line(name: str, tmp_path: Path) -> None:
    files, path, message = REFUSED[name]
    written(tmp_path, files)
    with pytest.raises(ManifestError) as caught:
        applied_objects(tmp_path / path, NEWEST)
    shown = str(caught.value).replace(str(tmp_path), "DIR")
    assert shown.removeprefix("" if message.startswith("DIR") else "DIR/") == message


def test_an_archive_is_to_be_rendered(tmp_path: Path) -> None:
    path = tmp_path / "chart.tgz"
    path.write_bytes(b"\x1f\x8b\x08")
    with pytest.raises(
        ManifestError, match=r"is compressed: unpack it, or, if it is a chart of Helm, `helm template NAME"
    ):
        applied_objects(path, NEWEST)


FORMS = {
    "a file of policies": ({"bundle.yaml": POLICY}, True),
    "a file of CRDs and policies": ({"bundle.yaml": together(CRD, POLICY)}, True),
    "a directory of files whose names are not static": ({"a.yaml": POLICY, "b.yaml": BINDING}, True),
    "a directory with folders": ({"a/p.yaml": POLICY}, True),
    "a chart": ({"Chart.yaml": "name: c\n"}, True),
    "a directory of a plugin": ({"vap/p.yaml": STATIC_POLICY}, False),
    "a flat directory of static manifests": ({"p.yaml": STATIC_POLICY}, False),
    "static manifests beside a folder": ({"p.yaml": STATIC_POLICY, "tests/b.yaml": BINDING}, False),
    "objects created through the API": ({"api/p.yaml": POLICY}, False),
    "RBAC alone": ({"bundle.yaml": ROLE}, False),
    "an engine alone": ({"bundle.yaml": CLUSTER_POLICY}, False),
    "an empty directory": ({"README.md": ""}, False),
}


@pytest.mark.parametrize("name", FORMS)
def test_told_from_the_other_forms_of_a_set(name: str, tmp_path: Path) -> None:
    files, expected = FORMS[name]
    assert is_bundle(written(tmp_path, files)) is expected


def test_a_set_may_be_a_bundle(tmp_path: Path) -> None:
    path = written(tmp_path, {"bundle.yaml": together(CRD, STATIC_POLICY, LIMITS, BINDING)})
    loaded = set_objects(path, NEWEST)
    assert told(loaded) == {
        "static": ["ValidatingAdmissionPolicy/small.static.k8s.io"],
        "api": ["ValidatingAdmissionPolicyBinding/small"],
        "others": ["CustomResourceDefinition/parts.example.com", "LimitRange/default/l"],
    }
    assert [hint.removeprefix(f"{path}: ") for hint in loaded.hints] == [
        "treated as policies of the API: `small` (the name of a static manifest ends with `.static.k8s.io`)",
        "`small.static.k8s.io` has no binding in this file, without which it decides nothing",
    ]
