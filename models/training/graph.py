"""Training steps as CUDA graphs: for each step the host launches one graph instead of about a thousand single kernels.

A graph has its inputs and outputs at fixed addresses, and does the same with them each time it is launched.
"""

import contextlib

import torch

IN_A_ROW = 3  # steps of one shape before it is captured: by then optimizers and compiled layers have allocated their memory


class CapturedSteps:
    """Calls `step(tokens, context, asked)`, which must work on tensors alone and never wait for the device. The first steps of
    a shape run as they are, later ones as a graph. A shape that comes only once in a row (the last batch of an epoch) is not
    worth a graph, nor compiled layers. All work goes through one stream, which is made the current one.
    """

    def __init__(self, step, device):
        if device.type != "cuda" or not hasattr(torch, "compiler") or not hasattr(torch.compiler, "set_stance"):
            raise ValueError(f"steps are captured on a CUDA device by PyTorch 2.6 or later, not on {device} by "
                             f"{torch.__version__}")
        self.step, self.device, self.graphs = step, device, {}
        self.last, self.in_a_row = None, 0  # the shapes of the last step, and how many steps in a row had them
        self.stream = torch.cuda.Stream(device)
        self.stream.wait_stream(torch.cuda.current_stream(device))  # the stream on which the model was made
        torch.cuda.set_stream(self.stream)

    def __call__(self, tokens, context, asked):
        """tokens [B, T+1] on the host, context a State on the device, or None -> the state after, valid until the next call"""
        parts = tensors_of(context)
        key = (tokens.shape, str(asked), *((part.shape, part.dtype) for part in parts))
        tokens, before = tokens.pin_memory(), self.in_a_row if key == self.last else 0
        if key not in self.graphs and before < IN_A_ROW:
            with torch.compiler.set_stance("force_eager") if before == 0 else contextlib.nullcontext():
                after = self.step(tokens.to(self.device, non_blocking=True), context, asked)
            self.last, self.in_a_row = key, before + 1
            return after
        if key not in self.graphs:
            self.graphs[key] = Captured(self.step, self.stream, tokens.to(self.device), context, asked)
        self.last, self.in_a_row = key, before + 1
        return self.graphs[key](tokens, parts)


class Captured:
    """The graph of a step of one shape."""

    def __init__(self, step, stream, tokens, context, asked):
        self.tokens = tokens
        self.context = None if context is None else context._replace(
            position=context.position.clone(),
            layers=[type(layer)(*(part.clone() for part in layer)) for layer in context.layers])
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, stream=stream):
            self.after = step(self.tokens, self.context, asked)

    def __call__(self, tokens, context_parts):
        self.tokens.copy_(tokens, non_blocking=True)
        for into, part in zip(tensors_of(self.context), context_parts):
            into.copy_(part)
        self.graph.replay()
        return self.after


def tensors_of(state) -> list:
    """The tensors of a State; none for None."""
    return [] if state is None else [state.position, *(part for layer in state.layers for part in layer)]
