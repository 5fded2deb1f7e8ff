"""Bytes under a key: AES-256-GCM of the package cryptography, as Marian has it."""

from __future__ import annotations

import hashlib
import secrets
from typing import Any

from treadle.base.errors import ArgumentError
from treadle.base.extras import extra

_NONCE, _TAG = 12, 16  # bytes


class Seal:
    """A key: the SHA-256 of what somebody has as such, text or the bytes of a file.

    What is sealed is a nonce, the ciphertext and a tag by which a change is noticed.
    """

    def __init__(self, key: str | bytes) -> None:
        if not isinstance(key, (str, bytes)) or not key:
            raise ArgumentError(
                "key is text or bytes, the contents of a key file and not its name"
            )
        ciphers = extra("cryptography.hazmat.primitives.ciphers.aead", "crypt")
        self._wrong: Any = extra("cryptography.exceptions", "crypt").InvalidTag
        raw = key.encode() if isinstance(key, str) else key
        self._cipher = ciphers.AESGCM(hashlib.sha256(raw).digest())

    def close(self, plain: bytes) -> bytes:
        """The bytes under the key; others at each call."""
        nonce = secrets.token_bytes(_NONCE)
        sealed: bytes = self._cipher.encrypt(nonce, plain, None)
        return nonce + sealed

    def open(self, sealed: bytes) -> bytes:
        """The plain text that `close` encrypted; ValueError under another key."""
        if len(sealed) < _NONCE + _TAG:
            raise ValueError("what is encrypted is too short to be")
        try:
            plain: bytes = self._cipher.decrypt(sealed[:_NONCE], sealed[_NONCE:], None)
        except self._wrong:
            raise ValueError(
                "it was encrypted under another key, or changed since"
            ) from None
        return plain
