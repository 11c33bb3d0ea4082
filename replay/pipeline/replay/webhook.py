"""`--webhook NAME=URL` and `--webhook NAME=recorded`: the answerers of webhooks during a replay.

Nothing is sent to a webhook that no option names. A webhook that both sets call alike, and that no option names, is
taken to answer as it did in the log. If the object for another webhook depends on it, its recorded answer is used.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from msgspec import Struct, field

from replay.admission.webhook.answer import WebhookAnswer, WebhookBackend, WebhookReview
from replay.admission.webhook.plugin import Backends
from replay.audit.answer import observe
from replay.audit.event import RequestRecord
from replay.errors import ReplayError
from replay.kube.admissionregistration import ManifestSet, Sets
from replay.kube.attributes import Missing
from replay.reconstruct.request import ReplayRequest
from replay.webhook.client import TimeoutCounter
from replay.webhook.endpoint import EndpointBackend
from replay.webhook.image_review import PLUGIN, ImageEndpoint, ImageReviews, RecordedImages, image_reviews
from replay.webhook.recorded import RecordedBackend

RECORDED = "recorded"
MUTATED = '\\"mutated\\":true'
"""The mark of a webhook that mutated the object, in the JSON of all annotations."""


class TimeLimitedBackend:
    """An endpoint that is no longer called after it has timed out too often."""

    def __init__(self, endpoint: EndpointBackend) -> None:
        """Wrap an endpoint. Nothing is sent yet."""
        self._endpoint = endpoint
        self._patience = TimeoutCounter()

    def review(self, reviews: Sequence[WebhookReview]) -> Sequence[WebhookAnswer | Missing]:
        """Return the endpoint's answers, or `Missing` after the endpoint has failed too often."""
        if self._patience.is_over:
            return [self._patience.missing("webhook")] * len(reviews)
        answers = self._endpoint.review(reviews)
        for answer in answers:
            self._patience.note(is_late=isinstance(answer, WebhookAnswer) and answer.is_late)
        return answers

    def close(self) -> None:
        """End the endpoint's threads."""
        self._endpoint.close()


class _SharedBackend:
    """A backend that answers equal calls of one request once, because both sets may make them."""

    def __init__(self, backend: WebhookBackend) -> None:
        self._backend = backend
        self._answers: list[tuple[WebhookReview, WebhookAnswer | Missing]] = []

    def review(self, reviews: Sequence[WebhookReview]) -> Sequence[WebhookAnswer | Missing]:
        """Return the answers. Each distinct call is made once."""
        new = [review for review in reviews if self._answer(review) is None]
        if new:
            self._answers += zip(new, self._backend.review(new), strict=True)
        return [answer for review in reviews if (answer := self._answer(review)) is not None]

    def _answer(self, review: WebhookReview) -> WebhookAnswer | Missing | None:
        for earlier_review, answer in self._answers:
            same_webhook = earlier_review.invocation.hook.webhook == review.invocation.hook.webhook
            if same_webhook and earlier_review.phase == review.phase and earlier_review.request == review.request:
                return answer
        return None


class WebhookAnswers(Struct, frozen=True):
    """Webhooks with an answerer, by name; picklable, so each worker opens its own connections."""

    endpoints: Mapping[str, TimeLimitedBackend] = field(default_factory=dict)
    recorded: frozenset[str] = frozenset()
    images: ImageReviews | ImageEndpoint | None = None
    """Answerer for ImagePolicyWebhook's backend, unless it is the log (`recorded`)."""
    removed: frozenset[str] = frozenset()
    """Mutating webhooks of the baseline only. Their recorded changes would not happen."""

    @property
    def names(self) -> frozenset[str]:
        """Return the names of all webhooks with an answerer, and ImagePolicyWebhook if its backend has one."""
        images = () if self.images is None else (PLUGIN,)
        return self.recorded.union(self.endpoints, images)

    def backends(self, request: ReplayRequest) -> Backends:
        """Return the answerers for one request."""
        if not (self.endpoints or self.recorded or self.removed or self.images):
            return {}
        backends: dict[str, WebhookBackend] = {
            name: _SharedBackend(backend) for name, backend in self.endpoints.items()
        }
        recorded = self.recorded | self._undone(request.record)
        if recorded:
            record = RecordedBackend(request.record, request.before_mutation, request.attributes)
            backends.update(dict.fromkeys(recorded, record))
        if self.images is not None:
            backends[PLUGIN] = self.images
        elif PLUGIN in recorded:
            backends[PLUGIN] = RecordedImages(request.record)
        return backends

    def _undone(self, record: RequestRecord) -> frozenset[str]:
        """Return the removed webhooks that changed the object of a request."""
        if not self.removed or not record.annotations or MUTATED not in record.annotations:
            return frozenset()
        return self.removed.intersection(each.webhook for each in observe(record).mutations if each.mutated)

    def close(self) -> None:
        """End the threads. The next call starts them again."""
        for backend in self.endpoints.values():
            backend.close()


NO_WEBHOOK_ANSWERS = WebhookAnswers()


def webhook_answers(options: Iterable[str], sets: Sets) -> WebhookAnswers:
    """Return the answerers that `NAME=URL` and `NAME=recorded` ask for.

    Raise `ReplayError` for another form, for a name that neither set has, and for a URL that cannot be called.
    """
    names = {webhook.name for each in sets for webhook in each.webhooks}
    names |= {PLUGIN for each in sets for plugin in each.builtin if plugin.name == PLUGIN}
    endpoints: dict[str, TimeLimitedBackend] = {}
    down = frozenset(name for each in sets for name in each.down)
    recorded = set(down)  # for the set in which such a webhook answers, it answers as in the log
    images: ImageReviews | ImageEndpoint | None = None
    for option in options:
        name, separator, target = option.partition("=")
        if not separator or not name or not target:
            raise ReplayError(f"`{option}` is neither NAME=URL nor NAME={RECORDED}", path="--webhook")
        if name not in names:
            there_are = ", ".join(f"`{each}`" for each in sorted(names)) or "none"
            raise ReplayError(f"neither set has a webhook `{name}`; there are: {there_are}", path="--webhook")
        if (name in recorded and name not in down) or name in endpoints or (name == PLUGIN and images is not None):
            raise ReplayError(f"`{name}` is given twice", path="--webhook")
        recorded.discard(name)
        if target == RECORDED:
            recorded.add(name)
        elif name == PLUGIN:
            images = ImageEndpoint(target) if "://" in target else image_reviews(Path(target))
        else:
            endpoints[name] = TimeLimitedBackend(EndpointBackend(target))
    removed = _mutating(sets[0]) - _mutating(sets[1]) - recorded - endpoints.keys()
    # A mutating webhook gets the object as those before it leave it, so these must answer too.
    if (recorded or endpoints) and _asks_mutating(sets, recorded | endpoints.keys()):
        recorded |= _shared_mutating(sets) - endpoints.keys()
    return WebhookAnswers(endpoints, frozenset(recorded), images, frozenset(removed))


def _asks_mutating(sets: Sets, names: Iterable[str]) -> bool:
    """Return whether a mutating webhook is called. Its input depends on earlier mutating webhooks."""
    return any(not _mutating(each).isdisjoint(names) for each in sets)


def _mutating(manifests: ManifestSet) -> set[str]:
    return {webhook.name for each in manifests.configurations("mutating") for webhook in each.webhooks}


def _shared_mutating(sets: Sets) -> set[str]:
    current, candidate = sets
    shared = current.filtered(lambda each: each in candidate.registrations)
    return _mutating(shared)
