// tvq-verify: does this engine compute what another implementation computed?
//
// In float32 every log-probability, and every number of an encoder's vectors, must be within 1e-4,
// and greedy continuations must be equal. In bfloat16, int8 and int4 a key near the border of two
// codes may change its code. So rounding is measured while the codes of a float32 run are forced.
// For a run that is free to choose codes, the rate of flipped codes and the change in bits per
// token are reported. In long texts even float32 may flip a code. For these the codes are forced
// that the file holds, or that another device chose (--codes-of).

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/flags.h"
#include "base/output_file.h"
#include "base/variables.h"
#include "kernels/numbers/parse_dtype.h"
#include "models/runtime/registry/registry.h"
#include "models/verify/compare.h"
#include "models/verify/expected.h"
#include "models/verify/rounding.h"

namespace tvq::verify {
namespace {

struct Options {
  std::string model_dir;
  std::string expected_path;
  std::string device = "cpu";
  std::string isa;
  std::string dtype = "float32";
  std::string mode = "both";
  std::string codes_of;  // device; empty: codes are not forced
  int threads = 0;
};

struct Loaded {
  std::shared_ptr<Device> device;
  std::unique_ptr<Model> model;
};

absl::StatusOr<Loaded> Load(const Options& options, const std::string& device_name, DType dtype) {
  absl::StatusOr<std::unique_ptr<Device>> device =
      MakeDevice(device_name, options.threads, options.isa);
  if (!device.ok()) return device.status();
  Loaded loaded;
  loaded.device = *std::move(device);
  LoadOptions load;
  load.device = loaded.device;
  load.dtype = dtype;
  absl::StatusOr<std::unique_ptr<Model>> model = LoadModel(options.model_dir, load);
  if (!model.ok()) return model.status();
  loaded.model = *std::move(model);
  return loaded;
}

double Rms(const Comparison& c) {
  return c.compared == 0 ? 0 : std::sqrt(c.sum_squares / static_cast<double>(c.compared));
}

double BitsPerToken(double bits, int64_t tokens) {
  return tokens == 0 ? 0 : bits / static_cast<double>(tokens);
}

// Prints one line; returns false if a difference is beyond the tolerance.
absl::StatusOr<bool> VerifyFloat32(Loaded& float32, const ExpectedSequence& sequence, Mode mode) {
  absl::StatusOr<Comparison> c = Compare(*float32.model, sequence, mode);
  if (!c.ok()) return c.status();
  const bool ok = c->max_difference <= kFloat32Tolerance && c->greedy_mismatches == 0;
  std::printf("%-12s %-8s %7zu tokens  largest difference %.2e  rms %.2e", sequence.name.c_str(),
              Name(mode), sequence.tokens.size(), c->max_difference, Rms(*c));
  if (sequence.greedy) {
    std::printf("  greedy tokens that differ: %lld", static_cast<long long>(c->greedy_mismatches));
  }
  if (!sequence.codes.empty()) {
    std::printf("  codes forced: %.4f%% would be others",
                100.0 * static_cast<double>(c->other_codes) /
                    static_cast<double>(std::max<size_t>(1, c->codes.size())));
  }
  std::printf("  %s\n", ok ? "ok" : "BEYOND 1e-4");
  return ok;
}

double FlippedPercent(const Codes& codes, const Codes& other) {
  int64_t flips = 0;
  for (size_t i = 0; i < codes.size(); ++i) flips += codes[i] != other[i];
  return 100.0 * static_cast<double>(flips) /
         static_cast<double>(std::max<size_t>(1, codes.size()));
}

// VerifyFloat32 with the codes that `giver` assigns. `giver` must be within the tolerance too,
// which shows that the expected log-probabilities belong to these codes.
absl::StatusOr<bool> VerifyForced(Loaded& float32, Loaded& giver, const ExpectedSequence& sequence,
                                  Mode mode) {
  absl::StatusOr<Comparison> given = Compare(*giver.model, sequence, mode);
  if (!given.ok()) return given.status();
  absl::StatusOr<Comparison> forced = Compare(*float32.model, sequence, mode, &given->codes);
  if (!forced.ok()) return forced.status();
  const bool ok = std::max(given->max_difference, forced->max_difference) <= kFloat32Tolerance &&
                  given->greedy_mismatches == 0;
  std::printf(
      "%-12s %-8s %7zu tokens  codes of %s: it differs by at most %.2e; forced: largest "
      "difference %.2e  rms %.2e  %.4f%% of codes would be others  %s\n",
      sequence.name.c_str(), Name(mode), sequence.tokens.size(), giver.device->Describe().c_str(),
      given->max_difference, forced->max_difference, Rms(*forced),
      FlippedPercent(forced->codes, given->codes), ok ? "ok" : "BEYOND 1e-4");
  return ok;
}

// `spread` is the largest Spread of the file's sequences, so that sequences without rows have one.
absl::StatusOr<bool> VerifyRounded(Loaded& float32, Loaded& rounded,
                                   const ExpectedSequence& sequence, Mode mode, double spread) {
  absl::StatusOr<Comparison> exact = Compare(*float32.model, sequence, mode);
  if (!exact.ok()) return exact.status();
  absl::StatusOr<Comparison> forced =
      Compare(*rounded.model, sequence, mode, sequence.codes.empty() ? &exact->codes : nullptr);
  if (!forced.ok()) return forced.status();
  ExpectedSequence own = sequence;
  own.codes.clear();
  absl::StatusOr<Comparison> free = Compare(*rounded.model, own, mode);
  if (!free.ok()) return free.status();

  const double change = BitsPerToken(free->target_bits, free->target_count) -
                        BitsPerToken(free->expected_bits, free->target_count);
  const bool quantizes = !exact->codes.empty();
  std::printf("%-12s %-8s %7zu tokens  %srms %.2e largest %.2e", sequence.name.c_str(), Name(mode),
              sequence.tokens.size(), quantizes ? "codes forced: " : "", Rms(*forced),
              forced->max_difference);
  const double tolerance = RoundingBound(rounded.model->info(), Weights::kExact) * spread;
  const bool ok = Rms(*forced) <= tolerance && std::isfinite(free->sum_squares);
  std::printf(" (rms at most %.2e)", tolerance);
  if (quantizes) {
    std::printf("  free: %.3f%% of codes flipped,", FlippedPercent(free->codes, exact->codes));
  }
  if (!sequence.encoded) std::printf("  %+.4f bits a token", change);
  std::printf("  %s\n", ok ? "ok" : "BEYOND THE TOLERANCE");
  return ok;
}

absl::StatusOr<bool> Run(const Options& options) {
  absl::StatusOr<Loaded> float32 = Load(options, options.device, DType::kFloat32);
  if (!float32.ok()) return float32.status();
  Loaded rounded;
  if (options.dtype != "float32") {
    const absl::StatusOr<DType> dtype = ParseDType(options.dtype);
    if (!dtype.ok()) return dtype.status();
    absl::StatusOr<Loaded> loaded = Load(options, options.device, *dtype);
    if (!loaded.ok()) return loaded.status();
    rounded = *std::move(loaded);
  }
  Loaded giver;
  if (!options.codes_of.empty()) {
    if (options.dtype != "float32") {
      return absl::InvalidArgumentError(
          "--codes-of is for float32; other dtypes force codes anyway");
    }
    absl::StatusOr<Loaded> loaded = Load(options, options.codes_of, DType::kFloat32);
    if (!loaded.ok()) return loaded.status();
    giver = *std::move(loaded);
  }
  absl::StatusOr<std::vector<ExpectedSequence>> sequences =
      ReadExpected(options.expected_path, float32->model->info().config.vocab_size);
  if (!sequences.ok()) return sequences.status();

  std::printf("%s: %s, %lld parameters, %s, on %s\n", options.model_dir.c_str(),
              float32->model->info().family.c_str(),
              static_cast<long long>(float32->model->info().parameters), options.dtype.c_str(),
              float32->device->Describe().c_str());
  double spread = 0;
  for (const ExpectedSequence& sequence : *sequences) {
    if (sequence.row_count > 0) {
      const auto width = static_cast<size_t>(sequence.row_width);
      spread = std::max(spread, Spread(std::span<const float>(sequence.rows), width));
    }
  }
  if (rounded.model != nullptr && spread == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(options.expected_path, ": ", options.dtype,
                     " needs a sequence with whole rows, NAME.logprobs or NAME.vectors"));
  }
  std::vector<Mode> modes;
  if (options.mode != "step") modes.push_back(Mode::kPrefill);
  if (options.mode != "prefill") modes.push_back(Mode::kStep);
  bool all = true;
  for (const ExpectedSequence& sequence : *sequences) {
    for (Mode mode : modes) {
      absl::StatusOr<bool> ok =
          rounded.model != nullptr ? VerifyRounded(*float32, rounded, sequence, mode, spread)
          : giver.model != nullptr ? VerifyForced(*float32, giver, sequence, mode)
                                   : VerifyFloat32(*float32, sequence, mode);
      if (!ok.ok()) return ok.status();
      all = all && *ok;
    }
  }
  return all;
}

}  // namespace
}  // namespace tvq::verify

