"""Answers of Kyverno's webhooks for CEL policies (`pkg/webhooks/resource/{vpol,mpol}`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from typing import Any, Final

from msgspec import Struct

from replay.admission.mutating.object_patcher import ObjectPatchers
from replay.json import JSON
from replay.kube.attributes import Missing, PartialObject
from replay.kube.json_patch import diff
from replay.kyverno.cel.compiler import PolicyError
from replay.kyverno.cel.evaluation import CELResult
from replay.kyverno.cel.generating import GeneratingPolicy, Generation, ImagePolicy, generating_policies, image_policies
from replay.kyverno.cel.library.context import Reader
from replay.kyverno.cel.mutating import MutatingPolicy, mutating_policies
from replay.kyverno.cel.request import CELRequest, Object
from replay.kyverno.cel.spec import (
    GENERATING,
    IMAGES,
    MUTATING,
    VALIDATING,
    PolicyException,
    is_cel_object,
    native_policy,
    read_exception,
)
from replay.kyverno.cel.validating import ValidatingPolicy, validating_policies
from replay.kyverno.rules.response import ERROR, FAIL, UndeterminedError
from replay.matching.rules import RuleKey

_MOST: Final = 4096
"""Size limit of the caches by request key and by policy names."""
_VERBS: Final = {FAIL: "failed", ERROR: "error"}


class CELAnswer(Struct, frozen=True):
    """Answer of a webhook with the message of a denial or the patch. `results` are the results of the policies."""

    allowed: bool
    message: str = ""
    patch: tuple[dict[str, JSON], ...] = ()
    warnings: tuple[str, ...] = ()
    results: tuple[CELResult, ...] = ()


class CELPolicies:
    """Compiled policies of a set, in order."""

    def __init__(self, objects: Iterable[Mapping[str, Any]], *, is_offline: bool = False) -> None:
        """Compile the policies among `objects`, which are all objects of the set.

        `refused` gets the messages about policies that Kyverno refuses. In a cluster, a policy may not take part in
        admission, or a native policy may replace it. `native` gets these native policies with their bindings. Kyverno's
        CLI (`is_offline`) evaluates all policies.
        """
        objects = list(objects)
        self.refused: list[str] = []
        self.native: list[JSON] = []
        self._is_offline = is_offline
        self._named: dict[tuple[frozenset[str], bool], CELPolicies] = {}
        self.by_rule_key: dict[RuleKey, tuple[ValidatingPolicy, ...]] = {}
        self.validating: list[ValidatingPolicy] = []
        self.mutating: list[MutatingPolicy] = []
        self.images: list[ImagePolicy] = []
        self.generating: list[GeneratingPolicy] = []
        read = [(obj, self._exception(obj)) for obj in objects if is_cel_object(obj, "PolicyException")]
        exceptions = [each for _, each in read if each is not None]
        written = [obj for obj, each in read if each is not None]
        for obj in objects:
            if not is_offline and self._has_native(obj, written):
                continue
            if is_cel_object(obj, *VALIDATING):
                self.validating += self._compiled(obj, exceptions, validating_policies)
            elif is_cel_object(obj, *MUTATING):
                self.mutating += self._compiled(obj, exceptions, mutating_policies)
            elif is_cel_object(obj, *IMAGES):
                self.images += self._compiled(obj, exceptions, image_policies)
            elif is_cel_object(obj, *GENERATING):
                self.generating += self._compiled(obj, exceptions, generating_policies)

    def _has_native(self, obj: Mapping[str, Any], exceptions: Sequence[Mapping[str, Any]]) -> bool:
        """Return whether a native policy replaces a policy, and record it."""
        made = native_policy(obj, exceptions) if is_cel_object(obj, *VALIDATING, *MUTATING) else None
        self.native += made or ()
        return made is not None

    def _exception(self, obj: Mapping[str, Any]) -> PolicyException | None:
        try:
            return read_exception(obj)
        except PolicyError as error:
            self.refused.append(f"failed to read exception {obj['metadata']['name']} ({error})")
            return None

    def _compiled(
        self, obj: JSON, exceptions: Sequence[PolicyException], compiled: Callable[..., list[Any]]
    ) -> list[Any]:
        try:
            made = compiled(obj, exceptions)
            return [each for each in made if self._is_offline or each.spec.is_admitted]
        except PolicyError as error:
            self.refused.append(f"failed to compile policy {obj['metadata']['name']} ({error})")
            return []

    def validating_for(self, key: RuleKey) -> tuple[ValidatingPolicy, ...]:
        """Return the validating policies whose rules may match a request."""
        found = self.by_rule_key.get(key)
        if found is None:
            if len(self.by_rule_key) >= _MOST:
                self.by_rule_key.clear()
            found = self.by_rule_key[key] = tuple(each for each in self.validating if each.may_match(key))
        return found

    def named(self, names: frozenset[str], *, namespaced: bool) -> CELPolicies:
        """Return only the policies with these names, either namespaced or cluster-wide."""
        made = self._named.get((names, namespaced))
        if made is not None:
            return made
        if len(self._named) >= _MOST:
            self._named.clear()
        made = self._named[names, namespaced] = copy(self)
        made.by_rule_key = {}
        for kind in ("validating", "mutating", "images", "generating"):
            own = [each for each in getattr(self, kind) if each.name in names and bool(each.namespace) is namespaced]
            setattr(made, kind, own)
        return made

    @property
    def all(self) -> tuple[ValidatingPolicy | MutatingPolicy | ImagePolicy, ...]:
        """Policies that decide about objects."""
        return (*self.validating, *self.mutating, *self.images)

    def __bool__(self) -> bool:
        """Return whether there is any policy."""
        return bool(self.validating or self.mutating or self.images or self.generating)


class CELWebhook:
    """Webhooks of a set's policies, against one cluster."""

    def __init__(self, policies: CELPolicies, reader: Reader, patchers: ObjectPatchers) -> None:
        """`reader` answers what expressions read. `patchers` know the schemas of kinds."""
        self._policies = policies
        self._reader = reader
        self._patchers = patchers

    def validate(self, request: CELRequest, namespace: str = "") -> CELAnswer:
        """Return the answer of the cluster-wide policies, or of a namespace's policies. Raises UndeterminedError."""
        return decided(self.results(request), namespace)

    def results(
        self, request: CELRequest, unknown: list[tuple[ValidatingPolicy, str]] | None = None
    ) -> list[CELResult]:
        """Return the results of all validating policies.

        `unknown` takes the policies without a result, each with the reason. Raises UndeterminedError for the first one
        if it is not given.
        """
        self._refuse_images(request)
        results = []
        for policy in self._policies.validating_for(request.rule_key):
            try:
                result = policy.validate(request, self._reader)
            except UndeterminedError as error:
                if unknown is None:
                    raise UndeterminedError(f"policy {policy.name}: {error}") from None
                unknown.append((policy, str(error)))
                continue
            if result is not None:
                results.append(result)
        return results

    def mutate(self, request: CELRequest, namespace: str = "") -> CELAnswer:
        """Return the answer of the mutating webhook. Each policy sees the changes of those before it.

        Raises UndeterminedError.
        """
        self._refuse_images(request)
        original = request.object
        value: Object | None = None
        results: list[CELResult] = []
        errors: list[str] = []
        for policy in self._policies.mutating:
            if policy.namespace != namespace or policy.spec.mutates_existing:
                continue
            try:
                result = policy.mutate(request, self._reader, self._patchers)
            except UndeterminedError as error:
                raise UndeterminedError(f"policy {policy.name}: {error}") from None
            if result is None:
                continue
            results.append(CELResult(policy.name, policy.namespace, result.rule))
            if result.rule.status == ERROR and policy.fails:
                errors.append(f"Policy {policy.name}: {result.rule.message}")
            if result.object is not None:
                value = result.object
                request = request.with_object(value)
        if errors:
            name = f"{request.namespace}/{request.name}, Kind: {request.kind.kind}"
            return CELAnswer(False, f"Resource: {name}, Errors: [{' '.join(errors)}]", results=tuple(results))
        patch = () if value is None else diff(_plain(original), _plain(value))
        return CELAnswer(True, patch=patch, results=tuple(results))

    def generated(self, request: CELRequest) -> list[Generation]:
        """Return what the request would create. It has no effect on the verdict."""
        made = (policy.generate(request, self._reader) for policy in self._policies.generating)
        return [each for each in made if each is not None]

    def _refuse_images(self, request: CELRequest) -> None:
        """Raise UndeterminedError if a policy would verify images."""
        for policy in self._policies.images:
            if policy.namespace in ("", request.namespace) and policy.concerns(request, self._reader):
                raise UndeterminedError(
                    f"policy {policy.name} verifies images, which only the image registry can answer"
                )


def _plain(value: Object) -> JSON:
    if isinstance(value, Missing):
        raise UndeterminedError(f"{value.path}: {value.reason}")
    return value.value if isinstance(value, PartialObject) else value


def decided(results: Iterable[CELResult], namespace: str = "") -> CELAnswer:
    """Return the answer that the results of one namespace's policies make, or of the cluster-wide ones.

    Failures of policies that deny are its message, failures of policies that warn its warnings.
    """
    results = tuple([each for each in results if each.namespace == namespace])
    failed = [each for each in results if each.rule.status in _VERBS]
    denied = [_failure(each) for each in failed if "Deny" in each.actions]
    warned = [_failure(each) for each in failed if "Warn" in each.actions]
    return CELAnswer(not denied, "; ".join(denied), warnings=tuple(warned), results=results)


def _failure(result: CELResult) -> str:
    return f"Policy {result.policy} {_VERBS[result.rule.status]}: {result.rule.message}"
