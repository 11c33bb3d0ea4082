"""Results of `kyverno-test.yaml` for Kyverno's own kinds of policies (`cmd/cli/kubectl-kyverno/commands/test`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

from replay.case.case import CannotRunError, EngineCase, Unusable
from replay.case.difference import plain
from replay.case.document import CaseDocument, read_documents, read_objects
from replay.case.exported import Exported, UnrepresentableError, yaml_text
from replay.json import JSON
from replay.kube.attributes import Attributes, Operation
from replay.kube.discovery import builtin_discovery
from replay.kube.engine_policy import policy_name, policy_names
from replay.kube.gvk import GroupVersionKind, split_api_version
from replay.kube.json_patch import apply
from replay.kube.lister import ObjectLister
from replay.kyverno.cluster import requester_of
from replay.kyverno.naming import key_of
from replay.kyverno.offline import OfflinePolicies, OfflineResponse, OfflineSet, read_values
from replay.kyverno.rules.go_value import as_map

_GROUPS = ("kyverno.io/", "policies.kyverno.io/")
_EXPECTED = ("pass", "fail", "error", "skip", "warn")
_OPERATIONS = ("", "CREATE", "UPDATE", "DELETE")
_NOT_DECIDED = {
    "GeneratingPolicy": "objects are not generated",
    "DeletingPolicy": "objects are not deleted",
    "CleanupPolicy": "objects are not deleted",
    "ClusterCleanupPolicy": "objects are not deleted",
    "ImageValidatingPolicy": "images are verified by their registry alone",
}
_NO_TARGETS = "objects that exist are not mutated"
_PAYLOADS = ("jsonPayload", "jsonPayloads", "httpPayloads", "envoyPayloads")
_MANAGED_BY = {"app.kubernetes.io/managed-by": "kyverno"}


class _Loaded(NamedTuple):
    """Policies, resources by number and mutation targets of a test. Policies are loaded on first use."""

    policies: list[JSON]
    resources: list[JSON]
    targets: list[JSON]
    decider: Callable[[], OfflinePolicies]
    responses: Callable[[int, str], list[OfflineResponse]]


class PolicyTest:
    """One test. `files` collects the files that it names."""

    def __init__(self, document: CaseDocument, files: set[str]) -> None:
        """`document` has the test."""
        self._document = document
        self._value: Mapping[str, Any] = document.value
        self._files = files

    def cases(self, is_native: Callable[[Mapping[str, JSON]], bool]) -> Iterator[EngineCase | Unusable]:
        """Yield a case for each result and resource. Raises CaseError if the test names a file that does not exist."""
        results = [(index, each) for index, each in enumerate(self._value.get("results") or ()) if not is_native(each)]
        if not results:
            return
        policies = [obj for obj in self._objects(self._value.get("policies")) if _is_of_kyverno(obj)]
        resources = _distinct(_in_namespace(obj) for obj in self._objects(self._value.get("resources")))
        targets = [_in_namespace(obj) for obj in self._objects(self._value.get("targetResources"))]
        decider = cache(lambda: OfflinePolicies(self._offline_set(policies)))
        responses = cache(lambda number, operation: decider().responses(resources[number], operation))
        loaded = _Loaded(policies, resources, targets, decider, responses)
        for index, result in results:
            yield from self._cases(index, result, loaded)

    def _cases(self, index: int, result: Mapping[str, Any], loaded: _Loaded) -> Iterator[EngineCase | Unusable]:
        place = f"results[{index}]"
        title = " ".join(str(result.get(field)) for field in ("policy", "rule") if result.get(field))
        expected = str(result.get("result") or result.get("status") or "")
        operation = str(result.get("operation") or "")
        path, line = str(self._document.path), self._document.position(place).line
        if expected not in _EXPECTED or operation not in _OPERATIONS:
            wrong = ("result", expected) if expected not in _EXPECTED else ("operation", operation)
            yield Unusable(title, self._document.error(f"{place}.{wrong[0]}", f"`{wrong[1]}` is none"))
            return
        names = _names(result)
        chosen = _resource_indexes(loaded.resources, result, names)
        reason = self._reason(result, loaded, names)
        if reason is None and not chosen:
            reason = "no resource is given that it could be about"
        if reason is not None:
            for name in names or [str(result.get("kind") or "")]:
                yield EngineCase(f"{title} {name} {expected}", path, line, partial(_cannot_run, reason))
            return
        for number in chosen:
            obj = loaded.resources[number]
            name = f"{title} {obj.get('kind')}/{obj['metadata'].get('name')} {expected}"
            ask = partial(loaded.responses, number, operation)
            yield EngineCase(name, path, line, partial(self._differences, result, expected, loaded, ask))

    def _reason(self, result: Mapping[str, Any], loaded: _Loaded, names: list[str]) -> str | None:
        """Return why a result cannot be decided, or None."""
        name = str(result.get("policy") or "").rpartition("/")[2]
        policy = next((obj for obj in loaded.policies if as_map(obj.get("metadata")).get("name") == name), None)
        if policy is None:
            return "the files of the test hold no such policy"
        kind = str(policy.get("kind")).removeprefix("Namespaced")
        if result.get("generatedResource") or result.get("generatedResources"):
            kind = "GeneratingPolicy"
        if kind in _NOT_DECIDED:
            return _NOT_DECIDED[kind]
        mode = as_map(as_map(policy.get("spec")).get("evaluation")).get("mode")
        has_payloads = any(self._value.get(field) for field in _PAYLOADS)
        if mode not in (None, "Kubernetes") or (has_payloads and not loaded.resources):
            return "payloads that are no objects of Kubernetes are not decided"
        if any(_is_named(obj, text) for obj in loaded.targets for text in names):
            return _NO_TARGETS
        named = str(result.get("rule") or "").removeprefix("autogen-").removeprefix("cronjob-")
        rules = [
            rule for rule in as_map(policy.get("spec")).get("rules") or () if named in ("", str(rule.get("name") or ""))
        ]
        return next((reason for rule in rules if (reason := _rule_reason(rule))), None)

    def _differences(
        self, result: Mapping[str, Any], expected: str, loaded: _Loaded, ask: Callable[[], list[OfflineResponse]]
    ) -> list[str]:
        """Return the differences from the expectation. An object without a matching rule has none."""
        name = str(result.get("policy") or "").rpartition("/")[2]
        own = [response for response in ask() if response.policy == name]
        if not own:
            return [f"the policy answers nothing: {loaded.decider().refusal(name)}"]
        lines: list[str] = []
        for response in own:
            if response.unknown:
                raise CannotRunError(response.unknown)
            for rule in response.rules:
                if response.has_rules and not _is_about(str(result.get("rule") or ""), rule.name):
                    continue
                differing = self._object_differences(result, response.obj)
                if differing is None:
                    continue
                lines += differing
                if rule.status != expected:
                    lines.append(f"rule {rule.name or name}: expected {expected}, got {rule.status}: {rule.message}")
        return lines

    def _object_differences(self, result: Mapping[str, Any], obj: JSON) -> list[str] | None:
        """Return the differences of an object from the expected one.

        None if the file has no such object, and nothing is compared.
        """
        path = result.get("patchedResources") or result.get("patchedResource")
        if not path:
            return []
        wanted = next((each for each in self._objects([path]) if _identity(each) == _identity(obj)), None)
        if wanted is None:
            return ["the file of patched resources does not hold it"] if result.get("failOnMissingResources") else None
        if _tidy(_with_label(obj)) == _tidy(_with_label(_in_namespace(wanted))):
            return []
        return [f"the object is not the one in {path}"]

    def _offline_set(self, policies: list[JSON]) -> OfflineSet:
        """Return the inputs of policies."""
        exceptions = [obj for obj in self._objects(self._value.get("exceptions")) if _is_of_kyverno(obj)]
        variables, values = self._value.get("variables"), self._value.get("values")
        document = self._first_document(variables) if variables else {}
        spec = as_map(document.get("spec")) or document if document else as_map(values)
        user = self._value.get("userinfo")
        contexts = self._documents(self._value.get("context")) if self._value.get("context") else []
        cluster = [obj for each in contexts for obj in as_map(each.get("spec")).get("resources") or ()]
        sources = self._value.get("clusterResources") or ()
        for source in sources:
            for each in self._documents(source):
                cluster += as_map(each.get("spec")).get("resources") or ()
                cluster += self._objects(as_map(each.get("spec")).get("crds"))
        if sources:
            cluster += [
                obj for field in ("resources", "targetResources") for obj in self._objects(self._value.get(field))
            ]
        answers = {
            (str(each.get("method") or "").upper(), str(each.get("url") or each.get("urlPath") or "")): response.get(
                "body"
            )
            for each in self._value.get("apiCallResponses") or ()
            if 200 <= ((response := as_map(each.get("response"))).get("statusCode") or 200) < 300
        }
        return OfflineSet(
            policies=tuple(policies),
            exceptions=tuple(exceptions),
            values=read_values(spec),
            user=self._first_document(user) if user else None,
            cluster=tuple(cluster),
            has_cluster=bool(sources),
            entries=tuple(map(self._entry, self._value.get("globalContextEntries") or ())),
            answers=answers,
        )

    def _entry(self, entry: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return a GlobalContextEntry with the objects of its files."""
        files = entry.get("resourceFiles")
        return entry if files is None else {**entry, "resources": self._objects(files)}

    def _first_document(self, path: JSON) -> JSON:
        documents = self._documents(path)
        return as_map(documents[0]) if documents else {}

    def _documents(self, path: JSON) -> list[JSON]:
        return [document.value for document in read_documents(self._file(path))]

    def _objects(self, paths: Iterable[JSON] | None) -> list[JSON]:
        objects: list[JSON] = []
        for text in paths or ():
            path = self._file(text)
            files = sorted(each for each in path.rglob("*.y*ml") if each.is_file()) if path.is_dir() else [path]
            objects += [obj for file in files for obj in read_objects(file)]
        return objects

    def _file(self, text: JSON) -> Path:
        path = self._document.path.parent / str(text)
        if not path.exists():
            raise self._document.error("", f"names {text}, which does not exist")
        self._files.add(str(path))
        return path


