"""Recording what runs already, and every rank of a launch."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pinprof.analyze import analyze
from pinprof.collect import permission
from pinprof.read import read

pytestmark = pytest.mark.skipif(permission.sampling_errno() != 0, reason="this process may not sample the kernel")

needs_perf = pytest.mark.skipif(shutil.which("perf") is None, reason="perf is not installed")

PINPROF = [sys.executable, "-m", "pinprof"]
PROGRAM = """
import os, time
os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})  # on each processor its recording begins at another time
notes = open("notes", "w", buffering=1)
print("started", flush=True)
while True:
    end = time.process_time() + 0.02
    while time.process_time() < end:
        sum(range(1000))
    time.sleep(0.02)
    print(time.monotonic_ns(), time.process_time_ns(), file=notes)
"""


@pytest.mark.parametrize("sampler", ["native", pytest.param("perf", marks=needs_perf)])
def test_a_running_program_is_recorded_for_a_time_and_goes_on(tmp_path: Path, sampler: str) -> None:
    with subprocess.Popen([sys.executable, "-c", PROGRAM], cwd=tmp_path, stdout=subprocess.PIPE) as program:
        try:
            assert program.stdout is not None
            program.stdout.readline()
            options = ["--with", sampler, "--pid", str(program.pid), "--duration", "0.6s", "--no-report", "-o", "out"]
            subprocess.run([*PINPROF, "record", *options], cwd=tmp_path, check=True, capture_output=True, timeout=120)
            assert program.poll() is None
        finally:
            program.kill()
    manifest = json.loads((tmp_path / "out.pinprof/manifest.json").read_text())
    assert manifest["outcome"]["state"] == "complete"
    assert manifest["outcome"]["duration_ns"] > 500_000_000
    assert manifest["command"][0] == sys.executable
    found = analyze(read(tmp_path / "out.pinprof"))
    on_cpu, off_cpu = found.events[0], found.events[-1]
    assert set(found.capture.samples.pid.tolist()) == {program.pid}
    # A busy machine gives the program few turns in that time; how many, it notes itself. It may begin to record one
    # event long before another.
    samples = found.capture.samples
    numbers = [found.capture.events.index(event.event) for event in (on_cpu, off_cpu)]
    first = max(samples.time_ns[samples.event == number].min() for number in numbers)
    last = samples.time_ns.max()
    notes = [[int(word) for word in line.split()] for line in (tmp_path / "notes").read_text().splitlines()]
    used_ns = [used for noted, used in notes if first < noted < last] or [0]
    assert on_cpu.total > 0.5 * (used_ns[-1] - used_ns[0])
    assert off_cpu.by_leaf.get("wait.sleep", 0) >= 0.9 * 20_000_000 * (len(used_ns) - 1)
    assert found.memory is not None
    assert found.memory.peak["rss"] > 1 << 20


WORKERS = """
import os, time
children = []
for _ in range(2):
    children.append(os.fork())
    if not children[-1]:
        while True:
            sum(range(1000))
print(*children, flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("sampler", ["native", pytest.param("perf", marks=needs_perf)])
def test_children_that_a_running_program_has_are_recorded(tmp_path: Path, sampler: str) -> None:
    with subprocess.Popen([sys.executable, "-c", WORKERS], stdout=subprocess.PIPE, start_new_session=True) as program:
        try:
            assert program.stdout is not None
            workers = {int(word) for word in program.stdout.readline().split()}
            options = ["--with", sampler, "--pid", str(program.pid), "--duration", "1.5s", "--no-report", "-o", "out"]
            # A busy machine may give the recorder no processor for a while.
            roomy = os.environ | {"PINPROF_RING_BYTES": str(32 << 20)}
            subprocess.run(
                [*PINPROF, "record", *options], cwd=tmp_path, env=roomy, check=True, capture_output=True, timeout=120
            )
        finally:
            os.killpg(program.pid, signal.SIGKILL)
    found = analyze(read(tmp_path / "out.pinprof"))
    clock = found.capture.samples.event == 0
    assert set(found.capture.samples.pid[clock].tolist()) >= workers
    # How many samples find no room while the recorder waits for a processor, the machine decides.
    assert {gap.kind for gap in found.gaps} <= {"lost"}


RANK = """
import json, os, socket, struct, time
rank, address = int(os.environ["RANK"]), "meet"
if rank == 0:
    server = socket.socket(socket.AF_UNIX)
    server.bind(address)
    server.listen()
    other = server.accept()[0]
else:
    other = socket.socket(socket.AF_UNIX)
    while other.connect_ex(address):
        time.sleep(0.01)
came, went, waited = [], [], [0.0, 0.0]

def meet():
    other.sendall(struct.pack("d", waited[rank]))
    came.append(time.monotonic_ns())
    waited[1 - rank], = struct.unpack("d", other.recv(8, socket.MSG_WAITALL))
    went.append(time.monotonic_ns())
    return waited[0] < 1.2 or waited[0] < 5 * waited[1]

def fresh():
    for _ in range(8 + len(came) // 10):
        memory = bytearray(b"1") * (8 << 20)

meet()
# On a busy machine the other rank comes late as well, and this one by other lines: until that is little even where it
# happens once and takes long, as both know of each meeting.
while True:
    time.sleep(0.01)
    if rank == 1:
        fresh()
    waiting = meet()
    if not waiting and len(came) > 20:
        break
    waited[rank] = sum(went[1:]) / 1e9 - sum(came[1:]) / 1e9
print(json.dumps([came, went]))
"""


def test_every_rank_of_a_launch_has_a_capture_and_the_answer_names_the_one_that_others_wait_for(tmp_path: Path) -> None:
    program = tmp_path / "train.py"
    program.write_text(RANK)
    ranks = [
        subprocess.Popen(
            [*PINPROF, "record", "--no-report", "--no-calibrate", "--", sys.executable, program],
            cwd=tmp_path,
            env=os.environ | {"RANK": str(number), "WORLD_SIZE": "2"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        for number in range(2)
    ]
    said = [rank.communicate(timeout=120) for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0, 0], said
    (folder,) = tmp_path.glob("*.ranks")
    assert sorted(path.name for path in folder.iterdir()) == ["rank-0.pinprof", "rank-1.pinprof"]
    assert f"pinprof report {folder.name}" in said[0][1].decode()
    manifest = json.loads((folder / "rank-1.pinprof/manifest.json").read_text())
    assert manifest["outcome"]["rank"]["number"] == 1
    options = [folder, "--format", "json", "-o", "out.json"]
    subprocess.run([*PINPROF, "report", *options], cwd=tmp_path, check=True, capture_output=True)
    answer = json.loads((tmp_path / "out.json").read_text())
    assert answer["headline"].startswith("Rank 1 delays the other rank"), answer["headline"]
    assert "train.py:" in answer["headline"].split(". ")[0]
    (hold,) = (hold for hold in answer["holds"] if hold["ranks"] == [1])
    # The other waits for as long as this one comes later; on a busy machine, until it has a processor again as well.
    (soon, gone), (late, _) = ([times[-hold["meetings"] :] for times in json.loads(output)] for output, _ in said)
    assert hold["meetings"] >= 15
    later = sum(max(last - first, 0) for first, last in zip(soon, late, strict=True))
    waited = sum(after - before for before, after in zip(soon, gone, strict=True))
    assert 0.9 * later <= hold["cost_ns"] <= 1.1 * waited
    assert {line["function"] for line in hold["lines"][:1]} == {"fresh"}
