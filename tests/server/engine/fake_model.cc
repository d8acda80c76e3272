#include "tests/server/engine/fake_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>
#include <utility>

#include "absl/strings/str_format.h"

namespace tvq {
namespace {

constexpr uint64_t kPoisoned = 0;

uint64_t Mix(uint64_t x) {  // SplitMix64
  x += 0x9e3779b97f4a7c15ull;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

double Unit(uint64_t x) { return (static_cast<double>(Mix(x) >> 11) + 0.5) * 0x1p-53; }

// log p(id), its rank, and the `count` best.
TokenLogprob Describe(std::span<const float> logits, int32_t id) {
  double sum = 0;
  for (float l : logits) sum += std::exp(static_cast<double>(l));
  const float logit = logits[static_cast<size_t>(id)];
  int32_t rank = 1;
  for (size_t v = 0; v < logits.size(); ++v) {
    if (logits[v] > logit || (logits[v] == logit && v < static_cast<size_t>(id))) ++rank;
  }
  return {id, static_cast<float>(logit - std::log(sum)), rank};
}

void Best(std::span<const float> logits, int64_t count, std::span<TokenLogprob> out) {
  std::vector<int32_t> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  std::stable_sort(ids.begin(), ids.end(), [&](int32_t a, int32_t b) {
    return logits[static_cast<size_t>(a)] > logits[static_cast<size_t>(b)];
  });
  for (int64_t i = 0; i < count; ++i) {
    out[static_cast<size_t>(i)] = Describe(logits, ids[static_cast<size_t>(i)]);
  }
}

bool Finite(std::span<const float> logits) {
  return std::all_of(logits.begin(), logits.end(), [](float l) { return std::isfinite(l); });
}

std::vector<float> Processed(std::span<const float> raw, const SampleRow& row) {
  std::vector<float> l(raw.begin(), raw.end());
  constexpr float kOut = -std::numeric_limits<float>::infinity();
  if (!row.allowed_ids.empty()) {
    for (size_t v = 0; v < l.size(); ++v) {
      if (std::count(row.allowed_ids.begin(), row.allowed_ids.end(), static_cast<int32_t>(v)) ==
          0) {
        l[v] = kOut;
      }
    }
  }
  for (size_t v = 0; v < l.size() && !row.mask.empty(); ++v) {
    if (!MaskHas(row.mask, static_cast<int64_t>(v))) l[v] = kOut;
  }
  for (int32_t id : row.banned_ids) l[static_cast<size_t>(id)] = kOut;
  for (const LogitBias& b : row.logit_bias) l[static_cast<size_t>(b.id)] += b.bias;
  for (const TokenCount& c : row.counts) {
    float& x = l[static_cast<size_t>(c.id)];
    if (row.repetition_penalty != 1) {
      x = x > 0 ? x / row.repetition_penalty : x * row.repetition_penalty;
    }
    x -= row.frequency_penalty * static_cast<float>(c.in_output);
    if (c.in_output > 0) x -= row.presence_penalty;
  }
  return l;
}

// The Gumbel trick: the largest of logit / temperature + noise is a sample.
int32_t Choose(const std::vector<float>& logits, const SampleRow& row) {
  int32_t best = 0;
  double best_value = -std::numeric_limits<double>::infinity();
  for (size_t v = 0; v < logits.size(); ++v) {
    double value = logits[v];
    if (row.temperature > 0) {
      const uint64_t key = Mix(Mix(Mix(row.seed) ^ row.sample_index) ^ row.position) ^ v;
      value = value / row.temperature - std::log(-std::log(Unit(key)));
    }
    if (value > best_value) {
      best = static_cast<int32_t>(v);
      best_value = value;
    }
  }
  return best;
}

class FakeState : public State {
 public:
  FakeState(FakeModel* model, uint64_t seed) : hash(seed), model_(model), seed_(seed) {
    ++model->live_states;
  }
  ~FakeState() override { --model_->live_states; }

  int64_t position() const override { return position_; }
  int64_t bytes() const override { return model_->StateBytes(position_); }
  int64_t sealed_bytes() const override { return std::ssize(sealed_) * model_->PageBytes(); }
  void Seal(const Pay& pay) override {
    const int64_t page = model_->PageBytes();
    while (page > 0 && model_->StateBytes(position_) - model_->StateBytes(0) >=
                           (std::ssize(sealed_) + 1) * page) {
      sealed_.push_back(pay(page));
    }
  }
  absl::Status CopyFrom(const State& other) override {
    const auto& from = dynamic_cast<const FakeState&>(other);
    EXPECT_EQ(from.model_, model_);
    hash = from.hash;
    position_ = from.position_;
    sealed_ = from.sealed_;
    return absl::OkStatus();
  }
  absl::Status Reset() override {
    hash = seed_;
    position_ = 0;
    sealed_.clear();
    return absl::OkStatus();
  }
  std::vector<SectionInfo> Sections() const override { return model_->StateSections(position_); }
  absl::Status VisitSectionsFrom(size_t first, const SectionVisitor& visit) const override {
    const std::vector<SectionInfo> sections = Sections();
    absl::Status status;
    if (first == 0) status = visit(sections[0], std::as_bytes(std::span(&hash, 1)));
    const std::vector<std::byte> growth(static_cast<size_t>(sections[1].bytes));
    return status.ok() && first <= 1 ? visit(sections[1], growth) : status;
  }
  absl::Status Load(int64_t position, const SectionReader& read) override {
    const std::vector<SectionInfo> sections = model_->StateSections(position);
    sealed_.clear();
    absl::Status status = read(sections[0], std::as_writable_bytes(std::span(&hash, 1)));
    std::vector<std::byte> growth(static_cast<size_t>(sections[1].bytes));
    if (status.ok()) status = read(sections[1], growth);
    if (status.ok() && hash == kPoisoned) {
      status = absl::InvalidArgumentError("hash[0] is 0, must be what tokens hash to");
    }
    position_ = position;
    if (!status.ok()) (void)Reset();
    return status;
  }

  // Keeps what TakeBack needs.
  void FeedDraft(int32_t token, const FakeOptions& options) {
    before_drafts.push_back(hash);
    Feed(token, options);
  }
  void TakeBack() {
    hash = before_drafts.back();
    before_drafts.pop_back();
    --position_;
  }
  void Feed(int32_t token, const FakeOptions& options) {
    const bool poisons = token == options.poison && position_ >= options.poison_from;
    hash = poisons || hash == kPoisoned ? kPoisoned : Mix(hash ^ static_cast<uint64_t>(token));
    ++position_;
  }

  uint64_t hash;
  std::vector<uint64_t> before_drafts;  // of the last call of Decode

 private:
  FakeModel* model_;
  uint64_t seed_;
  int64_t position_ = 0;
  std::vector<std::shared_ptr<const void>> sealed_;
};

}  // namespace

std::vector<int32_t> Ids(std::string_view text) {
  std::vector<int32_t> ids;
  for (char c : text) ids.push_back(ByteId(c));
  return ids;
}

FakeTokenizer::FakeTokenizer() {
  for (int b = 0; b < 256; ++b) bytes_[static_cast<size_t>(b)] = static_cast<char>(b);
}

absl::StatusOr<std::vector<int32_t>> FakeTokenizer::Encode(std::string_view text) const {
  return Ids(text);
}

std::string_view FakeTokenizer::TokenBytes(int32_t id) const {
  return id < 3 ? std::string_view() : std::string_view(&bytes_[static_cast<size_t>(id - 3)], 1);
}

FakeModel::FakeModel(FakeOptions options) : options_(options) {
  info_.family = "fake";
  // Of the function, as a real one: the seed and the options that change logits.
  info_.fingerprint = absl::StrFormat(
      "%016x%016x", options.seed,
      Mix(std::bit_cast<uint32_t>(options.eos_bias)) ^ static_cast<uint64_t>(options.letters_only));
  info_.config.vocab_size = kVocab;
  info_.config.prefill_chunk = options.prefill_chunk;
  info_.config.max_position = options.max_position;
  info_.config.eos_token_id = kEos;
  info_.generation = {.bos_token_id = options.add_bos_token ? std::optional(kEos) : std::nullopt,
                      .add_bos_token = options.add_bos_token};
  if (options.conversations == nullptr) return;
  info_.conversations = {std::shared_ptr<void>(), options.conversations};
}

FakeModel::~FakeModel() { EXPECT_EQ(live_states, 0); }

int64_t FakeModel::StateBytes(int64_t tokens) const {
  return options_.state_bytes + options_.bytes_per_token * tokens;
}

std::vector<SectionInfo> FakeModel::StateSections(int64_t position) const {
  return {MakeSection("hash", 8, {1}),
          MakeSection("growth", 1, {StateBytes(position) - StateBytes(0)})};
}

absl::Status FakeModel::Enter(std::string_view call) {
  ++calls;
  return on_call ? on_call(call) : absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<State>> FakeModel::NewState() {
  if (auto status = Enter("NewState"); !status.ok()) return status;
  return std::make_unique<FakeState>(this, Mix(options_.seed));
}

absl::StatusOr<Logits> FakeModel::NewLogits(int64_t rows) {
  Logits logits;
  const auto count = static_cast<size_t>(rows * kVocab);
  auto* data = new float[count]();
  logits.data =
      Buffer(data, count * sizeof(float), [](void* p) { delete[] static_cast<float*>(p); });
  logits.view = {data, {rows, kVocab}};
  return logits;
}

absl::Status FakeModel::ReadLogits(const Logits& logits, int64_t row, std::span<float> out) {
  if (auto status = Enter("ReadLogits"); !status.ok()) return status;
  EXPECT_EQ(out.size(), static_cast<size_t>(kVocab));
  EXPECT_LT(row, logits.view.dim(0));
  std::copy_n(logits.view.row(row), out.size(), out.begin());
  return absl::OkStatus();
}

absl::Status FakeModel::WriteLogits(std::span<const float> values, Logits* logits, int64_t row) {
  if (auto status = Enter("WriteLogits"); !status.ok()) return status;
  EXPECT_EQ(values.size(), static_cast<size_t>(kVocab));
  EXPECT_LT(row, logits->view.dim(0));
  std::copy(values.begin(), values.end(), logits->view.row(row));
  return absl::OkStatus();
}

void FakeModel::Fill(uint64_t hash, std::span<float> logits) const {
  for (size_t v = 0; v < logits.size(); ++v) {
    const auto id = static_cast<int32_t>(v);
    const bool letter = id >= ByteId('a') && id <= ByteId('h');
    float logit = static_cast<float>(4 * Unit(hash ^ (v << 32)));
    if (id < 3 || (options_.letters_only && !letter)) logit -= 12;
    if (id == kEos) logit += options_.eos_bias;
    logits[v] = hash == kPoisoned ? std::numeric_limits<float>::quiet_NaN() : logit;
  }
}

float FakeModel::Logprob(std::span<const int32_t> context, int32_t id) const {
  uint64_t hash = Mix(options_.seed);
  for (int32_t token : context) hash = Mix(hash ^ static_cast<uint64_t>(token));
  std::vector<float> logits(kVocab);
  Fill(hash, logits);
  return Describe(logits, id).logprob;
}

absl::Status FakeModel::Prefill(const PrefillChunk& chunk, Logits* logits) {
  EXPECT_FALSE(inside_.exchange(true));
  const absl::Status status = Enter("Prefill");
  const absl::Status fed = status.ok() ? Feed(chunk, logits) : status;
  inside_ = false;
  return fed;
}

absl::Status FakeModel::Feed(const PrefillChunk& chunk, Logits* logits) {
  auto& state = dynamic_cast<FakeState&>(*chunk.state);
  const int64_t begin = state.position();
  const auto count = static_cast<int64_t>(chunk.tokens.size());
  EXPECT_GT(count, 0);
  EXPECT_EQ(begin / options_.prefill_chunk, (begin + count - 1) / options_.prefill_chunk)
      << "a chunk crosses a boundary";
  prefilled_tokens += count;
  absl::Status status;
  std::vector<float> scratch(kVocab);
  for (size_t i = 0; i < chunk.tokens.size(); ++i) {
    state.Feed(chunk.tokens[i], options_);
    if (chunk.targets.empty()) continue;
    EXPECT_EQ(chunk.targets.size(), chunk.tokens.size());
    Fill(state.hash, scratch);
    if (!Finite(scratch)) status = absl::InternalError("logits are not finite");
    chunk.target_logprobs[i] = Describe(scratch, chunk.targets[i]);
    const auto top = static_cast<size_t>(chunk.top_logprobs);
    Best(scratch, chunk.top_logprobs, chunk.top.subspan(i * top, top));
  }
  if (chunk.logits_row >= 0) {
    EXPECT_LT(chunk.logits_row, logits->view.dim(0));
    Fill(state.hash, {logits->view.row(chunk.logits_row), kVocab});
  }
  return status;
}

absl::Status FakeModel::Decode(std::span<const DecodeRow> rows, Logits* logits) {
  EXPECT_FALSE(inside_.exchange(true));
  EXPECT_FALSE(rows.empty());
  std::set<State*> seen;
  std::set<int64_t> seen_rows;
  State* last = nullptr;
  int64_t drafts = 0;
  const absl::Status status = Enter("Decode");
  for (const DecodeRow& row : rows) {
    if (!status.ok()) break;
    auto& state = dynamic_cast<FakeState&>(*row.state);
    const bool is_draft = row.state == std::exchange(last, row.state);
    EXPECT_TRUE(seen.insert(row.state).second || is_draft) << "a state twice in one call";
    EXPECT_TRUE(seen_rows.insert(row.logits_row).second) << "a row of logits twice";
    EXPECT_LT(row.logits_row, logits->view.dim(0));
    if (is_draft) {
      EXPECT_LE(++drafts, options_.draft_rows);
      state.FeedDraft(row.token, options_);
    } else {
      state.before_drafts.clear();
      state.Feed(row.token, options_);
    }
    Fill(state.hash, {logits->view.row(row.logits_row), kVocab});
    ++decoded_rows;
    if (state.hash == kPoisoned) ++poisoned_rows;
  }
  inside_ = false;
  return status;
}

absl::Status FakeModel::Rewind(State& state, int64_t position) {
  if (auto status = Enter("Rewind"); !status.ok()) return status;
  auto& fake = dynamic_cast<FakeState&>(state);
  EXPECT_GE(position, state.position() - std::ssize(fake.before_drafts));
  while (state.position() > position) fake.TakeBack();
  EXPECT_EQ(state.position(), position);
  return absl::OkStatus();
}

absl::Status FakeModel::Sample(const Logits& logits, std::span<const SampleRow> rows,
                               int64_t max_top, std::span<TokenLogprob> chosen,
                               std::span<TokenLogprob> top, std::span<absl::Status> row_status) {
  if (auto status = Enter("Sample"); !status.ok()) return status;
  EXPECT_EQ(chosen.size(), rows.size());
  EXPECT_EQ(top.size(), rows.size() * static_cast<size_t>(max_top));
  for (size_t i = 0; i < rows.size(); ++i) {
    const std::span<const float> raw(logits.view.row(rows[i].logits_row), kVocab);
    if (!Finite(raw)) {
      row_status[i] = absl::InternalError("logits are not finite");
      continue;
    }
    row_status[i] = absl::OkStatus();
    const int32_t id = Choose(Processed(raw, rows[i]), rows[i]);
    // Junk where nothing was asked for must not reach a sink.
    chosen[i] = rows[i].top_logprobs >= 0 ? Describe(raw, id) : TokenLogprob{id, -99, 99};
    if (rows[i].top_logprobs > 0) {
      Best(raw, rows[i].top_logprobs,
           top.subspan(i * static_cast<size_t>(max_top), static_cast<size_t>(max_top)));
    }
  }
  return absl::OkStatus();
}

}  // namespace tvq
