"""What `pinprof fix` inserts for numbers that a loop reads from the GPU: they stay there until something uses them.

Sums are of double precision or of 64-bit integers, as Python's are, and are added in the same order, so they are the
same to the bit. Anything but plain tensors of real numbers is read at once, as ever. The text below the marker is
inserted as it is.
"""

# fmt: off
# ---- inserted
_waiting = {}  # places in lists, by their id


class _Later:
    """A number that is still on the GPU (pinprof fix)."""

    def __init__(self, value):
        self.value = value


def _item(value):
    return value.item()


def _later(value, read):
    """read(value), which waits on the GPU until something uses it (pinprof fix)."""
    import torch

    plain = type(value) in (torch.Tensor, torch.nn.Parameter) and value.numel() == 1
    plain = plain and value.layout is torch.strided and value.device.type in ("cuda", "cpu")
    if not plain or value.is_complex() or value.is_quantized or "uint64" in str(value.dtype):
        return read(value)
    real = read is float or value.is_floating_point()
    kind = torch.float64 if real else value.dtype if value.dtype is torch.bool else torch.int64
    return _Later(value.detach().reshape(()).to(kind, copy=True))


def _number(value):
    """What a number is, read from the GPU (pinprof fix)."""
    return value.value.item() if type(value) is _Later else value


def _add(total, value):
    """Total + value, on the GPU (pinprof fix)."""
    waits = next((one.value for one in (total, value) if type(one) is _Later), None)
    terms = [_term(one, waits) for one in (total, value)]
    if waits is None or None in (terms[0], terms[1]):
        return _number(total) + _number(value)
    return _Later(terms[0] + terms[1])


def _term(one, beside):
    """A number as a tensor; None where Python adds it."""
    import torch

    if type(one) is _Later:
        fits = one.value.device == beside.device
        return (one.value.long() if one.value.dtype is torch.bool else one.value) if fits else None
    fits = beside is not None and (type(one) is float or (type(one) is int and abs(one) < 1 << 53))
    kind = torch.float64 if type(one) is float else torch.int64
    return torch.tensor(one, dtype=kind, device=beside.device) if fits else None


def _append(numbers, value):
    """numbers.append(value), which may wait on the GPU (pinprof fix)."""
    numbers.append(value)
    if type(value) is _Later:
        places = _waiting.setdefault(id(numbers), [])
        places.append(len(numbers) - 1)
        if len(places) >= 1024:
            _numbers(numbers)


def _numbers(numbers):
    """The list, after all that waits on the GPU is read, with one copy (pinprof fix)."""
    import torch

    places = [at for at in _waiting.pop(id(numbers), ()) if at < len(numbers) and type(numbers[at]) is _Later]
    values = [numbers[at].value for at in places]
    alike = len({(one.dtype, one.device) for one in values}) == 1
    for at, one in zip(places, torch.stack(values).tolist() if alike else [one.item() for one in values]):
        numbers[at] = one
    return numbers


def _sum(values):
    """sum(values), which may wait on the GPU (pinprof fix)."""
    numbers = []
    for one in values:
        _append(numbers, one)
    return sum(_numbers(numbers))