def _cannot_run(reason: str) -> list[str]:
    raise CannotRunError(reason)


def _is_of_kyverno(obj: JSON) -> bool:
    return str(obj.get("apiVersion") or "").startswith(_GROUPS)


def _rule_reason(rule: Mapping[str, Any]) -> str | None:
    if rule.get("generate"):
        return _NOT_DECIDED["GeneratingPolicy"]
    if rule.get("verifyImages"):
        return _NOT_DECIDED["ImageValidatingPolicy"]
    if as_map(rule.get("mutate")).get("targets") is not None:
        return _NO_TARGETS
    if as_map(rule.get("validate")).get("manifests"):
        return "signatures of manifests are not verified"
    return None


def _is_about(wanted: str, rule: str) -> bool:
    return not wanted or rule in (wanted, f"autogen-{wanted}", f"autogen-cronjob-{wanted}")


def _names(result: Mapping[str, Any]) -> list[str]:
    """Return the resources that a result names, each as `name` or `namespace/name`."""
    named = [str(each) for each in result.get("resources") or ()]
    if result.get("resource"):
        namespace = result.get("namespace")
        named.append(f"{namespace}/{result['resource']}" if namespace else str(result["resource"]))
    specs = result.get("resourceSpecs") or ()
    return [*named, *("/".join(str(each[part]) for part in ("namespace", "name") if each.get(part)) for each in specs)]


