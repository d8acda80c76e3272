#include "models/verify/compare.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"

namespace tvq::verify {
namespace {

// log-softmax of one row of logits, in float64.
std::vector<double> LogSoftmax(const std::vector<float>& logits) {
  const double top = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (float l : logits) sum += std::exp(static_cast<double>(l) - top);
  const double log_sum = top + std::log(sum);
  std::vector<double> result(logits.size());
  for (size_t i = 0; i < logits.size(); ++i) result[i] = logits[i] - log_sum;
  return result;
}

// Accumulates the comparison of rows as they are computed, in order of position.
class RowChecker {
 public:
  RowChecker(const ExpectedSequence& expected, Comparison& result)
      : expected_(expected), width_(static_cast<size_t>(expected.row_width)), result_(result) {}

  void Check(size_t position, const std::vector<double>& row) {
    const size_t length = expected_.tokens.size();
    const size_t first_row = length - static_cast<size_t>(expected_.row_count);
    const float* expected_row = position >= first_row && !expected_.rows.empty()
                                    ? expected_.rows.data() + (position - first_row) * width_
                                    : nullptr;
    if (expected_row != nullptr) {
      for (size_t i = 0; i < width_; ++i) Difference(row[i], expected_row[i]);
    }
    if (position + 1 >= length) return;
    const size_t target = static_cast<size_t>(expected_.tokens[position + 1]);
    double expected_target = expected_row != nullptr ? expected_row[target] : 0;
    if (!expected_.targets.empty()) {
      expected_target = expected_.targets[position];
      Difference(row[target], expected_target);
    } else if (expected_row == nullptr) {
      return;
    }
    result_.target_bits -= row[target] / std::log(2.0);
    result_.expected_bits -= expected_target / std::log(2.0);
    ++result_.target_count;
  }

  void Difference(double actual, double expected) {
    // A NaN must count as the largest of differences, not vanish in a comparison.
    double difference = std::abs(actual - expected);
    if (std::isnan(difference)) difference = std::numeric_limits<double>::infinity();
    result_.max_difference = std::max(result_.max_difference, difference);
    result_.sum_squares += difference * difference;
    ++result_.compared;
  }

 private:
  const ExpectedSequence& expected_;
  const size_t width_;
  Comparison& result_;
};

// Feeds tokens to one state and returns rows of log-probabilities.
class Feeder {
 public:
  static absl::StatusOr<Feeder> Create(Model& model) {
    absl::StatusOr<std::unique_ptr<State>> state = model.NewState();
    if (!state.ok()) return state.status();
    absl::StatusOr<Logits> logits = model.NewLogits(1);
    if (!logits.ok()) return logits.status();
    return Feeder(model, *std::move(state), *std::move(logits));
  }

  // Makes one decode step; returns the row after `token`.
  absl::StatusOr<std::vector<double>> Step(int32_t token) {
    const DecodeRow row{state_.get(), token, 0};
    if (absl::Status s = model_.Decode({&row, 1}, &logits_); !s.ok()) return s;
    return Row();
  }

  // Feeds all `tokens` in chunks, and calls `check(i, row)` for every token.
  template <typename Check>
  absl::Status Prefill(std::span<const int32_t> tokens, const Check& check) {
    const int64_t vocab = model_.info().config.vocab_size;
    const std::vector<int32_t> any_target(tokens.size(), 0);
    std::vector<TokenLogprob> target, top;
    for (size_t at = 0; at < tokens.size();) {
      const auto n = static_cast<size_t>(NextChunk(state_->position(),
                                                   static_cast<int64_t>(tokens.size() - at),
                                                   model_.info().config.prefill_chunk));
      target.resize(n);
      top.resize(n * static_cast<size_t>(vocab));
      PrefillChunk chunk;
      chunk.state = state_.get();
      chunk.tokens = tokens.subspan(at, n);
      chunk.logits_row = 0;
      chunk.targets = std::span(any_target).subspan(at, n);
      chunk.target_logprobs = target;
      chunk.top_logprobs = vocab;  // all of them: a whole row, in another order
      chunk.top = top;
      if (absl::Status s = model_.Prefill(chunk, &logits_); !s.ok()) return s;
      std::vector<double> row(static_cast<size_t>(vocab));
      for (size_t i = 0; i < n; ++i) {
        for (size_t j = 0; j < row.size(); ++j) {
          const TokenLogprob& entry = top[i * row.size() + j];
          row[static_cast<size_t>(entry.id)] = entry.logprob;
        }
        check(at + i, row);
      }
      at += n;
    }
    return absl::OkStatus();
  }

