// tvq-bench families: the speed table of the literature on linear attention (Katharopoulos et al.,
// "Transformers are RNNs", 2020): images of 784 grey values by models of one size, 8 layers and
// heads, that differ in their attention alone. Each family takes its turn within every round.

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/numbers/parse_dtype.h"
#include "models/runtime/registry/registry.h"
#include "models/verify/rounding.h"
#include "tests/bench/benches.h"
#include "tests/bench/sessions.h"
#include "tests/bench/statistics.h"
#include "tests/models/runtime/random_weights.h"

namespace tvq::bench {
namespace {

// Without a cache a token costs a whole prefill: it is timed at so many lengths of an image, and no
// further into a context than this.
constexpr int64_t kLengths = 8;
constexpr int64_t kLongestUncached = 4096;
constexpr int kFamilyWarmUpSteps = 2;
constexpr int kTimedSteps = 11;
constexpr int64_t kCheckedTokens = 64;

struct Family {
  std::string name;
  const char* model_type;
  bool cached = true;  // false: every token reads the whole sequence again
};

const Family kFamilies[] = {{"softmax, no cache", "softmax_transformer", false},
                            {"softmax", "softmax_transformer"},
                            {"linear", "linear_transformer"},
                            {"vq", "transformer_vq"}};

struct Measured {
  const Family* family = nullptr;
  std::unique_ptr<Model> model;
  int64_t at_once = 1;                       // images
  std::vector<double> alone, together;       // images a second, by round
  std::vector<std::vector<double>> step_ms;  // by position, then round; none where too slow
};

nlohmann::json ConfigOf(const Family& family) {
  nlohmann::json config = {{"model_type", family.model_type},
                           {"block", "standard"},
                           {"vocab_size", 256},
                           {"prefill_chunk", 112},
                           {"tokenizer", {{"type", "ids"}}},
                           {"d_model", 256},
                           {"d_ff", 1024},
                           {"d_k", 32},
                           {"d_v", 32},
                           {"n_layer", 8},
                           {"n_head", 8},
                           {"pe_abs", true},
                           {"output_norm", true}};
  const std::string type = family.model_type;
  if (type != "linear_transformer") config["mem_len"] = 28;
  if (type == "transformer_vq") {
    config["n_code"] = 64;
    config["block_len"] = 28;
  }
  return config;
}

absl::StatusOr<std::unique_ptr<Model>> Build(const Family& family, const Options& options,
                                             DType dtype, std::shared_ptr<Device> device) {
  absl::StatusOr<Config> config = Config::Parse(ConfigOf(family).dump(), family.name);
  if (!config.ok()) return config.status();
  LoadOptions load;
  load.device = std::move(device);
  load.dtype = dtype;
  if (!options.state_dtype.empty()) {
    absl::StatusOr<DType> state_dtype = ParseDType(options.state_dtype);
    if (!state_dtype.ok()) return state_dtype.status();
    load.state_dtype = *state_dtype;
  }
  const int64_t longest = *std::max_element(options.contexts.begin(), options.contexts.end());
  load.max_model_len = std::max(longest + kFamilyWarmUpSteps + kTimedSteps, options.image_tokens);
  const std::unique_ptr<WeightSource> weights = RandomWeights(/*seed=*/1);
  return BuildModel(*config, *weights, nullptr, load);
}

// Log-probabilities of the token after `tokens`, which were read at once or one by one.
absl::StatusOr<std::vector<float>> Next(Model& model, std::span<const int32_t> tokens, bool steps) {
  absl::StatusOr<std::unique_ptr<State>> state = model.NewState();
  if (!state.ok()) return state.status();
  absl::StatusOr<Logits> logits = model.NewLogits(1);
  if (!logits.ok()) return logits.status();
  if (!steps) {
    const auto fed = FeedPrompt(model, **state, tokens, *logits);
    if (!fed.ok()) return fed.status();
  }
  for (size_t i = 0; steps && i < tokens.size(); ++i) {
    const DecodeRow row{state->get(), tokens[i], 0};
    if (absl::Status s = model.Decode({&row, 1}, &*logits); !s.ok()) return s;
  }
  std::vector<float> values(static_cast<size_t>(model.info().config.vocab_size));
  if (absl::Status s = model.ReadLogits(*logits, 0, values); !s.ok()) return s;
  const float most = *std::max_element(values.begin(), values.end());
  double sum = 0;
  for (const float x : values) sum += std::exp(static_cast<double>(x - most));
  for (float& x : values) x -= most + static_cast<float>(std::log(sum));
  return values;
}

// What a cache gives must be what reading everything again gives.
absl::Status CheckFamily(const Family& family, const Options& options,
                         const std::shared_ptr<Device>& device, Json& report) {
  absl::StatusOr<std::unique_ptr<Model>> model = Build(family, options, DType::kFloat32, device);
  if (!model.ok()) return model.status();
  const std::vector<int32_t> tokens =
      PromptTokens(kCheckedTokens, (*model)->info().config.vocab_size);
  const auto at_once = Next(**model, tokens, /*steps=*/false);
  if (!at_once.ok()) return at_once.status();
  const auto by_steps = Next(**model, tokens, /*steps=*/true);
  if (!by_steps.ok()) return by_steps.status();
  double found = 0;
  for (size_t i = 0; i < at_once->size(); ++i) {
    found = std::max(found, static_cast<double>(std::abs((*at_once)[i] - (*by_steps)[i])));
  }
  const bool ok = found <= verify::kFloat32Tolerance;
  std::printf("check %s, cached = read again: %.2e (at most %.2e) %s\n", family.name.c_str(), found,
              verify::kFloat32Tolerance, ok ? "ok" : "WRONG");
  report["checks"].push_back({{"what", absl::StrCat(family.name, ", cached = read again")},
                              {"found", found},
                              {"bound", verify::kFloat32Tolerance},
                              {"ok", ok}});
  if (ok) return absl::OkStatus();
  return absl::AbortedError("a check failed: what computes wrongly is not timed");
}

// Seconds that a token takes behind `tokens` others that are read again for it.
absl::StatusOr<double> TimeReading(Model& model, Device& device, int64_t tokens) {
  absl::StatusOr<Sessions> session = Sessions::Create(model, device, 1);
  if (!session.ok()) return session.status();
  const std::vector<int32_t> prompt = PromptTokens(tokens, model.info().config.vocab_size);
  const Stopwatch reading;
  if (absl::Status s = session->Prefill(prompt); !s.ok()) return s;
  return reading.Seconds();
}

// Seconds for `count` images, one after another without a cache: no token waits for another
// image's.
absl::StatusOr<double> TimeImages(Measured& m, Device& device, const Options& options,
                                  int64_t count) {
  if (!m.family->cached) {
    double sum = 0;
    for (int64_t i = 0; i < kLengths; ++i) {
      const int64_t length =
          std::max<int64_t>(1, options.image_tokens * (2 * i + 1) / (2 * kLengths));
      const auto seconds = TimeReading(*m.model, device, length);
      if (!seconds.ok()) return seconds.status();
      sum += *seconds;
    }
    return sum / static_cast<double>(kLengths) * static_cast<double>(options.image_tokens * count);
  }
  absl::StatusOr<Sessions> images = Sessions::Create(*m.model, device, count);
  if (!images.ok()) return images.status();
  const Stopwatch making;
  for (int64_t i = 0; i < options.image_tokens; ++i) {
    if (absl::Status s = images->Step(); !s.ok()) return s;
  }
  return making.Seconds();
}

// Milliseconds of one token at a position.
absl::StatusOr<double> TimeToken(Measured& m, Device& device, int64_t position) {
  if (!m.family->cached) {
    const auto seconds = TimeReading(*m.model, device, position);
    if (!seconds.ok()) return seconds.status();
    return *seconds * 1e3;
  }
  absl::StatusOr<Sessions> session = Sessions::Create(*m.model, device, 1);
  if (!session.ok()) return session.status();
  if (absl::Status s = session->Synthesize(position); !s.ok()) return s;
  std::vector<double> ms;
  for (int i = 0; i < kFamilyWarmUpSteps + kTimedSteps; ++i) {
    const Stopwatch step;
    if (absl::Status s = session->Step(); !s.ok()) return s;
    if (i >= kFamilyWarmUpSteps) ms.push_back(step.Seconds() * 1e3);
  }
  return Median(ms);
}

absl::Status RunRound(Measured& m, Device& device, const Options& options) {
  for (const auto& [count, rates] : {std::pair(int64_t{1}, &m.alone), {m.at_once, &m.together}}) {
    const auto seconds = TimeImages(m, device, options, count);
    if (!seconds.ok()) return seconds.status();
    rates->push_back(static_cast<double>(count) / *seconds);
  }
  for (size_t i = 0; i < options.contexts.size(); ++i) {
    if (!m.family->cached && options.contexts[i] > kLongestUncached) continue;
    const auto ms = TimeToken(m, device, options.contexts[i]);
    if (!ms.ok()) return ms.status();
    m.step_ms[i].push_back(*ms);
  }
  return absl::OkStatus();
}

Json Rates(const std::vector<double>& rates) {
  return {{"median", Median(rates)}, {"min", Quantile(rates, 0)}, {"max", Quantile(rates, 1)}};
}

Json ReportFamily(const Measured& m, const Options& options) {
  const ModelInfo& info = m.model->info();
  const int64_t bytes = m.family->cached ? m.model->StateBytes(options.image_tokens) : 0;
  std::printf("%-18s %6.2f M %10lld %12.3f %7lld %12.3f\n", m.family->name.c_str(),
              static_cast<double>(info.parameters) / 1e6, static_cast<long long>(bytes),
              Median(m.alone), static_cast<long long>(m.at_once), Median(m.together));
  Json json = {{"name", m.family->name},      {"parameters", info.parameters},
               {"dtype", Name(info.dtype)},   {"state_dtype", Name(info.state_dtype)},
               {"image_state_bytes", bytes},  {"images_per_second", Rates(m.alone)},
               {"images_at_once", m.at_once}, {"images_per_second_at_once", Rates(m.together)},
               {"positions", Json::array()}};
  for (size_t i = 0; i < options.contexts.size(); ++i) {
    if (m.step_ms[i].empty()) continue;
    const int64_t position = options.contexts[i];
    json["positions"].push_back(
        {{"position", position},
         {"ms", Rates(m.step_ms[i])},
         {"state_bytes", m.family->cached ? m.model->StateBytes(position) : 0}});
  }
  return json;
}

void PrintPositions(const std::vector<Measured>& all, const Options& options) {
  std::printf("milliseconds a token, and bytes of a session, at position\n%-18s", "");
  for (const int64_t position : options.contexts)
    std::printf(" %20lld", static_cast<long long>(position));
  std::printf("\n");
  for (const Measured& m : all) {
    std::printf("%-18s", m.family->name.c_str());
    for (size_t i = 0; i < options.contexts.size() && !m.step_ms[i].empty(); ++i) {
      const int64_t bytes = m.family->cached ? m.model->StateBytes(options.contexts[i]) : 0;
      std::printf(" %8.3f %11lld", Median(m.step_ms[i]), static_cast<long long>(bytes));
    }
    std::printf("\n");
  }
}

// How much faster `linear` is than softmax without a cache, and by what.
Json ReportRatio(const Measured& uncached, const Measured& softmax, const Measured& linear) {
  const double cache = Median(softmax.alone) / Median(uncached.alone);
  const double state = Median(linear.alone) / Median(softmax.alone);
  const double batch = Median(linear.together) / Median(linear.alone);
  std::printf(
      "linear, %lld at once, over softmax without a cache: %.0f = %.1f (a cache) x %.2f (a "
      "constant state instead) x %.2f (images at once)\n",
      static_cast<long long>(linear.at_once), cache * state * batch, cache, state, batch);
  return {{"whole", cache * state * batch}, {"cache", cache}, {"state", state}, {"batch", batch}};
}

}  // namespace

absl::Status BenchFamilies(const Options& options) {
  absl::StatusOr<DType> dtype = ParseDType(options.dtype);
  if (!dtype.ok()) return dtype.status();
  absl::StatusOr<std::unique_ptr<Device>> made =
      MakeDevice(options.device, options.threads, options.isa);
  if (!made.ok()) return made.status();
  const std::shared_ptr<Device> device = *std::move(made);
  Json report = StartReport("families", options, *device);

  std::vector<Measured> all;
  for (const Family& family : kFamilies) {
    if (family.cached) {
      if (absl::Status s = CheckFamily(family, options, device, report); !s.ok()) return s;
    }
    absl::StatusOr<std::unique_ptr<Model>> model = Build(family, options, *dtype, device);
    if (!model.ok()) return model.status();
    Measured m{.family = &family, .model = *std::move(model)};
    const int64_t fit = (options.state_megabytes << 20) / m.model->StateBytes(options.image_tokens);
    if (family.cached) m.at_once = std::clamp<int64_t>(fit, 1, options.most_images);
    if (absl::Status s = m.model->Prepare({.decode_rows = m.at_once}); !s.ok()) return s;
    m.step_ms.resize(options.contexts.size());
    all.push_back(std::move(m));
  }
  for (int64_t round = 0; round < options.rounds; ++round) {
    for (Measured& m : all) {
      if (absl::Status s = RunRound(m, *device, options); !s.ok()) return s;
    }
  }
  report["image_tokens"] = options.image_tokens;
  std::printf("%-18s %8s %10s %12s %7s %12s\n", "", "weights", "bytes", "images/s", "at once",
              "images/s");
  for (const Measured& m : all) report["families"].push_back(ReportFamily(m, options));
  PrintPositions(all, options);
  report["linear_over_uncached"] = ReportRatio(all[0], all[1], all[2]);
  return WriteReport(report, options.json);
}

}  // namespace tvq::bench
