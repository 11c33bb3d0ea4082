"""Image references, and the images of an object (`pkg/utils/image`, `pkg/utils/api/image.go`)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from msgspec import Struct

from replay.json import JSON
from replay.kyverno.rules.go_value import known
from replay.kyverno.rules.response import RuleError

_COMPONENT = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_LABEL = r"(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])"
_DOMAIN = rf"(?:{_LABEL}(?:\.{_LABEL})*|\[(?:[a-fA-F0-9:]+)\])(?::[0-9]+)?"
_PATH = rf"{_COMPONENT}(?:/{_COMPONENT})*"
_REFERENCE = re.compile(
    rf"(?P<name>(?:{_DOMAIN}/)?{_PATH})(?::(?P<tag>[A-Za-z0-9_][A-Za-z0-9_.-]{{0,127}}))?"
    r"(?:@(?P<digest>[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,}))?"
)
_NAME = re.compile(rf"(?:({_DOMAIN})/)?({_PATH})")
_DIGESTS = {"sha256": 64, "sha384": 96, "sha512": 128}
_LONGEST_PATH = 255
_LONGEST_REFERENCE = 4096


class ImageError(RuleError):
    """Invalid image reference. `str()` is Kyverno's message."""


class ImageInfo(Struct, frozen=True):
    """Parts of an image reference. A missing registry, tag or digest is empty."""

    registry: str
    name: str
    path: str
    tag: str
    digest: str
    reference_with_tag: str
    pointer: str = ""

    def __str__(self) -> str:
        """Return the full reference."""
        image = f"{self.registry}/{self.path}" if self.registry else self.path
        return f"{image}@{self.digest}" if self.digest else f"{image}:{self.tag}"

    def as_json(self) -> dict[str, JSON]:
        """Return the value of an image in the variable `images`."""
        fields = {
            "registry": self.registry,
            "name": self.name,
            "path": self.path,
            "tag": self.tag,
            "digest": self.digest,
            "reference": str(self),
            "referenceWithTag": self.reference_with_tag,
            "jsonPointer": self.pointer,
        }
        return {key: value for key, value in fields.items() if value or key in ("name", "path", "jsonPointer")}


class ImageDefaults(Struct, frozen=True):
    """Default registry of Kyverno's ConfigMap. `mutation` says whether it is added to references."""

    registry: str = "docker.io"
    mutation: bool = True


@lru_cache(maxsize=4096)
def image_info(image: str, defaults: ImageDefaults) -> ImageInfo:
    """Parse an image reference (`GetImageInfo`). Raises ImageError."""
    first, slash, _ = image.partition("/")
    # As in Docker, the first part is a registry only if it cannot be a part of a path.
    is_domain = slash and (set(".:") & set(first) or first == "localhost" or first != first.lower())
    full = image if is_domain else f"{defaults.registry}/{image}"
    match = _REFERENCE.fullmatch(full) if len(full) <= _LONGEST_REFERENCE else None
    if wrong := _fault(full, match):
        raise ImageError(
            f"bad image: {full}, defaultRegistry: {defaults.registry}, "
            f"enableDefaultRegistryMutation: {str(defaults.mutation).lower()}: {wrong}"
        )
    assert match is not None
    named = _NAME.fullmatch(match["name"])
    assert named is not None
    registry, path = named[1] or "", named[2]
    tag, digest = match["tag"] or "", match["digest"] or ""
    tag = tag if tag or digest else "latest"
    if full != image and not defaults.mutation:
        registry = ""
    with_tag = f"{registry}/{path}:{tag}" if registry else f"{path}:{tag}"
    return ImageInfo(registry, path.rpartition("/")[2], path, tag, digest, with_tag)


def _fault(full: str, match: re.Match[str] | None) -> str:
    if match is None:
        if len(full) <= _LONGEST_REFERENCE and _REFERENCE.fullmatch(full.lower()):
            return "repository name must be lowercase"
        return "invalid reference format"
    named = _NAME.fullmatch(match["name"])
    if named is not None and len(named[2]) > _LONGEST_PATH:
        return f"repository name must not be more than {_LONGEST_PATH} characters"
    if match["digest"]:
        algorithm, _, encoded = match["digest"].partition(":")
        if algorithm not in _DIGESTS:
            return "unsupported digest algorithm"
        if len(encoded) != _DIGESTS[algorithm]:
            return "invalid checksum digest length"
        if encoded != encoded.lower():
            return "invalid checksum digest format"
    return ""


