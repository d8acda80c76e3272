// tvq-bench masks: what a grammar costs for each token of an output. The vocabulary is random, with
// the kinds of tokens that those of published models have.

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "kernels/device/device.h"
#include "models/runtime/text/grammar.h"
#include "tests/bench/benches.h"
#include "tests/bench/report.h"
#include "tests/bench/statistics.h"

namespace tvq::bench {
namespace {

constexpr int kLongestOutput = 300;  // tokens

struct Form {
  const char* name;
  const char* schema;
};

constexpr Form kForms[] = {
    {"any JSON object", R"({"type": "object"})"},
    {"a person", R"({"type": "object", "additionalProperties": false,
        "required": ["name", "age", "tags", "address"], "properties": {
          "name": {"type": "string", "maxLength": 40},
          "age": {"type": "integer", "minimum": 0, "maximum": 150},
          "tags": {"type": "array", "items": {"type": "string"}, "maxItems": 8},
          "address": {"type": "object", "required": ["city"], "properties": {
            "street": {"type": "string"}, "city": {"type": "string"},
            "code": {"type": "string", "pattern": "^[0-9]{5}(-[0-9]{4})?$"}}}}})"},
    {"a call of one of three tools", R"({"anyOf": [
        {"type": "object", "additionalProperties": false, "required": ["name", "arguments"],
         "properties": {"name": {"const": "weather"}, "arguments": {"type": "object",
           "properties": {"place": {"type": "string"}, "unit": {"enum": ["celsius", "kelvin"]}}}}},
        {"type": "object", "additionalProperties": false, "required": ["name", "arguments"],
         "properties": {"name": {"const": "search"}, "arguments": {"type": "object",
           "properties": {"query": {"type": "string"}, "limit": {"type": "integer"}}}}},
        {"type": "object", "additionalProperties": false, "required": ["name", "arguments"],
         "properties": {"name": {"const": "mail"}, "arguments": {"type": "object",
           "properties": {"to": {"type": "string", "format": "email"},
                          "text": {"type": "string"}}}}}]})"},
};

// The bytes, then words of letters, half of them with a space before, numbers, punctuation as JSON
// and code have it, and characters of three bytes. The last id ends an output.
class RandomVocabulary : public Tokenizer {
 public:
  explicit RandomVocabulary(int64_t size) {
    for (int byte = 0; byte < 256; ++byte) texts_.emplace_back(1, static_cast<char>(byte));
    std::mt19937 random(1);
    while (std::ssize(texts_) < size - 1) texts_.push_back(RandomText(random));
    texts_.emplace_back();
  }
  int32_t end() const { return vocab_size() - 1; }

  absl::StatusOr<std::vector<int32_t>> Encode(std::string_view) const override {
    return absl::UnimplementedError("not needed");
  }
  std::string_view TokenBytes(int32_t id) const override { return texts_[static_cast<size_t>(id)]; }
  bool IsSpecial(int32_t id) const override { return id == end(); }
  bool StripsLeadingSpace() const override { return false; }
  int32_t vocab_size() const override { return static_cast<int32_t>(texts_.size()); }
  std::string_view type() const override { return "bytes"; }

 private:
  static std::string RandomText(std::mt19937& random) {
    constexpr std::string_view kMarks = "\"{}[]:,.;()<>/\\-_=+*'\n\t ";
    const auto below = [&](uint32_t n) { return random() % n; };
    const uint32_t kind = below(20);
    std::string text;
    if (kind < 15) {
      if (below(2) == 0) text += ' ';
      const uint32_t length = 2 + below(5) + below(6);
      for (uint32_t i = 0; i < length; ++i) text += static_cast<char>('a' + below(26));
      if (below(4) == 0) text[text[0] == ' '] -= 'a' - 'A';
    } else if (kind < 16) {
      for (uint32_t n = 1 + below(3); n > 0; --n) text += static_cast<char>('0' + below(10));
    } else if (kind < 18) {
      for (uint32_t n = 2 + below(4); n > 0; --n) text += kMarks[below(kMarks.size())];
    } else {
      for (uint32_t n = 1 + below(2); n > 0; --n) {
        const uint32_t point = 0x4e00 + below(0x5000);
        text += static_cast<char>(0xe0 | point >> 12);
        text += static_cast<char>(0x80 | (point >> 6 & 0x3f));
        text += static_cast<char>(0x80 | (point & 0x3f));
      }
    }
    return text;
  }

