"""What lookup tells, against counts made from the log without it, and against single events by hand."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pytest
from msgspec.structs import replace
from rich.console import Console

from replay.audit.answer import VALIDATION_FAILURE, decision_views, observe
from replay.audit.store import Store
from replay.errors import ReplayError
from replay.pipeline.forensic.lookup import LookupFilter, look_up
from replay.pipeline.scenario import Scenario
from replay.report.lookup_report import Lookup, lookup_document, lookup_json
from replay.report.render.terminal import print_document

SAMPLE = Path(__file__).parents[3] / "sample_audit" / "shop"
SHARED = Path(__file__).parents[3].parent / "shared" / "recordings" / "shop"


def silent(_what: str, _done: int, _total: int) -> None:
    pass


@pytest.fixture(scope="module", params=["sample", pytest.param("shared", marks=[pytest.mark.shared, pytest.mark.slow])])
def recording(request: pytest.FixtureRequest) -> Path:
    if request.param == "sample":
        return SAMPLE
    if not SHARED.is_dir():
        pytest.skip("the full recording is not beside the checkout")
    return SHARED


@pytest.fixture(scope="module")
def kept(recording: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of the recording, so that it is read once."""
    directory = tmp_path_factory.mktemp("store")
    with Store.open(directory) as store:
        store.ingest([recording / "audit.jsonl.zst"])
    return directory


@pytest.fixture(scope="module")
def events(recording: Path) -> dict[str, dict[str, Any]]:
    """The last event of each auditID, read without anything of ours."""
    with pa.CompressedInputStream(pa.OSFile(str(recording / "audit.jsonl.zst")), "zstd") as stream:
        found = map(orjson.loads, stream.read().splitlines())
    return {event["auditID"]: event for event in found}


def is_denied(event: dict[str, Any]) -> bool:
    return "denied request: " in (event.get("responseStatus") or {}).get("message", "")


def has_no_namespace(event: dict[str, Any]) -> bool:
    message = (event.get("responseStatus") or {}).get("message", "")
    is_absent = message.startswith('namespaces "') and event["objectRef"]["resource"] != "namespaces"
    return is_absent or "because it is being terminated" in message


def test_audited_failures_are_those_of_the_log(kept: Path, events: dict[str, dict[str, Any]], recording: Path) -> None:
    found = look_up(Scenario(store=kept), LookupFilter(action="audit", static=True), silent)
    wanted = Counter(
        (audit_id, entry["policy"], entry["binding"], entry["expressionIndex"], entry["message"])
        for audit_id, event in events.items()
        if not is_denied(event)
        for entry in orjson.loads((event.get("annotations") or {}).get(VALIDATION_FAILURE, "[]"))
    )
    told = Counter((d.audit_id, d.policy, d.binding, d.expression_index, d.message) for d in found.observed)
    assert told == wanted
    assert found.requests == len({key[0] for key in wanted})
    annotated = {i for i, event in events.items() if VALIDATION_FAILURE in (event.get("annotations") or {})}
    assert found.requests + found.denied_with_failures == len(annotated)
    if recording == SHARED:
        assert found.requests == 1542


def test_denials_are_those_of_the_log(kept: Path, events: dict[str, dict[str, Any]], recording: Path) -> None:
    told = look_up(Scenario(store=kept), LookupFilter(action="deny"), silent)
    found = replace(told, observed=tuple(each for each in told.observed if each.plugin != "builtin"))
    assert sorted(d.audit_id for d in found.observed) == sorted(i for i, event in events.items() if is_denied(event))
    assert found.notes == ("a client sees the first denial only; with --current the others are replayed",)
    refused = Counter(d.policy for d in told.observed if d.plugin == "builtin")
    assert refused == {"NamespaceLifecycle": sum(1 for event in events.values() if has_no_namespace(event))}
    if recording == SHARED:
        assert found.requests == 452


def test_warnings_are_said_to_leave_no_trace(recording: Path) -> None:
    source = Scenario((str(recording),)).resolved()
    found = look_up(source, LookupFilter(action="warn"), silent)
    assert found.notes[0].startswith("warnings leave no trace in an audit log")
    observed = {(d.audit_id, d.policy) for d in found.observed}
    assert observed <= {(d.audit_id, d.policy) for d in found.replayed}
    assert {d.basis for d in found.replayed} <= {"replayed"}
    if recording == SHARED:
        assert {d.policy for d in found.replayed} == {"external-ips.static.k8s.io"}


