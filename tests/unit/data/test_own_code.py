"""Which files are a program's own."""

from __future__ import annotations

import pytest

from pinprof.data.own_code import library_part


@pytest.mark.parametrize(
    ("path", "part"),
    [
        ("/home/me/train.py", ""),
        ("/venv/lib/python3.12/site-packages/torch/storage.py", "torch/storage.py"),
        ("/usr/lib/python3.12/json/decoder.py", "json/decoder.py"),
        ("/venv/lib/python3.12/site-packages/pinprof/workloads/pinned.py", ""),
        ("/venv/lib/python3.12/site-packages/pinprof/workloads/backends/cuda.py", "pinprof/workloads/backends/cuda.py"),
        ("/src/pinprof/workloads/backends/cuda_api.py", "backends/cuda_api.py"),
        ("/src/pinprof/workloads/uvm.py", ""),
        ("/usr/include/c++/12/bits/stl_vector.h", "bits/stl_vector.h"),
        ("/tmp/torchinductor_me/d3/cd3uc.py", "torchinductor_me/d3/cd3uc.py"),
        ("/home/me/.triton/cache/AB/kernel.py", "cache/AB/kernel.py"),
    ],
)
def test_scenarios_are_programs_and_backends_and_what_a_compiler_writes_libraries(path: str, part: str) -> None:
    assert library_part(path) == part
