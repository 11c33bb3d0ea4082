"""Recorded answers of Gatekeeper's external data providers: `--webhook PROVIDER=FILE`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import orjson
from msgspec.structs import replace

from replay.errors import ReplayError
from replay.json import JSON
from replay.kube.admissionregistration import ManifestSet
from replay.pipeline.manifests import Manifests
from replay.reconstruct.snapshot import numbered_lines

_API_VERSION = "externaldata.gatekeeper.sh/v1beta1"


def with_provider_answers(manifests: Manifests, options: Sequence[str]) -> tuple[Manifests, list[str]]:
    """Return the sets with the providers' recorded answers, and the options that name no provider.

    Raise ReplayError for a bad file.
    """
    names = {
        str(value["metadata"].get("name"))
        for each in manifests.sets
        for value in each.engine_objects
        if value.get("kind") == "Provider" and str(value.get("apiVersion")).startswith("externaldata.gatekeeper.sh/")
    }
    own = {name: target for name, _, target in (each.partition("=") for each in options) if name in names}
    if not own:
        return manifests, list(options)
    answers = tuple(answer for name, target in sorted(own.items()) for answer in _answers(name, Path(target)))

    def answering(manifest_set: ManifestSet | None) -> ManifestSet | None:
        if manifest_set is None or not manifest_set.engine_objects:
            return manifest_set
        return replace(manifest_set, engine_objects=(*manifest_set.engine_objects, *answers))

    current, candidate = answering(manifests.current), answering(manifests.candidate)
    others = [each for each in options if each.partition("=")[0] not in own]
    return replace(manifests, current=current, candidate=candidate), others


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
