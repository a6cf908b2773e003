"""Whether a recording shows what causes are known by: callers, and names of kernel functions. Else nothing is clear."""

from __future__ import annotations

import numpy as np

from pinprof.analyze.evidence import SHARE_ERROR
from pinprof.data.model import KERNEL, NO_NODE, Bool, Capture, Int64


def has_call_chains(capture: Capture, event: int) -> bool:
    """Whether enough samples of an event have callers.

    A sample without a call chain has at most one frame. Where nothing was sampled in the kernel, or call chains exist
    elsewhere, a lone frame of user code tells enough: it is not in the kernel.
    """
    stacks, weight = capture.stacks, capture.weight_at[event]
    lone = np.append(stacks.parent == NO_NODE, True)
    blind = lone & np.append(stacks.frames.mode[stacks.frame] == KERNEL, True)
    if lone[weight > 0].all():
        return not weight[blind].any()
    return _few(weight, blind)


def has_kernel_names(capture: Capture, event: int) -> bool:
    """Whether enough samples in the kernel have a named kernel function on their stack."""
    stacks = capture.stacks
    kernel = stacks.frames.mode == KERNEL
    known = kernel & np.array([not symbol.startswith("[") for symbol in stacks.frames.function], np.bool_)
    return _few(capture.weight_at[event], np.append(kernel[stacks.frame], False) & ~stacks.under(known))


def _few(weight: Int64, blind: Bool) -> bool:
    """Whether what is blind can change a share by no more than chance may."""
    return bool(weight[blind].sum() <= SHARE_ERROR * weight.sum())
