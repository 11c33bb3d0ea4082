"""All functions of Kyverno's JMESPath (`pkg/engine/jmespath/functions.go` `GetFunctions`)."""

from __future__ import annotations

import ipaddress

from replay.go.url import URLError, parse_url
from replay.kyverno.rules.errors import JMESPathError, UndeterminedError
from replay.kyverno.rules.image import ImageDefaults, ImageError, image_info
from replay.kyverno.rules.jmespath.arithmetic import ARITHMETIC
from replay.kyverno.rules.jmespath.function import STRING, Function
from replay.kyverno.rules.jmespath.interpreter import Library
from replay.kyverno.rules.jmespath.standard import STANDARD
from replay.kyverno.rules.jmespath.text import TEXT
from replay.kyverno.rules.jmespath.times import Clock, time_functions


def kyverno_library(clock: Clock, images: ImageDefaults) -> Library:
    """Return Kyverno's library. `clock` raises UndeterminedError if the time is unknown."""

    def normalize(image: str) -> str:
        try:
            return str(image_info(image, images))
        except ImageError as error:
            raise JMESPathError(f"JMESPath function 'image_normalize': {error}") from None

    functions = (
        *STANDARD,
        *ARITHMETIC,
        *TEXT,
        *time_functions(clock),
        Function("image_normalize", ((STRING,),), normalize),
        Function("is_external_url", ((STRING,),), _is_external_url),
        Function("random", ((STRING,),), _random),
        Function("x509_decode", ((STRING,),), _x509_decode),
    )
    return Library({function.name: function for function in functions})


def _is_external_url(text: str) -> bool:
    """Return whether a URL has an address that is neither loopback nor private. Host names are not resolved."""
    try:
        host = parse_url(text).hostname
    except URLError as error:
        raise JMESPathError(str(error)) from None
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        raise UndeterminedError("is_external_url: replay does not look up host names") from None
    mapped = getattr(address, "ipv4_mapped", None) or address
    private = ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7")
    is_private = any(
        mapped.version == network.version and mapped in network for network in map(ipaddress.ip_network, private)
    )
    return not (mapped.is_loopback or is_private)


def _random(pattern: str) -> str:
    if not pattern:
        raise JMESPathError("no pattern provided")
    raise UndeterminedError("random: the result is random")


def _x509_decode(_: str) -> str:
    raise UndeterminedError("x509_decode: replay does not decode certificates")
