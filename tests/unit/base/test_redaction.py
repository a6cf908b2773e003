"""Secrets in command lines are replaced, whoever names them; other words stay, as far as they can be told apart."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinprof.base.redaction import REDACTED, redacted
from pinprof.streams import store

SECRET = "zq7Vw2LkX9pTb4Rn"
"""Looks like nothing in particular: only its place tells it."""


@pytest.mark.parametrize(
    "command",
    [
        "train --token {} --epochs 3",
        "train --token={}",
        "train -token {}",
        "train --hf-token {} --hf_token={}",
        "train --api-key={} --api_key {} --apikey {}",
        "train --password '{} with blanks' --verbose",
        "train --dbPassword {} --authToken={} --secretKey {}",
        "train KEY={} HF_TOKEN={} WANDB_API_KEY={}",
        "env PASSWORD={} PGPASSWORD={} MYSQL_PWD={} AWS_SECRET_ACCESS_KEY={} train",
        "env 'PASSWORD={} with blanks' train",
        "train model.api_key={} +logger.token={}",
        "sh -c 'TOKEN={} exec train --password {} --lr 1e-3 --secret={}'",
        'python -c \'login(token="{}"); PASSWORD = "{}"\'',
        'train \'{{"api_key": "{}", "epochs": 3}}\'',
        "curl -H 'Authorization: Bearer {}' -H 'X-Auth-Token: {}' https://x",
        "curl -H 'authorization: Basic {}' -H 'Cookie: session={}; theme=dark'",
        "curl -u me:{} https://x",
        "curl 'https://x/data?token={}&part=1' 'https://x/data?part=1&X-Amz-Signature={}'",
        "git clone https://me:{}@host/repository https://{}@host/repository",
        "train --data postgres://me:{}@host:5432/base --broker amqp://me:p@{}@host",
        "train Bearer {}",
        "train hf_{0}{0}",
        "train sk-{} sk-proj-{} sk-ant-{}",
        "train ghp_{} gho_{} github_pat_{} glpat-{}",
        "train xoxb-{} nvapi-{} npm_{} AIza{} ya29.{}",
        "train eyJ{0}.eyJ{0}.{0}",
        "train '-----BEGIN RSA PRIVATE KEY-----\n{}'",
    ],
)
def test_no_secret_is_left(command: str) -> None:
    words = shlex.split(command.format(*[SECRET] * 5))
    shown = redacted(words)
    assert SECRET not in " ".join(shown)
    assert REDACTED in " ".join(shown)
    assert len(shown) == len(words)
    assert redacted(shown) == shown


@pytest.mark.parametrize(
    "word", ["AKIAIOSFODNN7EXAMPLE", "ASIAIOSFODNN7EXAMPLE", "hf_SECRET_abcdefghijklmnopqrstuvwxyz"]
)
def test_well_known_tokens_are_told_by_how_they_begin(word: str) -> None:
    assert redacted(("train", word)) == ("train", REDACTED)
    assert redacted(("train", f"--name=x,{word}")) == ("train", f"--name=x,{REDACTED}")


def test_everything_else_of_the_words_stays() -> None:
    given = shlex.split(f"sh -c 'TOKEN={SECRET} python train.py --password \"{SECRET}\" --lr 1e-3'")
    assert redacted(given)[2] == f'TOKEN={REDACTED} python train.py --password "{REDACTED}" --lr 1e-3'
    assert redacted(("git", "clone", f"https://{SECRET}@host/x.git")) == (
        "git",
        "clone",
        f"https://{REDACTED}@host/x.git",
    )
    assert redacted(("train", f"postgres://me:{SECRET}@host/b")) == ("train", f"postgres://me:{REDACTED}@host/b")


@pytest.mark.parametrize(
    "command",
    [
        "python train.py --epochs 3 --lr=1e-3 data/train.bin",
        "python bench.py --tokenizer bert-base --max-tokens 512 --max_token=512 --num-tokens 5 --pad-token '<pad>'",
        "python bench.py --key-file ~/.ssh/id --password-file=p --token-path=t --secrets-dir /run/secrets",
        "python hf_transformers_benchmark.py sk-learn-models/run.py hf_transformers_with_long_names/run.py",
        "python -c 'rows = sorted(rows, key=len)'",
        "train --auth --token --verbose",
        "torchrun --rdzv-endpoint=host:29500 --nproc-per-node 8 train.py a:b https://host:443/x ./path/to:9",
        "train model=gpt2 data.root=/x 'x == y' keys=a,b monkey=3 tokens=9 passes=2",
        "curl -u me https://me.example/x",
        "",
    ],
)
def test_what_is_no_secret_stays(command: str) -> None:
    words = tuple(shlex.split(command))
    assert redacted(words) == words


@pytest.mark.slow
@given(st.lists(st.text(max_size=60), max_size=6))
def test_any_command_has_as_many_words_and_is_stable(words: list[str]) -> None:
    shown = redacted(words)
    assert len(shown) == len(words)
    assert redacted(shown) == shown


@pytest.mark.slow
@pytest.mark.parametrize("part", ["a.", "a-", "hf_", "eyJ", "a:", "--token ", "x=", "https://a:", '"', "key='"])
def test_a_command_of_any_length_is_read_once(part: str) -> None:
    (shown,) = redacted((part * 100_000,))  # for hours, if its square counted
    assert shown


def test_manifests_hold_no_secrets_whoever_wrote_them(tmp_path: Path) -> None:
    command = ("train", "--token", SECRET)
    collectors = (
        {"name": "x", "command": list(command)},
        {"name": "y", "command": f"perf record train --token {SECRET}"},
    )
    made = store.new_manifest(command=command, collectors=collectors)
    assert SECRET not in repr(made)
    writer = store.CaptureWriter.create(tmp_path / "run", made)
    path = writer.finish(made)
    assert SECRET not in (path / store.MANIFEST).read_text()
    old = json.loads((path / store.MANIFEST).read_text()) | {"command": command, "collectors": collectors}
    (path / store.MANIFEST).write_text(json.dumps(old))
    found = store.read_manifest(path)
    assert found.command == ("train", "--token", REDACTED)
    assert SECRET not in repr(found)
    assert found.collectors[0]["name"] == "x"
