#!/usr/bin/env python3
"""The sampler of Transformer-VQ's reference implementation and tvq-bench in turns, on the same cores.

    git clone https://github.com/transformer-vq/transformer_vq && pip install jax flax
    reference_sampler.py --reference transformer_vq --tvq-bench build/release/bin/tvq-bench --batches 1,8 \\
        --ours "--dtype bfloat16" --ours "--dtype int8 --state-read-dtype int8"

Random weights in the shape of the reference's enwik8 script: 24 layers of two attentions, d_model 768, d_k 128, d_v
1536, 512 codes and blocks of 512. The reference runs its own `sample_op`, compiled before it is timed: one token a
step, all codes and the whole window read at every one. Ours has a context injected that is as full. A ratio is the
median of the rounds' ratios.
"""

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

from peers import numbers, run, spread


def reference(folder: Path, precision: str, tokens: int):
    """speed(batch): tokens/s of all sequences together."""
    sys.path.insert(0, str(folder / "src"))
    import jax
    import jax.numpy as jnp

    clip = jnp.clip  # whose keywords have other names since the reference was written
    jnp.clip = lambda x, min=None, max=None, a_min=None, a_max=None: clip(
        x, a_min if min is None else min, a_max if max is None else max)
    from transformer_vq.nn.model import Transformer
    from transformer_vq.nn.types import TransformerConfig
    from transformer_vq.nn.vq import VQSpec
    from transformer_vq.ops.sample import sample_op

    def config(**changed):
        return TransformerConfig.create(**dict(
            param_dtype="float32", dtype=precision, global_batch_size=1, sequence_len=tokens, update_len=2048,
            block_len=1, mem_len=512, grad_thru_cache=True, agg_cache=True, d_model=768, d_k=128, d_v=1536, d_ff=0,
            n_head=1, n_code=512, n_layer=24, n_vocab=256, pe_abs=False, pe_lam=100_000, p_dropemb=0.0, p_dropsin=0.2,
            p_dropres=0.5, p_droplyr=0.3, p_nucleus=0.9, c_beta=0.0001, c_gamma=0.99, e_tie=False, e_preln=False,
            e_scale=1.0, is_train=False) | changed)

    training = config(block_len=8, is_train=True)
    zeros = jnp.zeros([1, 8], jnp.int32)
    keys = dict(zip(("params", "ephemeral", "timeless"), jax.random.split(jax.random.PRNGKey(0), 3)))
    params = Transformer(training).init(
        keys, inputs=zeros, doc_ids=zeros, state=Transformer.initial_state(config=training, batch_size=1),
        vq_spec=VQSpec.create(n_device=jnp.array([1]), n_block_per_update=jnp.array([1]), loss_mask=zeros + 1))["params"]
    print(f"reference: {sum(x.size for x in jax.tree_util.tree_leaves(params)) / 1e6:.1f} M parameters", flush=True)
    params = jax.tree_util.tree_map(lambda x: x[None], params)  # a leading axis of devices
    rng = jax.random.split(jax.random.PRNGKey(1), 1)

    def sample(batch):
        sample_op(config(global_batch_size=batch), 0, params, rng).block_until_ready()

    compiled = set()

    def speed(batch):
        if batch not in compiled:
            sample(batch)
            compiled.add(batch)
        start = time.perf_counter()
        sample(batch)
        return batch * tokens / (time.perf_counter() - start)

    return speed


def ours(bench, flags, seconds):
    """speeds(batches): {batch: tokens/s}."""

    def speeds(batches):
        with tempfile.TemporaryDirectory() as folder:
            report = Path(folder) / "report.json"
            run([bench, "decode", "--preset", "enwik8", "--context", "100000", "--batch", ",".join(map(str, batches)),
                 "--rounds", "1", "--seconds", str(seconds), "--json", str(report), *flags.split()])
            return {case["batch"]: case["tokens_per_second"] for case in json.loads(report.read_text())["cases"]}

    return speeds


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--reference", required=True, type=Path, help="a clone of transformer_vq")
    parser.add_argument("--tvq-bench", required=True)
    parser.add_argument("--ours", action="append", metavar="FLAGS", help="of tvq-bench decode; may be repeated")
    parser.add_argument("--precision", default="float32", choices=["float32", "bfloat16"], help="of the reference")
    parser.add_argument("--batches", type=numbers, default=[1, 8])
    parser.add_argument("--tokens", type=int, default=16, help="that the reference samples in a round")
    parser.add_argument("--seconds", type=float, default=0.7, help="that we generate in a round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", help="write what was measured to this file")
    args = parser.parse_args()

    theirs = reference(args.reference, args.precision, args.tokens)
    sides = {flags: ours(args.tvq_bench, flags, args.seconds) for flags in args.ours or ["--dtype bfloat16"]}
    rounds = []
    for number in range(args.rounds):
        found = {"reference": {batch: theirs(batch) for batch in args.batches}}
        found |= {flags: speeds(args.batches) for flags, speeds in sides.items()}
        rounds.append(found)
        print(f"round {number + 1} of {args.rounds}: {json.dumps(found)}", file=sys.stderr, flush=True)

    rows = []
    print(f"{'sessions':>8} {'tokens/s':>9} {'least to most':>16} {'times the reference':>20} {'least to most':>16}")
    for batch in args.batches:
        for name in rounds[0]:
            speed = spread([r[name][batch] for r in rounds])
            times = spread([r[name][batch] / r["reference"][batch] for r in rounds])
            rows.append({"batch": batch, "side": name, "tokens_per_second": speed, "times": times})
            print(f"{batch:8} {speed['median']:9.1f} {speed['min']:7.1f} to {speed['max']:5.1f} {times['median']:20.1f} "
                  f"{times['min']:7.1f} to {times['max']:5.1f}  {name}")
    if args.json:
        Path(args.json).write_text(json.dumps({"command": sys.argv, "rows": rows, "rounds": rounds}, indent=2))


if __name__ == "__main__":
    main()
