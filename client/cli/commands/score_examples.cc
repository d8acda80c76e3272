#include "client/cli/commands/score_examples.h"

#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/json.h"
#include "base/output_file.h"
#include "client/cli/io/examples.h"
#include "client/cli/io/input.h"
#include "client/cli/io/picture.h"
#include "client/cli/io/terminal.h"

namespace tvq::cli {
namespace {

// Ids of a context of its own, of which the first `given` are not counted.
struct Example {
  std::vector<int32_t> ids;
  size_t given = 0;
  int64_t unknown = 0;  // of the others
};

struct Total {
  int64_t examples = 0;
  int64_t tokens = 0;   // that counted
  int64_t unknown = 0;  // of these
  double nats = 0;

  void Add(const Total& other) {
    examples += other.examples;
    tokens += other.tokens;
    unknown += other.unknown;
    nats += other.nats;
  }
};

absl::StatusOr<v1::TokenizeResponse> Tokenized(const Globals& globals, const std::string& model,
                                               const std::string& text, bool begins,
                                               bool allow_unknown) {
  v1::TokenizeRequest request;
  request.set_model(model);
  request.set_text(text);
  request.set_add_special_tokens(begins);
  request.set_allow_unknown(allow_unknown);
  return globals.client->Tokenize(request, globals.Call());
}

// A pair of the file `name`: its first text and a newline are given.
absl::StatusOr<Example> ExampleOf(const Globals& globals, const std::string& model,
                                  const Pair& pair, const std::string& name, bool allow_unknown) {
  const auto failed = [&](const absl::Status& status, const char* which) {
    return absl::Status(status.code(), absl::StrCat(name, ": line ", pair.line, ": ", which, " ",
                                                    status.message()));
  };
  const auto first =
      Tokenized(globals, model, absl::StrCat(pair.first, "\n"), /*begins=*/true, allow_unknown);
  if (!first.ok()) return failed(first.status(), "first");
  const auto second = Tokenized(globals, model, pair.second, /*begins=*/false, allow_unknown);
  if (!second.ok()) return failed(second.status(), "second");
  if (globals.interrupt->happened()) return absl::CancelledError("interrupted");
  Example example{{first->token_ids().begin(), first->token_ids().end()},
                  static_cast<size_t>(first->token_ids_size())};
  example.ids.insert(example.ids.end(), second->token_ids().begin(), second->token_ids().end());
  example.unknown = second->unknown_tokens();
  return example;
}

// An example without given tokens begins behind the end-of-sequence id, if there is one.
absl::StatusOr<Total> Score(const Globals& globals, const v1::Model& model,
                            const Example& example) {
  v1::ScoreRequest request;
  request.set_model(model.name());
  request.mutable_token_ids()->mutable_ids()->Add(example.ids.begin(), example.ids.end());
  request.set_prepend_eos(example.given == 0 && model.has_eos_token_id());
  const auto stream = globals.client->Score(request, globals.Call());
  const Interrupt::Guard guard(*globals.interrupt, [&] { stream->Cancel(); });
  v1::ScoreResponse response;
  Total total{.examples = 1, .unknown = example.unknown};
  size_t at = 0;
  while (stream->Next(&response)) {
    for (const v1::TokenLogprobs& token : response.tokens()) {
      if (at++ < example.given || !token.has_logprob()) continue;
      total.nats -= token.token().logprob();
      ++total.tokens;
    }
  }
  if (absl::Status status = stream->Finish(); !status.ok()) return status;
  return total;
}

nlohmann::json TotalJson(const Total& total) {
  const double nats = total.nats / static_cast<double>(total.tokens);
  return {{"scored_tokens", total.tokens},
          {"unknown_tokens", total.unknown},
          {"bits_per_token", nats / std::log(2.0)},
          {"perplexity", std::exp(nats)}};
}

// Scores examples one after the other, and tells how well the model predicts them together: also
// when Ctrl-C comes, between two of them too. `noun`: what one is called.
class Scoring {
 public:
  Scoring(const Globals& globals, const v1::Model& model, const char* noun, size_t all)
      : globals_(globals),
        model_(model),
        noun_(noun),
        all_(all),
        // Not among lines of the same terminal.
        progress_(isatty(STDERR_FILENO) == 1 && (!globals.json || isatty(STDOUT_FILENO) != 1)),
        guard_(*globals.interrupt, [] {}) {}

  // `place`: the line of a pair, the number of an image.
  absl::Status Add(const absl::StatusOr<Example>& example, const char* name, int64_t place) {
    if (!example.ok()) return example.status();
    const absl::StatusOr<Total> one = Score(globals_, model_, *example);
    if (!one.ok()) return one.status();
    total_.Add(*one);
    if (globals_.json) {
      nlohmann::json json = TotalJson(*one);
      json[name] = place;
      std::printf("%s\n", JsonLine(json.dump()).c_str());
      if (const auto written = FlushStdout(); !written.ok()) return written;
    }
    if (progress_) {
      std::fprintf(stderr, "\r%lld of %zu", static_cast<long long>(total_.examples), all_);
    }
    return absl::OkStatus();
  }

