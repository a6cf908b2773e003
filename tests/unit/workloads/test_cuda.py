"""The cuda backend as far as it goes without a GPU: errors, choice of backend, the kernel's text."""

from __future__ import annotations

import re
import shutil
import subprocess
from enum import IntEnum
from pathlib import Path

import pytest
from pinprof.workloads import backends
from pinprof.workloads.backends import cuda, cuda_api, cuda_stream, kernels

from pinprof.base.errors import CudaError, ScenarioError, ToolMissing, UsageError


class Code(IntEnum):
    """Shaped like cudaError_t of cuda.bindings."""

    cudaSuccess = 0  # noqa: N815
    cudaErrorMemoryAllocation = 2  # noqa: N815
    cudaErrorIllegalAddress = 700  # noqa: N815


@pytest.mark.parametrize(
    ("result", "value"), [((Code(0),), None), ((Code(0), 7), 7), ((Code(0), 7, 9), (7, 9)), ((Code(0), 0), 0)]
)
def test_successful_call_gives_its_values(result: tuple[object, ...], value: object) -> None:
    assert cuda_api.check("cudaMalloc", result, str) == value


def test_failed_call_names_call_code_and_meaning() -> None:
    with pytest.raises(CudaError) as raised:
        cuda_api.check("cudaMallocHost", (Code(2), None), lambda _: "out of memory")
    assert str(raised.value) == (
        "cudaMallocHost failed with error 2: cudaErrorMemoryAllocation, out of memory. "
        "Give a smaller --size, or free memory that other programs hold."
    )
    assert (raised.value.call, raised.value.code) == ("cudaMallocHost", 2)


def test_error_without_a_special_remedy_still_has_one() -> None:
    with pytest.raises(CudaError, match="nvidia-smi"):
        cuda_api.check("cudaDeviceSynchronize", (Code(700),), lambda _: "an illegal memory access was encountered")


def test_gpu_without_bindings_is_an_error_and_no_fall_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backends, "gpu_present", lambda: True)

    def missing(name: str) -> None:
        raise ModuleNotFoundError(f"No module named {name!r}")

    monkeypatch.setattr(cuda_api, "import_module", missing)
    for choice in ("auto", "cuda"):
        with pytest.raises(ToolMissing, match=r"pip install 'pinprof\[cuda\]'"):
            backends.open_backend(choice, 0)


def test_without_a_gpu_cuda_is_refused_and_auto_is_labelled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backends, "gpu_present", lambda: False)
    with pytest.raises(ScenarioError, match="no NVIDIA GPU"):
        backends.open_backend("cuda", 0)
    with pytest.raises(UsageError, match="no device 1"):
        backends.open_backend("auto", 1)
    backend = backends.open_backend("auto", 0)
    assert backend.emulated
    backend.close()


def test_device_node_without_a_driver_is_no_gpu(tmp_path: Path) -> None:
    assert not backends._opens(str(tmp_path / "nvidiactl"))
    (tmp_path / "nvidiactl").touch()
    assert backends._opens(str(tmp_path / "nvidiactl"))


@pytest.mark.parametrize("architecture", ["sm_75", "sm_90"])
def test_kernel_assembles(architecture: str, tmp_path: Path) -> None:
    ptxas = shutil.which("ptxas")
    if ptxas is None:
        pytest.skip("no ptxas to assemble the kernel with")
    (tmp_path / "add_two.ptx").write_bytes(kernels.PTX.rstrip(b"\0"))
    command = [ptxas, f"-arch={architecture}", "-o", "add_two.cubin", "add_two.ptx"]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr


def test_bindings_have_every_call_that_is_used() -> None:
    runtime = pytest.importorskip("cuda.bindings.runtime", reason="cuda-python is not installed")
    driver = pytest.importorskip("cuda.bindings.driver", reason="cuda-python is not installed")
    source = Path(cuda.__file__).read_text("utf-8") + Path(cuda_stream.__file__).read_text("utf-8")
    for api, module in (("runtime", runtime), ("driver", driver)):
        calls = set(re.findall(rf'self\._{api}\(\s*"(\w+)"', source))
        assert calls
        assert not [call for call in calls if not hasattr(module, call)]
