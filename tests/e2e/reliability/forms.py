"""The scenarios, each with its long form (scripts/reliability) and its short one (test_reliability.py; those of published
models, published/)."""

from published_models import NotFetched, published

from reliability import (
    addresses,
    admission,
    canary,
    clock,
    disturbance,
    endurance,
    fairness,
    kill,
    nonfinite,
    operations,
    outage,
    replicas,
    resets,
)
from reliability.world import CONVERTED, NOVELS, CannotRunHere

# So little memory, for the tiny model, the novels' and the converted one, that most of the sessions and their marks
# lie on disk alone when they are wanted.
SCARCE = ["--state-memory-bytes", 1 << 20, "--session-host-bytes", 1 << 18]
# A page of its keys and values, of 256 tokens, has 5.9 MB.
SCARCE_SMOLLM2 = ["--max-model-len", 1024, "--state-memory-bytes", 96 << 20, "--session-host-bytes", 24 << 20]
SCARCE_CONVERTED = ["--state-memory-bytes", 3 << 19, "--session-host-bytes", 3 << 17]
SCARCE_NOVELS = ["--state-memory-bytes", 112 << 20, "--session-host-bytes", 28 << 20]

# name -> (what is run, long form, short form)
FORMS = {
    "kill": (kill.run, {"rounds": 200, "sessions": 64}, {"rounds": 6, "sessions": 16}),
    "operations": (operations.run, {"operations": 10_000, "sessions": 64, "restarts": 40, "flags": SCARCE},
                   {"operations": 300, "sessions": 64, "restarts": 3, "flags": SCARCE}),
    "kill-novels": (kill.run, {"rounds": 60, "sessions": 32, "model": NOVELS},
                    {"rounds": 2, "sessions": 8, "model": NOVELS}),
    "operations-novels": (operations.run, {"operations": 2_000, "sessions": 64, "restarts": 8, "flags": SCARCE_NOVELS,
                                           "model": NOVELS},
                          {"operations": 80, "sessions": 32, "restarts": 2, "flags": SCARCE_NOVELS,
                           "model": NOVELS}),
    # Calls of so many tokens take sessions beyond their rings, of at most 128 positions, and the 256 tokens of the training.
    "kill-converted": (kill.run, {"rounds": 100, "sessions": 64, "most_tokens": 64, "flags": SCARCE_CONVERTED,
                                  "model": CONVERTED},
                       {"rounds": 3, "sessions": 32, "most_tokens": 64, "flags": SCARCE_CONVERTED, "model": CONVERTED}),
    "operations-converted": (operations.run, {"operations": 5_000, "sessions": 64, "restarts": 20, "most_tokens": 64,
                                              "flags": SCARCE_CONVERTED, "model": CONVERTED},
                             {"operations": 200, "sessions": 64, "restarts": 2, "most_tokens": 64,
                              "flags": SCARCE_CONVERTED, "model": CONVERTED}),
    "redis": (outage.run_outages, {"outages": 40, "sessions": 32, "load_seconds": 2},
              {"outages": 4, "sessions": 8, "load_seconds": 0.5}),
    "handover": (outage.run_handover, {"steps": 5_000, "sessions": 32}, {"steps": 200, "sessions": 8}),
    "fencing": (outage.run_fencing, {"rounds": 100}, {"rounds": 3}),
    "replicas": (replicas.run_kills, {"kills": 60, "sessions": 32, "load_seconds": 3},
                 {"kills": 3, "sessions": 8, "load_seconds": 1}),
    "gateway": (replicas.run_kills_behind_gateway, {"kills": 60, "sessions": 32, "load_seconds": 3},
                {"kills": 3, "sessions": 8, "load_seconds": 1}),
    "cuts": (replicas.run_cuts, {"cuts": 60}, {"cuts": 3}),
    "disk": (disturbance.run_full_disk, {"fills": 20}, {"fills": 2}),
    "cancels": (disturbance.run_cancels, {"cancels": 10_000}, {"cancels": 200}),
    "readers": (disturbance.run_slow_readers, {"readers": 16, "tokens": 20_000}, {"readers": 3, "tokens": 2_000}),
    "fairness": (fairness.run,
                 {"streams": 70, "of_a_key": 500, "quick": 21, "seconds": 10, "long_tokens": 1_000_000, "grace": 30},
                 {"streams": 70, "of_a_key": 500, "quick": 3, "seconds": 2, "long_tokens": 200_000, "grace": 3}),
    "admission": (admission.run, {"prompt": 9 << 20, "prompts": 1 << 24, "quick": 100, "large": 50},
                  {"prompt": 9 << 10, "prompts": 1 << 14, "quick": 5, "large": 5}),
    "resets": (resets.run, {"storms": 10, "streams": 200_000, "at_once": 16},
               {"storms": 2, "streams": 100_000, "at_once": 2}),
    "addresses": (addresses.run, {"seconds": 600},
                  {"seconds": 3, "keys": [True], "timed": False}),
    "queue": (canary.run_queue, {"requests": 10_000}, {"requests": 1_000}),
    "canary": (canary.run, {"steps": 1_000_000, "sessions": 32}, {"steps": 10_000, "sessions": 8}),
    "nonfinite": (nonfinite.run, {"steps": 400, "sessions": 16}, {"steps": 40, "sessions": 16}),
    "clock": (clock.run, {"jumps": 10, "restarts": 12, "sessions": 32}, {"jumps": 2, "restarts": 2, "sessions": 16}),
    "soak": (endurance.run_soak, {"tokens": 1_000_000}, {"tokens": 20_000}),
    "idle": (endurance.run_idle, {"idle": 10_000, "active": 8, "tokens": 20_000, "runs": 101, "device_bytes": 64 << 20,
                                  "host_bytes": 16 << 20},
             {"idle": 1_600, "active": 8, "tokens": 2_000, "runs": 2, "device_bytes": 1 << 20,
              "host_bytes": 1 << 20}),
}

# The same of models that are fetched, by the name in models/catalog.json.
PUBLISHED = {
    "kill-smollm2": (kill.run, {"rounds": 60, "sessions": 16, "model": "smollm2"},
                     {"rounds": 2, "sessions": 8, "model": "smollm2"}),
    "operations-smollm2": (operations.run, {"operations": 2_000, "sessions": 64, "restarts": 8,
                                            "flags": SCARCE_SMOLLM2, "model": "smollm2"},
                           {"operations": 40, "sessions": 16, "restarts": 1, "flags": SCARCE_SMOLLM2,
                            "model": "smollm2"}),
}

# Names for several: attacks on a server that others use.
GROUPS = {"attacks": ["fairness", "admission", "resets", "addresses"]}


def run_form(api, name, short, **options):
    run, long_form, short_form = {**FORMS, **PUBLISHED}[name]
    form = dict(short_form if short else long_form)
    if name in PUBLISHED:
        try:
            form["model"] = published(form["model"])
        except NotFetched as reason:
            raise CannotRunHere(reason) from reason
    run(api, **form, **options)
