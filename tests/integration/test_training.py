"""Recorded steps of a training: by a schedule, and with Lightning, the Hugging Face Trainer and Ray Train."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import pinprof
from pinprof import training
from pinprof.base.errors import CollectError, ToolMissing, UsageError
from pinprof.data.model import Capture
from pinprof.read import ReadOptions, read

ROOT = Path(__file__).parents[2]
SHORT = {"off_cpu": False}


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def recorded(steps: pinprof.RecordedSteps) -> list[Capture]:
    return [read(path, ReadOptions()) for path in steps.paths]


def ranges_of(capture: Capture) -> list[str]:
    return sorted(capture.ranges.name)


def test_the_schedule_is_that_of_the_profiler_of_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    now: list[bool] = []

    class Recording:
        path = None

        def __enter__(self) -> Recording:
            now.append(True)
            return self

        def __exit__(self, *_: object) -> None:
            now.pop()

    monkeypatch.setattr("pinprof.api.record", lambda **_: Recording())
    steps = pinprof.steps(wait=2, warmup=1, active=2, repeat=2)
    seen = []
    with steps:
        for _ in range(14):
            seen.append(bool(now))
            steps.step()
    assert seen == [*[False, False, False, True, True] * 2, *[False] * 4]
    assert not now


def test_active_steps_are_one_capture_whose_ranges_they_are(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "pinprof")
    with pinprof.steps(wait=1, active=2, **SHORT) as steps:
        for _ in range(5):
            bytearray(1 << 20)
            steps.step()
    (capture,) = recorded(steps)
    assert ranges_of(capture) == ["step", "step", "steps"]
    assert steps.metrics[training.SAVING] >= 0
    assert f"pinprof report {steps.paths[0]}" in caplog.text


def test_a_loop_that_ends_early_keeps_what_it_recorded() -> None:
    with pytest.raises(KeyError), pinprof.steps(active=5, **SHORT) as steps:  # noqa: PT012 - the block is the loop
        steps.step()
        raise KeyError
    (capture,) = recorded(steps)
    assert ranges_of(capture) == ["step", "step", "steps"]


def test_calls_of_a_decorated_function_are_steps() -> None:
    steps = pinprof.steps(wait=1, active=1, **SHORT)

    @steps
    def step(number: int) -> int:
        return number + 1

    assert [step(number) for number in range(4)] == [1, 2, 3, 4]
    assert len(steps.paths) == 1
    assert training.SAVING in steps.metrics


def test_nothing_is_recorded_unless_enabled() -> None:
    with pinprof.steps(active=1, enabled=False) as steps:
        steps.step()
    assert (steps.paths, steps.metrics) == ([], {})


def test_what_keeps_pinprof_from_recording_is_a_warning(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(**_: Any) -> None:
        raise CollectError("The kernel refuses.", "Ask it.", "recording")

    monkeypatch.setattr("pinprof.api.record", refuse)
    with pinprof.steps(active=2) as steps:
        for _ in range(3):
            steps.step()
    assert caplog.text.count("pinprof records no more steps: The kernel refuses.") == 1


@pytest.mark.parametrize("numbers", [{"active": 0}, {"wait": -1}, {"repeat": -1}])
def test_numbers_that_are_no_schedule_are_refused(numbers: dict[str, int]) -> None:
    with pytest.raises(UsageError, match="at least one active step"):
        pinprof.steps(**numbers)


def test_without_a_library_its_callback_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(ToolMissing, match="transformers is not installed"):
        training.hugging_face(None)


@pytest.mark.parametrize(("rank", "captures"), [(1, 1), (0, 0)])
def test_lightning_calls_the_callback_and_logs_what_it_found(
    rank: int, captures: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hooks in the order in which Lightning calls them; the real library runs below, where it is installed."""
    monkeypatch.setitem(sys.modules, "lightning.pytorch", SimpleNamespace(Callback=object))
    logged: list[tuple[dict[str, float], int]] = []
    logger = SimpleNamespace(log_metrics=lambda metrics, step: logged.append((metrics, step)))
    trainer = SimpleNamespace(global_rank=rank, loggers=[logger], global_step=3)
    callback = training.lightning(ranks=[1], wait=1, active=2, **SHORT)
    callback.on_train_start(trainer, None)
    for number in range(3):
        callback.on_train_batch_end(trainer, None, None, None, number)
    callback.on_train_end(trainer, None)
    assert [path.name.startswith("steps-rank-1-") for path in callback.steps.paths] == [True] * captures
    assert [(set(metrics), step) for metrics, step in logged] == [({training.SAVING}, 3)] * captures


