"""The recording of a server with authorization webhooks, read for tests."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pytest

from replay.authorization.chain import AuthorizerChain, ChainBuilder
from replay.authorization.configuration import read_configuration
from replay.authorization.node_authorizer import NodeGraph
from replay.authorization.question import attributes_from_uri
from replay.authorization.webhook import recorded_answers
from replay.cellib.version import NEWEST
from replay.json import JSON
from replay.kube.attributes import UserInfo
from replay.kube.authorizer import AuthorizationAttributes
from replay.kube.lister import ObjectLister
from replay.kube.rbac_authorizer import RoleResolver

RECORDING = Path(__file__).parents[2].parent / "shared" / "recordings" / "authorization"
needs_recording = pytest.mark.skipif(not RECORDING.exists(), reason="the recording is not beside the checkout")


def lines(name: str) -> Iterator[Any]:
    with pa.input_stream(str(RECORDING / name), compression="zstd") as stream:
        yield from (orjson.loads(line) for line in stream.read().split(b"\n") if line)


@cache
def objects() -> tuple[JSON, ...]:
    return tuple(lines("cluster.jsonl.zst"))


@cache
def questions() -> dict[str, AuthorizationAttributes]:
    """What each request asks, by auditID; of several stages the last counts."""
    return {event["auditID"]: question(event) for event in lines("audit.jsonl.zst")}


def question(event: JSON) -> AuthorizationAttributes:
    user = event.get("impersonatedUser") or event["user"]
    extra = {key: tuple(values) for key, values in user.get("extra", {}).items()}
    info = UserInfo(user.get("username", ""), user.get("uid", ""), tuple(user.get("groups", ())), extra)
    return attributes_from_uri(info, event["verb"], event["requestURI"])


def chain(configuration: str, cluster: tuple[JSON, ...] | None = None) -> AuthorizerChain:
    lister = ObjectLister(objects() if cluster is None else cluster)
    read = read_configuration((RECORDING / configuration).read_bytes())
    builder = ChainBuilder(read, recorded_answers(lines("sars.jsonl.zst")), NEWEST)
    return builder.build(RoleResolver(lister), NodeGraph(lister))
