"""The TLS files of a listener, and the rule when it may work without them."""

from __future__ import annotations

import ipaddress
import ssl
from pathlib import Path

from msgspec import Struct

from replay.errors import ReplayError


class ServerTls(Struct, frozen=True):
    """PEM files, named as the API server's flags name them. Without any, the listener speaks plain HTTP."""

    certificate: Path | None = None
    key: Path | None = None
    client_ca: Path | None = None

    def require(self, host: str) -> None:
        """Raise ReplayError for files that are not usable for TLS, and for an address of other machines without TLS."""
        if (self.certificate is None) is not (self.key is None):
            raise ReplayError("TLS needs both --tls-cert-file and --tls-private-key-file")
        if self.certificate is None and self.client_ca is not None:
            raise ReplayError("--client-ca-file needs --tls-cert-file and --tls-private-key-file")
        if self.certificate is None and not is_loopback(host):
            raise ReplayError(f"{host} is reached from other machines: give --tls-cert-file and --tls-private-key-file")
        try:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            if self.certificate is not None:
                context.load_cert_chain(self.certificate, self.key, password="")
        except OSError as error:
            raise _unusable(error, self.certificate) from error
        try:
            if self.client_ca is not None:
                context.load_verify_locations(self.client_ca)
        except OSError as error:
            raise _unusable(error, self.client_ca) from error


def _unusable(error: OSError, path: Path | None) -> ReplayError:
    reason = "no certificate and its key in PEM" if isinstance(error, ssl.SSLError) else (error.strerror or "").lower()
    return ReplayError(f"cannot be used: {reason}", path=str(path or ""))


def is_loopback(host: str) -> bool:
    """Return whether only this machine reaches a host."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