def _resource_indexes(resources: list[JSON], result: Mapping[str, Any], names: list[str]) -> list[int]:
    """Return the indices of a result's resources: those that it names, or else all of its kind."""
    kind = str(result.get("kind") or "").rpartition("/")[2]
    named = [
        number for number, each in enumerate(resources) if not names or any(_is_named(each, name) for name in names)
    ]
    of_kind = [number for number in named if kind and resources[number].get("kind") == kind]
    return of_kind or named


def _is_named(obj: JSON, name: str) -> bool:
    metadata = as_map(obj.get("metadata"))
    own, namespace = str(metadata.get("name") or ""), str(metadata.get("namespace") or "")
    return name in (own, f"{namespace}/{own}")


@cache
def _is_clustered(kind: GroupVersionKind) -> bool:
    return any(each.kind == kind and not each.namespaced for each in builtin_discovery())


def _in_namespace(obj: JSON) -> JSON:
    """Return an object with the namespace `default` if it has none, as the CLI reads it."""
    metadata = as_map(obj.get("metadata"))
    kind = GroupVersionKind(*split_api_version(str(obj.get("apiVersion") or "")), str(obj.get("kind") or ""))
    if metadata.get("namespace") or _is_clustered(kind):
        return obj
    return {**obj, "metadata": {**metadata, "namespace": "default"}}


