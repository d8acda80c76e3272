"""Muon for the matrices of the layers, AdamW for everything else.

Muon (Jordan 2024) replaces the momentum of a matrix by the nearest orthogonal one, found by a quintic Newton-Schulz
iteration, so that all directions of a matrix learn at one rate.
"""

import torch


def orthogonalize(matrices: torch.Tensor, steps: int = 5) -> torch.Tensor:
    """[n, rows, cols] -> about the nearest matrices whose singular values are all 1 (here 0.7 to 1.2), in bfloat16."""
    tall = matrices.shape[-2] > matrices.shape[-1]
    x = matrices.bfloat16()
    x = x.transpose(-1, -2) if tall else x
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(steps):
        gram = x @ x.transpose(-1, -2)
        x = 3.4445 * x + (-4.7750 * gram + 2.0315 * gram @ gram) @ x
    return x.transpose(-1, -2) if tall else x


class Muon(torch.optim.Optimizer):
    """For parameters [out, in]. Parameters of equal shape, also if one is transposed, are handled in one batched product.

    `lr` may be a tensor without axes, which is then read on its device."""

    def __init__(self, parameters, lr=0.02, momentum=0.95, weight_decay=0.0):
        super().__init__(parameters, dict(lr=lr, momentum=momentum, weight_decay=weight_decay))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            by_shape = {}
            for parameter in group["params"]:
                if parameter.grad is not None:
                    by_shape.setdefault(tuple(sorted(parameter.shape)), []).append(parameter)
            for parameters in by_shape.values():
                self._step_same_shape(group, parameters)

    def _step_same_shape(self, group, parameters):
        for parameter in parameters:
            if not self.state[parameter]:
                self.state[parameter]["momentum"] = torch.zeros_like(parameter)
        gradients = [parameter.grad for parameter in parameters]
        momenta = [self.state[parameter]["momentum"] for parameter in parameters]
        torch._foreach_mul_(momenta, group["momentum"])
        torch._foreach_add_(momenta, gradients)
        updates = torch._foreach_add(gradients, momenta, alpha=group["momentum"])
        directions = orthogonalize(torch.stack([wide(update) for update in updates])).to(parameters[0].dtype)
        kept = 1 - group["lr"] * group["weight_decay"]
        for parameter, step in zip(parameters, directions * group["lr"]):
            rows, columns = parameter.shape
            step = step if rows <= columns else step.t() * (rows / columns) ** 0.5
            parameter.mul_(kept).sub_(step)


def wide(matrix: torch.Tensor) -> torch.Tensor:
    return matrix if matrix.shape[0] <= matrix.shape[1] else matrix.t()


def build_optimizers(model, muon_rate: float, adam_rate: float, weight_decay: float):
    """-> [Muon, AdamW]; every parameter group keeps its full rate in `peak`. On a GPU rates are tensors on the device, so that a
    captured step reads their current values each time."""
    projections = {id(module.weight) for module in model.layers.modules() if isinstance(module, torch.nn.Linear)}
    matrices = [parameter for parameter in model.parameters() if id(parameter) in projections]
    others = [parameter for parameter in model.parameters() if id(parameter) not in projections]
    on_device = others[0].device.type == "cuda"
    muon = Muon(matrices, lr=muon_rate, weight_decay=weight_decay)
    adam = torch.optim.AdamW(others, lr=adam_rate, betas=(0.9, 0.95), eps=1e-10, weight_decay=0.0,
                             **(dict(capturable=True) if on_device else {}))
    for optimizer in (muon, adam):
        for group in optimizer.param_groups:
            group["peak"] = group["lr"]
            if on_device:
                group["lr"] = torch.tensor(group["lr"], device=others[0].device)
    return [muon, adam]


def set_rates(optimizers, factor: float) -> None:
    """Sets every group's rate to `factor` times its full rate."""
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            if isinstance(group["lr"], torch.Tensor):
                group["lr"].fill_(group["peak"] * factor)
            else:
                group["lr"] = group["peak"] * factor


def load_optimizer(optimizer, saved: dict) -> None:
    """Loads what state_dict() gave, perhaps on another device. Rates stay where this optimizer keeps them."""
    for group, into in zip(saved["param_groups"], optimizer.param_groups):
        group.update({name: into[name] for name in ("lr", "capturable") if name in into})
    optimizer.load_state_dict(saved)


def rate_factor(fraction: float, step: int, warmup_steps: int, cooldown_from: float, floor: float) -> float:
    """A linear warm-up over steps, then constant, then from `cooldown_from` on linear down to `floor` at fraction 1 of the
    training. No cooldown if `cooldown_from` is 1 or more."""
    warm = min(1.0, (step + 1) / max(1, warmup_steps))
    if cooldown_from >= 1:
        return warm
    done = min(1.0, max(0.0, (fraction - cooldown_from) / (1 - cooldown_from)))
    return warm * (1 - (1 - floor) * done)
