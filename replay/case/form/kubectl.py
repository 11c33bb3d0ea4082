"""A request as a command that repeats it without storing it (`--dry-run=server`)."""

from __future__ import annotations

import json
import re
import shlex
from urllib.parse import quote

import orjson

from replay.case.difference import plain
from replay.case.exported import Exported, UnrepresentableError
from replay.json import JSON
from replay.kube.attributes import Attributes, Operation, UserInfo
from replay.reconstruct.record.exchange import CONNECT_SUBRESOURCES

_END = "EOF"
_SYSTEM_FIELDS = ("uid", "creationTimestamp", "resourceVersion", "generation", "managedFields", "selfLink")


def kubectl_files(exported: Exported) -> dict[str, str]:
    """Return a script of the command, by name."""
    return {"repeat.sh": kubectl_command(exported)}


def kubectl_command(exported: Exported) -> str:
    """Return the command, with the object as its standard input.

    Raises UnrepresentableError for a request that kubectl cannot repeat.
    """
    attributes = exported.original
    if attributes.operation is Operation.CONNECT or attributes.subresource in CONNECT_SUBRESOURCES:
        raise UnrepresentableError("a connection has no dry run: kubectl would open it")
    words = ["kubectl", *_verb(attributes), *_impersonation(attributes.user_info)]
    if attributes.operation is Operation.DELETE:
        return " ".join(map(_quoted, words)) + "\n"
    body = _spelled(orjson.dumps(_sent(attributes), option=orjson.OPT_INDENT_2).decode())
    return f"{' '.join(map(_quoted, [*words, '-f', '-']))} <<'{_END}'\n{body}\n{_END}\n"


def _quoted(word: str) -> str:
    r"""Return a word for bash. Control and bidirectional characters are spelled out, as in `$'\U0000202e'`."""
    if word.isprintable():
        return shlex.quote(word)
    parts = (char if char.isprintable() else f"\\U{ord(char):08x}" for char in re.sub(r"[\\']", r"\\\g<0>", word))
    return f"$'{''.join(parts)}'"


def _spelled(text: str) -> str:
    """Return JSON in which control and bidirectional characters are spelled out."""
    return "".join(char if char.isprintable() or char == "\n" else json.dumps(char)[1:-1] for char in text)


def _verb(attributes: Attributes) -> list[str]:
    """Return kubectl's arguments. A request to a subresource uses its URL."""
    if attributes.subresource:
        method = "create" if attributes.operation is Operation.CREATE else "replace"
        return [method, "--raw", _url(attributes)]
    namespace = (
        ["--namespace", attributes.namespace]
        if attributes.namespace and attributes.resource.resource != "namespaces"
        else []
    )
    if attributes.operation is Operation.DELETE:
        resource = ".".join(
            filter(None, (attributes.resource.resource, attributes.resource.version, attributes.resource.group))
        )
        plural = resource if attributes.resource.group else attributes.resource.resource
        return ["delete", plural, attributes.name, *namespace, "--dry-run=server"]
    return ["create" if attributes.operation is Operation.CREATE else "replace", *namespace, "--dry-run=server"]


def _url(attributes: Attributes) -> str:
    root = f"/apis/{attributes.resource.group}" if attributes.resource.group else "/api"
    namespace = f"/namespaces/{quote(attributes.namespace)}" if attributes.namespace else ""
    name, subresource = quote(attributes.name), quote(attributes.subresource)
    return f"{root}/{attributes.resource.version}{namespace}/{attributes.resource.resource}/{name}/{subresource}?dryRun=All"


def _impersonation(user: UserInfo) -> list[str]:
    words = [f"--as={user.username}"] if user.username else []
    words += [f"--as-uid={user.uid}"] if user.uid else []
    words += [f"--as-group={group}" for group in user.groups]
    return words + [f"--as-user-extra={key}={value}" for key, values in user.extra.items() for value in values]


def _sent(attributes: Attributes) -> JSON:
    """Return the object without the server's own fields. An update loses its resourceVersion."""
    value = plain(attributes.object)
    if not isinstance(value, dict):
        raise UnrepresentableError("the log does not show what was sent: there is nothing to send again")
    metadata = value.get("metadata") or {}
    if not isinstance(metadata, dict):
        return value
    return {**value, "metadata": {name: part for name, part in metadata.items() if name not in _SYSTEM_FIELDS}}