  // The row after the last token of a prefill.
  absl::StatusOr<std::vector<double>> Row() {
    std::vector<float> host(static_cast<size_t>(logits_.view.dim(1)));
    if (absl::Status s = model_.ReadLogits(logits_, 0, host); !s.ok()) return s;
    return LogSoftmax(host);
  }

 private:
  Feeder(Model& model, std::unique_ptr<State> state, Logits logits)
      : model_(model), state_(std::move(state)), logits_(std::move(logits)) {}

  Model& model_;
  std::unique_ptr<State> state_;
  Logits logits_;
};

absl::Status FeedAll(Feeder& feeder, std::span<const int32_t> tokens, Mode mode,
                     RowChecker& checker) {
  if (mode == Mode::kPrefill) {
    return feeder.Prefill(tokens, [&](size_t i, const auto& row) { checker.Check(i, row); });
  }
  for (size_t i = 0; i < tokens.size(); ++i) {
    absl::StatusOr<std::vector<double>> row = feeder.Step(tokens[i]);
    if (!row.ok()) return row.status();
    checker.Check(i, *row);
  }
  return absl::OkStatus();
}

// Feeds the prompt in the given mode, then the expected tokens one by one, and compares each with
// the most probable token.
absl::Status ContinueGreedily(Feeder& feeder, const ExpectedSequence& expected, Mode mode,
                              RowChecker& checker, Comparison& result) {
  std::vector<double> row;
  if (mode == Mode::kPrefill) {
    absl::Status s = feeder.Prefill(expected.prompt, [&](size_t, const auto& last) { row = last; });
    if (!s.ok()) return s;
  } else {
    for (int32_t token : expected.prompt) {
      absl::StatusOr<std::vector<double>> next = feeder.Step(token);
      if (!next.ok()) return next.status();
      row = *std::move(next);
    }
  }
  for (size_t i = 0; i < expected.tokens.size(); ++i) {
    const auto best = static_cast<int32_t>(std::max_element(row.begin(), row.end()) - row.begin());
    if (best != expected.tokens[i]) ++result.greedy_mismatches;
    checker.Difference(row[static_cast<size_t>(expected.tokens[i])], expected.token_logprobs[i]);
    absl::StatusOr<std::vector<double>> next = feeder.Step(expected.tokens[i]);
    if (!next.ok()) return next.status();
    row = *std::move(next);
  }
  return absl::OkStatus();
}

// Compares the vectors of all positions, computed in one call (kPrefill) or row by row (kStep).
absl::Status Encode(Model& model, const ExpectedSequence& expected, Mode mode,
                    RowChecker& checker) {
  Encoder* const encoder = model.encoder();
  if (encoder == nullptr || encoder->width() != expected.row_width) {
    return absl::InvalidArgumentError(absl::StrCat(
        expected.name, ".vectors: the model gives vectors of ",
        encoder == nullptr ? 0 : encoder->width(), " numbers, not of ", expected.row_width));
  }
  absl::StatusOr<std::unique_ptr<State>> state = model.NewState();
  if (!state.ok()) return state.status();
  if (absl::Status s = encoder->Begin(**state, expected.tokens); !s.ok()) return s;
  const int64_t all = encoder->Rows(static_cast<int64_t>(expected.tokens.size()));
  const int64_t step = mode == Mode::kPrefill ? all : 1;
  for (int64_t done = 0; done < all; done += step) {
    if (absl::Status s = encoder->Advance(**state, step); !s.ok()) return s;
  }
  std::vector<float> out(expected.rows.size());
  if (absl::Status s = encoder->Read(**state, /*mean=*/false, out); !s.ok()) return s;
  for (size_t i = 0; i < out.size(); ++i) checker.Difference(out[i], expected.rows[i]);
  return absl::OkStatus();
}

absl::Status Run(Model& model, const ExpectedSequence& expected, Mode mode, Comparison& result) {
  RowChecker checker(expected, result);
  if (expected.encoded) return Encode(model, expected, mode, checker);
  absl::StatusOr<Feeder> feeder = Feeder::Create(model);
  if (!feeder.ok()) return feeder.status();
  if (expected.greedy) return ContinueGreedily(*feeder, expected, mode, checker, result);
  return FeedAll(*feeder, expected.tokens, mode, checker);
}

// Notes the codes of a run, and replaces them.
class CodeForcer {
 public:
  CodeForcer(const ExpectedSequence& expected, const Codes* forced, Comparison& result)
      : expected_(expected), forced_(forced), result_(result) {
    heads_ =
        std::ssize(expected.codes) / std::max<int64_t>(1, static_cast<int64_t>(expected.length()));
  }