  // After the last one, or the one that failed. Returns the exit code.
  int End(const absl::Status& status) {
    if (progress_) std::fprintf(stderr, "\r\033[K");
    if (const auto written = FlushStdout(); !written.ok()) return globals_.FailUsage(written);
    const bool interrupted = absl::IsCancelled(status) && globals_.interrupt->happened();
    if (interrupted) EndTerminalLine();
    if (status.ok() || (interrupted && total_.examples > 0)) Print();
    if (interrupted) return kInterrupted;
    return status.ok() ? kOk : globals_.Fail(status);
  }

 private:
  void Print() const {
    if (globals_.json) {
      nlohmann::json json = TotalJson(total_);
      json["model"] = model_.name();
      json[absl::StrCat(noun_, "s")] = total_.examples;
      std::printf("%s\n", JsonLine(json.dump()).c_str());
      return;
    }
    std::printf("%s, %s scored%s: ", Counted(total_.examples, noun_).c_str(),
                Counted(total_.tokens, "token").c_str(), OfThemUnknown(total_.unknown).c_str());
    const double nats = total_.nats / static_cast<double>(total_.tokens);
    if (std::string_view(noun_) == "image") {
      std::printf("%.4f bits per dimension\n", nats / std::log(2.0));
    } else {
      std::printf("perplexity %.4f of a second text's token\n", std::exp(nats));
    }
  }

  const Globals& globals_;
  const v1::Model& model_;
  const char* const noun_;
  const size_t all_;
  const bool progress_;
  const Interrupt::Guard guard_;
  Total total_;
};

// The first `count`, or all.
template <typename T>
void Keep(std::optional<int64_t> count, std::vector<T>& all) {
  if (count && static_cast<size_t>(*count) < all.size()) all.resize(static_cast<size_t>(*count));
}

int ScorePairs(const Globals& globals, const ExampleOptions& options, bool allow_unknown,
               const v1::Model& model, const std::string& bytes) {
  const std::string name = InputName(options.pairs);
  auto pairs = ParsePairs(bytes, name);
  if (!pairs.ok()) return globals.FailUsage(pairs.status());
  Keep(options.count, *pairs);
  Scoring scoring(globals, model, "pair", pairs->size());
  absl::Status status;
  for (size_t i = 0; i < pairs->size() && status.ok(); ++i) {
    const Pair& pair = (*pairs)[i];
    status =
        scoring.Add(ExampleOf(globals, model.name(), pair, name, allow_unknown), "line", pair.line);
  }
  return scoring.End(status);
}

int ScoreImages(const Globals& globals, const ExampleOptions& options, const v1::Model& model,
                const std::string& bytes) {
  if (const auto status = CheckDraws(model); !status.ok()) return globals.FailUsage(status);
  const std::string name = InputName(options.images);
  auto images = ParseImages(bytes, name);
  if (!images.ok()) return globals.FailUsage(images.status());
  Keep(options.count, *images);
  Scoring scoring(globals, model, "image", images->size());
  absl::Status status;
  for (size_t i = 0; i < images->size() && status.ok(); ++i) {
    auto ids = TokensOf((*images)[i], model.image(), model.image().height(), name);
    if (!ids.ok()) return globals.FailUsage(ids.status());
    Example example{*std::move(ids), 0};
    if (model.has_bos_token_id()) {
      example.ids.insert(example.ids.begin(), model.bos_token_id());
      example.given = 1;
    }
    status = scoring.Add(example, "image", static_cast<int64_t>(i));
  }
  return scoring.End(status);
}

}  // namespace

void ExampleOptions::AddTo(flags::Command command, std::initializer_list<flags::Option> others) {
  constexpr char kGroup[] = "Examples";
  const flags::Option with_pairs =
      command
          .Add("--pairs", pairs,
               "Lines of two texts with a tab between them: how well the second one follows")
          .TypeName("FILE")
          .NotEmpty("a file's name")
          .Group(kGroup);
  const flags::Option with_images =
      command.Add("--images", images, "A PNG file, or an idx file of many images")
          .TypeName("FILE")
          .NotEmpty("a file's name")
          .Group(kGroup)
          .Excludes(with_pairs);
  for (flags::Option other : others) {
    with_pairs.Excludes(other);
    with_images.Excludes(other);
  }
  command.Add("--count", count, "The first so many of them; default all")
      .Within(int64_t{1}, int64_t{1} << 40)
      .Group(kGroup);
}

absl::Status ExampleOptions::Check() const {
  if (!count || given()) return absl::OkStatus();
  return absl::InvalidArgumentError("--count: is for --pairs or --images, and neither is given");
}

int ScoreExamples(const Globals& globals, const ExampleOptions& options, bool allow_unknown,
                  const v1::Model& model) {
  std::string bytes;
  const bool are_pairs = !options.pairs.empty();
  const absl::Status read = are_pairs
                                ? ReadInput(options.pairs, &bytes, "pairs")
                                : ReadInput(options.images, &bytes, "images", Content::kBinary);
  if (!read.ok()) return globals.FailUsage(read);
  return are_pairs ? ScorePairs(globals, options, allow_unknown, model, bytes)
                   : ScoreImages(globals, options, model, bytes);
}

}  // namespace tvq::cli
