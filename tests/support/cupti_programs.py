"""Programs with the agent and a CUPTI of the tests, and the file that each leaves."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from pinprof.machine.libraries import INSIDE, compiler
from pinprof.read import cupti_file
from pinprof.read.cupti_file import GpuFile

SUPPORT = Path(__file__).parent

PROGRAM = """
import ctypes, os, signal, sys, time
fake = ctypes.CDLL({fake!r}) if {loaded} else None
driver = ctypes.CDLL({driver!r}) if {loaded} else None
injection = ctypes.CDLL({injection!r})
assert injection.InitializeInjection() == 1
fake = fake or ctypes.CDLL({fake!r})
def deliver(data):
    return fake.fake_deliver(data, ctypes.c_size_t(len(data)))
class Counts(ctypes.Structure):
    _fields_ = [(name, ctypes.c_int32) for name in
                "subscribed unsubscribed finalized flushed enabled disabled unified refused unsafe".split()]
counts = Counts.in_dll(fake, "fake_counts")
fake.fake_call.restype = ctypes.c_void_p
def call():
    return ctypes.c_void_p(fake.fake_call(282))
def wait_until(true):
    end = time.monotonic() + 600
    while not true():
        assert time.monotonic() < end
        time.sleep(0.01)
def written():
    (name,) = os.listdir(os.environ["PINPROF_GPU"])
    with open(os.path.join(os.environ["PINPROF_GPU"], name), "rb") as file:
        return int.from_bytes(file.read(32)[24:], "little")
{code}
"""


class Running:
    """Builds the libraries once, and runs programs with them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.injection = INSIDE.compile_into(folder)
        self.fake = folder / "libcupti.so.13"
        command = [*compiler(), "-shared", "-fPIC", "-O1", "-Wl,-soname,libcupti.so.13", str(SUPPORT / "fake_cupti.c")]
        subprocess.run([*command, "-o", str(self.fake)], check=True)
        self.driver = folder / "libcuda.so.1"
        command = [*compiler(), "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", str(SUPPORT / "fake_cuda_driver.c")]
        link = [str(self.fake), f"-Wl,-rpath,{folder}"]
        subprocess.run([*command, *link, "-o", str(self.driver)], check=True)

    def text(self, code: str, *, loaded: bool = True, program: str = PROGRAM) -> str:
        """The program that runs some code."""
        return program.format(
            fake=str(self.fake), driver=str(self.driver), injection=str(self.injection), loaded=loaded, code=code
        )

    def __call__(
        self,
        code: str,
        *,
        loaded: bool = True,
        status: int = 0,
        named: str | None = None,
        budget: str = "",
        resumes: bool = True,
    ) -> GpuFile:
        """The file that a program leaves; with `loaded` it has loaded CUPTI before the library comes."""
        place = self.folder / "gpu"
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
        program = self.text(code, loaded=loaded)
        environment = {
            **os.environ,
            "PINPROF_GPU": str(place),
            "PINPROF_CUPTI": named or str(self.fake),
            "PINPROF_GPU_BUDGET": budget,
            **({"PINPROF_GPU_WINDOWS": "1"} if resumes else {}),
        }
        done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)
        assert done.returncode == status, done.stderr
        (path,) = place.iterdir()
        file = cupti_file.load(path)
        assert file is not None
        return file
