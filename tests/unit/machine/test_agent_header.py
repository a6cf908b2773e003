"""The agent's functions.h has what the tables of pinprof say, and the names that CUDA's driver has."""

from __future__ import annotations

import re

from tools.agent_functions import HEADER, exports, functions, page


def test_the_header_is_up_to_date() -> None:
    assert HEADER.read_text("utf-8") == page(), "Run `python tools/agent_functions.py`."


def test_versions_and_stream_modes_of_a_function_are_exported() -> None:
    assert list(exports("cuMemFreeHost")) == ["cuMemFreeHost", "cuMemFreeHost_v2"]
    assert {"cuMemcpyHtoD_v2_ptds", "cuMemcpyHtoD_v2"} <= set(exports("cuMemcpyHtoD"))
    assert {"cuLaunchKernel", "cuLaunchKernel_ptsz"} <= set(exports("cuLaunchKernel"))
    assert "cuCtxCreate_v4" in set(exports("cuCtxCreate"))


def test_every_driver_function_of_the_table_is_wrapped_and_no_other() -> None:
    assert {"cuMemHostRegister", "cuMemcpyBatchAsync", "cuGraphLaunch", "cuEventQuery"} <= set(functions())
    assert all(re.fullmatch(r"cu[A-Z]\w+", name) for name in functions())
