"""What the policies of a case decide: the one chain of plugins, asked about what the case says."""

from __future__ import annotations

from dataclasses import dataclass, field

import orjson

from replay.admission.chain import Chain
from replay.admission.decision import Decision
from replay.admission.explain.explanation import PolicyExplanation
from replay.admission.explain.request import Explainer
from replay.case.attributes import Teller, Told
from replay.case.case import Case
from replay.case.world import CaseLister, authorizer_of
from replay.cellib.version import NEWEST, KubernetesVersion
from replay.json import JSON
from replay.kube.admissionregistration import ManifestSet
from replay.kube.discovery import builtin_discovery
from replay.kube.schema import Schemas

_NOTHING = ManifestSet()
_CRD = "CustomResourceDefinition"


@dataclass(frozen=True)
class Decided:
    """What was decided about a case, and on what; `teller` can say what objects mean."""

    case: Case
    told: Told
    decision: Decision
    teller: Teller
    _chain: Chain
    _lister: CaseLister

    def explained(self) -> tuple[PolicyExplanation, ...]:
        """Each policy with its expressions: those that mutate as they ran, then those that validate."""
        index, manifests = 0 if self.told.is_stated else 1, self.case.manifests
        asking = self._chain.asking(self.told.before, self.told.validated, self._lister, {})
        explainer = Explainer(self._chain, asking)
        seen = self._chain.validated(self.told.before, self.told.validated, self._lister)[index]
        mutating = explainer.mutating(index, manifests)
        validating = explainer.validating(index, manifests, seen, mutating.refused, self.decision)
        return (*(policy for each in mutating.passes for policy in each.policies), *validating.policies)


@dataclass
class Decider:
    """Decides cases; sets of policies are compiled once, however many cases they decide."""

    version: KubernetesVersion = NEWEST
    _tellers: dict[bytes, Teller] = field(default_factory=dict)
    _chains: dict[tuple[int, bool, bytes], tuple[Chain, ManifestSet]] = field(default_factory=dict)

    def decided(self, case: Case) -> Decided:
        """The decision; raises CaseError for a request that no server would ask its policies about."""
        crds = [obj for obj in case.objects if obj.get("kind") == _CRD]
        key = orjson.dumps(crds)
        teller = self._teller(key, crds)
        told = teller.told(case)
        chain = self._chain(case.manifests, told, teller, key, crds)
        named = () if told.namespace is None else (told.namespace,)
        lister = CaseLister((*map(teller.stored, case.objects), *named), case.answers)
        # A stated object is what the server made of what this set left. Else nothing mutated it, as with an empty set.
        decision = chain.decide(told.before, told.validated, lister)[0 if told.is_stated else 1]
        return Decided(case, told, decision, teller, chain, lister)

    def _teller(self, key: bytes, crds: list[JSON]) -> Teller:
        found = self._tellers.get(key)
        if found is None:
            found = self._tellers[key] = Teller(builtin_discovery().with_crds(crds), Schemas(crds))
        return found

    def _chain(self, manifests: ManifestSet, told: Told, teller: Teller, key: bytes, crds: list[JSON]) -> Chain:
        place = (id(manifests), told.is_stated, key)
        found = self._chains.get(place)
        if found is None:
            sets = [manifests] if told.is_stated else [_NOTHING, manifests]
            chain = Chain(sets, self.version, teller.discovery, Schemas(crds), authorizer=authorizer_of)
            # The set is kept with the chain, so that no other one gets its identity.
            found = self._chains[place] = chain, manifests
        return found[0]
