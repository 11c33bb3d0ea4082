"""Edits of the policies of some manifests, each proved and each claim attacked; by hand and in CI (`python -m tests.prove.campaign`)."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import yaml

from replay.cellib.version import NEWEST
from replay.kube.admissionregistration import ManifestSet
from replay.manifests.api_object import defaulted_api_objects
from replay.manifests.manifest_set import manifest_set_from_objects
from replay.prove.claim import Comparison
from replay.prove.prover import Prover, Settings
from replay.prove.unit import BoundPolicy, Pair, units_of
from tests.prove.attack import Claimed, attacked
from tests.prove.edit import Edit, edits_of

_PER_POLICY = 20


def main() -> int:
    """One line for each policy and the sums; 1 where a claim is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--edits", type=int, default=_PER_POLICY, help="the most edits of each policy")
    parser.add_argument("--objects", type=int, default=100_000, help="the requests that attack each claim")
    arguments = parser.parse_args()
    prover, total = Prover(Settings()), Counter[str]()
    try:
        for path in arguments.files:
            for name, unit in units_of(manifests_of(path)).items():
                total += _campaign(prover, name, unit, arguments.edits, arguments.objects)
    finally:
        prover.close()
    _print(f"{sum(total.values())} in all: {dict(total)}")
    return 1 if total["wrong"] or total["refuted"] else 0


def _campaign(prover: Prover, name: str, unit: BoundPolicy, most: int, objects: int) -> Counter[str]:
    begun, counts, claims = time.process_time(), Counter[str](), []
    for index, edit in enumerate(chosen(name, unit, most)):
        proof = prover.prove(Pair(name, unit, edit.unit))
        claims.append(Claimed(f"{index} {edit.name}", edit.unit, proof.result))
        counts[f"{'kept' if edit.keeps else 'changed'} {proof.result.value}"] += 1
        if edit.keeps and proof.result not in {Comparison.SAME, Comparison.UNKNOWN}:
            counts["wrong"] += 1
            _print(f"  WRONG {name}: {edit.name}: {proof.text}")
        if proof.result is Comparison.UNKNOWN:
            _print(f"  {name}: {edit.name}: {proof.text} {_changed(unit, edit)}")
    tried, refuted = attacked(prover, unit, claims, objects, f"{name} campaign") if claims else (0, [])
    for each in refuted:
        counts["refuted"] += 1
        _print(f"  REFUTED {name}: {each.claim.name}: {each.claim.result.value}: {each.request}")
    _print(f"{name}: {dict(counts)}, each attacked with {tried}, {time.process_time() - begun:.0f} s")
    return counts


def chosen(name: str, unit: BoundPolicy, most: int) -> Iterator[Edit]:
    """Some edits of a policy that compile as far as it does, the same ones each time."""
    found = [each for each in edits_of(unit) if each.unit != unit]
    Random(name).shuffle(found)
    left = most
    for each in found:
        if left and _errors(each.unit) <= _errors(unit):
            left -= 1
            yield each


def _errors(unit: BoundPolicy) -> int:
    return sum(each.program is None for each in unit.compiled(NEWEST).every)


def _changed(unit: BoundPolicy, edit: Edit) -> str:
    """The expression that an edit changed."""
    for part in ("validations", "variables", "match_conditions"):
        for one, other in zip(getattr(unit.policy, part), getattr(edit.unit.policy, part), strict=False):
            if one != other:
                return f"`{one.expression}` -> `{other.expression}`"
    return ""


def manifests_of(path: Path) -> ManifestSet:
    """The policies of a file; one without a binding gets one that denies."""
    given = [each for each in yaml.safe_load_all(path.read_text(encoding="utf-8")) if each]
    objects = list(defaulted_api_objects(given, NEWEST))
    if not any(each["kind"] == "ValidatingAdmissionPolicyBinding" for each in objects):
        objects += [_binding(each) for each in objects if each["kind"] == "ValidatingAdmissionPolicy"]
    return manifest_set_from_objects([], objects)


def _binding(policy: dict[str, Any]) -> dict[str, Any]:
    spec: dict[str, Any] = {"policyName": policy["metadata"]["name"], "validationActions": ["Deny"]}
    if policy["spec"].get("paramKind"):
        spec["paramRef"] = {"name": "example", "parameterNotFoundAction": "Deny"}
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": f"{policy['metadata']['name']}-binding"},
        "spec": spec,
    }


def _print(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
