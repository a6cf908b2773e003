"""What `pinprof fix` inserts for NumPy: arrays that are written into memory which nothing refers to any more.

CPython counts references. An array that a name, a container, a closure, a frame or a view refers to has more of them
than its pool alone, and stays untouched; so this changes no result, whatever the program does with an array. Anything
but plain arrays of numbers is computed as ever. The text below the marker is inserted as it is.
"""

# fmt: off
# ---- inserted
import operator as _operator
import sys as _sys
import weakref as _weakref

import numpy as _numpy

_OPERATORS = {"+": (_operator.add, _numpy.add), "-": (_operator.sub, _numpy.subtract),
              "*": (_operator.mul, _numpy.multiply), "/": (_operator.truediv, _numpy.true_divide)}
_FILLED = {_numpy.empty: None, _numpy.zeros: 0, _numpy.ones: 1}
_POOLS = {}


def _references(arrays):
    return _sys.getrefcount(arrays[0])


_ALONE = _references([_numpy.empty(0)])
_COUNTED = _sys.implementation.name == "cpython" and getattr(_sys, "_is_gil_enabled", lambda: True)()
_WEAK = int(_numpy.__version__.split(".")[0]) >= 2  # a Python number leaves the type of an array as it is


def _form(value):
    """What decides the form of a result; None where that is not certain."""
    kind = type(value)
    if kind is _numpy.ndarray:
        certain = value.dtype.kind in "biufc" and value.dtype.metadata is None and value.ndim
        return (value.shape, value.strides, value.dtype) if certain else None
    return kind if _WEAK and (kind in (int, float) or issubclass(kind, _numpy.number)) else None


def _constant(value):
    return type(value) in (int, type, str) or (type(value) is tuple and all(type(one) is int for one in value))


def _forms(function, given):
    if function in _FILLED:
        return given if all(map(_constant, given)) else None
    if function in (_numpy.concatenate, _numpy.stack):
        if len(given) != 1 or type(given[0]) not in (list, tuple):
            return None
        forms = tuple(map(_form, given[0]))
        return forms if all(type(form) is tuple for form in forms) else None
    if not isinstance(function, _numpy.ufunc) or function.nout != 1 or len(given) + 1 != function.nargs:
        return None
    forms = tuple(map(_form, given))
    return forms if None not in forms and any(type(form) is tuple for form in forms) else None


def _free(pool):
    """A list with an array of the pool that nothing else refers to; without one, an empty list."""
    for _ in range(len(pool[1])):
        try:
            taken = [pool[1].pop(0)]
        except IndexError:  # another thread was first
            break
        array = taken[0]
        same = _form(array) == pool[0] and array.flags.writeable and array.flags.owndata
        same = same and not _weakref.getweakrefcount(array)
        del array
        if same and _references(taken) == _ALONE:
            return taken
        if same and len(pool[1]) < 4:
            pool[1].append(taken[0])
    return []


def _kept(function, *given):
    """function(*given), written into an earlier result that nothing refers to any more (pinprof fix)."""
    plain, function = _OPERATORS.get(function, (function, function)) if type(function) is str else (function, function)
    forms = _forms(function, given) if _COUNTED else None
    if forms is None:
        return plain(*given)
    pool = _POOLS.get((function, forms))
    taken = _free(pool) if pool else []
    if not taken:
        result = function(*given)
    elif function in _FILLED:
        result = taken[0]
        if _FILLED[function] is not None:
            result.fill(_FILLED[function])
    else:
        result = function(*given, out=taken[0])
    if type(result) is _numpy.ndarray and result.nbytes >= 1 << 16 and _form(result):
        if pool is None:
            if len(_POOLS) >= 64:
                _POOLS.clear()
            pool = _POOLS.setdefault((function, forms), (_form(result), []))
        if len(pool[1]) < 4:
            pool[1].append(result)
    return result