int main(int argc, char** argv) {
  tvq::verify::Options options;
  const tvq::flags::Program app("Compares a model's log-probabilities with expected ones.",
                                "tvq-verify");
  app.Version(TVQ_VERSION);
  app.Footer(
      "Exit codes: 0 within the tolerance, 1 beyond it, 2 wrong usage, unreadable files,\n"
      "or stdout cannot be written.");
  app.Add("MODEL_DIR", options.model_dir, "Model directory").Required();
  app.Add("EXPECTED", options.expected_path, "Expected log-probabilities (safetensors)").Required();
  app.Add("--device", options.device, "cpu, cuda, or reference (naive float64 loops)")
      .ShowDefault();
  app.Add("--isa", options.isa, "Limit the instruction set, e.g. avx2; on cuda serial")
      .Check([](const std::string& isa) {
        return absl::StrContains(isa, "tf32") ? "tf32 rounds more than the tolerance of float32; "
                                                "tvq-bench holds it to a bound of its own"
                                              : "";
      });
  app.Add("--dtype", options.dtype, "Of the weights")
      .OneOf({"float32", "bfloat16", "int8", "int4"})
      .ShowDefault();
  app.Add("--mode", options.mode, "Block-parallel prefill, token by token, or both")
      .OneOf({"prefill", "step", "both"})
      .ShowDefault();
  app.Add("--codes-of", options.codes_of, "Force the codes that this device assigns");
  app.Add("--threads", options.threads, "0: all cores").ShowDefault();
  if (const std::optional<int> ends = app.Parse(argc, argv)) return *ends;
  tvq::WarnOfUnknownVariables("tvq-verify");
  const absl::StatusOr<bool> ok = tvq::verify::Run(options);
  if (!ok.ok()) {
    std::fprintf(stderr, "tvq-verify: %s\n", std::string(ok.status().message()).c_str());
    return 2;
  }
  if (const absl::Status written = tvq::FlushStdout(); !written.ok()) {
    std::fprintf(stderr, "tvq-verify: %s\n", std::string(written.message()).c_str());
    return 2;
  }
  return *ok ? 0 : 1;
}
