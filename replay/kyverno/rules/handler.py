"""Handlers that evaluate a matching rule, by the kind of the rule (`pkg/engine/handlers`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from msgspec import Struct

from replay.json import JSON
from replay.kyverno.rules.errors import RuleError, UndeterminedError
from replay.kyverno.rules.exception import PolicyException, exception_key
from replay.kyverno.rules.go_value import as_map
from replay.kyverno.rules.image import images_of
from replay.kyverno.rules.loader import LoaderSource
from replay.kyverno.rules.mutate import mutate_rule
from replay.kyverno.rules.pod_security import validate_pod_security
from replay.kyverno.rules.request import Request
from replay.kyverno.rules.response import PASS, SKIP, RuleResponse
from replay.kyverno.rules.substitution import substitute
from replay.kyverno.rules.validate import Validator
from replay.kyverno.rules.validate_cel import validate_cel
from replay.kyverno.wildcard import matches_any

Rule = Mapping[str, Any]


class ApplicableRule(Struct, frozen=True):
    """Rule to evaluate for an object, with the exceptions that apply to the request."""

    policy: Mapping[str, Any]
    rule: Rule
    request: Request
    resource: JSON
    source: LoaderSource
    exceptions: tuple[PolicyException, ...]

    @property
    def name(self) -> str:
        """Name of the rule."""
        return str(self.rule.get("name") or "")

    def skipped(self, text: str = "rule is skipped due to policy exceptions") -> RuleResponse:
        """Return the result of a rule that an exception skips."""
        return RuleResponse(self.name, SKIP, text + ", ".join(map(exception_key, self.exceptions)))


Handler = Callable[[ApplicableRule], tuple[JSON, list[RuleResponse]]]


def validation_handler(rule: Rule, request: Request) -> Handler | None:
    """Return the handler of a validating rule, or None for other rules."""
    validation = as_map(rule.get("validate"))
    if not validation:
        return _verify_images if _checks_images(rule, request) else None
    if as_map(validation.get("manifests")).get("attestors"):
        return _verify_manifests
    if validation.get("podSecurity"):
        return _pod_security
    return _cel if validation.get("cel") else _validate


def mutation_handler(rule: Rule, request: Request) -> Handler | None:
    """Return the handler of a rule that mutates the request's object, or None for other rules."""
    mutation = as_map(rule.get("mutate"))
    if not mutation or (request.is_admission and mutation.get("targets") is not None):
        return None
    return _mutate


def trigger_handler(rule: Rule, request: Request) -> Handler | None:
    """Return the handler of a rule that creates or changes other objects later, or None for other rules."""
    del request
    return _triggered if rule.get("generate") or as_map(rule.get("mutate")).get("targets") is not None else None


def _triggered(handling: ApplicableRule) -> tuple[JSON, list[RuleResponse]]:
    if handling.exceptions:
        return handling.resource, [handling.skipped()]
    generation = as_map(handling.rule.get("generate"))
    if not generation:
        targets = [_named(handling, each) for each in as_map(handling.rule.get("mutate")).get("targets") or ()]
        return handling.resource, [
            RuleResponse(handling.name, PASS, f"changes existing {', '.join(targets)} afterwards")
        ]
    made = _named(handling, generation) if generation.get("kind") else "objects"
    return handling.resource, [RuleResponse(handling.name, PASS, f"makes {made} afterwards")]


def _named(handling: ApplicableRule, target: Mapping[str, Any]) -> str:
    """Return kind, namespace and name of a target. Variables that cannot be resolved stay as they are written."""
    fields = [str(target.get(field) or "") for field in ("kind", "namespace", "name")]
    with suppress(RuleError):
        fields = [str(substitute(handling.request.context, each)) for each in fields]
    return " ".join(filter(None, (fields[0], "/".join(filter(None, fields[1:])))))


def _validate(handling: ApplicableRule) -> tuple[JSON, list[RuleResponse]]:
    if handling.exceptions:
        return handling.resource, [handling.skipped()]
    answer = Validator(handling.request, handling.policy, handling.rule, handling.source).validate()
    return handling.resource, [answer] if answer is not None else []


def _pod_security(handling: ApplicableRule) -> tuple[JSON, list[RuleResponse]]:
    answer = validate_pod_security(
        handling.request, handling.policy, handling.rule, handling.resource, handling.exceptions
    )
    return handling.resource, [answer] if answer is not None else []


def _cel(handling: ApplicableRule) -> tuple[JSON, list[RuleResponse]]:
    if handling.exceptions:
        return handling.resource, [handling.skipped()]
    answer = validate_cel(handling.request, handling.rule, handling.resource, handling.source.cluster)
    return handling.resource, [answer] if answer is not None else []


def _mutate(handling: ApplicableRule) -> tuple[JSON, list[RuleResponse]]:
    if handling.exceptions:
        return handling.resource, [handling.skipped()]
    return mutate_rule(handling.request, handling.rule, handling.resource, handling.source)


def _verify_manifests(handling: ApplicableRule) -> tuple[JSON, list[RuleResponse]]:
    if handling.exceptions:
        return handling.resource, [handling.skipped()]
    raise UndeterminedError(f"rule {handling.name} verifies the signature of a manifest, which replay does not do")


def _checks_images(rule: Rule, request: Request) -> bool:
    """Return whether a rule checks that images were verified, and the object has such images."""
    entries = rule.get("verifyImages") or ()
    if not any(each.get("verifyDigest", True) or each.get("required", True) for each in entries):
        return False
    return has_matching_images(rule, request)


def has_matching_images(rule: Rule, request: Request) -> bool:
    """Return whether the object has images that a rule of `verifyImages` matches."""
    extractors = rule.get("imageExtractors")
    try:
        if extractors:
            search = request.context.library.query
            found = images_of(request.new, request.image_defaults, lambda q, v: search(q).search(v), extractors)
        else:
            found = {kind: dict(images) for kind, images in request.images().items()}
    except RuleError:
        # An object whose images cannot be read may have matching ones.
        return True
    patterns = [
        str(pattern)
        for each in rule.get("verifyImages") or ()
        for pattern in [*(each.get("imageReferences") or ()), *([each["image"]] if each.get("image") else ())]
    ]
    return any(matches_any(patterns, str(image)) for images in found.values() for image in images.values())


def _verify_images(handling: ApplicableRule) -> tuple[JSON, list[RuleResponse]]:
    if handling.exceptions:
        return handling.resource, [handling.skipped()]
    raise UndeterminedError(f"rule {handling.name} verifies images, which only the image registry can answer")
