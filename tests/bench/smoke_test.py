#!/usr/bin/env python3
"""Runs tvq-bench on its tiny preset and looks at the JSON: fields and orders of size, never times.

    smoke_test.py PATH_TO_TVQ_BENCH decode|drafts|engine|families|growth|load|masks|prefill|reads|restore|serve|usage
"""

import json
import os
import subprocess
import sys
import tempfile

import plot_families


def run(bench, *arguments, preset="tiny", checks=3):
    """The report of a run."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "report.json")
        command = [bench, *arguments, *(["--preset", preset] if preset else []), "--json", path]
        print(" ".join(command), flush=True)
        subprocess.run(command, check=True)
        with open(path, encoding="utf-8") as file:
            report = json.load(file)
    assert report["bench"] == arguments[0], report["bench"]
    assert report["processor"] and report["device"].startswith("cpu ("), report
    assert preset is None or report["model"]["parameters"] > 10_000, report["model"]
    found = report.get("checks", [])
    assert len(found) == checks and all(c["ok"] for c in found), found
    return report


def check_decode(bench):
    for dtype in ("float32", "bfloat16", "int8", "int4"):
        report = run(bench, "decode", "--dtype", dtype, "--batch", "1,3", "--context", "0,5000",
                     "--rounds", "2", "--seconds", "0.01", "--profile", "--ceiling-megabytes", "64")
        cases = report["cases"]
        assert report["ceiling"] == "reads", report["ceiling"]
        assert [(c["batch"], c["context"]) for c in cases] == [(1, 0), (1, 5000), (3, 0), (3, 5000)]
        per_step = {
            batch: sum(l["bytes"] * (batch if l["per_session"] else 1) for l in report["bytes"])
            for batch in (1, 3)
        }
        for case in cases:
            assert case["bytes_per_step"] == per_step[case["batch"]], case
            assert 0 < case["ms_median"] <= case["ms_p99"], case
            assert case["tokens_per_second"] > 0 and case["percent_of_ceiling"]["median"] > 0, case
            assert case["ceiling_1_thread"]["median"] > 0, case
            assert len(case["logits_hash"]) == 16, case
            assert case["ms_per_op"]["qkvg_projection"] > 0, case
            ops = case["speed_per_op"]
            # Everything that a step reads is some op's, but what int8 weights are scaled with.
            scales = sum(l["bytes"] for l in report["bytes"] if not l["op"])
            assert sum(o["bytes"] for o in ops.values()) + scales == case["bytes_per_step"], case
            assert all(o["percent_of_ceiling"] > 0 for o in ops.values()), case
        # Another context is another state; sessions of a batch differ too.
        assert len({c["logits_hash"] for c in cases}) == 4, cases
        session = report["session_bytes"]
        assert abs(session["model"] - session["formula"]) <= 0.03 * session["formula"], session
    check_reduced_decode(bench)
    check_another_family(bench)
    tail = run(bench, "decode", "--context", "500", "--rounds", "1", "--seconds", "0.01", "--ceiling-megabytes", "64", "--tail")
    [case] = tail["cases"]
    assert case["read_ms_p99"] >= case["read_ms_median"] > 0, case


def check_another_family(bench):
    """A softmax model: no oracle in a small shape, and the bytes are all of its weights and of its states."""
    llama = os.path.join(os.path.dirname(__file__), "../golden/hugging_face/llama_gqa")
    rounds = ["--rounds", "1", "--seconds", "0.01", "--model", llama]
    decode = run(bench, "decode", *rounds, "--batch", "1,3", "--context", "0,300", "--ceiling-megabytes", "64", preset=None, checks=2)
    read = [(c["batch"], c["context"], c["bytes_per_step"] - decode["model"]["weight_bytes"]) for c in decode["cases"]]
    state = decode["model"]["state_bytes"]
    assert read == [(1, 0, state), (1, 300, 2 * state), (3, 0, 3 * state), (3, 300, 6 * state)], (read, state)
    [prompt] = run(bench, "prefill", *rounds, "--prompt-tokens", "20", preset=None, checks=2)["cases"]
    assert prompt["tokens_per_second"] > 0, prompt
    [restored] = run(bench, "restore", "--model", llama, "--context", "40", "--rounds", "1", preset=None, checks=2)["cases"]
    assert restored["ms_restore_cold"] > 0, restored
    refused = subprocess.run([bench, "engine", "--model", llama], capture_output=True, text=True, check=False)
    assert refused.returncode == 2 and 'model_type is "llama", must be transformer_vq' in refused.stderr, refused


def check_reduced_decode(bench):
    """Reading less is counted as less."""
    arguments = ["decode", "--context", "5000", "--rounds", "1", "--seconds", "0.01", "--ceiling-megabytes", "64"]
    whole = run(bench, *arguments)
    copy = run(bench, *arguments, "--state-read-dtype", "int8", checks=2)
    part = run(bench, *arguments, "--state-read-dtype", "int8", "--kept-rows", "0.5", checks=2)
    read = [report["cases"][0]["bytes_per_step"] for report in (whole, copy, part)]
    assert read[0] > read[1] > read[2] > 0, read
    assert abs(part["cases"][0]["rows_read"] - 0.5) < 0.1, part["cases"][0]
    assert 0 < part["cases"][0]["skipped_mass"] <= part["model"]["attention_skip_mass"] < 1, part
    for report in (copy, part):
        session = report["session_bytes"]
        assert abs(session["model"] - session["formula"]) <= 0.03 * session["formula"], session
        assert session["formula"] > whole["session_bytes"]["formula"], session


def check_drafts(bench):
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as text:
        text.write("It was the best of times, it was the worst of times. " * 8)
        text.flush()
        report = run(bench, "drafts", "--text", text.name, "--prompt-tokens", "200", "--max-tokens", "40",
                     "--rounds", "2", "--draft-tokens", "1,5", "--temperature", "0")
        beside = run(bench, "drafts", "--text", text.name, "--neighbour-text", text.name, "--prompt-tokens", "200",
                     "--max-tokens", "20000", "--rounds", "1", "--draft-tokens", "1", "--temperature", "0")
    assert [s["tokens"] for s in report["steps"]] == [1, 2, 6], report["steps"]
    assert report["steps"][0]["times_one"] == 1 and all(s["ms"] > 0 for s in report["steps"]), report["steps"]
    assert [g["draft_tokens"] for g in report["generated"]] == [0, 1, 5], report["generated"]
    assert report["prompt_tokens"] == 200 and report["generated"][0]["drafted_per_token"] == 0, report
    for generated in report["generated"]:
        assert 0 <= generated["accepted_per_token"] <= generated["drafted_per_token"], generated
        assert generated["tokens_per_second"] > 0, generated
    for generated in beside["generated"]:
        assert generated["neighbour"]["tokens_per_second"] > 0, generated
    assert beside["generated"][1]["neighbour"]["percent_of_none"] > 0, beside["generated"]


def check_families(bench):
    report = run(bench, "families", "--rounds", "1", "--context", "5,300", "--image-tokens", "12",
                 "--most-images", "3", preset=None, checks=3)
    names = ["softmax, no cache", "softmax", "linear", "vq"]
    assert [f["name"] for f in report["families"]] == names, report["families"]
    uncached, softmax, linear, vq = report["families"]
    for family in report["families"]:
        assert family["images_per_second"]["median"] > 0 and family["images_per_second_at_once"]["median"] > 0, family
        assert [p["position"] for p in family["positions"]] == [5, 300], family
        assert all(p["ms"]["median"] > 0 for p in family["positions"]), family
        assert abs(family["parameters"] / uncached["parameters"] - 1) < 0.1, family
    assert [f["images_at_once"] for f in report["families"]] == [1, 3, 3, 3]
    assert softmax["positions"][1]["state_bytes"] == 2 * softmax["positions"][0]["state_bytes"] > 0
    for family in (linear, vq):
        assert family["positions"][1]["state_bytes"] == family["positions"][0]["state_bytes"] > 0
    assert plot_families.draw(report).count("<polyline") == 4
    assert plot_families.images_table(report).count("\n") == plot_families.positions_table(report).count("\n") == 5
    ratio = report["linear_over_uncached"]
    assert abs(ratio["whole"] / (ratio["cache"] * ratio["state"] * ratio["batch"]) - 1) < 1e-9, ratio


def check_growth(bench):
    growth = run(bench, "decode", "--tokens", "500")["growth"]
    assert growth["tokens"] == 500 and growth["resident_start"] > 0, growth
    # A megabyte is the allocator's noise; a cache of this model's keys and values would be less,
    # so the long run on a real model is what counts.
    assert growth["resident_end"] - growth["resident_start"] < 1 << 20, growth


def check_load(bench):
    report = run(bench, "load", "--rounds", "2", checks=8 * 3)
    cases = report["cases"]
    assert [(c["stored"], c["dtype"]) for c in cases] == [
        (stored, dtype) for stored in ("bfloat16", "float32") for dtype in ("float32", "bfloat16", "int8", "int4")]
    assert cases[4]["file_bytes"] > 1.5 * cases[0]["file_bytes"] > 0, cases
    for wide, narrow in zip(cases[:3], cases[1:4]):
        assert wide["weight_bytes"] > narrow["weight_bytes"] > 0, cases
    for case in cases:
        times = case["seconds_per_gigabyte"]
        assert 0 < times["min"] <= times["median"] <= times["max"] and case["times_floor"] > 0, case
    with tempfile.TemporaryDirectory() as empty:
        wrong = subprocess.run([bench, "load", "--model", empty], capture_output=True, text=True, check=False)
    assert wrong.returncode == 2 and "holds no file *.safetensors" in wrong.stderr, wrong


def check_prefill(bench):
    report = run(bench, "prefill", "--prompt-tokens", "100", "--context", "0,1000", "--rounds",
                 "2", "--seconds", "0.01")
    assert [c["context"] for c in report["cases"]] == [0, 1000]
    for case in report["cases"]:
        for field in ("tokens_per_second", "gigaflops", "matrix_gigaflops", "percent_of_matrix_rate",
                      "decode_tokens_per_second", "ratio_over_decode"):
            assert case[field] > 0, (field, case)


def check_reads(bench):
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as text:
        text.write("It was the best of times, it was the worst of times. " * 8)
        text.flush()
        report = run(bench, "reads", "--text", text.name, "--tokens", "300", "--skip-mass", "0.01,0.5")
        text.truncate(0)
        text.seek(0)
        text.write("one\tand two\n\nthree\tfour\nfive\tsix\n")
        text.flush()
        pairs = run(bench, "reads", "--pairs", text.name, "--examples", "2", "--skip-mass", "0.5")
        text.write("seven\n")
        text.flush()
        wrong = subprocess.run([bench, "reads", "--preset", "tiny", "--pairs", text.name], capture_output=True, text=True, check=False)
    assert wrong.returncode != 0 and f"{text.name}: line 5 is not two texts with a tab between them" in wrong.stderr, wrong
    assert (report["contexts"], report["tokens"]) == (1, 300)
    assert (pairs["contexts"], pairs["tokens"]) == (2, len("and two") + len("four")), pairs
    settings = report["settings"]
    assert [(s["values"], round(s["skip_mass"], 3)) for s in settings] == [
        (values, mass) for values in ("exact", "int8") for mass in (0, 0.01, 0.5)], settings
    exact = settings[0]
    for setting in settings:
        assert 0 < setting["bits_per_token"] < 16 and setting["tokens_per_second"] > 0, setting
        assert setting["skipped_mass"] <= setting["skip_mass"], setting
        assert (setting["rows_read"] < 1) == (setting["skip_mass"] > 0), setting
        assert abs(setting["loss"] - setting["bits_per_token"] / exact["bits_per_token"] + 1) < 1e-9, setting


def check_restore(bench):
    report = run(bench, "restore", "--context", "10,300", "--rounds", "3",
                 "--prefills", "2")
    assert [c["context"] for c in report["cases"]] == [10, 300]
    for case in report["cases"]:
        for field in ("ms_prefill", "ms_save", "ms_resident", "ms_restore_cached", "ms_restore_cold"):
            assert case[field] > 0, (field, case)


def check_sides(report, *sides):
    for side in sides:
        assert report[side]["tokens_per_second"] > 0, report
        assert report[side]["ms_to_first_token"] > 0, report


def check_engine(bench):
    report = run(bench, "engine", "--rounds", "2", "--batch", "5", "--prompt-tokens", "20", "--max-tokens", "5000")
    check_sides(report, "model_alone", "engine")
    assert report["batch"] == 5 and report["percent_of_model"] > 0, report


def check_serve(bench):
    for batch, tokens in ((1, 3000), (3, 20000)):  # long enough for three to overlap on a busy machine
        report = run(bench, "serve", "--rounds", "2", "--batch", str(batch), "--prompt-tokens", "20", "--max-tokens",
                     str(tokens))
        check_sides(report, "model_alone", "engine", "grpc", "grpc_threads")
        for client in report, report["grpc_threads"]:
            assert client["percent_of_engine"] > 0 and "us_added_per_token" in client, report
            assert client["server_processor_us_per_token"] > 0 and client["client_processor_us_per_token"] > 0, report
        assert report["batch"] == batch, report


def check_masks(bench):
    report = run(bench, "masks", "--vocab-size", "3000", "--outputs", "20", preset=None, checks=0)
    assert report["vocab_size"] == 3000 and report["seconds_to_order_tokens"] > 0, report
    for case in report["cases"]:
        assert case["outputs"] == 20 and case["tokens"] > 20 and case["bytes"] > 0, case
        assert 0 < case["us_median"] <= case["us_p99"] <= case["us_max"] and case["ms_to_read"] > 0, case
    assert any(case["outputs_ended"] for case in report["cases"]), report


def check_usage(bench):
    for arguments in ([], ["decode"], ["decode", "--preset", "none"],
                      ["decode", "--model", "/does/not/exist"],
                      ["decode", "--preset", "tiny", "--isa", "mmx"]):
        result = subprocess.run([bench, *arguments], capture_output=True, text=True, check=False)
        assert result.returncode == 2, (arguments, result)
        assert result.stderr + result.stdout, arguments
    with open("/dev/full", "w", encoding="utf-8") as full:
        result = subprocess.run([bench, "decode", "--preset", "tiny", "--rounds", "1", "--seconds", "0.01"],
                                stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert result.returncode == 2 and "cannot write stdout: No space left" in result.stderr, result
    # No GPU, or no CUDA in the build: said, and not taken for a failed check.
    result = subprocess.run([bench, "decode", "--preset", "tiny", "--device", "cuda", "--rounds", "1"],
                            capture_output=True, text=True, check=False)
    assert result.returncode == 0 or (result.returncode == 2 and "device 'cuda': " in result.stderr), result


CHECKS = {"decode": check_decode, "drafts": check_drafts, "engine": check_engine, "families": check_families, "growth": check_growth,
          "load": check_load, "masks": check_masks, "prefill": check_prefill,
          "reads": check_reads,
          "restore": check_restore, "serve": check_serve, "usage": check_usage}

if __name__ == "__main__":
    CHECKS[sys.argv[2]](sys.argv[1])