def test_masked_denials_are_replayed(kept: Path, recording: Path) -> None:
    """The candidate stands for a set of which several policies deny one request."""
    source = Scenario(store=kept, current=recording / "candidate", cluster=recording / "cluster.jsonl.zst")
    found = look_up(source, LookupFilter(action="deny"), silent)
    with pa.CompressedInputStream(pa.OSFile(str(recording / "expected" / "validating.jsonl.zst")), "zstd") as stream:
        expected = {row["auditID"]: row for row in map(orjson.loads, stream.read().splitlines())}
    wanted = Counter(
        (d.audit_id, denial["policy"], denial["message"])
        for d in found.observed
        if d.plugin != "builtin"
        for denial in expected[d.audit_id]["candidate"]["denials"]
        if (denial["policy"], denial["message"]) != (d.policy, d.message)
    )
    assert {d.action for d in found.replayed} == {"deny"}
    told = Counter((d.audit_id, d.policy, d.message) for d in found.replayed)
    assert told == wanted
    assert max(Counter(audit_id for audit_id, _, _ in told).values()) > 1


def test_sql_reads_an_event_as_python_does(kept: Path) -> None:
    with Store.open(kept) as store:
        store.sql(decision_views())
        rows = store.sql("select audit_id, action, policy, binding, message, source from decision").rows()
        told: dict[str, Counter[tuple[str, ...]]] = {}
        for audit_id, *row in rows:
            told.setdefault(audit_id, Counter())[tuple(row)] += 1
        for part in range(store.parts):
            for record in store.part(part).records():
                if record.selected:
                    assert told.get(record.audit_id, Counter()) == Counter(by_python(observe(record))), record.audit_id


def by_python(observed: Any) -> Iterator[tuple[str, ...]]:
    if observed.denial:
        for denial in observed.denial.by_policy:
            yield "deny", denial.policy, denial.binding, denial.message, "responseStatus.message"
    if observed.refusal:
        yield "deny", observed.refusal.policy, "", observed.refusal.message, "responseStatus.message"
    for entry in observed.failures:
        yield "audit", entry["policy"], entry["binding"], entry["message"], VALIDATION_FAILURE
    for key, value in observed.policy_annotations.items():
        if key != "pod-security.kubernetes.io/enforce-policy":
            yield "annotate", key.rpartition("/")[0], "", value, key
    for key, webhook in observed.failed_open.items():
        yield "failed-open", webhook, "", "", key


def event(
    number: int, *, code: int = 201, message: str = "", name: str = "web", annotations: dict[str, str] | None = None
) -> dict[str, Any]:
    return {
        "kind": "Event",
        "apiVersion": "audit.k8s.io/v1",
        "level": "Request",
        "auditID": f"id-{number}",
        "stage": "ResponseComplete",
        "verb": "create",
        "requestURI": "/",
        "user": {"username": "alice"},
        "objectRef": {"resource": "pods", "name": name, "namespace": "prod", "apiVersion": "v1"},
        "responseStatus": {"code": code, "message": message},
        "annotations": annotations or {},
        "requestReceivedTimestamp": f"2026-01-01T00:00:{number:02}Z",
        "stageTimestamp": f"2026-01-01T00:00:{number:02}Z",
    }


def asked(tmp_path: Path, found: list[dict[str, Any]]) -> Lookup:
    log = tmp_path / "audit.jsonl"
    log.write_text("\n".join(map(json.dumps, found)))
    return look_up(Scenario((str(log),)), LookupFilter(), silent)