  void See(int64_t layer, Matrix<int32_t> codes) {
    const auto n = static_cast<size_t>(codes.size());
    const size_t before = result_.codes.size();
    result_.codes.insert(result_.codes.end(), codes.data, codes.data + n);
    if (forced_ != nullptr) {
      std::copy_n(forced_->begin() + static_cast<int64_t>(before), n, codes.data);
    } else if (!expected_.codes.empty()) {
      TakeExpected(layer, codes);
    }
    // In a converted model layers themselves give position 0 a code of its own, so it is not
    // counted.
    const auto first = position_ == 0 && heads_ > 0 ? static_cast<size_t>(codes.dim(1)) : 0;
    for (size_t i = first; i < n; ++i) {
      result_.other_codes += codes.data[i] == result_.codes[before + i] ? 0 : 1;
    }
  }

  // An error unless the model has as many heads as the expected codes.
  absl::Status Check() const {
    if (expected_.codes.empty() || forced_ != nullptr || end_ == heads_) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(expected_.name, ".codes: of ", heads_,
                                                   " heads, must be of the model's ", end_));
  }

 private:
  void TakeExpected(int64_t layer, Matrix<int32_t> codes) {
    if (layer == 0) {
      position_ += rows_;
      end_ = 0;
    }
    rows_ = codes.dim(0);
    const int64_t first = std::exchange(end_, end_ + codes.dim(1));
    if (end_ > heads_) return;
    for (int64_t row = 0; row < rows_; ++row) {
      std::copy_n(expected_.codes.begin() + (position_ + row) * heads_ + first, codes.dim(1),
                  codes.row(row));
    }
  }

  const ExpectedSequence& expected_;
  const Codes* const forced_;
  Comparison& result_;
  int64_t heads_ = 0;     // for which there are expected codes
  int64_t position_ = 0;  // of the call's first row
  int64_t rows_ = 0;      // of the call
  int64_t end_ = 0;       // heads of the layers that the call has reached
};

}  // namespace

absl::StatusOr<Comparison> Compare(Model& model, const ExpectedSequence& expected, Mode mode,
                                   const Codes* forced) {
  Comparison result;
  QuantizedKeys* const keys = model.quantized_keys();
  CodeForcer forcer(expected, forced, result);
  if (keys == nullptr && !expected.codes.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(expected.name, ".codes: the model quantizes no keys"));
  }
  if (keys != nullptr) keys->SetTap([&](int64_t layer, auto codes) { forcer.See(layer, codes); });
  absl::Status status = Run(model, expected, mode, result);
  if (keys != nullptr) keys->SetTap({});
  if (status.ok()) status = forcer.Check();
  if (!status.ok()) return status;
  return result;
}

}  // namespace tvq::verify
