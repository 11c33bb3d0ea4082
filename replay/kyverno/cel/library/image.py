"""Image references in CEL (`libs/image`; github.com/google/go-containerregistry, `pkg/name`)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache

from msgspec import Struct

from replay.cel.declare.library import Function, Library, Messages, VariableDecl, overloaded
from replay.cel.value.equality import NO_SUCH_OVERLOAD
from replay.cel.value.text import display
from replay.cel.value.types import BOOL, STRING, Type, list_type, opaque_type, struct_type
from replay.cel.value.values import EvalError, ObjectValue, OpaqueValue, Value
from replay.go.url import URLError, parse_url

_IMAGE = opaque_type("kyverno.image")
_DEFAULT_REGISTRY, _DEFAULT_TAG = "index.docker.io", "latest"
_REPOSITORY = re.compile(r"[a-z0-9_\-./]{2,255}")
_TAG = re.compile(r"[A-Za-z0-9_\-.]{1,128}")
_DIGEST = re.compile(r"sha256:[a-f0-9]{64}")


class _Repository(Struct, frozen=True):
    registry: str
    path: str

    @property
    def name(self) -> str:
        """Path of the repository. On Docker Hub, a path without a folder is in `library`."""
        is_implicit = "/" not in self.path and self.registry == _DEFAULT_REGISTRY
        return f"library/{self.path}" if is_implicit else self.path


class ImageReference(Struct, frozen=True):
    """Image reference. `tag` is empty if the reference has a digest."""

    repository: _Repository
    tag: str
    digest: str
    text: str

    @property
    def written_tag(self) -> str:
        """Tag as written, possibly before a digest. It is empty if only a digest is written."""
        if not self.digest:
            return self.tag
        before = self.text.partition("@")[0]
        return before.rpartition(":")[2] if before.rfind(":") > before.rfind("/") else ""


class ImageValue(OpaqueValue):
    """CEL value of an image reference."""

    __slots__ = ("reference",)
    cel_type = _IMAGE
    go_type = "image.Image"

    def __init__(self, reference: ImageReference) -> None:
        """Wrap a reference."""
        self.reference = reference

    def equal(self, other: Value) -> bool:
        """Return whether both are written the same way. Raises EvalError for a value of another type."""
        if not isinstance(other, ImageValue):
            raise EvalError(NO_SUCH_OVERLOAD)
        return self.reference == other.reference


@lru_cache(maxsize=4096)
def parse_reference(text: str) -> ImageReference | None:
    """Parse an image reference. Return None if the text is none."""
    return _tagged(text) or _digested(text)


def _tagged(text: str) -> ImageReference | None:
    base, colon, tag = text.rpartition(":")
    if not colon or "/" in tag:
        base, tag = text, ""
    elif not _TAG.fullmatch(tag):
        return None
    repository = _repository(base)
    return None if repository is None else ImageReference(repository, tag or _DEFAULT_TAG, "", text)


def _digested(text: str) -> ImageReference | None:
    base, _, digest = text.partition("@")
    if not _DIGEST.fullmatch(digest):
        return None
    tagged = _tagged(base)
    repository = tagged.repository if tagged is not None else _repository(base)
    return None if repository is None else ImageReference(repository, "", digest, text)


def _repository(text: str) -> _Repository | None:
    first, slash, rest = text.partition("/")
    registry, path = "", text
    if slash and (first == "localhost" or "." in first or ":" in first):
        registry, path = first, rest
    if not _REPOSITORY.fullmatch(path) or not _is_registry(registry):
        return None
    return _Repository(_DEFAULT_REGISTRY if registry in ("", "docker.io") else registry, path)


def _is_registry(text: str) -> bool:
    """Return whether a text is a valid host of a URL."""
    try:
        return not text or parse_url(f"//{text}").host == text
    except URLError:
        return False


def _parse(text: str) -> ImageValue:
    reference = parse_reference(text)
    if reference is None:
        raise EvalError(f"could not parse reference: {text}")
    return ImageValue(reference)


def _identifier(reference: ImageReference) -> str:
    if not reference.digest:
        return reference.tag
    return f"{reference.written_tag}@{reference.digest}" if reference.written_tag else reference.digest


def _separated(reference: ImageReference) -> str:
    return f"@{reference.digest}" if reference.digest else f":{reference.tag}"


def _member(name: str, overload: str, result: Type, part: Callable[[ImageReference], Value]) -> Function:
    body = lambda image: part(image.reference)  # noqa: E731 - a wrapper of one expression
    return overloaded(name, (overload, (_IMAGE,), result, body), member=True)


def _of_text(name: str, overload: str, result: Type, body: Callable[[str], Value]) -> Function:
    return overloaded(name, (overload, (STRING,), result, body))


IMAGE = Library(
    name="kyverno.image",
    functions=(
        _of_text("image", "string_to_image_deprecated", _IMAGE, _parse),
        _of_text("parseImageReference", "string_to_image", _IMAGE, _parse),
        _of_text("isImage", "is_image_string", BOOL, lambda text: parse_reference(text) is not None),
        _member("containsDigest", "image_contains_digest", BOOL, lambda image: bool(image.digest)),
        _member("registry", "image_registry", STRING, lambda image: image.repository.registry),
        _member("repository", "image_repository", STRING, lambda image: image.repository.name),
        _member("identifier", "image_identifier", STRING, _identifier),
        _member("identifierWithSeparator", "image_identifier_with_separator", STRING, _separated),
        _member("tag", "image_tag", STRING, lambda image: image.written_tag),
        _member("digest", "image_digest", STRING, lambda image: image.digest),
    ),
)
"""Library of `image`, `parseImageReference`, `isImage` and the parts of a reference."""


# Go structs that expressions read: `exceptions` and service accounts of the user library (cel-go `ext/native.go`).

_EXCEPTION = struct_type("libs.Exception")
_SERVICE_ACCOUNT = struct_type("user.ServiceAccount")
_PREFIX = "system:serviceaccount:"
_FIELDS = {
    _EXCEPTION.name: {"allowedImages": list_type(STRING), "allowedValues": list_type(STRING)},
    _SERVICE_ACCOUNT.name: {"Name": STRING, "Namespace": STRING},
}
_GO_NAMES = {
    _EXCEPTION.name: {"AllowedImages": "allowedImages", "AllowedValues": "allowedValues"},
    _SERVICE_ACCOUNT.name: {"Name": "Name", "Namespace": "Namespace"},
}
"""Go names of fields, which expressions use if the checker does not know the type of the struct."""


class NativeObject(ObjectValue, frozen=True):
    """Go struct. `fields` holds only fields whose value is not the zero value, because a zero field counts as not set."""

    def field(self, name: Value) -> Value:
        """Return a field that the checker knows."""
        zero: Value = "" if _FIELDS[self.type_name][name] is STRING else []
        return self.fields.get(name, zero)

    def part(self, key: Value, *, testing: bool) -> tuple[Value, bool]:
        """Return a field whose struct is known only at evaluation, and whether it counts as present."""
        if not isinstance(key, str):
            return EvalError("no such overload"), False
        name = _GO_NAMES[self.type_name].get(key)
        if name is None:
            return EvalError(f"no such field: {display(key)}"), False
        return self.field(name), name in self.fields or not testing


def _native(type_name: str, fields: Mapping[str, Value]) -> NativeObject:
    return NativeObject(type_name, {name: value for name, value in fields.items() if value})


def exception(images: Sequence[str], values: Sequence[str]) -> NativeObject:
    """Return the value of `exceptions`: the images and values that the matching exceptions allow."""
    return NativeObject(_EXCEPTION.name, {"allowedImages": list(images), "allowedValues": list(values)})


def _service_account(user: str) -> NativeObject:
    namespace = name = ""
    if user.startswith(_PREFIX):
        first, colon, rest = user[len(_PREFIX) :].partition(":")
        if colon:
            namespace, name = first, rest
    return _native(_SERVICE_ACCOUNT.name, {"Name": name, "Namespace": namespace})


def _function(name: str, overload: str) -> Function:
    return overloaded(name, (overload, (STRING,), _SERVICE_ACCOUNT, _service_account))


NATIVE = Library(
    name="kyverno.native",
    functions=(
        _function("parseServiceAccount", "parse_service_account_string_non_prefixed"),
        _function("user.parseServiceAccount", "parse_service_account_string_prefixed"),
    ),
    variables=(VariableDecl("exceptions", _EXCEPTION),),
    struct_fields=_FIELDS,
    types=(_EXCEPTION, _SERVICE_ACCOUNT),
    messages=Messages(_FIELDS.__contains__, _native, _FIELDS.__contains__),
)
"""Library of `exceptions`, `parseServiceAccount` and `user.parseServiceAccount`."""
