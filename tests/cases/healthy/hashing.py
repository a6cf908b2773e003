"""Hashes one buffer repeatedly."""

import hashlib
import time

data = bytes(range(256)) * 4096
begun = time.monotonic()
digest = hashlib.sha256()
for _ in range(600):
    digest.update(data)
    hashlib.blake2b(data[:4096]).digest()
print("seconds", time.monotonic() - begun, digest.hexdigest()[:8])
