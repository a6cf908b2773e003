"""What `pinprof fix` inserts for rows that are copied one by one: they are gathered, and copied together.

Rows of one tensor go to other rows of another that shares no memory with it. Anything else is copied as ever. The text
below the marker is inserted as it is.
"""


# fmt: off
# ---- inserted
def _in_order(rows):
    return rows == list(range(rows[0], rows[0] + len(rows)))


def _gather(target, source, rows, non_blocking):
    """target[a].copy_(source[b], non_blocking) for each (a, b) of rows, as one copy (pinprof fix)."""
    import torch

    to, at = [one for one, _ in rows], [other for _, other in rows]
    both = (target, source)
    plain = [type(one) is torch.Tensor and one.layout is torch.strided and one.ndim > 0 for one in both]
    fits = len(rows) > 1 and all(plain)
    fits = fits and not any(one.requires_grad or one.is_quantized or one.is_conj() or one.is_neg() for one in both)
    fits = fits and target.dtype == source.dtype and target.shape[1:] == source.shape[1:] and len({*to}) == len(to)
    fits = fits and target.untyped_storage().data_ptr() != source.untyped_storage().data_ptr()
    fits = fits and {*map(type, to), *map(type, at)} == {int}
    if not fits or min(to + at) < 0 or max(to) >= len(target) or max(at) >= len(source):
        for one, other in rows:
            target[one].copy_(source[other], non_blocking=non_blocking)
        return
    if _in_order(at):
        together = source[at[0]:at[0] + len(at)]
    else:
        pin = source.device.type == "cpu" and target.is_cuda
        together = torch.empty((len(at), *source.shape[1:]), dtype=source.dtype, device=source.device, pin_memory=pin)
        torch.index_select(source, 0, torch.tensor(at, device=source.device), out=together)
    if _in_order(to):
        target[to[0]:to[0] + len(to)].copy_(together, non_blocking=non_blocking)
    else:
        target.index_copy_(0, torch.tensor(to, device=target.device), together.to(target.device))
