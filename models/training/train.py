"""Training, resumable at any moment: run the same command again after a kill.

    python3 -m models.training.train text --data FOLDER --tokenizer FILE.model --out RUN --minutes 90
    python3 -m models.training.train couplets --data PAIRS.tsv.xz --out RUN --minutes 40
    python3 -m models.training.train images --data IMAGES-idx3-ubyte.xz --out RUN --minutes 40
    python3 -m models.training.train recall --out RUN --steps 2000

FOLDER holds train/*.txt and validation/*.txt. RUN gets checkpoint.pt (everything), best.pt (best validation) and
validations.jsonl (all of them).
"""

import argparse
import json
import math
import pathlib
import signal
import sys
import time

import torch
import torch.nn.functional as F

from models.training.config import BLOCKS, KINDS, POSITION_BIASES, ModelConfig
from models.training.data.batch import Batch
from models.training.data.couplets import Couplets, read_pairs, vocabulary
from models.training.data.images import Images, parse_shape, read_images
from models.training.data.memory_tasks import Copy, Recall
from models.training.data.text import Text
from models.training.families import build, read_config
from models.training.files import checkpoint
from models.training.graph import CapturedSteps
from models.training.model import UNITS
from models.training.optimizer import build_optimizers, load_optimizer, rate_factor, set_rates
from models.training.progress import Progress
from models.training.recurrent.model import FAMILIES
from models.training.recurrent.options import fields_of


def parse_stage(text: str):
    """FROM:BATCHxLENGTH[:RESTART] -> (fraction of the training where it begins, batch, length, chance of a fresh context)"""
    begin, shape, *restart = text.split(":")
    batch, length = shape.split("x")
    return float(begin), int(batch), int(length), float(restart[0]) if restart else 1.0


READ_EVERY = 16  # captured steps between two reads of their losses, which wait for the device
QUADRATIC_UP_TO = 128  # tokens; for longer whole sequences the block form is faster


