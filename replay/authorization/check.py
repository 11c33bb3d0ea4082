"""The findings of `replay check` about the authorization of a set.

They are what a server refuses, and what it accepts although it is probably a mistake.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from replay.authorization.configuration import ServerFiles
from replay.authorization.manifest import dangling_bindings, load_rbac
from replay.authorization.start import Checked, check_start, flags_of, local_configuration, refusal_of, unseen_files
from replay.cel.ast.issues import Issues
from replay.cel.value.values import EvalError
from replay.cellib.authorization import authorization_env
from replay.cellib.version import KubernetesVersion
from replay.errors import ReplayError
from replay.json import JSON
from replay.manifests.authorization_file import CONFIGURATION_FILE, is_about_authorization, is_configuration
from replay.manifests.check import CheckedSet, check_set
from replay.manifests.finding import SERVER, Finding, Severity
from replay.manifests.lint import catalogue
from replay.manifests.lint.condition import Condition, first_contradicting_condition
from replay.manifests.lint.reachable import Facts
from replay.manifests.lint.reading import SchemaPath, reading_of
from replay.manifests.plugin import PluginName
from replay.manifests.read.node import NOWHERE, Position
from replay.manifests.server.flags import ServerFlags, server_file_of, version_contradiction

_RESOURCE: SchemaPath = ("request", "resourceAttributes")
_NON_RESOURCE: SchemaPath = ("request", "nonResourceAttributes")
_OF_PATH = Facts(presence={_RESOURCE: False, _NON_RESOURCE: True})
_OF_RESOURCE = Facts(presence={_RESOURCE: True, _NON_RESOURCE: False})
_EXAMPLES = {_RESOURCE: "a path such as `/healthz`", _NON_RESOURCE: "a resource such as pods"}


class AuthorizationWarning(Struct, frozen=True):
    """A warning about a field of the configuration. `name` is its name in the catalogue of warnings."""

    name: str
    message: str
    path: str


def lint_configuration(checked: Checked, version: KubernetesVersion) -> Iterator[AuthorizationWarning]:
    """Yield the warnings about the match conditions of webhooks.

    The server calls a webhook only if all its conditions are true. There are no warnings about a file that the server
    refuses.
    """
    if checked.configuration is None or not checked.is_accepted:
        return
    for index_of_authorizer, authorizer in enumerate(checked.configuration.authorizers):
        if authorizer.webhook is None or not authorizer.webhook.match_conditions:
            continue
        env = authorization_env(version)
        conditions = [Condition(env, expression) for expression in authorizer.webhook.match_conditions]
        path = f"authorizers[{index_of_authorizer}].webhook.matchConditions"
        never = _first_never_true(conditions)
        if never is not None:
            index, name, why = never
            message = f"this match condition is {why}: the webhook is never asked"
            yield AuthorizationWarning(name, message, f"{path}[{index}].expression")
        elif authorizer.webhook.failure_policy == "Deny":
            yield from _lint_unguarded(conditions, path)


def _first_never_true(conditions: Sequence[Condition]) -> tuple[int, str, str] | None:
    """Return the index, warning and reason of a condition that is never true, alone or together with the others.

    It must be false for resource requests and for non-resource requests. None if there is no such condition.
    """
    for index, condition in enumerate(conditions):
        if condition.value(_OF_RESOURCE) is False and condition.value(_OF_PATH) is False:
            return index, catalogue.NEVER_TRUE, "false for every request"
    impossible = [first_contradicting_condition(conditions, facts) for facts in (_OF_RESOURCE, _OF_PATH)]
    if None in impossible:
        return None
    last = max(index for index in impossible if index is not None)
    return last, catalogue.NEVER_TOGETHER, "false for every request for which the others are true"


def _lint_unguarded(conditions: Sequence[Condition], path: str) -> Iterator[AuthorizationWarning]:
    """Yield a warning for attributes that a request does not have and that a condition reads without a test.

    See `k8s.io/apiserver/pkg/authorization/cel/matcher.go`.
    """
    for absent, facts in ((_RESOURCE, _OF_PATH), (_NON_RESOURCE, _OF_RESOURCE)):
        values = [condition.value(facts) for condition in conditions]
        if False in values:
            continue  # one that is false skips the webhook, whatever fails beside it
        is_tested = any(absent in _guards(condition) for condition in conditions)
        for index, (condition, value) in enumerate(zip(conditions, values, strict=True)):
            if isinstance(value, EvalError) or (value is not True and not is_tested and _reads(condition, absent)):
                name = ".".join(absent)
                message = (
                    f"a request for {_EXAMPLES[absent]} has no `{name}`: the condition fails, and with failurePolicy Deny "
                    f"the request with it; test `has({name})` first"
                )
                yield AuthorizationWarning(catalogue.UNGUARDED_ATTRIBUTES, message, f"{path}[{index}].expression")
                break


def _guards(condition: Condition) -> frozenset[SchemaPath]:
    ast = condition.env.parse(condition.expression)
    return frozenset() if isinstance(ast, Issues) else reading_of(ast).guards


def _reads(condition: Condition, absent: SchemaPath) -> bool:
    """Return whether the condition reads an absent field."""
    ast = condition.env.parse(condition.expression)
    return not isinstance(ast, Issues) and any(
        path[: len(absent)] == absent and len(path) > len(absent) for path in reading_of(ast).paths
    )


_ON_SERVER, _DANGLING = "file-on-the-server", "binding-without-role"
_OTHER_VERSION = "image-of-another-version"
_FLAG = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)+")


def check_whole_set(
    path: Path,
    version: KubernetesVersion,
    *,
    plugin: PluginName | None = None,
    cluster: list[JSON] | None = None,
    silenced: Iterable[str] = (),
) -> CheckedSet:
    """Return `check_set` with the findings in `authorization.yaml`, in the flags of the server and in `rbac/`.

    Raises ManifestError if there is nothing to check.
    """
    hidden = frozenset(silenced)
    alone = path.is_file() and is_about_authorization(path)
    checked = (
        CheckedSet(str(path), (), (), 0, None)
        if alone
        else check_set(path, version, plugin=plugin, cluster=cluster, silenced=hidden)
    )
    if plugin is not None:
        return checked
    error = checked.error
    findings = list(checked.findings)
    if contradiction := version_contradiction(path, version):
        findings.append(Finding(Severity.WARNING, _OTHER_VERSION, contradiction, str(server_file_of(path))))
    flags = flags_of(path, version)
    refusal = None if flags is None else refusal_of(flags, version)
    if flags is not None and refusal is not None:
        error = error if error is not None else refusal
        findings.append(Finding(Severity.ERROR, SERVER, refusal, flags.path, _place(flags, refusal), first=True))
    file = path if is_configuration(path) else path / CONFIGURATION_FILE
    if not file.is_file() and flags is not None and refusal is None:
        file = local_configuration(flags) or file
        findings += [
            Finding(Severity.WARNING, _ON_SERVER, text, flags.path, _place(flags, text)) for text in unseen_files(flags)
        ]
    configured = check_start(file.read_bytes(), version, ServerFiles()) if file.is_file() else None
    if configured is not None:
        error = error if error is not None or configured.is_accepted else configured.error
        findings += _configuration_findings(str(file), configured, version)
    cluster_keys = [_key(obj) for obj in cluster or () if str(obj.get("apiVersion")).startswith("rbac.")]
    rbac = list(_rbac_findings(path, cluster_keys))
    error = next((each.message for each in rbac if each.severity is Severity.ERROR and error is None), error)
    shown = [each for each in (*findings, *rbac) if each.name not in hidden]
    quiet = checked.silenced + len(findings) + len(rbac) - len(shown)
    return replace(checked, findings=tuple(shown), error=error, silenced=quiet)


def _place(flags: ServerFlags, text: str) -> Position:
    """Return the position in the file of the flag that a text names.

    A text may name flags that are not given, or none. Then it is the position of the first flag of the same family
    (`oidc-`), or else of the first flag about authorization.
    """
    named = _FLAG.findall(text)
    wanted = [*named, *(f"{name.partition('-')[0]}-" for name in named), "authorization-"]
    lines = [
        (number, _FLAG.findall(line))
        for number, line in enumerate(Path(flags.path).read_text("utf-8", "replace").splitlines(), 1)
        if not line.lstrip().startswith("#")
    ]
    places = (
        Position(number, 1)
        for each in wanted
        for number, words in lines
        if any(word.startswith(each) for word in words)
    )
    return next(places, NOWHERE)


def _configuration_findings(path: str, checked: Checked, version: KubernetesVersion) -> Iterator[Finding]:
    if checked.field_errors:
        for each in checked.field_errors:
            yield Finding(Severity.ERROR, SERVER, str(each), path, field_path=each.path, first=True)
    elif checked.error:
        position = checked.problems[0].position if checked.problems else NOWHERE
        yield Finding(Severity.ERROR, SERVER, checked.error, path, position, first=True)
    for warning in checked.warnings:
        # No warning: the author of a set cannot change what lies on the server.
        yield Finding(Severity.INFO, _ON_SERVER, warning, path)
    for lint in lint_configuration(checked, version):
        yield Finding(Severity.WARNING, lint.name, lint.message, path, field_path=lint.path)


def _rbac_findings(path: Path, cluster_keys: list[tuple[str, str, str]]) -> Iterator[Finding]:
    try:
        where, objects = load_rbac(path)
    except ReplayError as error:
        yield Finding(Severity.ERROR, SERVER, error.message, error.path)
        return
    for warning in dangling_bindings(objects, cluster_keys, bootstrapped=True):
        yield Finding(Severity.WARNING, _DANGLING, warning, where)


def _key(obj: JSON) -> tuple[str, str, str]:
    metadata = obj.get("metadata") or {}
    return str(obj.get("kind")), str(metadata.get("namespace") or ""), str(metadata.get("name"))
