"""What `pinprof fix` inserts for PyTorch: copies to a GPU through pinned memory.

PyTorch keeps pinned memory and gives it out again when a copy from it has ended, so nothing is shared between two
copies. The copy waits as the program says. A parameter that nothing else shares memory with moves to pinned memory
once; a copy from there waits, as something may write to the parameter next. The text below the marker is inserted as it
is.
"""


# fmt: off
# ---- inserted
def _to_device(value, where, **how):
    """value.to(where, **how) through pinned memory, which PyTorch reuses (pinprof fix)."""
    import torch

    plain = type(value) in (torch.Tensor, torch.nn.Parameter) and value.device.type == "cpu"
    plain = plain and value.layout is torch.strided and value.is_contiguous() and value.nbytes >= 1 << 20
    if not plain or type(where) not in (str, int, torch.device) or torch.device(where).type != "cuda":
        return value.to(where, **how)
    if type(value) is torch.nn.Parameter:
        if not value.is_pinned() and _alone(value):
            with torch.inference_mode(False):
                value.data = value.data.pin_memory()
        if value.is_pinned():
            return value.to(where, **{**how, "non_blocking": False})
    return value.to(where, **how) if value.requires_grad else value.pin_memory().to(where, **how)


def _alone(value):
    """Whether no other tensor, array or process has a tensor's memory (pinprof fix)."""
    import torch

    count, memory = getattr(torch._C, "_storage_Use_Count", None), value.untyped_storage()
    return count is not None and not memory.is_shared() and memory.resizable() and count(memory._cdata) <= 2
