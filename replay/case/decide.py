"""Decision of a case's policies, by the chain of plugins."""

from __future__ import annotations

import orjson
from msgspec import Struct, field

from replay.admission.chain import Chain
from replay.admission.decision import Decision
from replay.admission.explain.explanation import PolicyExplanation
from replay.admission.explain.request import explained_request
from replay.case.attributes import AttributesMaker, CaseAttributes
from replay.case.case import Case
from replay.case.world import CaseLister, authorizer_of
from replay.cellib.version import NEWEST, KubernetesVersion
from replay.identity import IdentityMemo
from replay.json import JSON
from replay.kube.admissionregistration import ManifestSet
from replay.kube.discovery import builtin_discovery
from replay.kube.schema import Schemas

_NOTHING = ManifestSet()
_CRD = "CustomResourceDefinition"


class DecidedCase(Struct, frozen=True):
    """Decision of a case, and its attributes; `teller` decodes objects."""

    case: Case
    attributes: CaseAttributes
    decision: Decision
    teller: AttributesMaker
    _chain: Chain
    _lister: CaseLister

    def explained(self) -> tuple[PolicyExplanation, ...]:
        """Each policy with its expressions: those that mutate as they ran, then those that validate."""
        index, manifests = 0 if self.attributes.is_stated else 1, self.case.manifests
        asking = self._chain.asking(self.attributes.original, self.attributes.validated, self._lister, {})
        explained = explained_request(self._chain, asking, index, manifests)
        return (*(policy for each in explained.passes for policy in each.policies), *explained.policies)


class CaseDecider(Struct):
    """Decides cases; sets of policies are compiled once, however many cases they decide."""

    version: KubernetesVersion = NEWEST
    _tellers: dict[bytes, AttributesMaker] = field(default_factory=dict)
    _chains: IdentityMemo[Chain] = field(default_factory=IdentityMemo)

    def decided(self, case: Case) -> DecidedCase:
        """The decision; raises CaseError for a request that no server would ask its policies about."""
        crds = [obj for obj in case.objects if obj.get("kind") == _CRD]
        key = orjson.dumps(crds)
        teller = self._teller(key, crds)
        attributes = teller.attributes(case)
        chain = self._chain(case.manifests, attributes, teller, key, crds)
        named = () if attributes.namespace is None else (attributes.namespace,)
        lister = CaseLister((*map(teller.stored, case.objects), *named), case.answers)
        # A stated object is what the server made of what this set left. Else nothing mutated it, as with an empty set.
        decision = chain.decide(attributes.original, attributes.validated, lister)[0 if attributes.is_stated else 1]
        return DecidedCase(case, attributes, decision, teller, chain, lister)

    def _teller(self, key: bytes, crds: list[JSON]) -> AttributesMaker:
        teller = self._tellers.get(key)
        if teller is None:
            teller = self._tellers[key] = AttributesMaker(builtin_discovery().with_crds(crds), Schemas(crds))
        return teller

    def _chain(
        self, manifests: ManifestSet, attributes: CaseAttributes, teller: AttributesMaker, key: bytes, crds: list[JSON]
    ) -> Chain:
        rest = attributes.is_stated, key
        known_chain = self._chains.get((manifests,), rest)
        if known_chain is not None:
            return known_chain
        sets = [manifests] if attributes.is_stated else [_NOTHING, manifests]
        chain = Chain(sets, self.version, teller.discovery, Schemas(crds), authorizer=authorizer_of)
        return self._chains.put((manifests,), chain, rest)
