"""Captures are named after what runs, not after what runs it."""

from __future__ import annotations

import pytest

from pinprof.cli.naming import name_of


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("python train.py", "train"),
        ("/usr/bin/python3.11 -u -X importtime -W error dir/train.py --epochs 3", "train"),
        ("python -m pkg.mod --fast", "mod"),
        ("python -m pkg.__main__", "pkg"),
        ("python -c print(1)", "python"),
        ("python -uc print(1)", "python"),
        ("python", "python"),
        ("python -", "python"),
        ("python -O -I train.py", "train"),
        ("bash -o pipefail run.sh", "run"),
        ("python train", "train"),
        ("python3 train.v2.py", "train.v2"),
        ("torchrun --nproc-per-node 4 --standalone train.py --lr 1", "train"),
        ("torchrun -m pkg.train", "train"),
        ("python -m torch.distributed.run --nproc-per-node 4 train.py", "train"),
        ("python -m torch.distributed.run", "run"),
        ("python -m cProfile -o out.prof train.py", "train"),
        ("accelerate launch --num_processes 2 finetune.py", "finetune"),
        ("uv run train.py", "train"),
        ("env OMP_NUM_THREADS=1 python train.py", "train"),
        ("numactl -N 0 ./bench", "numactl"),
        ("timeout 10 python -m pkg.mod", "mod"),
        ("bash run.sh", "run"),
        ("sh -c true", "sh"),
        ("./run.sh a b", "run"),
        ("./train.py", "train"),
        ("/opt/app/server-1.2", "server-1.2"),
        ("./a.out", "a.out"),
    ],
)
def test_a_capture_is_named_after_the_script(command: str, name: str) -> None:
    assert name_of(command.split()) == name
