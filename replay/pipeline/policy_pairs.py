"""`replay diff --log` as a function: requests that the policies of two sets decide differently, pair by pair."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson
import yaml
from msgspec.structs import replace

from replay.admission.decision import Verdict
from replay.audit.ingest import Progress
from replay.cellib.version import KubernetesVersion
from replay.compare.policy_pairs import PairComparison, PolicyPair, Witness, is_denied_by, paired
from replay.errors import ReplayError
from replay.kube.admissionregistration import ManifestSet
from replay.kube.engine_policy import engine_policies
from replay.manifests.set_loader import load_manifest_set
from replay.pipeline.matched_resources import matched_resources
from replay.pipeline.options import Options
from replay.pipeline.run import run
from replay.pipeline.scenario import Scenario
from replay.storage.scratch import scratch


def compare_pairs(
    scenario: Scenario, written: Path | None, options: Options, progress: Progress, version: KubernetesVersion
) -> list[PairComparison]:
    """Decide the requests of a log with both sets of a scenario, and compare pair by pair; `written` is a file of pairs.

    Raises ReplayError for what cannot be used.
    """
    sets = [load_manifest_set(path, version=version) for path in (scenario.current, scenario.candidate) if path]
    old, new = map(_policies, sets)
    matched = {name: resources for each in sets for name, resources in matched_resources(each).items()}
    pairs = paired(old, new, () if written is None else _read(written, old, new), matched)
    compared = [PairComparison(pair) for pair in pairs]
    with scratch() as directory:
        outcomes = directory / "outcomes.jsonl"
        run(scenario, replace(options, outcomes=outcomes), progress)
        with outcomes.open("rb") as lines:
            for line in lines:
                value = orjson.loads(line)
                if value["current"]["verdict"] != Verdict.NOT_REACHED:
                    _count(compared, value)
    return compared


def _policies(manifests: ManifestSet) -> tuple[str, ...]:
    """The names of all that validates: policies of engines, and native ones."""
    native = (each.name for each in manifests.validating_policies)
    return tuple(dict.fromkeys((*engine_policies(manifests.engine_objects), *native)))


def _read(path: Path, old: Sequence[str], new: Sequence[str]) -> list[PolicyPair]:
    """The pairs of a file: a list of `{old, new}`, each a name or a list of names."""
    try:
        entries = yaml.safe_load(path.read_text("utf-8"))
    except OSError as error:
        raise ReplayError(f"the pairs cannot be read: {error.strerror}", path=str(path)) from None
    except (UnicodeDecodeError, yaml.YAMLError) as error:
        raise ReplayError(f"cannot be read: {' '.join(str(error).split())}", path=str(path)) from None
    if not isinstance(entries, list):
        raise ReplayError("is no list of pairs: write `- {old: NAME, new: NAME}`", path=str(path))
    return [_pair(each, index, path, old, new) for index, each in enumerate(entries)]


def _pair(entry: Any, index: int, path: Path, old: Sequence[str], new: Sequence[str]) -> PolicyPair:
    names: dict[str, tuple[str, ...]] = {}
    for field, known in (("old", old), ("new", new)):
        value = entry.get(field) if isinstance(entry, dict) else None
        own = tuple(map(str, value)) if isinstance(value, list) else (str(value),) if value else ()
        unknown = next((name for name in own if name not in known), None)
        if not own or unknown is not None:
            what = f"`{unknown}` is no policy of its set" if unknown is not None else f"has no `{field}`"
            raise ReplayError(f"pair {index + 1}: {what}: name a policy as `replay run` does", path=str(path))
        names[field] = own
    return PolicyPair(names["old"], names["new"])


def _count(compared: Iterable[PairComparison], value: Mapping[str, Any]) -> None:
    sides = value["current"], value["candidate"]
    denials = [{str(each["policy"]): str(each["message"]) for each in side["denials"]} for side in sides]
    unknown = {str(each["policy"]) for side in sides for each in side["undetermined"]}
    if not unknown and not any(denials):
        return
    for each in compared:
        if is_denied_by((*each.pair.old, *each.pair.new), unknown):
            each.undetermined += 1
            continue
        old, new = is_denied_by(each.pair.old, denials[0]), is_denied_by(each.pair.new, denials[1])
        each.both += old and new
        if old is not new:
            names, said = (each.pair.old, denials[0]) if old else (each.pair.new, denials[1])
            message = next(said[name] for name in names if name in said)
            (each.old_only if old else each.new_only).append(_witness(value, message))


def _witness(value: Mapping[str, Any], message: str) -> Witness:
    resource, name = value["resource"], "/".join(filter(None, (value["namespace"], value["name"])))
    kind = "/".join(filter(None, (resource["resource"], resource["subresource"])))
    return Witness(value["auditID"], f"{value['operation']} {kind} {name} by {value['user']}", message)
