"""Plugins about the images of a pod: AlwaysPullImages, and ImagePolicyWebhook, whose backend reviews them.

Sources: `plugin/pkg/admission/alwayspullimages/admission.go`, `plugin/pkg/admission/imagepolicy`.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple, Protocol

import orjson
from msgspec import Struct, field

from replay.admission.builtin.partial import UnknownInputError
from replay.admission.builtin.plugin import CREATE_UPDATE, Plugin, Refusal, Review, plain_error
from replay.admission.builtin.storage import annotations_of
from replay.cel.value.text import go_duration
from replay.errors import ManifestError
from replay.go.format import aggregate
from replay.json import JSON
from replay.kube.attributes import Missing, Operation
from replay.kube.pod import containers_of

_CONTAINERS = ("initContainers", "containers", "ephemeralContainers")
_ALWAYS = "Always"


class AlwaysPullImages(Plugin):
    """Acts on new pods, and on updates that add an image that the old pod did not have."""

    name = "AlwaysPullImages"
    operations = CREATE_UPDATE
    concerns = (("", ("pods",)),)

    def admit(self, review: Review) -> Refusal | None:
        """Set `imagePullPolicy` of all containers and `pullPolicy` of all image volumes."""
        if self._is_concerned(review):
            for container in containers_of(review.object["spec"], *_CONTAINERS):
                container["imagePullPolicy"] = _ALWAYS
            for volume in review.object["spec"].get("volumes") or ():
                if volume.get("image") is not None:
                    volume["image"]["pullPolicy"] = _ALWAYS
        return None

    def validate(self, review: Review) -> Refusal | None:
        """Refuse another pull policy, which something set after this plugin.

        Several problems make an error without a Status.
        """
        if not self._is_concerned(review):
            return None
        name = review.name_or_generated()
        wrong = aggregate(f'pods "{name}" is forbidden: {message}' for message in _wrong(review.object["spec"]))
        return plain_error(wrong) if wrong else None

    @staticmethod
    def _is_concerned(review: Review) -> bool:
        if not review.is_resource("", "pods"):
            return False
        # An update without a new image leaves the pull policy of old pods alone (`isUpdateWithNoNewImages`).
        if review.attributes.operation is Operation.UPDATE:
            return bool(_images(review.object["spec"]) - _images(review.old_object["spec"]))
        return True


def _images(spec: JSON) -> set[str]:
    return {str(container.get("image") or "") for container in containers_of(spec, *_CONTAINERS)}


def _wrong(spec: JSON) -> Iterator[str]:
    for name in _CONTAINERS:
        for index, container in enumerate(spec.get(name) or ()):
            policy = container.get("imagePullPolicy") or ""
            if policy != _ALWAYS:
                yield f'spec.{name}[{index}].imagePullPolicy: Unsupported value: "{policy}": supported values: "{_ALWAYS}"'


_PREFIX: Final = "imagepolicywebhook.image-policy.k8s.io/"
_ENTRIES: Final = 1024
_REFUSED: Final = "the server rejected our request for an unknown reason"
"""Message of client-go for a 400 without a Status."""
_NANO: Final = 1
_MILLI: Final = 1_000_000
_SECOND: Final = 1_000_000_000


class _Bounds(NamedTuple):
    """Unit of a configured duration, and its least, most and default value in nanoseconds."""

    unit: int
    least: int
    most: int
    default: int


_DURATIONS: Final = {
    "retryBackoff": _Bounds(_MILLI, _NANO, 300 * _SECOND, 500 * _MILLI),
    "allowTTL": _Bounds(_SECOND, _SECOND, 1800 * _SECOND, 300 * _SECOND),
    "denyTTL": _Bounds(_SECOND, _SECOND, 1800 * _SECOND, 30 * _SECOND),
}


class ImageReviewStatus(NamedTuple):
    """Status of an ImageReview."""

    allowed: bool
    reason: str = ""
    audit_annotations: Mapping[str, str] = {}


class Failed(NamedTuple):
    """A failed call: the error text of the server's client, and whether it is a 403 refusal already."""

    error: str
    is_forbidden: bool = False


