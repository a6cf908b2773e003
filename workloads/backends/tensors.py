"""PyTorch, as the scenarios with tensors use it: loaded late, its errors explained, its results compared."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Iterator
from typing import Any

from pinprof.base.errors import ScenarioError
from pinprof.scenario import RunContext

from .memory import first_mismatch


@contextlib.contextmanager
def torch() -> Iterator[Any]:
    """The module; ScenarioError when it sees no GPU, and for each RuntimeError, which is how it fails, in one line."""
    module = importlib.import_module("torch")
    remedy = "Check that this PyTorch was built for CUDA: python -m torch.utils.collect_env."
    if not module.cuda.is_available():
        raise ScenarioError("PyTorch sees no GPU.", remedy, "no-gpu")
    try:
        yield module
    except RuntimeError as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")
        raise ScenarioError(f"PyTorch failed: {reason}.", remedy, "torch") from error


def tell_memory(ctx: RunContext, pytorch: Any, device: Any) -> None:
    """Note what PyTorch holds of the GPU's memory: in tensors, and in its cache with them."""
    ctx.tell_memory("GPU memory in PyTorch's tensors", int(pytorch.cuda.memory_allocated(device)))
    ctx.tell_memory("GPU memory in PyTorch's cache, tensors included", int(pytorch.cuda.memory_reserved(device)))


class HostTensor:
    """A float32 tensor of the CPU, to be verified."""

    def __init__(self, tensor: Any) -> None:
        self._tensor = tensor

    def mismatch(self, value: float) -> tuple[int, float] | None:
        """The first element that is not `value`, with its index."""
        return first_mismatch(self._tensor.numpy(), value)
