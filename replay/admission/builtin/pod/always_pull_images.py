"""AlwaysPullImages: sets and requires `imagePullPolicy: Always`.

Source: `plugin/pkg/admission/alwayspullimages/admission.go`.
"""

from __future__ import annotations

from collections.abc import Iterator

from replay.admission.builtin.plugin import CREATE_UPDATE, Plugin, Refusal, Review, containers_of, plain_error
from replay.json import JSON
from replay.kube.attributes import Operation

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
        errors = [f'pods "{name}" is forbidden: {message}' for message in _wrong(review.object["spec"])]
        if not errors:
            return None
        return plain_error(errors[0] if len(errors) == 1 else f"[{', '.join(dict.fromkeys(errors))}]")

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
    for field in _CONTAINERS:
        for index, container in enumerate(spec.get(field) or ()):
            policy = container.get("imagePullPolicy") or ""
            if policy != _ALWAYS:
                yield f'spec.{field}[{index}].imagePullPolicy: Unsupported value: "{policy}": supported values: "{_ALWAYS}"'