class Trainer:
    """One training run. `step` is one optimizer step; not for use by several threads."""

    def __init__(self, config, task, options):
        torch.manual_seed(options.seed)
        self.options, self.task = options, task
        self.device = torch.device(options.device)
        self.model = build(config).to(self.device)
        self.model.set_dropout(options.dropout)
        task.prepare(self.model)
        self.optimizers = build_optimizers(self.model, options.muon_rate, options.adam_rate, options.weight_decay)
        self.stage, self.source, self.contexts = None, None, {}
        self.steps, self.tokens, self.seconds, self.best = 0, 0, 0.0, math.inf
        self.totals, self.read_at, self.numbers = torch.zeros(3, dtype=torch.float64, device=self.device), 0, {}
        if options.compile:
            self.model.compile_layers()
        self._forget_captured()

    def _forget_captured(self):
        self.captured = CapturedSteps(self._learn, self.device) if self.options.graph else None

    def fraction(self) -> float:
        """The fraction of the training that is done, by steps or by the seconds spent on training (also before a restart)."""
        if self.options.minutes:
            return self.seconds / (60 * self.options.minutes)
        return self.steps / self.options.steps

    def _enter_stage(self):
        number = max(n for n, begin in enumerate(self.task.stages) if n == 0 or begin <= self.fraction())
        if number != self.stage:
            self.stage, self.contexts = number, {}
            self.source = self.task.source(number, self.options.seed + number)

    def _context(self, batch: Batch):
        if batch.context is None:
            return None
        return self.model.initial_state(len(batch.tokens)) if batch.fresh else self.contexts[batch.context]

    def step(self) -> dict:
        """One optimizer step. Returns loss (nats per target), commitment, revived codes, rate factor. For captured steps these
        are means from the last read, some steps ago."""
        began = time.monotonic()
        self._enter_stage()
        batch = self.source.next()
        factor = rate_factor(self.fraction(), self.steps, self.options.warmup, self.options.cooldown_from, 0.02)
        set_rates(self.optimizers, factor)
        if self.captured is not None:
            state = self.captured(batch.tokens, self._context(batch), batch.asked)
        else:
            state = self._learn(batch.tokens.to(self.device), self._context(batch), batch.asked)
        if batch.context is not None:
            self.contexts[batch.context] = compact(state)
        self.steps += 1
        self.tokens += batch.tokens.numel() - len(batch.tokens)
        if self.captured is None or self.steps % READ_EVERY == 0:
            self.read()
        self.seconds += time.monotonic() - began
        return {**self.numbers, "rate": factor}

    def _learn(self, tokens, context, asked):
        """The work of a step on the device, tokens [B, T+1]; nothing here waits for the device. Returns the state after the
        tokens if they continue a context."""
        if context is None and tokens.shape[1] > QUADRATIC_UP_TO:  # shorter sequences take the quadratic form, without padding
            state = self.model.initial_state(len(tokens))
        else:
            state = context
        for optimizer in self.optimizers:
            optimizer.zero_grad(set_to_none=True)
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.options.bfloat16):
            output = self.model(tokens[:, :-1], state)
            logits, targets = output.logits[:, asked], tokens[:, 1:][:, asked]
            loss = F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())
        (loss + self.options.commitment * output.auxiliary).backward()
        for optimizer in self.optimizers:
            optimizer.step()
        revived = self.model.after_step(output.seen)
        for total, number in zip(self.totals, (loss.detach(), output.auxiliary.detach(), revived)):
            total.add_(number)
        return None if context is None else output.state

    def read(self) -> None:
        """Waits for the device and reads the means of the steps since the last read. FloatingPointError if one of their losses
        was not a number."""
        count = self.steps - self.read_at
        if count == 0:
            return
        means = [total / count for total in self.totals.tolist()]
        self.totals.zero_()
        self.read_at = self.steps
        self.numbers = dict(zip(("loss", "commitment", "revived"), means))
        if not math.isfinite(self.numbers["loss"]):
            raise FloatingPointError(f"the loss became {self.numbers['loss']} by step {self.steps}")

    def state_dict(self) -> dict:
        self.read()  # raises if a loss was not a number, so that such a state is not saved
        return {
            "config": self.model.config.to_json(), "model": self.model.state_dict(),
            "optimizers": [optimizer.state_dict() for optimizer in self.optimizers],
            "torch_random": torch.get_rng_state(),
            "device_random": torch.cuda.get_rng_state(self.device) if self.device.type == "cuda" else None,
            "stage": self.stage, "source": self.source.state_dict() if self.source else None,
            "contexts": self.contexts,
            "steps": self.steps, "tokens": self.tokens, "seconds": self.seconds, "best": self.best,
        }

    def load_state_dict(self, saved: dict):
        self.model.load_state_dict(saved["model"])
        for optimizer, state in zip(self.optimizers, saved["optimizers"]):
            load_optimizer(optimizer, state)
        self._forget_captured()  # the optimizers' states have other addresses now
        torch.set_rng_state(saved["torch_random"])
        if self.device.type == "cuda" and saved.get("device_random") is not None:
            torch.cuda.set_rng_state(saved["device_random"], self.device)
        self.steps, self.tokens, self.seconds = saved["steps"], saved["tokens"], saved["seconds"]
        self.best, self.read_at = saved["best"], self.steps
        self.stage = None
        if saved["source"]:
            self._enter_stage()
            if self.stage == saved["stage"]:
                self.source.load_state_dict(saved["source"])
                self.contexts = {name: move(context, self.device) for name, context in saved["contexts"].items()}


def move(state, device):
    layers = [type(layer)(*(part.to(device) for part in layer)) for layer in state.layers]
    return state._replace(position=state.position.to(device), layers=layers)


def compact(state):
    """Copies the tensors: a view would keep (and save) the whole segment from which it was cut.

    The copies have the strides of initial_state's tensors, so that a compiled model is compiled for one kind of state only.
    """
    copy = lambda tensor: tensor.detach().clone(memory_format=torch.contiguous_format)
    layers = [type(layer)(*map(copy, layer)) for layer in state.layers]
    return state._replace(position=copy(state.position), layers=layers)


def run(trainer: Trainer, options):
    out, stop = pathlib.Path(options.out), []
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.append(True))
    progress = Progress(sys.stderr)
    saved_at = time.monotonic()
    while trainer.fraction() < 1 and not stop:
        numbers = trainer.step()
        progress.show(trainer.fraction(), f"step {trainer.steps}  {trainer.seconds / 60:.1f} min  "
                      f"{trainer.tokens / max(trainer.seconds, 1e-9):.0f} tokens/s  rate {numbers['rate']:.3f}", numbers)
        if trainer.steps % options.validate_every == 0 or trainer.fraction() >= 1:
            value = trainer.task.validate(trainer.model)
            progress.note(f"step {trainer.steps}, {trainer.seconds / 60:.1f} min, {trainer.tokens} tokens: "
                          f"validation {value:.4f} {trainer.task.unit}")
            with open(out / "validations.jsonl", "a", encoding="utf-8") as file:
                print(json.dumps({"step": trainer.steps, "seconds": trainer.seconds, "tokens": trainer.tokens,
                                  "value": value}), file=file)
            if value < trainer.best:
                trainer.best = value
                checkpoint.save(out / "best.pt", {"config": trainer.model.config.to_json(), "steps": trainer.steps,
                                                  "model": trainer.model.state_dict(), "validation": value,
                                                  "tokens": trainer.tokens, "seconds": trainer.seconds})
        if time.monotonic() - saved_at > options.save_seconds:
            checkpoint.save(out / "checkpoint.pt", trainer.state_dict())
            saved_at = time.monotonic()
    checkpoint.save(out / "checkpoint.pt", trainer.state_dict())
    progress.note("stopped by a signal" if stop else "done")


