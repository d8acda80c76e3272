// tvq tokenize, tvq detokenize.
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/json.h"
#include "base/quoted.h"
#include "client/cli/command.h"
#include "client/cli/io/input.h"

namespace tvq::cli {
namespace {

struct TokenOptions {
  std::string model;
  std::optional<std::string> text;
  bool allow_unknown = false;
  std::optional<bool> add_special_tokens;
  std::vector<int32_t> ids;
};

int RunTokenize(const Globals& globals, const TokenOptions& options) {
  v1::TokenizeRequest request;
  request.set_model(options.model);
  request.set_allow_unknown(options.allow_unknown);
  if (options.add_special_tokens) request.set_add_special_tokens(*options.add_special_tokens);
  if (options.text) {
    request.set_text(*options.text);
  } else if (auto status = ReadInput("-", request.mutable_text()); !status.ok()) {
    return globals.FailUsage(status);
  }
  const auto response = globals.client->Tokenize(request, globals.Call());
  if (!response.ok()) return globals.Fail(response.status());
  const std::vector<int32_t> ids(response->token_ids().begin(), response->token_ids().end());
  if (globals.json) {
    const nlohmann::json json = {
        {"token_ids", ids}, {"count", ids.size()}, {"unknown_tokens", response->unknown_tokens()}};
    std::printf("%s\n", json.dump().c_str());
    return kOk;
  }
  for (size_t i = 0; i < ids.size(); ++i) std::printf(i == 0 ? "%d" : " %d", ids[i]);
  std::printf("\n");
  if (response->unknown_tokens() > 0) {
    std::fprintf(stderr, "tvq: %s\n", Counted(response->unknown_tokens(), "unknown token").c_str());
  }
  return kOk;
}

int RunDetokenize(const Globals& globals, const TokenOptions& options) {
  v1::DetokenizeRequest request;
  request.set_model(options.model);
  request.mutable_token_ids()->Add(options.ids.begin(), options.ids.end());
  if (options.ids.empty()) {
    std::string input;
    if (auto status = ReadInput("-", &input, "token ids"); !status.ok())
      return globals.FailUsage(status);
    for (const absl::string_view word :
         absl::StrSplit(input, absl::ByAnyChar(", \t\r\n"), absl::SkipEmpty())) {
      int32_t id = 0;
      if (!absl::SimpleAtoi(word, &id)) {
        return globals.FailUsage(absl::InvalidArgumentError(
            absl::StrCat("stdin: ", Quoted({word.data(), word.size()}), " is no token id")));
      }
      request.add_token_ids(id);
    }
  }
  const auto response = globals.client->Detokenize(request, globals.Call());
  if (!response.ok()) return globals.Fail(response.status());
  if (globals.json) {
    std::printf("%s\n", JsonLine(nlohmann::json({{"text", response->text()}}).dump()).c_str());
  } else {
    std::fwrite(response->text().data(), 1, response->text().size(), stdout);
  }
  return kOk;
}

}  // namespace

void AddTokenize(flags::Command app, Globals& globals) {
  auto options = std::make_shared<TokenOptions>();
  const flags::Command command =
      app.AddCommand("tokenize", "Text that begins a context to token ids");
  AddModel(command, options->model);
  command.Add("--text", options->text, "The text; without it: from stdin");
  command.InsteadOfArguments("a text is given with --text");
  AddAllowUnknown(command, options->allow_unknown);
  AddSpecialTokens(command, options->add_special_tokens);
  command.OnParsed([&globals, options] {
    globals.run = [&globals, options] { return RunTokenize(globals, *options); };
  });
}

void AddDetokenize(flags::Command app, Globals& globals) {
  auto options = std::make_shared<TokenOptions>();
  const flags::Command command = app.AddCommand("detokenize", "Token ids to text");
  AddModel(command, options->model);
  command.Add("ids", options->ids, "Such as 5,9,2; without them: from stdin").SplitAt(',');
  command.OnParsed([&globals, options] {
    globals.run = [&globals, options] { return RunDetokenize(globals, *options); };
  });
}

}  // namespace tvq::cli
