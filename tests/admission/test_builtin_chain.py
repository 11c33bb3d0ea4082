"""Built-in plugins among the others: what two sets with flags, configurations and objects of their own decide."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from replay.admission.chain import Chain
from replay.admission.decision import Decision, Verdict
from replay.admission.ordered.custom_resources import CustomResourcePlugin
from replay.admission.ordered.registry import ALL_ORDERED_PLUGINS, without_shared_plugins
from replay.cellib.version import NEWEST
from replay.errors import ManifestError
from replay.json import JSON
from replay.kube.admissionregistration import ManifestSet, PluginSettings
from replay.kube.attributes import Missing
from replay.kube.discovery import builtin_discovery
from replay.kube.lister import ObjectTracker
from replay.kube.schema import Schemas
from replay.manifests.manifest_set import manifest_set_from_objects
from replay.manifests.plugin import ALL_PLUGINS
from tests.support.chain_sets import POD, policy, request, validating

NAMESPACE: JSON = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop", "labels": {"team": "a"}}}
ENFORCE = "pod-security.kubernetes.io/enforce"


def labelled(**labels: str) -> JSON:
    return {
        **NAMESPACE,
        "metadata": {"name": "shop", "labels": {key.replace("_", "-"): v for key, v in labels.items()}},
    }


def restricted(level: str = "restricted") -> JSON:
    return {**NAMESPACE, "metadata": {"name": "shop", "labels": {ENFORCE: level}}}


def limits(**item: Any) -> JSON:
    metadata = {"name": "l", "namespace": "shop"}
    item = {"type": "Container", **item}
    return {"apiVersion": "v1", "kind": "LimitRange", "metadata": metadata, "spec": {"limits": [item]}}


def a_set(
    *names: str, objects: Sequence[JSON] = (), policies: Sequence[JSON] = (), **configurations: JSON
) -> ManifestSet:
    settings = tuple(PluginSettings(name, configurations.get(name)) for name in names)
    return replace(manifest_set_from_objects(list(policies), []), builtin=settings, objects=tuple(objects))


def decide(current: ManifestSet, candidate: ManifestSet, before: Any = POD) -> list[Decision]:
    sets = without_shared_plugins((current, candidate))
    attributes = request(namespace_object=NAMESPACE)
    chain = Chain(sets, NEWEST, builtin_discovery(), Schemas())
    return chain.decide(request(before, namespace_object=NAMESPACE), attributes, ObjectTracker([NAMESPACE]))


def told(decision: Decision) -> tuple[list[str], list[str], list[JSON]]:
    return [each.policy for each in decision.denials], [m.policy for m in decision.mutated], list(decision.patch)


TOLERATION = [
    {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
    for key in ("not-ready", "unreachable")
]
NOTHING: tuple[list[str], list[str], list[JSON]] = ([], [], [])
PULL = [{"op": "replace", "path": "/spec/containers/0/imagePullPolicy", "value": "Always"}]
IS_ALWAYS = "object.spec.containers.all(c, c.imagePullPolicy == 'Always')"

SAYS_PULLED = "Object{metadata: Object.metadata{labels: {'pull': object.spec.containers[0].imagePullPolicy}}}"
SAID = {"op": "add", "path": "/metadata/labels/pull", "value": "Always"}

CASES: list[tuple[str, ManifestSet, ManifestSet, Any, Any]] = [
    ("what both have alike is not asked", a_set("AlwaysDeny"), a_set("AlwaysDeny"), NOTHING, NOTHING),
    ("one is turned on", a_set(), a_set("AlwaysPullImages"), NOTHING, ([], ["AlwaysPullImages"], PULL)),
    ("one is turned off", a_set("AlwaysDeny"), a_set(), (["AlwaysDeny"], [], []), NOTHING),
    (
        "a label for a plugin that both have",
        a_set("PodSecurity"),
        a_set("PodSecurity", objects=[restricted()]),
        NOTHING,
        (["PodSecurity"], [], []),
    ),
    (
        "a label that matters to nobody",
        a_set("PodSecurity"),
        a_set("PodSecurity", objects=[labelled(x="y")]),
        NOTHING,
        NOTHING,
    ),
    (
        "a label that was there is gone",
        a_set("PodSecurity", objects=[restricted()]),
        a_set("PodSecurity", objects=[labelled()]),
        (["PodSecurity"], [], []),
        NOTHING,
    ),
    (
        "a policy sees what a plugin before it made",
        a_set("AlwaysPullImages", policies=validating("p", IS_ALWAYS)),
        a_set(policies=validating("p", IS_ALWAYS)),
        ([], ["AlwaysPullImages"], PULL),
        (["p"], [], []),
    ),
    (
        "a mutating policy sees what a plugin that both have makes",
        a_set("AlwaysPullImages"),
        a_set("AlwaysPullImages", policies=policy("m", SAYS_PULLED)),
        ([], ["AlwaysPullImages"], PULL),
        ([], ["AlwaysPullImages", "m"], [SAID, *PULL]),
    ),
    (
        "a selector of a policy sees the labels of its side",
        a_set(policies=validating("p", "namespaceObject.metadata.labels.team == 'a'")),
        a_set(policies=validating("p", "namespaceObject.metadata.labels.team == 'a'"), objects=[labelled(team="b")]),
        NOTHING,
        (["p"], [], []),
    ),
    (
        "plugins refuse before policies",
        a_set("PodSecurity", policies=validating("p", "false")),
        a_set("PodSecurity", policies=validating("p", "false"), objects=[restricted()]),
        (["p"], [], []),
        (["PodSecurity"], [], []),
    ),
    (
        "defaults, then bounds",
        a_set("LimitRanger"),
        a_set("LimitRanger", objects=[limits(max={"cpu": "1"}, min={"cpu": "2"}, default={"cpu": "1"})]),
        NOTHING,
        (["LimitRanger"], ["LimitRanger"], None),
    ),
]


@pytest.mark.parametrize(
    ("current", "candidate", "now", "then"), [row[1:] for row in CASES], ids=[row[0] for row in CASES]
)
def test_what_two_sets_decide(current: ManifestSet, candidate: ManifestSet, now: Any, then: Any) -> None:
    found = [told(decision) for decision in decide(current, candidate)]
    assert found[0] == now
    assert found[1][:2] == then[:2]
    if then[2] is not None:
        assert found[1][2] == then[2]


def of(kind: str, namespace: str = "", name: str = "x", **more: Any) -> JSON:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": "v1", "kind": kind, "metadata": metadata, **more}


PRIORITY: JSON = {**of("PriorityClass"), "apiVersion": "scheduling.k8s.io/v1", "value": 1}
STORAGE: JSON = {**of("StorageClass"), "apiVersion": "storage.k8s.io/v1"}
ROLE: JSON = {**of("Role", "other"), "apiVersion": "rbac.authorization.k8s.io/v1"}
PARAMS = validating("p", "true", paramKind={"apiVersion": "v1", "kind": "ConfigMap"})
PLUGINS = ("LimitRanger", "Priority", "PodSecurity", "DefaultStorageClass")


@pytest.mark.parametrize(
    ("objects", "policies", "is_shared"),
    [
        ([], [], True),
        ([limits(max={"cpu": "1"})], [], False),
        ([of("LimitRange", "other")], [], True),
        ([restricted()], [], False),
        ([of("Namespace", name="other")], [], True),
        ([PRIORITY], [], False),
        ([STORAGE], [], True),
        ([of("ConfigMap", "other")], [], True),
        ([of("ConfigMap", "other")], PARAMS, False),
        ([ROLE], [], False),
    ],
    ids=[
        "no objects",
        "a LimitRange of the namespace",
        "a LimitRange of another namespace",
        "the namespace",
        "another namespace",
        "a class of pods",
        "a class of claims",
        "what nobody looks up",
        "what a policy may look up anywhere",
        "a role",
    ],
)
def test_sets_meet_a_pod_alike_whose_objects_do_not_concern_it(
    objects: list[JSON], policies: list[JSON], is_shared: bool
) -> None:
    """What the sets meet alike is decided once."""
    sets = (a_set(*PLUGINS, policies=policies), a_set(*PLUGINS, policies=policies, objects=objects))
    chain = Chain(sets, NEWEST, builtin_discovery(), Schemas())
    pod = request(POD, namespace_object=NAMESPACE)
    assert chain.asking(pod, pod, ObjectTracker([NAMESPACE]), {}).is_shared is is_shared


def test_what_is_not_known_before_mutation_leaves_the_plugin_open() -> None:
    _, candidate = decide(a_set(), a_set("AlwaysPullImages"), Missing("object", "it is not recorded"))
    assert candidate.verdict is Verdict.UNDETERMINED
    assert {each.policy for each in candidate.undetermined} == {"AlwaysPullImages"}


def test_a_recorded_object_keeps_what_the_server_set() -> None:
    stored = {**POD, "spec": {**POD["spec"], "tolerations": TOLERATION, "nodeName": "n1"}}
    sets = without_shared_plugins((a_set("DefaultTolerationSeconds"), a_set()))
    chain = Chain(sets, NEWEST, builtin_discovery(), Schemas())
    seen = chain.validated(request(), request(stored), ObjectTracker([NAMESPACE]))
    assert [each.object["spec"].get("tolerations") for each in seen] == [TOLERATION, None]  # type: ignore[index]
    assert [each.object["spec"]["nodeName"] for each in seen] == ["n1", "n1"]  # type: ignore[index]


def test_objects_after_a_decision_are_those_without_one() -> None:
    stored = {**POD, "spec": {**POD["spec"], "tolerations": TOLERATION, "nodeName": "n1"}}
    sets = without_shared_plugins((a_set("DefaultTolerationSeconds"), a_set()))
    asked, alone = (Chain(sets, NEWEST, builtin_discovery(), Schemas()) for _ in range(2))
    lister, requests = ObjectTracker([NAMESPACE]), [(request(), request(stored)), (request(), request())]
    for question in requests:
        asked.decide(*question, lister)
        # The second request is not the one that was just decided.
        for original, attributes in (question, requests[0]):
            seen, expected = (each.validated(original, attributes, lister) for each in (asked, alone))
            assert [each.object for each in seen] == [each.object for each in expected]


def test_a_bad_configuration_is_refused_in_the_words_of_the_server() -> None:
    bad = {
        "apiVersion": "pod-security.admission.config.k8s.io/v1",
        "kind": "PodSecurityConfiguration",
        "defaults": {"enforce": "strict"},
    }
    with pytest.raises(ManifestError) as refused:
        decide(a_set(), a_set("PodSecurity", PodSecurity=bad))
    assert refused.value.message.startswith('couldn\'t init admission plugin "PodSecurity": defaults.enforce: ')


def test_the_order_is_that_of_the_server() -> None:
    names = [plugin.name for plugin in ALL_ORDERED_PLUGINS if not isinstance(plugin, CustomResourcePlugin)]
    assert names == [each.name for each in ALL_PLUGINS if each.name in names]
