"""NVTX's own headers, to build C and C++ programs that use it."""

from __future__ import annotations

import importlib.metadata
from pathlib import Path


def headers() -> Path | None:
    """Where nvtx3/nvToolsExt.h is: NVIDIA's package of headers, or a CUDA toolkit."""
    for package in ("nvidia-nvtx", "nvidia-nvtx-cu12"):
        try:
            files = importlib.metadata.files(package) or []
        except importlib.metadata.PackageNotFoundError:
            continue
        for file in files:
            if file.name == "nvToolsExt.h":
                return Path(str(file.locate())).parents[1]
    toolkit = Path("/usr/local/cuda/include")
    return toolkit if (toolkit / "nvtx3/nvToolsExt.h").is_file() else None
