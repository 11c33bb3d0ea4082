from __future__ import annotations

import orjson
import pytest

from replay.authorization.case import answer_line, attributes_from_case
from replay.authorization.configuration import ServerFiles
from replay.authorization.manifest import load_authorization
from replay.authorization.question import spec_from_attributes
from replay.authorization.start import LoadResult, check_reload, check_start
from replay.cellib.version import NEWEST
from replay.compare.authorization import agrees
from tests.authorization.recording import RECORDING, chain, lines, needs_recording, objects, questions

pytestmark = [pytest.mark.shared, needs_recording]
ON_THE_SERVER = {"072-kubeconfig-directory.yaml"}
STATES = sorted(path.name for path in (RECORDING / "rbac").iterdir()) if RECORDING.exists() else []


def test_every_decision_trace_and_question_is_that_of_the_server() -> None:
    chains = {"current": chain("current.yaml"), "candidate": chain("candidate.yaml")}
    differences = []
    count = 0
    for expected in lines("expected.jsonl.zst"):
        if not expected["reachedAuthorization"]:
            continue
        count += 1
        asked = questions()[expected["auditID"]]
        if spec_from_attributes(asked) != expected["subjectAccessReviewSpec"]:
            differences.append((expected["auditID"], "spec"))
        for side, each in chains.items():
            if each.decide(asked).as_json() != expected[side]:
                differences.append((expected["auditID"], side))
    assert (count, differences) == (5874, [])


def test_the_current_chain_gives_what_the_log_says() -> None:
    current = chain("current.yaml")
    wrong = [
        expected["auditID"]
        for expected in lines("expected.jsonl.zst")
        if expected["reachedAuthorization"]
        and not agrees(
            current.decide(questions()[expected["auditID"]]),
            expected["recorded"].get("decision") or "",
            expected["recorded"].get("reason") or "",
        )
    ]
    assert wrong == []


def test_cases_are_answered_as_their_requests() -> None:
    current = chain("current.yaml")
    for expected in lines("expected.jsonl.zst"):
        if expected["reachedAuthorization"]:
            asked = attributes_from_case(expected["attributes"])
            line = answer_line(asked, current.decide(asked))
            told = {key: line[key] for key in ("attributes", "subjectAccessReviewSpec", "current")}
            assert told == {key: expected[key] for key in told}


@pytest.mark.parametrize("state", STATES)
def test_another_state_of_rbac(state: str) -> None:
    rbac = load_authorization(RECORDING / "rbac" / state, NEWEST).rbac
    assert rbac is not None
    others = tuple(each for each in objects() if "rbac" not in each["apiVersion"])
    decided = chain("current.yaml", (*others, *rbac))
    wrong = []
    for expected in lines(f"rbac/{state}/expected.jsonl.zst"):
        told = decided.decide(questions()[expected.pop("auditID")]).as_json()
        if {key: told.get(key) for key in expected} != expected:
            wrong.append(expected)
    assert wrong == []


def results() -> list[tuple[str, bytes, dict[str, object], dict[str, object]]]:
    path = RECORDING / "configs"
    if not path.exists():
        return []
    rows = map(orjson.loads, (path / "results.jsonl").read_bytes().splitlines())
    return [(row["file"], (path / row["file"]).read_bytes(), row["start"], row["reload"]) for row in rows]


@pytest.mark.parametrize(("name", "data", "start", "reload"), results(), ids=lambda value: str(value)[:40])
def test_a_configuration_is_accepted_or_refused_as_by_the_server(
    name: str, data: bytes, start: dict[str, object], reload: dict[str, object]
) -> None:
    if name in ON_THE_SERVER:
        pytest.skip("depends on a file of the server")
    checked = check_start(data, NEWEST, ServerFiles())
    assert (checked.is_accepted, checked.error) == (start["ok"], start.get("error") or start.get("panic"))
    running = (RECORDING / "current.yaml").read_bytes()
    again = check_reload(data, running, NEWEST, ServerFiles())
    if again.result is LoadResult.PANIC:
        assert reload["result"] == again.result.value
    else:
        assert again.error == (reload.get("error") or None)
        assert again.is_accepted == (reload["result"] != "refused")


def test_a_running_server_is_bound_by_its_types_and_by_what_it_loaded_last() -> None:
    """The steps of a server that began with RBAC alone; it remembers a configuration that it could not build, too."""
    running = b"apiVersion: apiserver.config.k8s.io/v1\nkind: AuthorizationConfiguration\nauthorizers:\n- {type: RBAC, name: rbac}\n"
    for line in (RECORDING / "configs" / "reload-steps.jsonl").read_bytes().splitlines():
        step = orjson.loads(line)
        if "kubeconfig" in step["step"]:
            continue  # what the file holds at the time is not in the step
        checked = check_reload(step["config"].encode(), running, NEWEST, ServerFiles())
        assert (checked.error, checked.is_accepted) == (step["error"] or None, step["result"] != "refused"), step[
            "step"
        ]