ENTRY = {"message": "m", "policy": "p", "binding": "b", "expressionIndex": 0, "validationActions": ["Audit"]}
WEBHOOK = '{"configuration":"c.static.k8s.io","webhook":"w","mutated":true}'
PATCH = '{"configuration":"c","webhook":"w","patch":[{"op":"add","path":"/a","value":1}],"patchType":"JSONPatch"}'
QUOTA = 'pods "web" is forbidden: exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1'
BLOCKED = """

resource Deployment/n/web was blocked due to the following policies

limit:
  autogen-five: 'validation error: no more: five'
owner:
  autogen-cronjob-label: no owner
  name: |-
    of two
    no: lines
"""
NO_LEVEL = 'metadata.labels[pod-security.kubernetes.io/enforce]: Invalid value: "x": must be one of privileged, baseline, restricted'
CASES = [
    (
        "denied by a policy",
        event(
            1,
            code=422,
            message="pods \"web\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: m\nn",
        ),
        [("deny", "policy", "p", "b", "m\nn")],
    ),
    (
        "misconfigured policy",
        event(
            1,
            code=403,
            message="x is forbidden: ValidatingAdmissionPolicy 'p' denied request: failed to configure policy: z",
        ),
        [("deny", "policy", "p", "", "failed to configure policy: z")],
    ),
    (
        "denied by a mutating policy",
        event(1, code=422, message="pods \"web\" is forbidden: policy 'p' with binding 'b' denied request: m"),
        [("deny", "policy", "p", "b", "m")],
    ),
    (
        "denied by a webhook that quotes a policy",
        event(
            1,
            code=403,
            message="admission webhook \"w\" denied the request: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: m",
        ),
        [("deny", "webhook", "w", "", "ValidatingAdmissionPolicy 'p' with binding 'b' denied request: m")],
    ),
    (
        "denied by two constraints of Gatekeeper",
        event(
            1,
            code=403,
            message='admission webhook "validation.gatekeeper.sh" denied the request: [has-owner] no owner:\n- [b] it says\n[ns.limit] [Implied by d] of 3',
        ),
        [
            ("deny", "webhook", "has-owner", "validation.gatekeeper.sh", "no owner:\n- [b] it says"),
            ("deny", "webhook", "ns.limit", "validation.gatekeeper.sh", "[Implied by d] of 3"),
        ],
    ),
    (
        "Gatekeeper names no constraint",
        event(
            1,
            code=500,
            message='admission webhook "validation.gatekeeper.sh" denied the request: namespaces "a" not found',
        ),
        [("deny", "webhook", "validation.gatekeeper.sh", "", 'namespaces "a" not found')],
    ),
    (
        "denied by rules of Kyverno",
        event(
            1,
            code=400,
            message=f'admission webhook "validate.kyverno.svc-fail-finegrained-owner" denied the request: {BLOCKED}',
        ),
        [
            (
                "deny",
                "webhook",
                "limit/five",
                "validate.kyverno.svc-fail-finegrained-owner",
                "validation error: no more: five",
            ),
            ("deny", "webhook", "owner/label", "validate.kyverno.svc-fail-finegrained-owner", "no owner"),
            (
                "deny",
                "webhook",
                "owner/name",
                "validate.kyverno.svc-fail-finegrained-owner",
                "|-\n    of two\n    no: lines",
            ),
        ],
    ),
    (
        "denied by policies of CEL of Kyverno",
        event(
            1,
            code=400,
            message='admission webhook "vpol.validate.kyverno.svc-fail" denied the request: Policy a failed: no; Policy b.c error: x: y',
        ),
        [
            ("deny", "webhook", "a", "vpol.validate.kyverno.svc-fail", "no"),
            ("deny", "webhook", "b.c", "vpol.validate.kyverno.svc-fail", "x: y"),
        ],
    ),
    (
        "Kyverno names no policy",
        event(
            1,
            code=400,
            message='admission webhook "validate.kyverno.svc-fail" denied the request: failed to create policy context',
        ),
        [("deny", "webhook", "validate.kyverno.svc-fail", "", "failed to create policy context")],
    ),
    (
        "denied by a webhook without a word",
        event(1, code=403, message='admission webhook "w" denied the request without explanation'),
        [("deny", "webhook", "w", "", "")],
    ),
    (
        "a webhook could not be called",
        event(1, code=500, message='Internal error occurred: failed calling webhook "w": failed to call webhook: EOF'),
        [("deny", "webhook", "w", "", "failed to call webhook: EOF")],
    ),
    (
        "denied by pod security",
        event(1, code=403, message='pods "web" is forbidden: violates PodSecurity "restricted:latest": runAsNonRoot'),
        [("deny", "builtin", "PodSecurity", "restricted:latest", "runAsNonRoot")],
    ),
    (
        "a namespace is labelled with no level",
        event(1, code=422, message=f'Namespace "web" is invalid: {NO_LEVEL}'),
        [("deny", "builtin", "PodSecurity", "", f'Namespace "web" is invalid: {NO_LEVEL}')],
    ),
    (
        "refused by another plugin",
        event(1, code=403, message=QUOTA),
        [("deny", "builtin", "ResourceQuota", "", QUOTA)],
    ),
    (
        "in a namespace that is not there",
        event(1, code=404, message='namespaces "prod" not found'),
        [("deny", "builtin", "NamespaceLifecycle", "", 'namespaces "prod" not found')],
    ),
    ("refused by nobody that is known", event(1, code=403, message='pods "web" is forbidden: User "u" cannot'), []),
    ("the text alone denies nothing", event(1, message="ValidatingAdmissionPolicy 'p' denied request: m"), []),
    (
        "one audited failure",
        event(1, annotations={VALIDATION_FAILURE: json.dumps([ENTRY])}),
        [("audit", "policy", "p", "b", "m")],
    ),
    (
        "an older server's",
        event(1, annotations={VALIDATION_FAILURE: json.dumps(ENTRY)}),
        [("audit", "policy", "p", "b", "m")],
    ),
    ("no JSON", event(1, annotations={VALIDATION_FAILURE: "[{"}), []),
    (
        "a webhook's mutation",
        event(
            1,
            annotations={
                "mutation.webhook.admission.k8s.io/round_0_index_0": WEBHOOK,
                "patch.webhook.admission.k8s.io/round_0_index_0": PATCH,
            },
        ),
        [("mutate", "webhook", "w", "c.static.k8s.io", "")],
    ),
    (
        "a webhook that failed",
        event(1, annotations={"failed-open.mutation.webhook.admission.k8s.io/round_0_index_1": "w"}),
        [("failed-open", "webhook", "w", "", "")],
    ),
    (
        "pod security audits",
        event(1, annotations={"pod-security.kubernetes.io/audit-violations": "would violate"}),
        [("audit", "builtin", "PodSecurity", "", "would violate")],
    ),
    ("the authorizer's own", event(1, annotations={"authorization.k8s.io/decision": "allow"}), []),
]


