"""YAML that Kubernetes' own readers read back, and commands that a shell takes apart again."""

from __future__ import annotations

import shlex
import subprocess
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from replay.admission.decision import Decision, Denial, Verdict
from replay.case.case import AuthorizerReply
from replay.case.exported import Exported, UnrepresentableError, yaml_text
from replay.case.form.kat import kat_files
from replay.case.form.kubectl import kubectl_command
from replay.kube.attributes import Attributes, Missing, Operation, UserInfo
from replay.kube.gvk import GroupVersionKind, GroupVersionResource
from replay.manifests.go_type.decode import plain
from replay.manifests.read.yaml_reader import read_yaml

TEXTS = st.one_of(
    st.sampled_from(["y", "N", "yes", "0o7", "1_000", "0x1f", ".5", "~", "null", "", "<<", "=", "2020-01-01", "12:30"]),
    st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"]), max_size=20),
    st.lists(st.text("ab: #-", max_size=8), max_size=4).map("\n".join),
)
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(2**63), 2**63 - 1), TEXTS),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(TEXTS, inner, max_size=3)),
    max_leaves=10,
)


@pytest.mark.property
@given(st.dictionaries(TEXTS, VALUES, min_size=1, max_size=3))
def test_yaml_is_read_back(value: dict[str, Any]) -> None:
    assert plain(read_yaml(yaml_text(value).encode()).node) == value


def test_yaml_has_no_anchors() -> None:
    shared = {"a": 1}
    assert yaml_text({"a": None, "b": None, "c": [shared, shared]}) == "a: null\nb: null\nc:\n- a: 1\n- a: 1\n"


def test_an_answer_names_its_user() -> None:
    """A policy may ask about a service account, so the same question has an answer for each user."""
    replies = tuple(AuthorizerReply(True, verb="get", resource="pods", user=user) for user in ("a", "b"))
    case = replace(exported(Operation.CREATE, ""), answers=replies).case()
    assert case["authorizer"] == [
        {"decision": "allow", "verb": "get", "resource": "pods", "user": user} for user in ("a", "b")
    ]


POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "uid": "u", "resourceVersion": "1"}}
ALICE = UserInfo("alice o'hara", "u", ("a b", "c"), {"scopes": ("x", "y")})
COMMANDS: list[tuple[str, Operation, str, str]] = [
    ("a creation", Operation.CREATE, "", "kubectl create --namespace shop --dry-run=server"),
    ("an update", Operation.UPDATE, "", "kubectl replace --namespace shop --dry-run=server"),
    ("a deletion", Operation.DELETE, "", "kubectl delete pods a --namespace shop --dry-run=server"),
    (
        "a subresource",
        Operation.UPDATE,
        "status",
        "kubectl replace --raw /api/v1/namespaces/shop/pods/a/status?dryRun=All",
    ),
]


def exported(operation: Operation, subresource: str) -> Exported:
    kind, resource = GroupVersionKind("", "v1", "Pod"), GroupVersionResource("", "v1", "pods")
    obj = None if operation is Operation.DELETE else POD
    told = Attributes(operation, kind, resource, subresource, "shop", "a", ALICE, object=obj)
    return Exported(name="x", original=told, validated=told, decision=Decision(Verdict.ADMITTED))


@pytest.mark.parametrize(("operation", "sub", "start"), [row[1:] for row in COMMANDS], ids=[row[0] for row in COMMANDS])
def test_kubectl_repeats_it(operation: Operation, sub: str, start: str) -> None:
    command = kubectl_command(exported(operation, sub))
    words = shlex.split(command.partition("<<")[0])
    as_alice = ["--as=alice o'hara", "--as-uid=u", "--as-group=a b", "--as-group=c"]
    extra = ["--as-user-extra=scopes=x", "--as-user-extra=scopes=y"]
    given_object = [] if operation is Operation.DELETE else ["-f", "-"]
    assert words == [*start.split(), *as_alice, *extra, *given_object]
    assert "resourceVersion" not in command


def test_what_would_not_show_is_spelled_out() -> None:
    hidden = "a\u202e'\\b\x07\U000e0001"
    told = exported(Operation.CREATE, "")
    body = {**POD, "data": hidden}
    request = replace(told, original=replace(told.original, object=body, user_info=UserInfo(hidden)))
    words, _, rest = kubectl_command(request).partition(" <<'EOF'\n")
    assert all(char.isprintable() or char == "\n" for char in words + rest)
    printed = subprocess.run(["bash", "-c", f"printf '%s\\0' {words}"], capture_output=True, check=True).stdout
    assert f"--as={hidden}".encode() in printed.split(b"\0")
    assert orjson.loads(rest.partition("\nEOF")[0])["data"] == hidden


FAILS = "failed to keep to the rules"
KAT: list[tuple[str, bool, str]] = [
    ("a denial in whatever words", False, ""),
    (
        "an expression that failed",
        True,
        "kat cannot hold it: it ends where an expression fails, and has no failurePolicy",
    ),
]


@pytest.mark.parametrize(("is_error", "reason"), [row[1:] for row in KAT], ids=[row[0] for row in KAT])
def test_kat_has_no_failure_policy(is_error: bool, reason: str) -> None:
    policy = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "p"},
        "spec": {"validations": [{"expression": "false", "message": FAILS}]},
    }
    denial = Denial("p", "b", 0, FAILS, "Invalid", 422, is_error)
    denied = replace(
        exported(Operation.CREATE, ""), policies=(policy,), decision=Decision(Verdict.DENIED, denials=(denial,))
    )
    try:
        text = kat_files(denied)["tests/p.x.deny.message.txt"]
    except UnrepresentableError as error:
        text = str(error)
    assert text == (reason or f"{FAILS}\n")


NOT_REPEATED: list[tuple[str, Exported, str]] = [
    ("a connection", exported(Operation.CONNECT, "exec"), "a connection has no dry run"),
    (
        "a creation whose object is not recorded",
        replace(
            exported(Operation.CREATE, ""),
            original=replace(exported(Operation.CREATE, "").original, object=Missing("object", "not recorded")),
        ),
        "the log does not show what was sent",
    ),
]


@pytest.mark.parametrize(
    ("request_", "reason"), [row[1:] for row in NOT_REPEATED], ids=[row[0] for row in NOT_REPEATED]
)
def test_what_cannot_be_repeated(request_: Exported, reason: str) -> None:
    with pytest.raises(UnrepresentableError, match=reason):
        kubectl_command(request_)


def test_metadata_that_are_no_object_are_sent_as_they_were() -> None:
    told = exported(Operation.CREATE, "")
    command = kubectl_command(replace(told, original=replace(told.original, object={**POD, "metadata": "a"})))
    assert orjson.loads(command.split("EOF")[1].lstrip("'")) == {**POD, "metadata": "a"}
