"""What `pinprof fix` inserts for PyTorch: copies to the host whose memory is pinned.

PyTorch keeps pinned memory when a tensor is freed and gives it out again, so nothing is shared between two tensors.
The copy is finished when the call returns, as with `.cpu()`. A module's `cpu` does the same for each of its parameters
(`_apply`, torch/nn/modules/module.py), which the next copy to a GPU then finds pinned. The text below the marker is
inserted as it is.
"""


# fmt: off
# ---- inserted
def _to_host(value):
    """value.cpu() in pinned memory, which PyTorch reuses (pinprof fix)."""
    import torch

    if isinstance(value, torch.nn.Module) and type(value).cpu is torch.nn.Module.cpu:
        return value._apply(_to_host)
    plain = type(value) in (torch.Tensor, torch.nn.Parameter) and value.is_cuda and value.layout is torch.strided
    if not plain or value.is_complex() or value.is_quantized:
        return value.cpu() if hasattr(value, "cpu") else value.to("cpu")
    return torch.empty_like(value, device="cpu", pin_memory=True).copy_(value)
