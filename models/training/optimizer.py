"""Muon for the matrices of the layers, AdamW for everything else.

Muon (Jordan 2024) replaces the momentum of a matrix by the nearest orthogonal one, found by a quintic Newton-Schulz
iteration, so that all directions of a matrix learn at one rate.
"""

import torch

MATRICES = ("_proj.weight", "mlp_up.weight", "mlp_down.weight")


def orthogonalize(matrices: torch.Tensor, steps: int = 5) -> torch.Tensor:
    """[n, rows, cols] -> about the nearest matrices with singular values 1 (0.7 to 1.2), in bfloat16."""
    tall = matrices.shape[-2] > matrices.shape[-1]
    x = matrices.bfloat16()
    x = x.transpose(-1, -2) if tall else x
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(steps):
        gram = x @ x.transpose(-1, -2)
        x = 3.4445 * x + (-4.7750 * gram + 2.0315 * gram @ gram) @ x
    return x.transpose(-1, -2) if tall else x


class Muon(torch.optim.Optimizer):
    """For parameters [out, in]. Those of equal shape are handled in one batched product."""

    def __init__(self, parameters, lr=0.02, momentum=0.95, weight_decay=0.0):
        super().__init__(parameters, dict(lr=lr, momentum=momentum, weight_decay=weight_decay))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            by_shape = {}
            for parameter in group["params"]:
                if parameter.grad is not None:
                    by_shape.setdefault(parameter.shape, []).append(parameter)
            for shape, parameters in by_shape.items():
                self._step_same_shape(group, shape, parameters)

    def _step_same_shape(self, group, shape, parameters):
        momentum, updates = group["momentum"], []
        for parameter in parameters:
            state = self.state[parameter]
            if not state:
                state["momentum"] = torch.zeros_like(parameter)
            state["momentum"].mul_(momentum).add_(parameter.grad)
            updates.append(parameter.grad + momentum * state["momentum"])
        directions = orthogonalize(torch.stack(updates))
        rate = group["lr"] * max(1.0, shape[0] / shape[1]) ** 0.5
        for parameter, direction in zip(parameters, directions):
            parameter.mul_(1 - group["lr"] * group["weight_decay"]).add_(direction.to(parameter.dtype), alpha=-rate)


def build_optimizers(model, muon_rate: float, adam_rate: float, weight_decay: float):
    """[Muon, AdamW]; every parameter group remembers its full rate in `peak`."""
    matrices, others = [], []
    for name, parameter in model.named_parameters():
        (matrices if name.startswith("layers.") and name.endswith(MATRICES) else others).append(parameter)
    muon = Muon(matrices, lr=muon_rate, weight_decay=weight_decay)
    adam = torch.optim.AdamW(others, lr=adam_rate, betas=(0.9, 0.95), eps=1e-10, weight_decay=0.0)
    for optimizer in (muon, adam):
        for group in optimizer.param_groups:
            group["peak"] = group["lr"]
    return [muon, adam]


def rate_factor(fraction: float, step: int, warmup_steps: int, cooldown_from: float, floor: float) -> float:
    """Linear warm-up over steps, then constant, then linear down to `floor` at fraction 1 of the training."""
    warm = min(1.0, (step + 1) / max(1, warmup_steps))
    done = min(1.0, max(0.0, (fraction - cooldown_from) / (1 - cooldown_from)))
    return warm * (1 - (1 - floor) * done)