def _identity(obj: JSON) -> tuple[JSON, ...]:
    metadata = as_map(_in_namespace(obj).get("metadata"))
    return obj.get("apiVersion"), obj.get("kind"), metadata.get("namespace") or "", metadata.get("name")


def _distinct(objects: Iterable[JSON]) -> list[JSON]:
    return list({_identity(obj): obj for obj in reversed(list(objects))}.values())[::-1]


def _with_label(obj: JSON) -> JSON:
    """Return an object for comparison, without the labels that generation writes."""
    metadata = as_map(obj.get("metadata"))
    labels = {
        key: value
        for key, value in as_map(metadata.get("labels")).items()
        if not key.startswith("generate.kyverno.io/")
    }
    return {**obj, "metadata": {**metadata, "labels": {**_MANAGED_BY, **labels}}}


def _tidy(value: JSON) -> JSON:
    """Return a value without empty and null parts."""
    if isinstance(value, dict):
        kept = {key: tidied for key, each in value.items() if (tidied := _tidy(each)) is not None}
        return kept or None
    if isinstance(value, list):
        items = [tidied for each in value if (tidied := _tidy(each)) is not None]
        return items or None
    return value


# A decision of Kyverno's own policies as a test of its command line.
# The files are the policies, the resource, the user, and the objects that policies read.

_API_VERSION = "cli.kyverno.io/v1alpha1"
_ROLES = frozenset({"Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding", "Namespace"})
"""Kinds that a test does not have as objects. It states what follows from them."""


def deciding_policies(exported: Exported) -> dict[str, JSON]:
    """Return the Kyverno policies that deny a request, or else those that change its object, by name."""
    own = {name: each for each in exported.engine_objects if _is_of_kyverno(each) for name in policy_names(each)}
    decision = exported.decision
    names = [each.policy for each in decision.denials if each.of_webhook] or [each.policy for each in decision.mutated]
    return {name: own[name] for name in dict.fromkeys(names) if name in own}