class ImageReviewer(Protocol):
    """Source of answers to image reviews."""

    def reviewed(self, spec: JSON) -> ImageReviewStatus | Failed | Missing:
        """Return the status for the `spec` of an ImageReview, `Missing` if unknown."""
        ...


class Backend(Struct, frozen=True):
    """Stand-in for the backend. It denies images that match `deny`, and answers 400 for those that match `fail`."""

    deny: str = ""
    fail: str = ""
    reason: str = ""
    audit_annotations: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def from_document(cls, document: JSON) -> Backend:
        """Return the backend of a document. Raise ManifestError for an invalid pattern."""
        for name in ("deny", "fail"):
            try:
                re.compile(document.get(name) or "")
            except re.error as error:
                raise ManifestError(f"`backend.{name}` is no regular expression: {error}") from error
        deny, fail, reason = (str(document.get(name) or "") for name in ("deny", "fail", "reason"))
        return cls(deny, fail, reason, dict(document.get("auditAnnotations") or {}))

    def reviewed(self, spec: JSON) -> ImageReviewStatus | Failed:
        """Return the status for the images of a review."""
        images = [container.get("image") or "" for container in spec.get("containers") or ()]
        if self.fail and any(re.search(self.fail, image) for image in images):
            return Failed(_REFUSED)
        is_denied = bool(self.deny) and any(re.search(self.deny, image) for image in images)
        return ImageReviewStatus(not is_denied, self.reason if is_denied else "", self.audit_annotations)


class _Cache:
    """Answers by review, each until it expires. The least recently used one is dropped (`LRUExpireCache`)."""

    def __init__(self) -> None:
        self._entries: OrderedDict[bytes, tuple[ImageReviewStatus, int]] = OrderedDict()

    def get(self, key: bytes, now: int) -> ImageReviewStatus | None:
        """Return an answer that has not expired, None if there is none."""
        entry = self._entries.get(key)
        if entry is None:
            return None
        if now > entry[1]:
            del self._entries[key]
            return None
        self._entries.move_to_end(key)
        return entry[0]

    def add(self, key: bytes, answer: ImageReviewStatus, now: int, lifetime: int) -> None:
        """Keep an answer for `lifetime` nanoseconds; a lifetime of 0 keeps nothing."""
        if lifetime <= 0:
            return
        self._entries[key] = answer, now + lifetime
        self._entries.move_to_end(key)
        if len(self._entries) > _ENTRIES:
            self._entries.popitem(last=False)


