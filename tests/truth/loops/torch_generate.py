"""Generates tokens one by one with a small transformer on the CPU, after weights were read from a file."""

import tempfile
import time

import torch
from torch import nn

torch.set_num_threads(1)


def build():
    layer = nn.TransformerEncoderLayer(256, 4, 1024, batch_first=True, dropout=0.0)
    return nn.ModuleDict(
        {"embed": nn.Embedding(8000, 256), "body": nn.TransformerEncoder(layer, 6), "head": nn.Linear(256, 8000)}
    )


@torch.inference_mode()
def generate(model, tokens, count):
    for _ in range(count):
        hidden = model["body"](model["embed"](tokens))
        following = model["head"](hidden[:, -1]).argmax(-1, keepdim=True)
        tokens = torch.cat([tokens, following], 1)
    return tokens


with tempfile.NamedTemporaryFile() as file:
    torch.save(build().state_dict(), file.name)
    model = build()
    model.load_state_dict(torch.load(file.name))
model.eval()
prompt = torch.randint(0, 8000, (1, 32))
generate(model, prompt, 2)
begun = time.monotonic()
result = generate(model, prompt, 80)
print("seconds", time.monotonic() - begun, result.shape)
