"""An ordinary training: ResNet-50 on generated images, without a line that knows of cloudrun."""

from __future__ import annotations

import argparse
import time

import torch
from resnet import ResNet50
from torch import nn


def images(count: int, size: int, classes: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Noise with one bright stripe per class: (count, 3, size, size) and labels (count,). Learnable, and nothing to download."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(0, classes, (count,), generator=generator)
    data = 0.3 * torch.randn(count, 3, size, size, generator=generator)
    step = size // classes
    for index, label in enumerate(labels.tolist()):
        data[index, :, label * step : (label + 1) * step] += 1.0
    return data, labels


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=90)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--size", type=int, default=32)
    parser.add_argument("--classes", type=int, default=4)
    parser.add_argument("--lr", type=float, default=0.002)
    arguments = parser.parse_args()
    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = ResNet50(arguments.classes).to(device)
    optimizer = torch.optim.SGD(model.parameters(), arguments.lr, momentum=0.9)
    data, labels = images(64, arguments.size, arguments.classes, seed=1)
    print(f"ResNet-50, {sum(p.numel() for p in model.parameters()) / 1e6:.1f} M parameters, on {device}, 训练开始", flush=True)
    for epoch in range(arguments.epochs):
        began, total = time.monotonic(), 0.0
        for start in range(0, len(data), arguments.batch):
            x, y = data[start : start + arguments.batch].to(device), labels[start : start + arguments.batch].to(device)
            loss = nn.functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item() * len(x)
            print(f"\repoch {epoch + 1:3d}  {min(start + arguments.batch, len(data)):3d}/{len(data)}", end="", flush=True)
        speed = len(data) / (time.monotonic() - began)
        print(f"\repoch {epoch + 1:3d}  loss {total / len(data):.4f}  {speed:.1f} images/s", flush=True)


if __name__ == "__main__":
    main()