  std::vector<std::string> texts_;
};

// One of the tokens that the mask has: in every third place a single byte, so that texts end.
int32_t Choose(std::span<const uint32_t> mask, int32_t end, std::mt19937& random) {
  std::vector<int32_t> ids;
  const bool byte = random() % 3 == 0;
  for (int32_t id = 0; id <= end; ++id) {
    if (byte && id >= 256 && id != end && !ids.empty()) continue;
    if (mask[static_cast<size_t>(id / 32)] >> (id % 32) & 1U) ids.push_back(id);
  }
  return ids[random() % ids.size()];
}

struct Outputs {
  std::vector<double> us;  // of each token: the one before is taken, and the mask found
  int64_t ended = 0;
};

absl::Status Write(const Grammar& grammar, const RandomVocabulary& vocabulary, std::mt19937& random,
                   Outputs& outputs) {
  absl::StatusOr<GrammarMatcher> matcher = grammar.Begin();
  if (!matcher.ok()) return matcher.status();
  std::vector<uint32_t> mask(static_cast<size_t>(grammar.mask_words()));
  int32_t id = -1;
  for (int i = 0; i < kLongestOutput; ++i) {
    const Stopwatch watch;
    if (absl::Status s = id < 0 ? absl::OkStatus() : matcher->Accept(id); !s.ok()) return s;
    if (absl::Status s = matcher->Mask(mask); !s.ok()) return s;
    outputs.us.push_back(watch.Seconds() * 1e6);
    id = Choose(mask, vocabulary.end(), random);
    if (id == vocabulary.end()) {
      ++outputs.ended;
      break;
    }
  }
  return absl::OkStatus();
}

absl::Status RunForm(const Form& form, const GrammarVocabulary& read,
                     const RandomVocabulary& vocabulary, int64_t rounds, Json& report) {
  const Stopwatch watch;
  const auto grammar = read.Read(GrammarLanguage::kJsonSchema, form.schema);
  const double ms = watch.Seconds() * 1e3;
  if (!grammar.ok()) return grammar.status();
  std::mt19937 random(2);
  Outputs outputs;
  for (int64_t i = 0; i < rounds; ++i) {
    if (absl::Status s = Write(**grammar, vocabulary, random, outputs); !s.ok()) return s;
  }
  const double most = *std::ranges::max_element(outputs.us);
  std::printf("%-30s %8.1f %8.2f %8zu %8.1f %8.1f %8.1f\n", form.name, ms,
              static_cast<double>((*grammar)->bytes()) / 1e6, outputs.us.size(), Median(outputs.us),
              Quantile(outputs.us, 0.99), most);
  report["cases"].push_back({{"form", form.name},
                             {"ms_to_read", ms},
                             {"bytes", (*grammar)->bytes()},
                             {"outputs", rounds},
                             {"outputs_ended", outputs.ended},
                             {"tokens", outputs.us.size()},
                             {"us_median", Median(outputs.us)},
                             {"us_p99", Quantile(outputs.us, 0.99)},
                             {"us_max", most}});
  return absl::OkStatus();
}

}  // namespace

absl::Status BenchMasks(const Options& options) {
  const auto device = MakeDevice("cpu", /*threads=*/1);
  if (!device.ok()) return device.status();
  Json report = StartReport("masks", options, **device);
  const RandomVocabulary vocabulary(options.vocab_size);
  const Stopwatch watch;
  const auto read = GrammarVocabulary::Make(vocabulary, std::vector{vocabulary.end()});
  if (!read.ok()) return read.status();
  report["vocab_size"] = options.vocab_size;
  report["seconds_to_order_tokens"] = watch.Seconds();
  std::printf("%lld tokens, ordered in %.2f s\n\n%-30s %8s %8s %8s %8s %8s %8s\n",
              static_cast<long long>(options.vocab_size), watch.Seconds(), "", "read, ms", "MB",
              "tokens", "us", "p99", "max");
  for (const Form& form : kForms) {
    if (absl::Status s = RunForm(form, *read, vocabulary, options.rounds, report); !s.ok()) {
      return s;
    }
  }
  return WriteReport(report, options.json);
}

}  // namespace tvq::bench
