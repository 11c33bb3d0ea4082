"""Decisions kept beside a store, so that a changed candidate costs only what changed.

A run with a kept store writes down what its two sets decided about each request. A later run over the same log, with the same
snapshot, version and code, takes over the decisions about every request that no changed policy or webhook can match, by the rules of
the old and of the new form, and decides all others anew, through the whole chain. INVARIANT: the result is that of a run without a
store, to the byte.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, astuple, dataclass, field
from functools import cache
from pathlib import Path

import orjson

from replay.admission.decision import Decision, Denial, Mutated, Undetermined, Verdict, WebhookCall
from replay.kube.admissionregistration import ManifestSet, MatchPolicy, MatchResources, Rule
from replay.kube.attributes import JSON
from replay.kube.discovery import Discovery
from replay.kube.lister import Lister
from replay.matching.equivalence import EquivalentResourceMapper
from replay.matching.matcher import Matcher, RequestClass
from replay.reconstruct.request import ReplayRequest

Decide = Callable[[ReplayRequest, Lister], Sequence[Decision]]
Place = tuple[int, int]
ADMITTED = Decision(Verdict.ADMITTED)
_BOTH_ADMITTED = [ADMITTED, ADMITTED]
MOST_KEPT = 4
"""How many pairs of sets a store keeps decisions of; the oldest goes first."""
_SETS = "sets.json"
VERDICTS = "verdicts"


@dataclass(frozen=True, slots=True)
class Unit:
    """What changes as one: a policy with its bindings, or a webhook. `digest` is of all that it says."""

    digest: str
    match: MatchResources


@dataclass(frozen=True, slots=True)
class Plan:
    """Where decisions come from and go to, for every part: `source` None where nothing can be taken over.

    `changed` are the criteria of all that differs between the kept sets and those of this run, in the old and the new form.
    """

    target: Path
    source: Path | None = None
    changed: tuple[MatchResources, ...] = ()


def plan(directory: Path, base: Sequence[str | bytes], sets: Sequence[ManifestSet]) -> Plan | None:
    """The plan for a store in a directory, None where it cannot be written.

    `base` is all but the sets that decisions depend on. Of several kept pairs the one with the fewest changes is taken.
    """
    digest = _digest(_code(), *base)
    units = [_units(manifests) for manifests in sets]
    place = directory / VERDICTS
    target = place / f"{digest}-{_digest(*(unit.digest for each in units for unit in each.values()))}"
    found = [(_changes(_read_units(kept), units), kept) for kept in sorted(place.glob(f"{digest}-*")) if kept.is_dir()]
    changes, source = min(found, key=lambda pair: len(pair[0]), default=((), None))
    partial = place / f".{target.name}-{os.getpid()}"
    try:
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        (partial / _SETS).write_bytes(
            orjson.dumps([{name: asdict(unit) for name, unit in each.items()} for each in units])
        )
    except OSError:
        return None
    return Plan(partial, source, tuple(changes))


def forget(directory: Path) -> None:
    """Remove all that a store keeps of decisions: they were about a log that is no longer the store's."""
    shutil.rmtree(directory / VERDICTS, ignore_errors=True)


def commit(made: Plan) -> None:
    """Let the decisions of a finished run count, and forget the oldest ones."""
    final = made.target.with_name(made.target.name.removeprefix(".").rpartition("-")[0])
    if final.exists():
        shutil.rmtree(made.target, ignore_errors=True)
        os.utime(final)
    else:
        made.target.rename(final)
    kept = sorted((path for path in final.parent.iterdir() if not path.name.startswith(".")), key=_age)
    for path in kept[:-MOST_KEPT]:
        shutil.rmtree(path, ignore_errors=True)


def _age(path: Path) -> tuple[int, str]:
    return path.stat().st_mtime_ns, path.name


