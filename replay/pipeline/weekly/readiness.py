"""Pods of a log against every Pod Security level, and their resources, by namespace."""

from __future__ import annotations

from collections import Counter

from msgspec import Struct

from replay.admission.builtin.partial import UnknownInputError, guarded
from replay.admission.builtin.pod.resources import amounts, pod_amounts
from replay.admission.builtin.pod_security.pod import Pod
from replay.admission.builtin.pod_security.policy import LATEST, LevelVersion
from replay.admission.builtin.pod_security.standard import violations
from replay.admission.builtin.run import MALFORMED
from replay.audit.part import StorePart
from replay.audit.period import Period
from replay.compare.readiness import LEVELS, NamespaceReadiness, raise_to
from replay.compare.subject.workload import workload
from replay.json import JSON
from replay.kube.attributes import Attributes, Missing, Operation, PartialObject
from replay.kube.quantity import Quantity
from replay.matching.coarse import Predicate, both
from replay.pipeline.replay.job import Job
from replay.reconstruct.request import Reached, ReplayRequest

_PODS = Predicate("(api_group = '' and resource = 'pods' and verb in ('create', 'delete', 'update', 'patch'))", ())
_ENDED = ("Succeeded", "Failed")

ReadinessByNamespace = dict[str, NamespaceReadiness]


class ReadinessJob(Struct, frozen=True):
    """The same for every part: the pods of a period, at the newest standards or those of an older minor."""

    job: Job
    period: Period

    def run(self, part: StorePart) -> ReadinessByNamespace:
        """The pods of one part, by namespace."""
        readiness: ReadinessByNamespace = {}
        within = self.job.within
        for records in part.objects(_PODS if within is None else both(_PODS, within)):
            for request in self.job.reconstructor.requests(records):
                if request.record.stage_time in self.period and request.reached is not Reached.FAILED_BEFORE:
                    self._count(request, readiness)
        return readiness

    def _count(self, request: ReplayRequest, readiness: ReadinessByNamespace) -> None:
        attributes, record = request.attributes, request.record
        succeeded, at = record.code < 400, record.stage_time
        name = f"{attributes.namespace}/{attributes.name}"
        if attributes.operation is Operation.CREATE and not attributes.subresource:
            if not succeeded:
                return
            own = readiness.setdefault(attributes.namespace, NamespaceReadiness())
            own.pods += 1
            pod = _readable(attributes.object)
            try:
                self._hold(pod, attributes, own)
                own.steps.append((at, name, 1, _requested(pod["spec"])))
            except (UnknownInputError, *MALFORMED):
                own.unknown += 1
        elif succeeded and (attributes.operation is Operation.DELETE or _has_ended(attributes)):
            own = readiness.setdefault(attributes.namespace, NamespaceReadiness())
            own.steps.append((at, name, -1, {}))

    def _hold(self, pod: JSON, attributes: Attributes, own: NamespaceReadiness) -> None:
        """Hold one pod against each level."""
        for level in LEVELS:
            against = violations(LevelVersion(level, LATEST), self.job.version.minor, Pod(pod["metadata"], pod["spec"]))
            own.denied[level] += bool(against)
            for each in against:
                obstacle = workload(attributes, self.job.owners), each.reason, each.detail
                own.obstacles.setdefault(level, Counter())[obstacle] += 1
        for container in (*(pod["spec"].get("initContainers") or ()), *(pod["spec"].get("containers") or ())):
            for kind in ("requests", "limits"):
                container_amounts = amounts((container.get("resources") or {}).get(kind))
                raise_to(own.most.setdefault(kind, {}), container_amounts)


def _readable(value: object) -> JSON:
    if isinstance(value, Missing):
        return guarded({"metadata": value, "spec": value})
    return guarded(value.value) if isinstance(value, PartialObject) else value


def _requested(spec: JSON) -> dict[str, Quantity]:
    """Return what a quota would charge."""
    return {
        f"{kind}.{name}": value for kind in ("requests", "limits") for name, value in pod_amounts(spec, kind).items()
    }


def _has_ended(attributes: Attributes) -> bool:
    """Return whether an update reports a pod's end. It is not charged from then on."""
    value = attributes.object.value if isinstance(attributes.object, PartialObject) else attributes.object
    status = value.get("status") if isinstance(value, dict) else None
    return isinstance(status, dict) and status.get("phase") in _ENDED
