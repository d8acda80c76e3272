#include "client/cli/commands/score_examples.h"

#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/cli/io/examples.h"
#include "client/cli/io/input.h"
#include "client/cli/io/picture.h"

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
};

absl::StatusOr<v1::TokenizeResponse> Tokenized(const Globals& globals, const std::string& model,
                                               const std::string& text, bool allow_unknown) {
  v1::TokenizeRequest request;
  request.set_model(model);
  request.set_text(text);
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
  const auto first = Tokenized(globals, model, absl::StrCat(pair.first, "\n"), allow_unknown);
  if (!first.ok()) return failed(first.status(), "first");
  const auto second = Tokenized(globals, model, pair.second, allow_unknown);
  if (!second.ok()) return failed(second.status(), "second");
  Example example{{first->token_ids().begin(), first->token_ids().end()},
                  static_cast<size_t>(first->token_ids_size())};
  example.ids.insert(example.ids.end(), second->token_ids().begin(), second->token_ids().end());
  example.unknown = second->unknown_tokens();
  return example;
}

// An example without given tokens begins, as all that is drawn does, behind the end-of-sequence id,
// if there is one.
absl::Status Add(const Globals& globals, const v1::Model& model, const Example& example,
                 Total& total) {
  v1::ScoreRequest request;
  request.set_model(model.name());
  request.mutable_token_ids()->mutable_ids()->Add(example.ids.begin(), example.ids.end());
  request.set_prepend_eos(example.given == 0 && model.has_eos_token_id());
  const auto stream = globals.client->Score(request, globals.Call());
  const Interrupt::Guard guard(*globals.interrupt, [&] { stream->Cancel(); });
  v1::ScoreResponse response;
  size_t at = 0;
  while (stream->Next(&response)) {
    for (const v1::TokenLogprobs& token : response.tokens()) {
      if (at++ < example.given || !token.has_logprob()) continue;
      total.nats -= token.token().logprob();
      ++total.tokens;
    }
  }
  total.unknown += example.unknown;
  ++total.examples;
  return stream->Finish();
}

void ShowProgress(const Total& total, size_t all) {
  if (isatty(STDERR_FILENO) != 1) return;
  std::fprintf(stderr, "\r%lld of %zu", static_cast<long long>(total.examples), all);
  if (static_cast<size_t>(total.examples) == all) std::fprintf(stderr, "\r\033[K");
}

// `noun`: what one example is called.
void Print(const Globals& globals, const std::string& model, const char* noun, const Total& total) {
  const double nats = total.nats / static_cast<double>(total.tokens);
  if (globals.json) {
    const nlohmann::json json = {{"model", model},
                                 {absl::StrCat(noun, "s"), total.examples},
                                 {"scored_tokens", total.tokens},
                                 {"unknown_tokens", total.unknown},
                                 {"bits_per_token", nats / std::log(2.0)},
                                 {"perplexity", std::exp(nats)}};
    std::printf("%s\n", json.dump(2).c_str());
    return;
  }
  std::printf("%s, %s scored%s: ", Counted(total.examples, noun).c_str(),
              Counted(total.tokens, "token").c_str(), OfThemUnknown(total.unknown).c_str());
  if (std::string_view(noun) == "image") {
    std::printf("%.4f bits per dimension\n", nats / std::log(2.0));
  } else {
    std::printf("perplexity %.4f of a second text's token\n", std::exp(nats));
  }
}

// The first `count`, or all.
template <typename T>
void Keep(std::optional<int64_t> count, std::vector<T>& all) {
  if (count && static_cast<size_t>(*count) < all.size()) all.resize(static_cast<size_t>(*count));
}

int ScorePairs(const Globals& globals, const ExampleOptions& options, bool allow_unknown,
               const v1::Model& model, const std::string& bytes) {
  auto pairs = ParsePairs(bytes, options.pairs);
  if (!pairs.ok()) return globals.FailUsage(pairs.status());
  Keep(options.count, *pairs);
  Total total;
  for (const Pair& pair : *pairs) {
    const auto example = ExampleOf(globals, model.name(), pair, options.pairs, allow_unknown);
    if (!example.ok()) return globals.Fail(example.status());
    if (auto s = Add(globals, model, *example, total); !s.ok()) return globals.Fail(s);
    ShowProgress(total, pairs->size());
  }
  Print(globals, model.name(), "pair", total);
  return kOk;
}

int ScoreImages(const Globals& globals, const ExampleOptions& options, const v1::Model& model,
                const std::string& bytes) {
  if (const auto status = CheckDraws(model); !status.ok()) return globals.FailUsage(status);
  auto images = ParseImages(bytes, options.images);
  if (!images.ok()) return globals.FailUsage(images.status());
  Keep(options.count, *images);
  Total total;
  for (const Bitmap& image : *images) {
    auto ids = TokensOf(image, model.image(), model.image().height(), options.images);
    if (!ids.ok()) return globals.FailUsage(ids.status());
    const Example example{*std::move(ids), 0};
    if (auto s = Add(globals, model, example, total); !s.ok()) return globals.Fail(s);
    ShowProgress(total, images->size());
  }
  Print(globals, model.name(), "image", total);
  return kOk;
}

}  // namespace

void ExampleOptions::AddTo(flags::Command command, std::initializer_list<flags::Option> others) {
  constexpr char kGroup[] = "Examples";
  const flags::Option with_pairs =
      command
          .Add("--pairs", pairs,
               "Lines of two texts with a tab between them: how well the second one follows")
          .TypeName("FILE")
          .Group(kGroup);
  const flags::Option with_images =
      command.Add("--images", images, "A PNG file, or an idx file of many images")
          .TypeName("FILE")
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

int ScoreExamples(const Globals& globals, const ExampleOptions& options, bool allow_unknown,
                  const v1::Model& model) {
  std::string bytes;
  const std::string& path = options.pairs.empty() ? options.images : options.pairs;
  const char* const what = options.pairs.empty() ? "images" : "pairs";
  if (auto status = ReadInput(path, &bytes, what); !status.ok()) return globals.FailUsage(status);
  return options.pairs.empty() ? ScoreImages(globals, options, model, bytes)
                               : ScorePairs(globals, options, allow_unknown, model, bytes);
}

}  // namespace tvq::cli
