"""Recorded answers of Gatekeeper's external data providers: `--webhook PROVIDER=FILE`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import orjson

from replay.errors import ReplayError
from replay.json import JSON
from replay.kube.engine_policy import group_of
from replay.reconstruct.snapshot import numbered_lines

_API_VERSION = "externaldata.gatekeeper.sh/v1beta1"


def provider_answers(objects: Iterable[JSON], options: Sequence[str]) -> tuple[list[JSON], list[str]]:
    """Return the recorded answers of the providers among a set's objects, and the options that name no provider.

    Raise ReplayError for a bad file.
    """
    names = {str(value["metadata"].get("name")) for value in objects if _is_provider(value)}
    own = {name: target for name, _, target in (each.partition("=") for each in options) if name in names}
    answers = [answer for name, target in sorted(own.items()) for answer in _answers(name, Path(target))]
    return answers, [each for each in options if each.partition("=")[0] not in own]


def _is_provider(value: JSON) -> bool:
    return value.get("kind") == "Provider" and group_of(value) == _API_VERSION.partition("/")[0]


def _answers(name: str, path: Path) -> list[JSON]:
    """Return the ProviderResponses of a file (one a line) as objects that name their provider."""
    found: list[JSON] = []
    for number, line in numbered_lines(path):
        try:
            items = [{**item, "key": str(item["key"])} for item in orjson.loads(line)["response"]["items"]]
        except (orjson.JSONDecodeError, KeyError, TypeError) as error:
            raise ReplayError("is no ProviderResponse with `response.items`", path=str(path), line=number) from error
        metadata = {"name": name}
        found.append(
            {"apiVersion": _API_VERSION, "kind": "ProviderResponse", "metadata": metadata, "response": {"items": items}}
        )
    return found