class ImagePolicyWebhook(Plugin):
    """Records the review that the server sends. Without a backend the answer is unknown."""

    name = "ImagePolicyWebhook"
    operations = CREATE_UPDATE
    concerns = (("", ("pods", "pods/ephemeralcontainers")),)

    def __init__(
        self, *, default_allow: bool, allow_ttl: int, deny_ttl: int, backend: ImageReviewer | None = None
    ) -> None:
        """`allow_ttl` and `deny_ttl` are lifetimes of answers in nanoseconds."""
        self._default_allow = default_allow
        self._lifetimes = {True: allow_ttl, False: deny_ttl}
        self.backend = backend
        self._cache = _Cache()

    @classmethod
    def configured(cls, configuration: JSON | None, flags: Mapping[str, str]) -> ImagePolicyWebhook:
        """See `Plugin.configured`. The address of the backend is not read."""
        del flags
        if configuration is None:
            raise ManifestError("no config specified")
        document = configuration.get("imagePolicy") or {}
        durations = {name: _duration(document.get(name) or 0, bounds) for name, bounds in _DURATIONS.items()}
        return cls(
            default_allow=bool(document.get("defaultAllow")),
            allow_ttl=durations["allowTTL"],
            deny_ttl=durations["denyTTL"],
        )

    def answered_by(self, backends: Mapping[str, object]) -> ImagePolicyWebhook:
        """See `Plugin.answered_by`. It then caches nothing, because the backend answers now."""
        backend: Any = backends.get(self.name)
        if backend is None:
            return self
        return ImagePolicyWebhook(default_allow=self._default_allow, allow_ttl=0, deny_ttl=0, backend=backend)

    def validate(self, review: Review) -> Refusal | None:
        """Review the images, or use the cached answer. If the backend fails, the configured default applies."""
        if not review.is_resource("", "pods", "", "ephemeralcontainers"):
            return None
        spec, now = _spec(review), review.time * 1000
        key = orjson.dumps(spec, option=orjson.OPT_SORT_KEYS)
        cached = self._cache.get(key, now)
        answer = self._ask(review, spec) if cached is None else cached
        if isinstance(answer, Failed):
            return self._failed(review, answer)
        if answer is not cached:
            self._cache.add(key, answer, now, self._lifetimes[answer.allowed])
        for name, value in answer.audit_annotations.items():
            review.audit_annotations[_PREFIX + name] = value
        if answer.allowed:
            return None
        if answer.reason:
            return review.forbidden(f"image policy webhook backend denied one or more images: {answer.reason}")
        return review.forbidden("one or more images rejected by webhook backend")

    def _ask(self, review: Review, spec: JSON) -> ImageReviewStatus | Failed:
        if self.backend is None:
            reason = "replay has no answers of the backend of ImagePolicyWebhook"
            raise UnknownInputError(
                Missing("object.spec", reason, f"give --webhook {self.name}=URL, =recorded or =FILE")
            )
        review.review_spec = image_review(spec)
        answer = self.backend.reviewed(spec)
        if isinstance(answer, Missing):
            raise UnknownInputError(answer)
        return answer

    def _failed(self, review: Review, failed: Failed) -> Refusal | None:
        if not self._default_allow:
            # what is Forbidden already is not wrapped again (`admission.NewForbidden`)
            return Refusal(403, "Forbidden", failed.error) if failed.is_forbidden else review.forbidden(failed.error)
        # the server sets an annotation on the pod as well, which is lost in the validating phase
        review.audit_annotations[f"{_PREFIX}failed-open"] = "true"
        return None


def image_review(spec: JSON) -> JSON:
    """Return the ImageReview that the server sends for a `spec`."""
    return {
        "kind": "ImageReview",
        "apiVersion": "imagepolicy.k8s.io/v1alpha1",
        "metadata": {},
        "spec": spec,
        "status": {"allowed": False},
    }


def _spec(review: Review) -> JSON:
    """Return the ImageReview spec: images (init containers last), policy annotations, namespace."""
    kinds = ("ephemeralContainers",) if review.attributes.subresource else ("containers", "initContainers")
    images = [str(each.get("image") or "") for each in containers_of(review.object["spec"], *kinds)]
    annotations = {k: v for k, v in sorted(annotations_of(review.object).items()) if ".image-policy.k8s.io/" in k}
    spec = {
        # Go leaves out an empty image.
        "containers": [{"image": image} if image else {} for image in images],
        "annotations": annotations,
        "namespace": review.attributes.namespace,
    }
    return {name: value for name, value in spec.items() if value}


def _duration(value: int, bounds: _Bounds) -> int:
    """Return nanoseconds; -1 turns it off, 0 means the default (`normalizeConfigDuration`)."""
    if value == -1:
        return 0
    if value == 0:
        return bounds.default
    scaled = value * bounds.unit
    if not bounds.least <= scaled <= bounds.most:
        least, most, got = (go_duration(each) for each in (bounds.least, bounds.most, scaled))
        raise ManifestError(f"valid value is between {least} and {most}, got {got}")
    return scaled