@dataclass
class KeptDecisions:
    """The decisions of one part: taken over where they can be, made where not, and all of them written down again."""

    made: Plan
    part: int
    discovery: Discovery
    decide: Decide
    _new: dict[Place, Sequence[Decision]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Read what was kept, and prepare to tell what changed."""
        self._old = _read_decisions(self.made.source, self.part) if self.made.source is not None else None
        self._matcher = Matcher(EquivalentResourceMapper(self.discovery))
        self._criteria = [self._matcher.criteria(match) for match in self.made.changed]
        self._affected: dict[RequestClass, bool] = {}

    def __call__(self, request: ReplayRequest, lister: Lister) -> Sequence[Decision]:
        """The decisions of both sets about a request."""
        place = request.record.seq, request.item
        if self._old is None or self._is_affected(request):
            decisions = self.decide(request, lister)
        else:
            decisions = self._old.get(place, _BOTH_ADMITTED)
        if not all(decision == ADMITTED for decision in decisions):
            self._new[place] = decisions
        return decisions

    def _is_affected(self, request: ReplayRequest) -> bool:
        """Whether anything that changed can match the request, in either phase."""
        request_class = self._matcher.request_class(request.attributes)
        found = self._affected.get(request_class)
        if found is None:
            found = any(criteria.may_match(request_class) for criteria in self._criteria)
            self._affected[request_class] = found
        return found

    def write(self) -> None:
        """Write the decisions down; text that is not UTF-8 cannot be kept, and nothing of the part is then."""
        rows = [[*place, *_pair_value(decisions)] for place, decisions in sorted(self._new.items())]
        try:
            content = orjson.dumps(rows)
        except TypeError:
            content = b""
        (self.made.target / f"part-{self.part:05}.json").write_bytes(content)


def _read_decisions(source: Path, part: int) -> dict[Place, list[Decision]] | None:
    """The kept decisions of a part, None where there are none to be used."""
    try:
        content = (source / f"part-{part:05}.json").read_bytes()
        return {(row[0], row[1]): _pair(row[2], row[3]) for row in orjson.loads(content)} if content else None
    except (OSError, ValueError, TypeError, IndexError, KeyError):
        return None


def _pair_value(decisions: Sequence[Decision]) -> list[JSON]:
    """Both decisions; null for the second stands for "the very same", which a comparison asks for."""
    current, candidate = decisions
    return [_decision_value(current), None if candidate is current else _decision_value(candidate)]


def _pair(current: JSON, candidate: JSON) -> list[Decision]:
    first = _decision(current)
    return [first, first if candidate is None else _decision(candidate)]


def _decision_value(decision: Decision) -> list[JSON]:
    return [
        decision.verdict,
        [astuple(denial) for denial in decision.denials],
        decision.warnings,
        dict(decision.audit_annotations),
        decision.patch,
        [astuple(entry) for entry in decision.undetermined],
        [[entry.policy, entry.binding, entry.patch] for entry in decision.mutated],
        [astuple(call) for call in decision.webhooks],
        [astuple(denial) for denial in decision.caused_by_mutation],
        [astuple(denial) for denial in decision.healed_by_mutation],
    ]


def _decision(value: JSON) -> Decision:
    verdict, denials, warnings, annotations, patch, undetermined, mutated, webhooks, caused, healed = value
    return Decision(
        Verdict(verdict),
        tuple(Denial(*row) for row in denials),
        tuple(warnings),
        annotations,
        tuple(patch),
        tuple(Undetermined(*row) for row in undetermined),
        tuple(Mutated(policy, binding, tuple(operations)) for policy, binding, operations in mutated),
        tuple(WebhookCall(*row) for row in webhooks),
        tuple(Denial(*row) for row in caused),
        tuple(Denial(*row) for row in healed),
    )


def _units(manifests: ManifestSet) -> dict[str, Unit]:
    """The units of a set by name; a policy without match constraints matches nothing, and so does what binds it."""
    return dict(_policy_units(manifests)) | dict(_webhook_units(manifests))


def _policy_units(manifests: ManifestSet) -> Iterator[tuple[str, Unit]]:
    for kind, policies, bindings in (
        ("validating", manifests.validating_policies, manifests.validating_bindings),
        ("mutating", manifests.mutating_policies, manifests.mutating_bindings),
    ):
        for policy in policies:
            own = [binding for binding in bindings if binding.policy_name == policy.name]
            match = policy.match_constraints or MatchResources()
            yield f"{kind}/{policy.static}/{policy.name}", Unit(_digest(repr(policy), repr(own)), match)


def _webhook_units(manifests: ManifestSet) -> Iterator[tuple[str, Unit]]:
    for kind, configurations in (
        ("validating", manifests.validating_webhooks),
        ("mutating", manifests.mutating_webhooks),
    ):
        for configuration in configurations:
            for index, webhook in enumerate(configuration.webhooks):
                match = MatchResources(resource_rules=webhook.rules, match_policy=webhook.match_policy)
                name = f"{kind} webhook/{configuration.static}/{configuration.name}/{index}"
                yield name, Unit(_digest(repr(webhook)), match)


def _changes(old: Sequence[dict[str, Unit]], new: Sequence[dict[str, Unit]]) -> list[MatchResources]:
    """The criteria of the units that differ, in both forms."""
    found = []
    for before, after in zip(old, new, strict=True):
        for name in sorted({*before, *after}):
            one, other = before.get(name), after.get(name)
            if one is None or other is None or one.digest != other.digest:
                found += [unit.match for unit in (one, other) if unit is not None]
    return found


def _read_units(kept: Path) -> list[dict[str, Unit]]:
    """The units of kept sets; of their criteria only what `may_match` reads."""
    return [
        {name: Unit(unit["digest"], _match(unit["match"])) for name, unit in each.items()}
        for each in orjson.loads((kept / _SETS).read_bytes())
    ]


def _match(value: JSON) -> MatchResources:
    rules = tuple(
        Rule(
            tuple(rule["operations"]),
            tuple(rule["api_groups"]),
            tuple(rule["api_versions"]),
            tuple(rule["resources"]),
            rule["scope"],
            tuple(rule["resource_names"]),
        )
        for rule in value["resource_rules"]
    )
    return MatchResources(resource_rules=rules, match_policy=MatchPolicy(value["match_policy"]))


def _digest(*parts: str | bytes) -> str:
    found = hashlib.sha256()
    for part in parts:
        content = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part
        found.update(len(content).to_bytes(8, "big") + content)
    return found.hexdigest()[:24]


@cache
def _code() -> str:
    """The code that decides: decisions of another version of it are never taken over."""
    package = Path(__file__).parents[1]
    files = sorted(path for path in package.rglob("*") if path.suffix in (".py", ".json"))
    return _digest(*(f"{path.relative_to(package)} {path.stat().st_size} {path.stat().st_mtime_ns}" for path in files))
