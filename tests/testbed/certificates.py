"""Certificates for tests, made when they are needed."""

from __future__ import annotations

import trustme
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)


def pem(certificate: trustme.LeafCert, password: bytes | None = None) -> bytes:
    """Key and chain in one; the key in PKCS8, the only form that Kafka reads."""
    key = load_pem_private_key(certificate.private_key_pem.bytes(), None)
    encryption = NoEncryption() if password is None else BestAvailableEncryption(password)
    written = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption)
    return written + b"".join(blob.bytes() for blob in certificate.cert_chain_pems)


def certificate_with_key(password: bytes) -> bytes:
    """Somebody's certificate, and its key encrypted with `password`."""
    return pem(trustme.CA().issue_cert("client.example"), password)
