"""Both phases on the AdmissionRequests that the webhooks of a real kube-apiserver 1.37 received, against its decisions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pytest
from msgspec.structs import replace

from replay.admission.chain import Chain
from replay.admission.decision import Decision
from replay.cellib.version import NEWEST
from replay.json import JSON
from replay.kube.attributes import Attributes, Missing, Operation, UserInfo
from replay.kube.authorizer import AuthorizationAttributes, AuthorizationDecision
from replay.kube.discovery import builtin_discovery
from replay.kube.gvk import GroupVersionKind, GroupVersionResource
from replay.kube.json_patch import apply, equal
from replay.kube.lister import ObjectTracker
from replay.kube.schema import Schemas
from replay.manifests.set_loader import load_manifest_set

SAMPLE = Path(__file__).parents[3] / "sample_audit" / "shop"
SHARED = Path(__file__).parents[3].parent / "shared" / "recordings" / "shop"
DENIAL = ("policy", "binding", "message", "reason", "code")


class NobodyMay:
    def authorize(self, attributes: AuthorizationAttributes) -> AuthorizationDecision | Missing:  # noqa: ARG002
        return AuthorizationDecision(allowed=False)


def lines(path: Path) -> Iterator[Any]:
    with pa.CompressedInputStream(pa.OSFile(str(path)), "zstd") as stream:
        yield from map(orjson.loads, stream.read().splitlines())


def namespaces(recording: Path, cluster: Sequence[JSON]) -> dict[str, JSON]:
    """Those of the snapshot, and those that were gone by then, as their creation shows them."""
    found = {each["metadata"]["name"]: each for each in cluster if each["kind"] == "Namespace"}
    for event in lines(recording / "audit.jsonl.zst"):
        if event["verb"] == "create" and (event.get("objectRef") or {}).get("resource") == "namespaces":
            created = event.get("responseObject") or {}
            found.setdefault((created.get("metadata") or {}).get("name", ""), created)
    return found


def attributes_from(request: JSON, known: dict[str, JSON]) -> Attributes:
    user = request["userInfo"]
    extra = {key: tuple(values) for key, values in (user.get("extra") or {}).items()}
    return Attributes(
        operation=Operation(request["operation"]),
        kind=GroupVersionKind(**request["requestKind"]),
        resource=GroupVersionResource(**request["requestResource"]),
        subresource=request.get("subResource", ""),
        namespace=request.get("namespace", ""),
        name=request.get("name", ""),
        user_info=UserInfo(user.get("username", ""), user.get("uid", ""), tuple(user.get("groups") or ()), extra),
        dry_run=bool(request.get("dryRun")),
        options=request.get("options"),
        object=request.get("object"),
        old_object=request.get("oldObject"),
        namespace_object=known.get(request.get("namespace", "")),
    )


def canonical(patch: Sequence[JSON]) -> list[bytes]:
    """The operations in an order of their own."""
    return sorted(orjson.dumps(operation, option=orjson.OPT_SORT_KEYS) for operation in patch)


@pytest.fixture(scope="module", params=["sample", pytest.param("shared", marks=pytest.mark.shared)])
def recording(request: pytest.FixtureRequest) -> Path:
    folder = SAMPLE if request.param == "sample" else SHARED
    if not folder.is_dir():
        pytest.skip("the full recording is not beside the checkout")
    return folder


@pytest.fixture(scope="module")
def decided(recording: Path) -> list[tuple[str, JSON, Decision, bool]]:
    """`(auditID, object before mutation, decision of the candidate, whether the validating phase was reached)`."""
    cluster = list(lines(recording / "cluster.jsonl.zst"))
    crds = [each for each in cluster if each["kind"] == "CustomResourceDefinition"]
    # What the built-in plugins do stands in the requests already: webhooks come after them.
    sets = [
        replace(load_manifest_set(recording / name, version=NEWEST), builtin=()) for name in ("current", "candidate")
    ]
    discovery = builtin_discovery().with_crds(crds)
    chain = Chain(sets, NEWEST, discovery, Schemas(crds), authorizer=lambda _: NobodyMay())
    known = namespaces(recording, cluster)
    found = []
    for line in lines(recording / "expected" / "attributes.jsonl.zst"):
        if line["mutating"]:
            before = attributes_from(line["mutating"], known)
            after = attributes_from(line["validating"], known) if line["validating"] else before
            decide = chain.decide if line["validating"] else chain.mutated
            decision = decide(before, after, ObjectTracker())[1]
            found.append((line["auditID"], before.object, decision, bool(line["validating"])))
    return found


def test_every_changed_request_is_found_and_no_other(
    recording: Path, decided: list[tuple[str, JSON, Decision, bool]]
) -> None:
    expected = {each["auditID"]: each["patch"] for each in lines(recording / "expected" / "mutating.jsonl.zst")}
    results = Counter[str]()
    for audit_id, before, decision, _ in decided:
        patch = expected.get(audit_id, [])
        changed = "changed" if patch else "unchanged"
        same = decision.patch == () if not patch else equal(apply(before, decision.patch), apply(before, patch))
        results[f"{changed}, {'right' if same and not decision.undetermined else audit_id}"] += 1
    assert set(results) == {"changed, right", "unchanged, right"}


def test_both_phases_decide_as_the_server(recording: Path, decided: list[tuple[str, JSON, Decision, bool]]) -> None:
    expected = {each["auditID"]: each for each in lines(recording / "expected" / "chain.jsonl.zst")}
    compared = 0
    for audit_id, _, decision, validated in decided:
        if audit_id in expected and validated:
            want = expected[audit_id]
            compared += 1
            assert canonical(decision.patch) == canonical(want["patch"])
            denials = [{key: getattr(denial, key) for key in DENIAL} for denial in decision.denials]
            assert denials == want["denials"]
    assert compared > 0
