"""`replay snapshot`: the objects of a cluster that decisions look up, written by the operator's own `kubectl`.

A snapshot of a kcp shard has a part for each workspace.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import orjson
from msgspec import Struct

from replay.admission.ordered.registry import reads_of
from replay.admission.reads import AUTHORIZER, NAMESPACE, OLD_OBJECT, OPERATIONS, PARAMS, PolicyReads
from replay.admission.webhook.answer import engines_of
from replay.cellib.version import KubernetesVersion
from replay.compare.audit_policy import CRDS, NAMESPACES, SECRETS
from replay.errors import SnapshotError
from replay.json import JSON
from replay.kcp.annotation import PATH, annotation
from replay.kube.admissionregistration import GROUP, RESOURCES, ManifestSet
from replay.kube.discovery import builtin_discovery
from replay.kube.engine_policy import ENGINES, is_of_engine
from replay.kube.gvk import GroupResource, split_api_version
from replay.kube.rbac import RBAC_RESOURCES
from replay.manifests.set_loader import load_manifest_set
from replay.matching.rules import EquivalentResourceMapper
from replay.pipeline.whole_file import whole_file

TIMEOUT = 300
"""The seconds that one call of kubectl may take."""
_REGISTRATIONS = tuple(GroupResource(GROUP, name) for name in RESOURCES)
POD_PLUGINS = (
    GroupResource("", "limitranges"),
    GroupResource("", "serviceaccounts"),
    GroupResource("scheduling.k8s.io", "priorityclasses"),
)
"""Objects for the plugins LimitRanger, ServiceAccount and Priority. A denied pod is rebuilt with their additions."""
NEVER = frozenset({SECRETS, GroupResource("", "events"), GroupResource("events.k8s.io", "events")})
"""Kinds that are never read: Secrets are private, and events are short-lived and many."""

_Run = Callable[[Sequence[str]], bytes]
"""A function that runs a command and returns its output. It raises SnapshotError."""


class _WantedResource(Struct, frozen=True):
    """The objects of one resource, and the reason to read them. The server may lack an `optional` resource."""

    resource: GroupResource
    reason: str
    optional: bool = False


def wanted(sets: Iterable[Path], version: KubernetesVersion, *, objects: bool = False) -> list[_WantedResource]:
    """Return the resources that the sets' decisions look up, each once, in order.

    With `objects`, also those whose old object policies read, for their state before the log.
    """
    loaded = [load_manifest_set(path, version=version) for path in sets]
    reads = [each for manifests in loaded for each in reads_of(manifests, version)]
    resources: dict[GroupResource, _WantedResource] = {}
    for each in (*_lookups(reads), *_inventory(loaded), *(_old_objects(reads) if objects else ())):
        if each.resource not in NEVER:
            resources.setdefault(each.resource, each)
    return [resources[resource] for resource in sorted(resources)]


def secret_params(sets: Iterable[Path], version: KubernetesVersion) -> list[str]:
    """Return the policies whose parameters are Secrets. They stay undetermined, because no snapshot has Secrets."""
    reads = [each for path in sets for each in reads_of(load_manifest_set(path, version=version), version)]
    return sorted({each.policy for each in reads if each.param_kind and each.param_kind.kind == "Secret"})


def _lookups(reads: Sequence[PolicyReads]) -> Iterator[_WantedResource]:
    mapper = EquivalentResourceMapper(builtin_discovery())
    yield from (
        _WantedResource(resource, "admission policies made through the API", optional=True)
        for resource in _REGISTRATIONS
    )
    yield from (
        _WantedResource(resource, engine.reason, optional=True) for engine in ENGINES for resource in engine.resources
    )
    if any(NAMESPACE in each.inputs for each in reads):
        yield _WantedResource(NAMESPACES, "namespaceSelector and namespaceObject")
    if any(AUTHORIZER in each.inputs for each in reads):
        yield from (_WantedResource(resource, "authorizer") for resource in RBAC_RESOURCES)
    if any(each.operations("", "pods", "", mapper) for each in reads):
        yield from (_WantedResource(resource, "what built-in plugins add to pods") for resource in POD_PLUGINS)
    unknown = "\0", "\0", ""
    built_in = {served.resource.group for served in builtin_discovery()}
    named = {
        group
        for each in reads
        for conjunction in each.criteria
        for match in conjunction
        for rule in match.resource_rules
        for group in rule.api_groups
    }
    custom_params = False
    for each in reads:
        if each.param_kind is not None and PARAMS in each.inputs:
            resource = _resource_of(each.param_kind.api_version, each.param_kind.kind)
            custom_params = custom_params or split_api_version(each.param_kind.api_version)[0] not in built_in
            yield _WantedResource(resource, f"parameters of {each.policy}")
    if custom_params or named - built_in - {"*"} or any(each.operations(*unknown, mapper) for each in reads):
        yield _WantedResource(CRDS, "the kinds of custom resources")


def _inventory(sets: Iterable[ManifestSet]) -> Iterator[_WantedResource]:
    """Yield the kinds that policy engines keep in memory for their policies.

    Gatekeeper's `SyncSet` and `Config` name them.
    """
    for manifests in sets:
        for group, kind in (each for engine in engines_of(manifests) for each in engine.looked_up()):
            yield _WantedResource(
                _resource_of(f"{group}/" if group else "", kind),
                "what policies of an engine read of the cluster",
                optional=True,
            )
        for each in ENGINES:
            if any(is_of_engine(value, each) for value in manifests.engine_objects):
                yield from (_WantedResource(resource, reason, optional=True) for resource, reason in each.read.items())


def _resource_of(api_version: str, kind: str) -> GroupResource:
    """Return the resource of a kind. For a custom kind it is the lower-case kind, which kubectl also accepts."""
    group = split_api_version(api_version)[0]
    for served in builtin_discovery():
        if (served.kind.group, served.kind.kind) == (group, kind):
            return served.resource.group_resource
    return GroupResource(group, kind.lower())


def _old_objects(reads: Sequence[PolicyReads]) -> Iterator[_WantedResource]:
    mapper = EquivalentResourceMapper(builtin_discovery())
    changing = {"UPDATE", "DELETE"} & set(OPERATIONS)
    for served in builtin_discovery():
        resource = served.resource.group_resource
        for each in reads:
            if OLD_OBJECT in each.inputs and each.operations(*resource, "", mapper) & changing:
                yield _WantedResource(resource, f"old objects, which {each.policy} reads", optional=True)
                break


def command(each: _WantedResource, kubectl: Sequence[str]) -> list[str]:
    """Return the kubectl command that reads the objects of one resource."""
    return [*kubectl, "get", str(each.resource), "--all-namespaces", "--output=json"]


def kubectl_command(context: str = "", kubeconfig: Path | None = None) -> list[str]:
    """Return the beginning of all commands."""
    command = ["kubectl"]
    if kubeconfig is not None:
        command.append(f"--kubeconfig={kubeconfig}")
    if context:
        command.append(f"--context={context}")
    return command


def _run_kubectl(arguments: Sequence[str]) -> bytes:
    """Return the output of kubectl. Raise SnapshotError with its last line if it is not installed or fails."""
    program = shutil.which(arguments[0])
    if program is None:
        raise SnapshotError("`kubectl` is not installed: use --print and run the commands where it is")
    try:
        process = subprocess.run([program, *arguments[1:]], capture_output=True, check=False, timeout=TIMEOUT)  # noqa: S603 - the arguments are our own
    except subprocess.TimeoutExpired as error:
        raise SnapshotError(f"`{' '.join(arguments)}` did not answer within {TIMEOUT} s") from error
    if process.returncode:
        said = process.stderr.decode(errors="replace").strip().splitlines()
        raise SnapshotError(f"`{' '.join(arguments)}` failed: {said[-1] if said else 'no message'}")
    return process.stdout


def take(resources: Sequence[_WantedResource], kubectl: Sequence[str], out: Path, run: _Run = _run_kubectl) -> int:
    """Write the objects of some resources to a file, one a line, and return their number.

    The file is put in place only when it is complete. Raise SnapshotError if a required resource cannot be read.
    """
    count = 0
    with whole_file(out, "the snapshot") as file:
        for each in resources:
            for obj in _objects_of(each, kubectl, run):
                file.write(orjson.dumps(obj) + b"\n")
                count += 1
    return count


def _objects_of(each: _WantedResource, kubectl: Sequence[str], run: _Run) -> Iterator[JSON]:
    """Yield the objects of one resource, never a Secret. Raise SnapshotError."""
    try:
        text = run(command(each, kubectl))
    except SnapshotError as error:
        # Only the text shows this error. The exit code of kubectl is 1 for all errors.
        if each.optional and "the server doesn't have a resource type" in error.message:
            return
        raise
    try:
        items = orjson.loads(text)["items"]
    except (orjson.JSONDecodeError, KeyError, TypeError) as error:
        raise SnapshotError(f"`{' '.join(command(each, kubectl))}` did not print a list") from error
    for obj in items:
        if isinstance(obj, dict) and obj.get("kind") != "Secret":
            yield obj


_LOGICAL_CLUSTER = _WantedResource(GroupResource("core.kcp.io", "logicalclusters"), "the path of the workspace")
WORKSPACE_RESOURCES = (
    *(_WantedResource(resource, "admission policies", optional=True) for resource in _REGISTRATIONS),
    _WantedResource(GroupResource("apis.kcp.io", "apibindings"), "whose policies decide"),
    _WantedResource(GroupResource("apis.kcp.io", "apiexports"), "what the workspace exports"),
    _WantedResource(GroupResource("apis.kcp.io", "apiresourceschemas"), "the kinds that it exports"),
    _WantedResource(
        GroupResource("apiextensions.k8s.io", "customresourcedefinitions"), "the kinds of custom resources"
    ),
    _WantedResource(GroupResource("tenancy.kcp.io", "workspaces"), "the workspaces in it", optional=True),
    _WantedResource(GroupResource("", "namespaces"), "namespaceSelector and namespaceObject"),
)
"""Resources that are read in every workspace, besides policy parameters."""


def take_workspace(kubectl: Sequence[str], out: Path, run: _Run = _run_kubectl) -> tuple[str, int]:
    """Write one workspace's objects to its folder; return its path and their number.

    Raise SnapshotError if `kubectl` does not reach a workspace, or cannot read a resource.
    """
    logical_clusters = list(_objects_of(_LOGICAL_CLUSTER, kubectl, run))
    path = next((named for obj in logical_clusters if (named := annotation(obj, PATH))), "")
    if not path:
        raise SnapshotError(f"`{' '.join(kubectl)}` is for no workspace of kcp: its LogicalCluster has no path")
    by_resource = {_LOGICAL_CLUSTER.resource: logical_clusters}
    for each in WORKSPACE_RESOURCES:
        by_resource[each.resource] = list(_objects_of(each, kubectl, run))
    for resource in _params(by_resource):
        if resource not in by_resource:
            by_resource[resource] = list(_objects_of(_WantedResource(resource, "parameters"), kubectl, run))
    folder = out / path.replace(":", ".")
    folder.mkdir(parents=True, exist_ok=True)
    for resource, objects in by_resource.items():
        with whole_file(folder / f"{resource}.json", "the snapshot") as file:
            file.write(orjson.dumps({"apiVersion": "v1", "kind": "List", "items": objects}, option=orjson.OPT_INDENT_2))
    return path, sum(map(len, by_resource.values()))


def commands(kubectl: Sequence[str]) -> list[list[str]]:
    """Return the kubectl commands that read one workspace, without the parameters of its policies."""
    return [command(each, kubectl) for each in (_LOGICAL_CLUSTER, *WORKSPACE_RESOURCES)]


def _params(objects: dict[GroupResource, list[JSON]]) -> list[GroupResource]:
    """Return the resources of the policies' parameters. Secrets are left out of every snapshot."""
    resources = set()
    for policy in (each for resource in _REGISTRATIONS for each in objects.get(resource, ())):
        kind = (policy.get("spec") or {}).get("paramKind")
        if isinstance(kind, dict) and kind.get("kind") != "Secret":
            resources.add(_resource_of(str(kind.get("apiVersion") or ""), str(kind.get("kind"))))
    return sorted(resources)
