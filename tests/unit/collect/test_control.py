"""A recorder that is asked: its answers, and what becomes of one that gives none."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from pinprof.collect.control import Control


@pytest.fixture
def control(tmp_path: Path) -> Control:
    return Control(tmp_path)


def test_every_command_is_sent_when_the_one_before_is_acknowledged(control: Control) -> None:
    heard: list[bytes] = []

    def recorder() -> None:
        ctl, ack = (os.open(path, os.O_RDWR) for path in (control.ctl, control.ack))
        for _ in range(2):
            heard.append(os.read(ctl, 64))
            os.write(ack, b"ack\n")
        os.close(ctl)
        os.close(ack)

    thread = threading.Thread(target=recorder)
    thread.start()
    assert control.ask("ping", "describe", looks=10_000, gone=lambda: False)
    thread.join()
    assert heard == [b"ping\n", b"describe\n"]


def test_a_recorder_that_is_silent_or_gone_is_not_waited_for(control: Control) -> None:
    looks: list[bool] = []
    assert not control.ask("ping", looks=3, gone=lambda: looks.append(True))  # type: ignore[func-returns-value]
    assert len(looks) == 3
    assert not control.ask("ping", looks=10_000, gone=lambda: True)
