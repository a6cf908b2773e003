from __future__ import annotations

import getpass
import json
import os
import platform
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from pinprof.base.zstd import ZstdDecompressor
from pinprof.collect import counters, host, kallsyms, permission
from pinprof.doctor import machine
from pinprof.machine.whereabouts import Whereabouts
from pinprof.streams.store import KALLSYMS

SMI = """#!/bin/sh
case "$1" in
--version) printf 'DRIVER version      : 580.159.04\\nCUDA Version        : 13.0\\n';;
--query-gpu*) echo 'NVIDIA H200, 143771, 580.159.04, 00000000:1B:00.0, 5, 5, 16, 16, Enabled'
              echo 'NVIDIA H200, [N/A], 580.159.04, 00000000:1C:00.0, 1, 5, 8, 16, [N/A]';;
*) echo asked for the table;;
esac
"""
OLD_SMI = """#!/bin/sh
test "$1" = --version && exit 2
echo '| NVIDIA-SMI 470.82.01   Driver Version: 470.82.01   CUDA Version: 11.4  |'
"""


@pytest.fixture
def nvidia_smi(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "nvidia-smi").write_text(SMI)
    (tmp_path / "nvidia-smi").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")


def test_the_facts_are_this_machines_and_plain_json() -> None:
    facts = host.facts()
    assert facts["kernel"] == platform.release()
    assert facts["memory_bytes"] == os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert facts["cores"] == len(os.sched_getaffinity(0))
    assert json.loads(json.dumps(facts)) == facts


def test_the_facts_name_neither_machine_nor_user() -> None:
    words = json.dumps(host.facts())
    for name in {socket.gethostname(), getpass.getuser()}:
        assert f'"{name}"' not in words


@pytest.mark.usefixtures("nvidia_smi")
def test_gpus_come_with_link_and_memory_and_unknown_stays_unknown() -> None:
    first, second = host.gpus()
    assert first["name"] == "NVIDIA H200"
    assert first["memory_bytes"] == 143771 << 20
    assert (first["link_generation"], first["link_width"]) == (5, 16)
    assert second["memory_bytes"] is None
    assert second["persistence"] is None
    assert host.cuda_driver() == "13.0"


@pytest.mark.usefixtures("nvidia_smi")
def test_drivers_that_say_no_version_are_asked_for_the_table(tmp_path: Path) -> None:
    (tmp_path / "nvidia-smi").write_text(OLD_SMI)
    assert host.cuda_driver() == "11.4"


@pytest.mark.usefixtures("nvidia_smi")
def test_a_card_with_fewer_lanes_than_it_has_is_a_warning() -> None:
    link = machine._link()
    assert link.state == "warning"
    assert "PCIe 1 ×8 (at most 5 ×16)" in link.found


@pytest.mark.parametrize(
    ("choices", "word"), [("always [madvise] never", "madvise"), ("", None), (None, None), ("always", None)]
)
def test_the_chosen_word_is_the_one_in_brackets(choices: str | None, word: str | None) -> None:
    assert host.chosen(choices) == word


def test_counters_grow_with_the_faults_of_a_program() -> None:
    before = counters.read()
    # Shared memory: huge pages would be few faults.
    code = "import mmap\nb = mmap.mmap(-1, 16 << 20)\nfor i in range(0, len(b), 4096): b[i] = 1"
    subprocess.run([sys.executable, "-c", code], check=True)
    growth = counters.growth(before, counters.read())
    assert growth["pgfault"] >= 4096
    assert growth["cpu_steal_ns"] >= 0


@pytest.mark.slow
def test_kernel_symbols_are_saved_the_same_way_each_time(tmp_path: Path) -> None:
    if kallsyms.hidden():
        assert "kptr_restrict" in kallsyms.save(tmp_path)
        pytest.skip("this kernel hides its addresses")
    assert kallsyms.save(tmp_path) == ""
    first = (tmp_path / KALLSYMS).read_bytes()
    assert b" T schedule\n" in ZstdDecompressor().decompress(first)
    assert kallsyms.save(tmp_path) == ""
    assert (tmp_path / KALLSYMS).read_bytes() == first


def test_hidden_addresses_are_noted_with_the_fix(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    zeros = tmp_path / "zeros"
    zeros.write_text("0000000000000000 T _stext\n0000000000000000 T schedule\n")
    monkeypatch.setattr(kallsyms, "SOURCE", zeros)
    monkeypatch.setattr(permission, "here", Whereabouts)
    assert "sysctl kernel.kptr_restrict=0" in kallsyms.save(tmp_path)
    assert not (tmp_path / KALLSYMS).exists()
