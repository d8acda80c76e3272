#include "tests/bench/validate.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <span>
#include <utility>

#include "models/verify/rounding.h"
#include "tests/bench/sessions.h"
#include "tests/models/synthetic_state.h"

namespace tvq::bench {
namespace {

// Tokens fed to one session, codes either written down or taken from what was written down.
class Run {
 public:
  Run(Model& model, Device& device) : model_(model), device_(device) {}
  ~Run() {
    if (model_.quantized_keys() != nullptr) model_.quantized_keys()->SetTap({});
  }

  // Of each layer that quantizes keys [tokens, its kv heads]; empty: not forced.
  std::map<int64_t, std::vector<int32_t>> codes;
  std::vector<float> logits;  // rows, one per token (decode) or one in all (prefill)

  absl::Status Start(int64_t context) {
    absl::StatusOr<std::unique_ptr<State>> state = model_.NewState();
    if (!state.ok()) return state.status();
    state_ = *std::move(state);
    absl::StatusOr<Logits> rows = model_.NewLogits(1);
    if (!rows.ok()) return rows.status();
    row_ = *std::move(rows);
    return context == 0 ? absl::OkStatus() : Synthesize(model_, *state_, context, 1);
  }

  absl::Status Decode(std::span<const int32_t> tokens) {
    Tap();
    for (const int32_t token : tokens) {
      const DecodeRow row{state_.get(), token, 0};
      if (absl::Status s = model_.Decode({&row, 1}, &row_); !s.ok()) return s;
      if (absl::Status s = AppendLogits(); !s.ok()) return s;
    }
    return absl::OkStatus();
  }

  absl::Status Prefill(std::span<const int32_t> tokens) {
    Tap();
    const auto total = static_cast<int64_t>(tokens.size());
    for (int64_t fed = 0; fed < total;) {
      const int64_t n =
          NextChunk(state_->position(), total - fed, model_.info().config.prefill_chunk);
      PrefillChunk chunk;
      chunk.state = state_.get();
      chunk.tokens = tokens.subspan(static_cast<size_t>(fed), static_cast<size_t>(n));
      if (fed + n == total) chunk.logits_row = 0;
      if (absl::Status s = model_.Prefill(chunk, &row_); !s.ok()) return s;
      fed += n;
    }
    return AppendLogits();
  }

 private:
  void Tap() {
    if (model_.quantized_keys() == nullptr) return;
    std::map<int64_t, size_t> taken;
    model_.quantized_keys()->SetTap(
        [this, force = !codes.empty(), taken](int64_t layer, Matrix<int32_t> found) mutable {
          std::vector<int32_t>& known = codes[layer];
          const auto n = static_cast<size_t>(found.size());
          if (force) {
            const std::span<const int32_t> next = std::span(known).subspan(taken[layer], n);
            std::copy(next.begin(), next.end(), found.data);
            taken[layer] += n;
          } else {
            known.insert(known.end(), found.data, found.data + n);
          }
        });
  }

  absl::Status AppendLogits() {
    const size_t vocab = static_cast<size_t>(row_.view.dim(1));
    logits.resize(logits.size() + vocab);
    return device_.CopyToHost(logits.data() + logits.size() - vocab, row_.view.data,
                              vocab * sizeof(float));
  }

