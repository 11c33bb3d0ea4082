"""A request as a command that repeats it: nothing is stored (`--dry-run=server`), and admission is asked as it was."""

from __future__ import annotations

import shlex
from urllib.parse import quote

import orjson

from replay.case.difference import plain
from replay.case.exported import Exported, UnholdableError
from replay.json import JSON
from replay.kube.attributes import Attributes, Operation, UserInfo
from replay.reconstruct.record.exchange import CONNECT_SUBRESOURCES

_END = "EOF"
_SYSTEM_FIELDS = ("uid", "creationTimestamp", "resourceVersion", "generation", "managedFields", "selfLink")


def kubectl_command(exported: Exported) -> str:
    """The command, with the object as its standard input; raises UnholdableError for what kubectl cannot repeat."""
    told = exported.before
    if told.operation is Operation.CONNECT or told.subresource in CONNECT_SUBRESOURCES:
        raise UnholdableError("a connection has no dry run: kubectl would open it")
    words = ["kubectl", *_verb(told), *_impersonation(told.user_info)]
    if told.operation is Operation.DELETE:
        return " ".join(map(shlex.quote, words)) + "\n"
    body = orjson.dumps(_sent(told), option=orjson.OPT_INDENT_2).decode()
    return f"{' '.join(map(shlex.quote, [*words, '-f', '-']))} <<'{_END}'\n{body}\n{_END}\n"


def _verb(told: Attributes) -> list[str]:
    """What kubectl does; a request to a subresource goes to its URL."""
    if told.subresource:
        method = "create" if told.operation is Operation.CREATE else "replace"
        return [method, "--raw", _url(told)]
    namespace = ["--namespace", told.namespace] if told.namespace and told.resource.resource != "namespaces" else []
    if told.operation is Operation.DELETE:
        resource = ".".join(filter(None, (told.resource.resource, told.resource.version, told.resource.group)))
        plural = resource if told.resource.group else told.resource.resource
        return ["delete", plural, told.name, *namespace, "--dry-run=server"]
    return ["create" if told.operation is Operation.CREATE else "replace", *namespace, "--dry-run=server"]


def _url(told: Attributes) -> str:
    root = f"/apis/{told.resource.group}" if told.resource.group else "/api"
    namespace = f"/namespaces/{quote(told.namespace)}" if told.namespace else ""
    name, subresource = quote(told.name), quote(told.subresource)
    return f"{root}/{told.resource.version}{namespace}/{told.resource.resource}/{name}/{subresource}?dryRun=All"


def _impersonation(user: UserInfo) -> list[str]:
    words = [f"--as={user.username}"] if user.username else []
    words += [f"--as-uid={user.uid}"] if user.uid else []
    words += [f"--as-group={group}" for group in user.groups]
    return words + [f"--as-user-extra={key}={value}" for key, values in user.extra.items() for value in values]


def _sent(told: Attributes) -> JSON:
    """The object without what the server sets itself; an update is one of whatever version there is."""
    value = plain(told.object)
    metadata = {name: part for name, part in (value.get("metadata") or {}).items() if name not in _SYSTEM_FIELDS}
    return {**value, "metadata": metadata}
