"""Certificates of a fleet: who holds them may join it, as a search, a scheduler or a worker.

`tilewright fleet init` makes an authority that is used once and one certificate that it signs, of
elliptic curve P-256, and throws the authority's key away: nobody can be admitted later but by
being given a copy of these three files.
"""

from __future__ import annotations

import ipaddress
import os
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ..base.config import cache_dir
from .facts import FleetError

AUTHORITY, CERTIFICATE, KEY = "fleet-ca.pem", "fleet-cert.pem", "fleet-key.pem"
_DAYS = 3650


def default_folder() -> Path:
    """Where a user's certificates are looked for."""
    return cache_dir() / "fleet"


def make_certificates(folder: Path, days: int = _DAYS) -> list[Path]:
    """Write a fleet's certificates; FleetError where there are some, which would be lost."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    paths = [folder / name for name in (AUTHORITY, CERTIFICATE, KEY)]
    for path in paths:
        if path.exists():
            raise FleetError(f"{path} exists: a fleet has its certificates; name another folder")
    folder.mkdir(parents=True, exist_ok=True)
    begin = datetime.now(timezone.utc) - timedelta(minutes=5)  # clocks of boards differ
    root_key, own_key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))

    def named(text: str) -> Any:
        return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])

    def certificate(subject: str, key: Any, is_root: bool) -> Any:
        return (
            x509.CertificateBuilder()
            .subject_name(named(subject))
            .issuer_name(named("tilewright fleet authority"))
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(begin)
            .not_valid_after(begin + timedelta(days=days))
            .add_extension(x509.BasicConstraints(ca=is_root, path_length=None), critical=True)
            .sign(root_key, hashes.SHA256())
        )

    pem = serialization.Encoding.PEM
    contents = [
        certificate("tilewright fleet authority", root_key, True).public_bytes(pem),
        certificate("tilewright fleet", own_key, False).public_bytes(pem),
        own_key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()),
    ]
    for path, content in zip(paths, contents):
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(fd, "wb") as file:
            file.write(content)
    return paths


def security(folder: Path) -> Any:
    """Dask's Security with the certificates of a folder, which both sides have to show."""
    import distributed.security

    missing = [n for n in (AUTHORITY, CERTIFICATE, KEY) if not (folder / n).is_file()]
    if missing:
        raise FleetError(
            f"{folder} has no {', '.join(missing)}: make a fleet's certificates with `tilewright "
            "fleet init` and copy that folder to each machine"
        )
    own = {}
    for role in ("client", "scheduler", "worker"):
        own[f"tls_{role}_cert"] = str(folder / CERTIFICATE)
        own[f"tls_{role}_key"] = str(folder / KEY)
    make: Any = distributed.security.Security
    return make(tls_ca_file=str(folder / AUTHORITY), require_encryption=True, **own)


def require_address(address: str) -> None:
    """FleetError where this is not the address of a scheduler, its port included."""
    try:
        parts = urlsplit(address)
        is_whole = parts.scheme in ("tls", "tcp") and bool(parts.hostname and parts.port)
    except ValueError:  # a port that none can be
        is_whole = False
    if not is_whole:
        raise _no_address(address)


def _no_address(address: str) -> FleetError:
    return FleetError(
        f"the address of a fleet is tls://HOST:PORT (or tcp://HOST:PORT), not {address!r}"
    )


def security_for(address: str, folder: Path | None, plain: bool) -> Any:
    """How to speak with an address: None for plain TCP, which stays on this machine unless
    `plain` says that the network between is trusted."""
    scheme = urlsplit(address).scheme
    if scheme == "tls":
        return security(folder or default_folder())
    if scheme != "tcp":
        raise _no_address(address)
    if not plain and not is_loopback(urlsplit(address).hostname or ""):
        raise FleetError(
            f"{address} would send code and results over the network for everybody to read and "
            "change: use tls:// (`tilewright fleet init` makes certificates), or --plain where "
            "the network is trusted"
        )
    return None


def is_loopback(host: str) -> bool:
    """Whether a name is this machine's own."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
