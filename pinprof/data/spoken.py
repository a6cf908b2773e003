"""Names of functions as a sentence has them: of C++ without result, parameters and arguments of templates."""

from __future__ import annotations

import re

_OPERATOR = re.compile(r"\boperator(<=>|<<=?|>>=?|->\*?|[<>]=?|\(\)| \w+(\[\])?)")
"""Operators whose names have brackets or a blank."""
_ENDS = re.compile(r"( const| volatile| &&?| noexcept| \[clone [^\]]*\])+$")
_HIDDEN = str.maketrans("<>() ", "\ue010\ue011\ue012\ue013\ue014")
_SHOWN = str.maketrans("\ue010\ue011\ue012\ue013\ue014", "<>() ")


def spoken(function: str) -> str:
    """`at::native::mean_kernel` for `void at::native::mean_kernel<float, 4>(at::Tensor&)`; as it is without parameters.

    Names whose brackets are not balanced stay as they are.
    """
    if "(" not in function or function.startswith(("<", "[")):
        return function
    text = _ENDS.sub("", function.replace("(anonymous namespace)", "{anonymous}"))
    kept, depth = "", 0
    for character in _OPERATOR.sub(lambda found: found[0].translate(_HIDDEN), text):
        depth += (character in "<(") - (character in ">)")
        if depth < 0:
            return function
        if not depth and character not in ">)":
            kept += character
    # What stands before a blank is the type of the result.
    return function if depth or not kept.strip() else kept.split()[-1].translate(_SHOWN)