def add_task_options(p: argparse.ArgumentParser) -> None:
    p.add_argument("task", choices=sorted(TASKS))
    p.add_argument("--data", type=pathlib.Path,
                   help="text: folder with train/*.txt and validation/*.txt; couplets: tab-separated pairs; images: idx file or "
                        "bytes; copy and recall make their own")
    p.add_argument("--tokenizer", type=pathlib.Path, help="text: SentencePiece model file (default: bytes)")
    p.add_argument("--stages", type=parse_stage, nargs="+", default=[(0.0, 1, 4096, 0.25)],
                   help="text: FROM:BATCHxLENGTH[:RESTART]: from this fraction of the training on, batches of this shape; "
                        "a context is carried over segments and starts afresh with probability RESTART (default 1)")
    p.add_argument("--groups", type=int, default=8, help="text: batches of passages that take turns")
    p.add_argument("--validate-tokens", type=int, default=16384, help="text: tokens of each validation document")
    p.add_argument("--batch-tokens", type=int, default=4096, help="of all but text: tokens of a batch, about")
    p.add_argument("--levels", type=int, default=256, help="images: levels of a pixel's grey, or of each of its channels")
    p.add_argument("--image-shape", type=parse_shape, metavar="HEIGHTxWIDTHxCHANNELS",
                   help="images: of a file of bytes that is no idx file; of one, must be what its header says")
    p.add_argument("--symbols", type=int, default=10, help="copy")
    p.add_argument("--longest", type=int, default=128, help="copy: symbols of the longest sequence")
    p.add_argument("--pairs", type=int, default=8, help="recall: most of keys and values, and as many in a validation")
    p.add_argument("--farthest", type=int, default=100, help="recall: most tokens between a pair and its key asked for again")


def add_shape_options(p: argparse.ArgumentParser) -> None:
    p.add_argument("--model-type", choices=[*(kind for kind in KINDS if UNITS[kind].causal), *FAMILIES],
                   default="transformer_vq", help="the kind of attention, or a public family with recurrent layers")
    p.add_argument("--block", choices=BLOCKS, default=BLOCKS[0])
    p.add_argument("--d-ff", type=int,
                   help="standard block, rwkv7 and qwen3_5_text: width inside the MLP (default 4 times d-model)")
    p.add_argument("--d-model", type=int, default=256)
    p.add_argument("--d-k", type=int, default=64)
    p.add_argument("--d-v", type=int, default=512)
    p.add_argument("--n-head", type=int, default=1, help="d-k and d-v are per head")
    p.add_argument("--n-kv-head", type=int, help="key/value heads (default: as many as query heads; mamba2: 1)")
    p.add_argument("--attention-every", type=int, default=4, help="qwen3_5_text: every so-manyth layer has attention; 0: none")
    p.add_argument("--n-code", type=int, default=128)
    p.add_argument("--sigma", type=float, default=0.5, help="soft_codebook: width of a code")
    p.add_argument("--n-feature", type=int, default=256, help="performer")
    p.add_argument("--n-layer", type=int, default=6)
    p.add_argument("--block-len", type=int, default=64, help="block length, and without --mem-len the reach")
    p.add_argument("--mem-len", type=int, help="reach of the positional bias")
    p.add_argument("--position-bias", choices=POSITION_BIASES["transformer_vq"], default="relative",
                   help="vq and softmax: what tells distances within the reach apart")
    p.add_argument("--pe-abs", action="store_true", help="add a scaled sinusoid of the position to the embedding")


