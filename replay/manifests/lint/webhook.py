"""Warnings about where webhooks are called."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator

from replay.go.url import URLError, from_bytes, parse_url
from replay.manifests.lint import catalogue
from replay.manifests.lint.warning import SilenceableWarning, warned
from replay.manifests.loader import LoadedObject

_PORT = re.compile(r":[0-9]*$")
_CLUSTER_HOST = re.compile(r"\.svc(\..+)?$|\.cluster\.local$")


def lint_webhooks(loaded: LoadedObject) -> Iterator[SilenceableWarning]:
    """Yield all warnings about the webhooks of a static configuration."""
    for index, webhook in enumerate(loaded.value.get("webhooks") or ()):
        client_config, path = webhook["clientConfig"], f"webhooks[{index}].clientConfig"
        host = _host(client_config.get("url") or "")
        if _is_loopback(host) and not client_config.get("caBundle"):
            message = (
                f"`{host}` is loopback and there is no caBundle: its certificate must be signed by a system authority"
            )
            yield warned(loaded, catalogue.LOOPBACK_WITHOUT_CA, message, f"{path}.url")
        if _CLUSTER_HOST.search(host):
            fails = webhook["failurePolicy"] == "Fail"
            then = "until it answers, every matching request is denied" if fails else "until then it is not asked"
            message = f"`{host}` is a Service of the cluster, which a static webhook must not need: {then}"
            yield warned(loaded, catalogue.CLUSTER_WEBHOOK, message, f"{path}.url")


def _host(url: str) -> str:
    try:
        return _PORT.sub("", from_bytes(parse_url(url).host)).strip("[]").rstrip(".").lower()
    except URLError:
        return ""


def _is_loopback(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
