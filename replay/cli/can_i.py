"""`replay can-i`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from replay.cli.options import AuthorizationMode, AuthorizerWebhooks, ClusterSnapshot, JsonOutput, MinorVersion
from replay.json import json_document
from replay.pipeline.version import version_of

if TYPE_CHECKING:
    from replay.pipeline.authorization.permission import Oracle

CAN_I_EPILOG = (
    "Examples: replay can-i delete pods --as system:serviceaccount:prod:ci --namespace prod --current next/ --cluster cluster.jsonl\n\n"
    "replay can-i get /metrics --as bob --as-group monitoring --current next/ --cluster cluster.jsonl\n\n"
    "replay can-i --cases attributes.jsonl --out answers.jsonl --current next/ --cluster cluster.jsonl\n\n"
    "Exit code: 0 yes, 1 no or unknown, 2 or more an error. With --cases: 0."
)


def can_i(
    verb: Annotated[str | None, typer.Argument(help="get, list, create, ...; for a URL path the HTTP method.")] = None,
    target: Annotated[
        str | None, typer.Argument(help="`pods`, `deployments.apps`, `pods/web-0`, or a path as `/healthz`.")
    ] = None,
    user: Annotated[str | None, typer.Option("--as", help="The user, or system:serviceaccount:NAMESPACE:NAME.")] = None,
    group: Annotated[list[str] | None, typer.Option("--as-group", help="A group of the user (repeatable).")] = None,
    uid: Annotated[str, typer.Option("--as-uid", help="The uid of the user.")] = "",
    extra: Annotated[list[str] | None, typer.Option("--as-extra", help="KEY=VALUE (repeatable).")] = None,
    namespace: Annotated[str, typer.Option("--namespace", "-n", help="Namespace; without it, all namespaces.")] = "",
    subresource: Annotated[str, typer.Option(help="`log`, `exec`, `status`, ...")] = "",
    field_selector: Annotated[str, typer.Option(help="The field selector of the request.")] = "",
    label_selector: Annotated[str, typer.Option(help="The label selector of the request.")] = "",
    current: Annotated[Path | None, typer.Option(help="Set with authorization.yaml, rbac/, or both.")] = None,
    cluster: ClusterSnapshot = None,
    webhook: AuthorizerWebhooks = None,
    cases: Annotated[
        Path | None, typer.Option(help="Answer the attributes in this file, one JSON object per line.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Where the answers go, in the same order.")] = None,
    authorization_mode: AuthorizationMode = None,
    as_json: JsonOutput = False,
    kubernetes_version: MinorVersion = None,
) -> None:
    """Is a user allowed to do something, and which authorizer decides? Like `kubectl auth can-i`, but offline.

    Evaluates the authorizers of a set with the RBAC objects of a snapshot, in the order of the API server. Webhooks answer from a
    recording. Without a recorded answer, the result is unknown.
    """
    from replay.authorization.start import configuration_of_mode
    from replay.errors import ReplayError
    from replay.pipeline.authorization.permission import AuthorizationScenario, answer_cases, load_oracle

    if cases is None and not (verb and target and user):
        raise ReplayError("say what and who: VERB, a resource or path, and --as USER; or --cases FILE")
    if cases is not None and out is None:
        raise ReplayError("`--cases FILE` needs `--out FILE`", path="--out")
    default = configuration_of_mode(authorization_mode) if authorization_mode is not None else None
    oracle = load_oracle(
        AuthorizationScenario(
            current, cluster, tuple(webhook or ()), str(version_of(kubernetes_version, (current,))), default
        )
    )
    sys.stderr.writelines(f"replay: warning: {warning}\n" for warning in oracle.warnings)
    if cases is not None and out is not None:
        count = answer_cases(oracle, cases, out)
        sys.stderr.write(f"{count} cases answered\n")
        return
    raise typer.Exit(
        _answer(
            oracle,
            (verb or "", target or "", user or "", tuple(group or ()), uid, tuple(extra or ())),
            (namespace, subresource, field_selector, label_selector),
            as_json=as_json,
        )
    )


def _answer(
    oracle: Oracle,
    who: tuple[str, str, str, tuple[str, ...], str, tuple[str, ...]],
    where: tuple[str, str, str, str],
    *,
    as_json: bool,
) -> int:
    from replay.authorization.case import AccessQuestion, answer_line
    from replay.authorization.trace import AuthorizationVerdict
    from replay.pipeline.authorization.permission import ask
    from replay.report.access import trace_lines

    attributes, decided = ask(oracle, AccessQuestion(*who, *where))
    if as_json:
        sys.stdout.write(json_document(answer_line(attributes, decided)))
    else:
        sys.stdout.writelines(f"{line}\n" for line in trace_lines(decided))
    return 0 if decided.decision is AuthorizationVerdict.ALLOW else 1