class ImageExtractor(Struct, frozen=True):
    """Place of images in an object: the path, and the fields with name and reference."""

    name: str
    fields: tuple[str, ...]
    key: str
    value: str
    jmespath: str = ""


def _standard(*path: str) -> tuple[ImageExtractor, ...]:
    containers = ("initContainers", "containers", "ephemeralContainers")
    return tuple(ImageExtractor(each, (*path, each, "*"), "name", "image") for each in containers)


_TEMPLATE = _standard("spec", "template", "spec")
_EXTRACTORS: Mapping[str, tuple[ImageExtractor, ...]] = {
    "Pod": _standard("spec"),
    "CronJob": _standard("spec", "jobTemplate", "spec", "template", "spec"),
    **dict.fromkeys(
        ("DaemonSet", "Deployment", "ReplicaSet", "ReplicationController", "StatefulSet", "Job"), _TEMPLATE
    ),
}


def custom_extractors(configs: Sequence[Mapping[str, Any]]) -> tuple[ImageExtractor, ...]:
    """Return the extractors that a rule's `imageExtractors` define for one kind."""
    made = []
    for config in configs:
        fields = [part for each in str(config.get("path", "")).split("/") if (part := each.strip(" "))]
        value = config.get("value") or ""
        if not value:
            value, fields = fields[-1] if fields else "", fields[:-1]
        made.append(
            ImageExtractor(
                config.get("name") or "custom",
                tuple(fields),
                config.get("key") or "",
                value,
                config.get("jmesPath") or "",
            )
        )
    return tuple(made)


def images_of(
    obj: JSON,
    defaults: ImageDefaults,
    search: Callable[[str, JSON], JSON],
    custom: Mapping[str, Sequence[Mapping[str, Any]]] | None = None,
) -> dict[str, dict[str, ImageInfo]]:
    """Return the images of an object by extractor and name (`ExtractImagesFromResource`). Raises ImageError.

    `search` evaluates the JMESPath expression of an extractor.
    """
    kind = str((obj or {}).get("kind") or "")
    extractors = custom_extractors(custom[kind]) if custom and kind in custom else _EXTRACTORS.get(kind, ())
    found: dict[str, dict[str, ImageInfo]] = {}
    for extractor in extractors:
        images: dict[str, ImageInfo] = {}
        _extract(known(obj), (), extractor.fields, extractor, defaults, search, images)
        if images:
            found[extractor.name] = images
    return found


def _extract(
    obj: JSON,
    path: tuple[str, ...],
    fields: tuple[str, ...],
    extractor: ImageExtractor,
    defaults: ImageDefaults,
    search: Callable[[str, JSON], JSON],
    images: dict[str, ImageInfo],
) -> None:
    if known(obj) is None:
        return
    if fields and fields[0] == "*" and isinstance(obj, list | dict):
        entries = enumerate(obj) if isinstance(obj, list) else obj.items()
        for key, item in entries:
            if isinstance(known(item), dict) or (isinstance(item, list) and isinstance(obj, dict)):
                _extract(item, (*path, str(key)), fields[1:], extractor, defaults, search, images)
            elif isinstance(item, list):
                _extract(item, (*path, str(key)), fields, extractor, defaults, search, images)
        return
    if not isinstance(obj, dict):
        raise ImageError("invalid image config")
    if fields:
        _extract(obj.get(fields[0]), (*path, fields[0]), fields[1:], extractor, defaults, search, images)
        return
    pointer = f"/{'/'.join(path)}/{extractor.value}"
    key = pointer
    if extractor.key:
        key = known(obj.get(extractor.key))
        if not isinstance(key, str):
            raise ImageError("invalid key")
    value = known(obj.get(extractor.value))
    if not isinstance(value, str) or not value.strip():
        return
    if extractor.jmespath:
        result = search(extractor.jmespath, value)
        if not isinstance(result, str):
            raise ImageError(f"jmespath {extractor.jmespath} must produce a string, but produced {result}")
        value = result
    try:
        info = image_info(value, defaults)
    except ImageError as error:
        raise ImageError(f"invalid image '{value}' ({error})") from None
    images[key] = ImageInfo(
        info.registry, info.name, info.path, info.tag, info.digest, info.reference_with_tag, pointer
    )