@pytest.fixture(scope="module")
def told_of_cases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[tuple[str, ...]]]:
    """What is told of each case: all are events of one log."""
    events = [{**told, "auditID": name} for name, told, _ in CASES]
    found: dict[str, list[tuple[str, ...]]] = {name: [] for name, *_ in CASES}
    for each in asked(tmp_path_factory.mktemp("cases"), events).observed:
        found[each.audit_id].append((each.action, each.plugin, each.policy, each.binding, each.message))
    return found


@pytest.mark.parametrize(("name", "wanted"), [(case[0], case[2]) for case in CASES], ids=[case[0] for case in CASES])
def test_wordings_and_annotations(
    name: str, wanted: list[tuple[str, ...]], told_of_cases: dict[str, list[tuple[str, ...]]]
) -> None:
    assert told_of_cases[name] == wanted


def test_a_webhooks_patch_is_told(tmp_path: Path) -> None:
    told = next(case[1] for case in CASES if case[0] == "a webhook's mutation")
    (decision,) = asked(tmp_path, [told]).observed
    assert (decision.patch, decision.is_static) == ([{"op": "add", "path": "/a", "value": 1}], True)


def test_a_log_without_annotations_says_so(tmp_path: Path) -> None:
    bare = event(1)
    del bare["annotations"]
    assert "has no annotations" in asked(tmp_path, [bare]).notes[-1]


ERRORS = [
    ("policy", LookupFilter(policy="q"), "the log has no policy `q`"),
    (
        "near policy",
        LookupFilter(policy="no-privilegd"),
        "the log has no policy `no-privilegd`; did you mean `no-privileged`?",
    ),
    ("auditID", LookupFilter(audit_id="id-9"), "the log has no request with the auditID `id-9`; did you mean `id-1`?"),
    ("user", LookupFilter(user="alicia"), "the log has no user `alicia`; did you mean `alice`?"),
    (
        "period",
        LookupFilter(since="2027-01-01"),
        "no event in the period asked for: the log is from 2026-01-01 00:00:01 UTC to 2026-01-01 00:00:01 UTC",
    ),
    ("time", LookupFilter(since="soon"), "no time `soon`: write 7d, 12h, 30m, or a time such as 2026-11-21T03:00:00Z"),
]


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> Scenario:
    """A store of one event."""
    directory = tmp_path_factory.mktemp("known")
    entry = event(1, annotations={VALIDATION_FAILURE: json.dumps([ENTRY | {"policy": "no-privileged"}])})
    (directory / "audit.jsonl").write_text(json.dumps(entry))
    with Store.open(directory / "store") as store:
        store.ingest([directory / "audit.jsonl"])
    return Scenario(store=directory / "store")


@pytest.mark.parametrize(("question", "wanted"), [case[1:] for case in ERRORS], ids=[case[0] for case in ERRORS])
def test_what_the_log_does_not_know(question: LookupFilter, wanted: str, known: Scenario) -> None:
    with pytest.raises(ReplayError, match=f"^{re.escape(wanted)}$"):
        look_up(known, question, silent)


def test_hostile_text_is_inert_and_tokens_are_hidden(tmp_path: Path) -> None:
    token = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.sig"
    message = (
        f"x is forbidden: ValidatingAdmissionPolicy 'p\x1b[31m' with binding 'b' denied request: \x1b]0;t\x07 {token}"
    )
    found = asked(tmp_path, [event(1, code=422, message=message, name="[bold]\u202egnp.exe")])
    out = StringIO()
    print_document(lookup_document(found), Console(file=out, width=200, force_terminal=False))
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f\u202e]", out.getvalue())
    assert "[bold]" in out.getvalue()
    assert token not in out.getvalue() + json.dumps(lookup_json(found))
