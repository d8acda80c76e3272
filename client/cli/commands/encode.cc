// tvq encode: the vectors of a text.
#include <array>
#include <charconv>
#include <cstddef>
#include <cstdio>
#include <span>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/cli/command.h"
#include "client/cli/io/text_input.h"

namespace tvq::cli {
namespace {

struct EncodeOptions {
  std::string model;
  TextInput input;
  v1::Pooling pooling = v1::POOLING_UNSPECIFIED;
};

// The shortest digits that give the same float.
std::string Digits(float value) {
  std::array<char, 32> digits;
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
  return {digits.data(), end};
}

std::string Joined(std::span<const float> vector, const char* separator) {
  std::string text;
  for (const float value : vector) {
    absl::StrAppend(&text, text.empty() ? "" : separator, Digits(value));
  }
  return text;
}

void Print(const Globals& globals, const v1::EncodeResponse& response) {
  const auto width = static_cast<size_t>(response.width());
  std::span<const float> rows(response.vectors().data(),
                              static_cast<size_t>(response.vectors_size()));
  const char* between = "";
  if (globals.json) {
    std::printf(R"({"tokens":%d,"width":%d,"vectors":[)", response.tokens(), response.width());
  }
  for (; width > 0 && rows.size() >= width; rows = rows.subspan(width)) {
    if (globals.json) {
      std::printf("%s[%s]", std::exchange(between, ","), Joined(rows.first(width), ",").c_str());
    } else {
      std::printf("%s\n", Joined(rows.first(width), " ").c_str());
    }
  }
  if (globals.json) std::printf("]}\n");
}

int RunEncode(const Globals& globals, const EncodeOptions& options) {
  v1::EncodeRequest request;
  request.set_model(options.model);
  request.set_pooling(options.pooling);
  if (auto status = options.input.Fill(&request); !status.ok()) return globals.FailUsage(status);
  const auto response = globals.client->Encode(request, globals.Call());
  if (absl::IsUnimplemented(response.status())) {
    return globals.Fail(absl::UnimplementedError(absl::StrCat(
        response.status().message(),
        ". --model must name one that encodes, which `tvq info --json` shows as can_encode")));
  }
  if (!response.ok()) return globals.Fail(response.status());
  Print(globals, *response);
  return kOk;
}

}  // namespace

void AddEncode(flags::Command app, Globals& globals) {
  auto options = std::make_shared<EncodeOptions>();
  const flags::Command command =
      app.AddCommand("encode", "The vectors of a text, one a line; by a model that encodes");
  AddModel(command, options->model);
  options->input.AddTo(command);
  command
      .AddFunction<std::string>(
          "--pooling",
          [&pooling = options->pooling](const std::string& name) {
            pooling = name == "mean" ? v1::POOLING_MEAN : v1::POOLING_UNSPECIFIED;
          },
          "per_token: a vector of every token, the default. mean: their mean, one vector")
      .TypeName("per_token|mean")
      .OneOfUnnamed({"per_token", "mean"});
  command.OnParsed([&globals, options] {
    globals.run = [&globals, options] { return RunEncode(globals, *options); };
  });
}

}  // namespace tvq::cli
