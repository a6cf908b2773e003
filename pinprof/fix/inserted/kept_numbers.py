"""What `pinprof fix` inserts for numbers that a loop reads from the GPU: they stay there until something uses them.

Sums are of double precision or of 64-bit integers, as Python's are, and are added in the same order, so they are the
same to the bit. Anything but plain tensors of real numbers is read at once, as ever. The text below the marker is
inserted as it is.
"""

# fmt: off
# ---- inserted
import torch as _torch

_PLAIN = (_torch.Tensor, _torch.nn.Parameter)
_MOST = 1024  # so many tensors wait at most


def _waits(value):
    fits = type(value) in _PLAIN and value.numel() == 1 and value.layout is _torch.strided
    return fits and value.device.type in ("cuda", "cpu") and not (value.is_complex() or value.is_quantized)


def _item(value):
    return value.item()


def _append(numbers, value, read):
    """numbers.append(read(value)), where the GPU's value is read later (pinprof fix)."""
    if not _waits(value):
        return numbers.append(read(value))
    value = value.detach().reshape(()).clone()
    numbers.append(value.double() if read is float else value)
    if len(numbers) % _MOST == 0:
        _numbers(numbers)


def _numbers(numbers):
    """The list, after all that waits on the GPU is read, with one copy (pinprof fix)."""
    first = len(numbers)
    while first and type(numbers[first - 1]) is _torch.Tensor:
        first -= 1
    waiting = numbers[first:]
    alike = len({(one.dtype, one.device) for one in waiting}) == 1
    numbers[first : first + len(waiting)] = _torch.stack(waiting).tolist() if alike else [one.item() for one in waiting]
    return numbers


def _add(total, value, read):
    """total + read(value), on the GPU (pinprof fix)."""
    known = type(total) in (int, float, _torch.Tensor) and not (type(total) is int and abs(total) >> 53)
    if not known or not _waits(value):
        return _number(total) + read(value)
    real = read is float or value.is_floating_point()
    value = value.detach().reshape(()).to(_torch.float64 if real else _torch.int64)
    if type(total) is not _torch.Tensor:
        kind = _torch.float64 if type(total) is float else _torch.int64
        total = _torch.tensor(total, dtype=kind, device=value.device)
    elif total.device != value.device:
        return _number(total) + value.item()
    return total + value


def _number(total):
    """What a sum is, read from the GPU (pinprof fix)."""
    return total.item() if type(total) is _torch.Tensor else total
