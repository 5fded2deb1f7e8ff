"""Optimizers by calls written once for both libraries, and where torch's arrive.

`python -m tests.optim.torchs`, where torch is, prints the numbers of torch 2.13 anew.
"""

from __future__ import annotations

from typing import Any

START = [1.5, -2.0, 0.25]
SCALES = [1.0, 0.5, 3.0]
STEPS = 20

# The class, its keywords, and the parameter after 20 steps.
ROWS: list[tuple[str, dict[str, Any], list[float]]] = [
    (
        "SGD",
        {"lr": 0.1, "momentum": 0.9, "dampening": 0.4},
        [-0.363817172, -1.209741679, -0.029888783],
    ),
    (
        "Adagrad",
        {"lr": 0.1, "lr_decay": 0.2},
        [1.108058771, -1.622720311, -0.063863218],
    ),
    (
        "SGD",
        {"lr": 0.1, "momentum": 0.9, "dampening": 0.4, "maximize": True},
        [-0.363817172, -1.209741679, -0.029888783],
    ),
    (
        "Adagrad",
        {"lr": 0.1, "lr_decay": 0.2, "maximize": True},
        [1.108058771, -1.622720311, -0.063863218],
    ),
    ("SGD", {"lr": 0.1, "maximize": True}, [-0.436681518, -0.764932434, -0.164418936]),
    (
        "SGD",
        {"lr": 0.05, "momentum": 0.9, "nesterov": True, "maximize": True},
        [-0.312612007, -0.920398444, -0.160559901],
    ),
    (
        "SGD",
        {"lr": 0.05, "momentum": 0.0, "dampening": 0.5, "maximize": True},
        [-0.214943503, -0.924220287, -0.164144445],
    ),
    (
        "Adadelta",
        {"lr": 0.5, "maximize": True},
        [1.465203407, -1.965403774, 0.216063573],
    ),
    (
        "RMSprop",
        {"lr": 0.01, "momentum": 0.5, "centered": True, "maximize": True},
        [0.159396675, -0.934132557, -0.164256339],
    ),
    (
        "RMSprop",
        {"lr": 0.01, "maximize": True},
        [0.7704228, -1.337480981, -0.152983928],
    ),
    ("Adam", {"lr": 0.1, "maximize": True}, [-0.324575997, -0.498797468, -0.066995346]),
    (
        "Adam",
        {"lr": 0.1, "amsgrad": True, "maximize": True},
        [-0.324575997, -0.498948664, -0.06700474],
    ),
    (
        "AdamW",
        {"lr": 0.1, "weight_decay": 0.0, "maximize": True},
        [-0.324575997, -0.498797468, -0.066995346],
    ),
    (
        "SGD",
        {"lr": 0.1, "momentum": 0.9, "dampening": 0.4, "weight_decay": 0.3},
        [-0.61760457, -1.057218814, -0.064001033],
    ),
    (
        "Adagrad",
        {"lr": 0.1, "lr_decay": 0.2, "weight_decay": 0.3},
        [1.109280505, -1.620695194, -0.061648333],
    ),
    (
        "SGD",
        {
            "lr": 0.1,
            "momentum": 0.9,
            "dampening": 0.4,
            "weight_decay": 0.3,
            "maximize": True,
        },
        [-0.61760457, -1.057218814, -0.064001033],
    ),
    (
        "Adagrad",
        {"lr": 0.1, "lr_decay": 0.2, "weight_decay": 0.3, "maximize": True},
        [1.109280505, -1.620695194, -0.061648333],
    ),
    (
        "SGD",
        {"lr": 0.1, "weight_decay": 0.3, "maximize": True},
        [-0.394186853, -0.640616484, -0.156783278],
    ),
    (
        "SGD",
        {
            "lr": 0.05,
            "momentum": 0.9,
            "nesterov": True,
            "weight_decay": 0.3,
            "maximize": True,
        },
        [-0.339169293, -0.821563549, -0.153497791],
    ),
    (
        "SGD",
        {
            "lr": 0.05,
            "momentum": 0.0,
            "dampening": 0.5,
            "weight_decay": 0.3,
            "maximize": True,
        },
        [-0.23744132, -0.78028119, -0.1566079],
    ),
    (
        "Adadelta",
        {"lr": 0.5, "weight_decay": 0.3, "maximize": True},
        [1.465222122, -1.965378766, 0.216084464],
    ),
    (
        "RMSprop",
        {
            "lr": 0.01,
            "momentum": 0.5,
            "centered": True,
            "weight_decay": 0.3,
            "maximize": True,
        },
        [0.179647656, -0.890634458, -0.15669164],
    ),
    (
        "RMSprop",
        {"lr": 0.01, "weight_decay": 0.3, "maximize": True},
        [0.775693424, -1.32767726, -0.146665128],
    ),
    (
        "Adam",
        {"lr": 0.1, "weight_decay": 0.3, "maximize": True},
        [-0.305852796, -0.433685133, -0.058835645],
    ),
    (
        "Adam",
        {"lr": 0.1, "amsgrad": True, "weight_decay": 0.3, "maximize": True},
        [-0.305852796, -0.433895094, -0.058846549],
    ),
    (
        "AdamW",
        {"lr": 0.1, "weight_decay": 0.3, "maximize": True},
        [-0.466478763, -0.334315738, -0.082909542],
    ),
]


def called(optimizers: Any, name: str, parameter: Any, keywords: dict[str, Any]) -> Any:
    """An optimizer of a library by torch's name or by that which it has here."""
    known = getattr(optimizers, name, None) or optimizers.RMSProp
    return known([parameter], **keywords)


def main() -> None:
    """Print the rows with torch's numbers."""
    import torch

    for name, keywords, _ in ROWS:
        p = torch.tensor(START, dtype=torch.float64, requires_grad=True)
        scales = torch.tensor(SCALES, dtype=torch.float64)
        optimizer = called(torch.optim, name, p, keywords)
        sign = -1.0 if keywords.get("maximize") else 1.0
        for _ in range(STEPS):
            optimizer.zero_grad()
            (sign * (p * p * scales + torch.sin(p)).sum()).backward()
            optimizer.step()
        print(f"    {(name, keywords, [round(x, 9) for x in p.tolist()])},")


if __name__ == "__main__":
    main()