def kyverno_policy_files(exported: Exported) -> dict[str, str]:
    """Return the files by name. Raises UnrepresentableError for what such a test cannot represent."""
    deciding = deciding_policies(exported)
    denies = bool(exported.decision.denials)
    attributes = exported.validated if denies else exported.original
    if attributes.operation is not Operation.CREATE or attributes.subresource:
        raise UnrepresentableError("a test of kyverno creates a resource, and does nothing else")
    resource = plain(attributes.object)
    name = str((resource.get("metadata") or {}).get("name") or "")
    if not name:
        raise UnrepresentableError("a test of kyverno names its resource, and the name was to be generated")
    policies = list({policy_name(each): each for each in deciding.values()}.values())
    if not denies and len(policies) > 1:
        raise UnrepresentableError("several policies change the object, and a test compares it after each one")
    test: dict[str, JSON] = {"policies": ["policy.yaml"], "resources": ["resource.yaml"], "userinfo": "userinfo.yaml"}
    files = {
        "policy.yaml": _documents(map(_as_written, policies)),
        "resource.yaml": yaml_text(resource),
        "userinfo.yaml": yaml_text(_kind("UserInfo", "user", **_user(exported, attributes))),
    }
    if attributes.namespace:
        test["variables"] = "values.yaml"
        files["values.yaml"] = yaml_text(_kind("Values", "values", namespaceSelector=[namespace_fields(attributes)]))
    exceptions = [each for each in exported.engine_objects if each.get("kind") == "PolicyException"]
    if exceptions:
        test["exceptions"] = ["exceptions.yaml"]
        files["exceptions.yaml"] = _documents(map(_as_written, exceptions))
    read = [each for each in exported.objects if each.get("kind") not in _ROLES]
    if read:
        test["clusterResources"] = ["cluster.yaml"]
        files["cluster.yaml"] = yaml_text(_kind("Context", "cluster", spec={"resources": read}))
    if not denies:
        files["patched-resource.yaml"] = yaml_text(apply(resource, list(exported.decision.patch)))
    results = [_result(each, policy, resource, denies=denies) for each, policy in deciding.items()]
    files["kyverno-test.yaml"] = yaml_text(_kind("Test", "case", **test, results=results))
    return files


def _result(name: str, policy: JSON, resource: JSON, *, denies: bool) -> JSON:
    """Return the expected result of a policy, or of one of its rules."""
    kind = str(policy["kind"])
    has_rules = kind in ("ClusterPolicy", "Policy")
    return {
        **({} if has_rules else {f"is{kind.removeprefix('Namespaced')}": True}),
        "policy": key_of(policy),
        **({"rule": name.rpartition("/")[2]} if has_rules else {}),
        "kind": resource.get("kind"),
        "resources": [resource["metadata"]["name"]],
        **({} if denies else {"patchedResources": "patched-resource.yaml"}),
        "result": "fail" if denies else "pass",
    }


def _user(exported: Exported, attributes: Attributes) -> dict[str, JSON]:
    """Return the user, with the roles that the bindings grant."""
    user = attributes.user_info.value
    request = {"userInfo": user, "namespace": attributes.namespace}
    requester = requester_of(request, ObjectLister(exported.objects))
    roles = {"roles": list(requester.roles), "clusterRoles": list(requester.cluster_roles)}
    return {"userInfo": user, **{key: names for key, names in roles.items() if names}}


def _as_written(obj: JSON) -> JSON:
    """Return an object without the fields that only a stored object has."""
    kept = {key: obj["metadata"][key] for key in ("name", "namespace", "annotations") if obj["metadata"].get(key)}
    return {"apiVersion": obj["apiVersion"], "kind": obj["kind"], "metadata": kept, "spec": obj.get("spec") or {}}


def _documents(objects: Iterable[JSON]) -> str:
    return "---\n".join(map(yaml_text, objects))


def _kind(kind: str, name: str, **fields: Any) -> JSON:
    return {"apiVersion": _API_VERSION, "kind": kind, "metadata": {"name": name}, **fields}


def namespace_fields(attributes: Attributes) -> JSON:
    """Return the name and the labels of a request's namespace, as `namespaceSelector` of a values file holds them."""
    namespace = plain(attributes.namespace_object)
    metadata = (namespace.get("metadata") or {}) if isinstance(namespace, dict) else {}
    return {"name": attributes.namespace, "labels": metadata.get("labels") or {}}
