"""Classifies batches that a worker of a DataLoader makes, with convolutions on the CPU."""

import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Pictures(Dataset):
    def __init__(self, count):
        self.base = torch.rand(64, 3, 64, 64)
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, number):
        return self.base[number % 64] * (1 + number / self.count)


def network():
    layers, channels = [], 3
    for width in (32, 64, 64, 128):
        layers += [nn.Conv2d(channels, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU(), nn.MaxPool2d(2)]
        channels = width
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(128 * 16, 100)).eval()


if __name__ == "__main__":
    torch.set_num_threads(1)
    model, found = network(), 0
    loader = DataLoader(Pictures(960), batch_size=16, num_workers=1)
    with torch.inference_mode():
        begun = time.monotonic()
        for batch in loader:
            found += int(model(batch).argmax(1).sum())
        print("seconds", time.monotonic() - begun, found)