def add_step_options(p: argparse.ArgumentParser) -> None:
    p.add_argument("--minutes", type=float, default=0, help="length of the training in minutes of training time")
    p.add_argument("--steps", type=int, default=9000, help="length of the training in steps, without --minutes")
    p.add_argument("--muon-rate", type=float, default=0.02)
    p.add_argument("--adam-rate", type=float, default=4e-3)
    p.add_argument("--weight-decay", type=float, default=0.1, help="of the projections, times their rate")
    p.add_argument("--dropout", type=float, default=0.0, help="chance of each number that a layer's branch adds to be left out")
    p.add_argument("--commitment", type=float, default=1e-4)
    p.add_argument("--warmup", type=int, default=100, help="steps")
    p.add_argument("--cooldown-from", type=float, default=0.4, help="fraction of the training; 1: no cooldown")
    p.add_argument("--device", default="cpu", help="a PyTorch device: cpu, cuda, cuda:1")
    p.add_argument("--threads", type=int, default=0)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--float32", dest="bfloat16", action="store_false", help="no bfloat16 autocast")
    p.add_argument("--compile", action="store_true", help="torch.compile of the layers, PyTorch 2 only")
    p.add_argument("--graph", action="store_true",
                   help="steps as CUDA graphs, while batches have one shape; PyTorch 2.6, with --device cuda")


def parser() -> argparse.ArgumentParser:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_task_options(p)
    p.add_argument("--out", type=pathlib.Path, required=True, help="folder of checkpoints; resumes from what is there")
    add_shape_options(p)
    add_step_options(p)
    p.add_argument("--validate-every", type=int, default=500, help="steps")
    p.add_argument("--save-seconds", type=float, default=60)
    return p


def couplets(options) -> Couplets:
    pairs = read_pairs(options.data)
    characters = vocabulary(pairs)
    options.out.mkdir(parents=True, exist_ok=True)
    characters.save(options.out / "characters.txt")
    return Couplets(pairs, characters, options.batch_tokens)


# What each task trains on: an object with config_fields(), stages, source(), prepare(), validate(), unit, size.
TASKS = {
    "text": Text.from_options,
    "couplets": couplets,
    "images": lambda options: Images(read_images(options.data, options.image_shape), options.levels, options.batch_tokens),
    "copy": lambda options: Copy(options.batch_tokens, options.symbols, options.longest),
    "recall": lambda options: Recall(options.batch_tokens, options.pairs, options.farthest),
}
MAKE_THEIR_DATA = ("copy", "recall")
SET_A_BIAS = ("couplets", "images")  # of the logits, to the frequencies of the data


def config_of(options, task):
    """The model that the options describe. Options of other kinds and blocks are left out."""
    if options.model_type in FAMILIES:
        return read_config({**fields_of(options), **task.config_fields()})
    kind = KINDS[options.model_type]
    special = {"n_code": options.n_code, "block_len": options.block_len, "mem_len": options.mem_len or options.block_len,
               "position_bias": options.position_bias, "sigma": options.sigma, "n_feature": options.n_feature}
    special = {name: value for name, value in special.items() if name in kind.required + kind.optional}
    if options.block == "standard":
        special.update(block="standard", d_ff=options.d_ff or 4 * options.d_model)
    return ModelConfig(
        model_type=options.model_type, d_model=options.d_model, d_k=options.d_k, d_v=options.d_v, n_head=options.n_head,
        n_kv_head=options.n_kv_head, n_layer=options.n_layer, pe_abs=options.pe_abs, tie_word_embeddings=True,
        output_norm=True, logit_scale=options.d_model ** -0.5, prefill_chunk=256, **special, **task.config_fields())


def main():
    p = parser()
    options = p.parse_args()
    if options.data is None and options.task not in MAKE_THEIR_DATA:
        p.error(f"{options.task} needs --data")
    if options.model_type in FAMILIES and options.task in SET_A_BIAS:
        p.error(f"{options.task} sets the bias of the logits, which a {options.model_type} lacks")
    options.out.mkdir(parents=True, exist_ok=True)
    if options.threads:
        torch.set_num_threads(options.threads)
    task = TASKS[options.task](options)
    config = config_of(options, task)
    if options.bfloat16 and torch.device(options.device).type == "cuda":
        # Matrix products that autocast leaves in float32 use TF32, among them the distances of keys to codes. TF32 has more
        # digits than bfloat16 but fewer than the engine, so in training a key between two codes may get the other code.
        torch.set_float32_matmul_precision("high")
    trainer = Trainer(config, task, options)
    parameters = sum(parameter.numel() for parameter in trainer.model.parameters())
    print(f"{parameters} parameters, {task.size} training tokens, PyTorch {torch.__version__}", flush=True)
    if (options.out / "checkpoint.pt").exists():
        trainer.load_state_dict(checkpoint.load(options.out / "checkpoint.pt"))
        print(f"resumed at step {trainer.steps}", flush=True)
    run(trainer, options)


if __name__ == "__main__":
    main()
