"""All built-in plugins by name, in the server's order (`pkg/kubeapiserver/options/plugins.go`, `AllOrderedPlugins`)."""

from __future__ import annotations

from typing import Final

from replay.admission.builtin.always_pull_images import AlwaysPullImages
from replay.admission.builtin.deny_service_external_ips import DenyServiceExternalIPs
from replay.admission.builtin.plugin import Plugin

PLUGINS: Final[tuple[type[Plugin], ...]] = (
    AlwaysPullImages,
    DenyServiceExternalIPs,
)
"""In the order in which the server asks them; the policies and webhooks come after all of these but ResourceQuota."""

BY_NAME: Final = {plugin.name: plugin for plugin in PLUGINS}
