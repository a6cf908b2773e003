"""zstd, from Python 3.14's standard library, or from its backport."""

from __future__ import annotations

import sys

if sys.version_info >= (3, 14):
    from compression.zstd import DecompressionParameter, ZstdCompressor, ZstdDecompressor, ZstdError
else:
    from backports.zstd import DecompressionParameter, ZstdCompressor, ZstdDecompressor, ZstdError

__all__ = ["DecompressionParameter", "ZstdCompressor", "ZstdDecompressor", "ZstdError"]