  Model& model_;
  Device& device_;
  std::unique_ptr<State> state_;
  Logits row_;
};

// log softmax of each row of `vocab` logits.
std::vector<double> Logprobs(std::span<const float> logits, size_t vocab) {
  std::vector<double> out(logits.begin(), logits.end());
  for (size_t first = 0; first < out.size(); first += vocab) {
    const std::span<double> row = std::span(out).subspan(first, vocab);
    const double maximum = *std::max_element(row.begin(), row.end());
    double sum = 0;
    for (const double x : row) sum += std::exp(x - maximum);
    for (double& x : row) x -= maximum + std::log(sum);
  }
  return out;
}

// `runs`: how many of the two runs rounded as `info` says. `apart`: by what else they may differ,
// verify::Tf32Bound where one of them is a prompt whose factors are cut, verify::ReadsBound where
// both decode from a part of their states.
Check CompareLogits(std::string what, const ModelInfo& info, int runs,
                    std::span<const float> expected, std::span<const float> found,
                    double apart = 0) {
  const auto vocab = static_cast<size_t>(info.config.vocab_size);
  const std::vector<double> a = Logprobs(expected, vocab), b = Logprobs(found, vocab);
  double largest = 0, squares = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double difference = std::abs(a[i] - b[i]);
    if (!std::isfinite(difference)) {
      return {std::move(what), false, std::numeric_limits<double>::infinity(), 0};
    }
    largest = std::max(largest, difference);
    squares += difference * difference;
  }
  Check check{.what = std::move(what)};
  if (info.dtype == DType::kFloat32 && info.state_dtype == DType::kFloat32 && apart == 0) {
    check.found = largest;
    check.bound = verify::kFloat32Tolerance;
  } else {
    check.found = std::sqrt(squares / static_cast<double>(a.size()));
    const auto weights = runs > 1 ? verify::Weights::kSame : verify::Weights::kExact;
    const double rounding =
        std::sqrt(static_cast<double>(runs)) * verify::RoundingBound(info, weights);
    // Both sum in orders of their own, too.
    check.bound = std::hypot(rounding, apart) * verify::Spread(std::span<const double>(a), vocab) +
                  verify::kFloat32Tolerance;
  }
  check.ok = check.found <= check.bound;
  return check;
}

absl::StatusOr<Check> AgainstReference(const Subject& subject) {
  const ModelInfo& info = subject.model->info();
  TransformerConfig config = ScaledDown(subject.config);
  config.common.tokenizer.type = "ids";  // a model's own may want its file
  // Three times the reach, so that positions retire.
  const std::vector<int32_t> tokens = PromptTokens(3 * config.window(), config.common.vocab_size);
  absl::StatusOr<std::unique_ptr<Device>> reference = MakeDevice("reference");
  if (!reference.ok()) return reference.status();
  const std::shared_ptr<Device> oracle = *std::move(reference);
  absl::StatusOr<std::unique_ptr<Model>> exact =
      BuildRandom(config, oracle, DType::kFloat32, DType::kFloat32, info.reads);
  if (!exact.ok()) return exact.status();
  absl::StatusOr<std::unique_ptr<Model>> fast =
      BuildRandom(config, subject.device, info.dtype, info.state_dtype, info.reads);
  if (!fast.ok()) return fast.status();

  Run expected(**exact, *oracle);
  Run found(**fast, *subject.device);
  absl::Status s = expected.Start(0);
  s.Update(found.Start(0));
  if (s.ok()) s = expected.Decode(tokens);
  found.codes = expected.codes;
  if (s.ok()) s = found.Decode(tokens);
  if (!s.ok()) return s;
  return CompareLogits("decode = float64 reference, in a small shape", (*fast)->info(), 1,
                       expected.logits, found.logits, verify::ReadsBound((*fast)->info()));
}

// Far enough into a context that accumulators matter; across a chunk's border in most models. Of
// other families from the start: a trained model may magnify the rounding of an injected state.
absl::StatusOr<Check> PrefillAgainstDecode(Subject& subject) {
  const int64_t context = subject.known_shape ? 4 * subject.config.window() - 24 : 0;
  const std::vector<int32_t> tokens =
      PromptTokens(subject.known_shape ? 48 : 300, subject.config.common.vocab_size);
  Run prefilled(*subject.model, *subject.device);
  Run decoded(*subject.model, *subject.device);
  absl::Status s = prefilled.Start(context);
  s.Update(decoded.Start(context));
  if (s.ok()) s = prefilled.Prefill(tokens);
  decoded.codes = prefilled.codes;
  if (s.ok()) s = decoded.Decode(tokens);
  if (!s.ok()) return s;
  const std::span<const float> all(decoded.logits);
  const bool cuts = subject.tf32 && subject.model->info().dtype == DType::kFloat32;
  const double cut = cuts ? verify::Tf32Bound(subject.model->info().products) : 0;
  return CompareLogits("prefill = decode", subject.model->info(), 2, prefilled.logits,
                       all.last(prefilled.logits.size()), cut);
}

absl::StatusOr<Check> BatchedAgainstAlone(Subject& subject) {
  constexpr size_t kSessions = 3;
  constexpr size_t kTokens = 4;
  Model& model = *subject.model;
  const std::vector<int32_t> tokens =
      PromptTokens(kSessions * kTokens, subject.config.common.vocab_size);
  absl::StatusOr<Logits> logits = model.NewLogits(kSessions);
  if (!logits.ok()) return logits.status();
  const auto vocab = static_cast<size_t>(logits->view.dim(1));

  // The logits of every step, with the sessions `first` to `last` in each.
  auto decode = [&](size_t first, size_t last) -> absl::StatusOr<std::vector<float>> {
    std::vector<std::unique_ptr<State>> states;
    for (size_t i = first; i < last; ++i) {
      absl::StatusOr<std::unique_ptr<State>> state = model.NewState();
      if (!state.ok()) return state.status();
      const auto context = static_cast<int64_t>(1000 * i);
      if (absl::Status s = Synthesize(model, **state, context, i); !s.ok()) return s;
      states.push_back(*std::move(state));
    }
    std::vector<float> all(kTokens * states.size() * vocab);
    for (size_t t = 0; t < kTokens; ++t) {
      std::vector<DecodeRow> rows;
      rows.reserve(states.size());
      for (size_t i = 0; i < states.size(); ++i) {
        rows.push_back(
            {states[i].get(), tokens[t * kSessions + first + i], static_cast<int64_t>(i)});
      }
      if (absl::Status s = model.Decode(rows, &*logits); !s.ok()) return s;
      const size_t count = states.size() * vocab;
      absl::Status s = subject.device->CopyToHost(all.data() + t * count, logits->view.data,
                                                  count * sizeof(float));
      if (!s.ok()) return s;
    }
    return all;
  };
  absl::StatusOr<std::vector<float>> together = decode(0, kSessions);
  if (!together.ok()) return together.status();
  Check check{"batched = alone, bits that differ", true, 0, 0};
  for (size_t i = 0; i < kSessions; ++i) {
    absl::StatusOr<std::vector<float>> alone = decode(i, i + 1);
    if (!alone.ok()) return alone.status();
    for (size_t t = 0; t < kTokens; ++t) {
      const float* a = alone->data() + t * vocab;
      const float* b = together->data() + (t * kSessions + i) * vocab;
      for (size_t j = 0; j < vocab; ++j) {
        check.found += std::bit_cast<uint32_t>(a[j]) != std::bit_cast<uint32_t>(b[j]);
      }
    }
  }
  check.ok = check.found == 0;
  return check;
}

}  // namespace

// Where decode does not read states exactly, which prompts do, the two differ by more than
// rounding.
absl::StatusOr<std::vector<Check>> Validate(Subject& subject) {
  const StateReads& reads = subject.model->info().reads;
  std::vector<absl::StatusOr<Check>> found;
  if (subject.known_shape) found.push_back(AgainstReference(subject));
  if (!reads.int8 && reads.skip_mass == 0) found.push_back(PrefillAgainstDecode(subject));
  found.push_back(BatchedAgainstAlone(subject));
  std::vector<Check> checks;
  for (absl::StatusOr<Check>& check : found) {
    if (!check.ok()) return check.status();
    checks.push_back(*std::move(check));
  }
  return checks;
}

}  // namespace tvq::bench