@pytest.mark.filterwarnings("ignore")
def test_lightning_trains_with_it(place: Path) -> None:
    lightning = pytest.importorskip("lightning.pytorch", reason="Lightning is not installed")
    torch = pytest.importorskip("torch", reason="torch is not installed")
    from lightning.pytorch.loggers import CSVLogger

    class Model(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(4, 1)

        def training_step(self, batch: Any, _: int) -> Any:
            return self.layer(batch).mean()

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), 0.1)

    callback = training.lightning(wait=2, active=3, **SHORT)
    trainer = lightning.Trainer(
        max_steps=6, accelerator="cpu", logger=CSVLogger(place), callbacks=[callback], log_every_n_steps=1,
        enable_progress_bar=False,
    )  # fmt: skip
    trainer.fit(Model(), torch.utils.data.DataLoader(torch.randn(16, 4)))
    (capture,) = recorded(callback.steps)
    assert ranges_of(capture).count("step") == 3
    assert training.SAVING in next(place.rglob("metrics.csv")).read_text()


@pytest.mark.filterwarnings("ignore")
def test_the_hugging_face_trainer_trains_with_it(place: Path) -> None:
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    torch = pytest.importorskip("torch", reason="torch is not installed")
    pytest.importorskip("accelerate", reason="accelerate is not installed")

    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(4, 1)

        def forward(self, x: Any, labels: Any = None) -> dict[str, Any]:
            found = self.layer(x)
            return {"loss": found.mean(), "logits": found}

    rows = [{"x": torch.randn(4), "labels": torch.zeros(1)} for _ in range(64)]
    settings = transformers.TrainingArguments(
        str(place / "out"), max_steps=6, use_cpu=True, report_to=[], save_strategy="no", disable_tqdm=True
    )
    trainer = transformers.Trainer(Model(), settings, train_dataset=rows)
    callback = training.hugging_face(trainer, wait=2, active=3, **SHORT)
    trainer.add_callback(callback)
    trainer.train()
    (capture,) = recorded(callback.steps)
    assert ranges_of(capture).count("step") == 3
    assert training.SAVING in trainer.state.log_history[-1]


def ray_worker(monkeypatch: pytest.MonkeyPatch, rank: int, storage: str) -> None:
    context = SimpleNamespace(
        get_world_rank=lambda: rank, get_storage=lambda: SimpleNamespace(experiment_fs_path=storage)
    )
    monkeypatch.setitem(sys.modules, "ray.train", SimpleNamespace(get_context=lambda: context))


@pytest.mark.parametrize(("rank", "captures"), [(1, ["steps-rank-1.pinprof"]), (0, [])])
def test_a_worker_of_ray_records_into_the_storage_of_its_run(
    rank: int, captures: list[str], place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ray's worker is a stand-in; the real library runs below, where it is installed."""
    storage = place / "storage"
    storage.mkdir()
    ray_worker(monkeypatch, rank, str(storage))
    with training.ray_train(ranks=[1], active=1, **SHORT) as steps:
        steps.step()
    assert sorted(path.name for path in storage.glob("*.pinprof")) == captures
    assert set(steps.metrics) == ({training.SAVING} if captures else set())


def test_storage_on_another_machine_is_not_written_to(monkeypatch: pytest.MonkeyPatch) -> None:
    ray_worker(monkeypatch, 0, "bucket/of/an/object/store")
    with training.ray_train(active=1, **SHORT) as steps:
        steps.step()
    assert [path.parent for path in steps.paths] == [Path()]


RAY = """
import ray
from ray import train
from ray.train.torch import TorchTrainer
from pinprof import training

def loop(config):
    with training.ray_train(ranks=[1], wait=2, active=3, off_cpu=False) as steps:
        for _ in range(6):
            bytearray(1 << 20)
            steps.step()
    train.report({"loss": 1.0, **steps.metrics})

ray.init(num_cpus=8, include_dashboard=False)
workers = train.ScalingConfig(num_workers=2)
place = train.RunConfig(storage_path=STORAGE, name="run")
TorchTrainer(loop, scaling_config=workers, run_config=place).fit()
ray.shutdown()
"""


def test_ray_trains_with_it(place: Path) -> None:
    pytest.importorskip("ray", reason="Ray is not installed")
    pytest.importorskip("torch", reason="torch is not installed")
    (place / "program.py").write_text(f"STORAGE = {str(place / 'storage')!r}\n{RAY}")
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "RAY_memory_monitor_refresh_ms": "0"}
    environment["RAY_raylet_start_wait_time_s"] = "300"  # a busy machine takes longer than Ray waits by itself
    with tempfile.TemporaryDirectory(dir="/tmp") as short:  # names of sockets have at most 107 characters
        done = subprocess.run(
            [sys.executable, "program.py"],
            env=environment | {"RAY_TMPDIR": short},
            capture_output=True,
            text=True,
            check=False,
            timeout=600,
        )
    assert done.returncode == 0, done.stderr[-3000:]
    (capture,) = (place / "storage/run").glob("*.pinprof")
    assert capture.name == "steps-rank-1.pinprof"
    assert ranges_of(read(capture, ReadOptions())).count("step") == 3
