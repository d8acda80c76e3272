#include "base/flags.h"

#include <algorithm>
#include <array>
#include <cctype>

namespace tvq::flags {
namespace {

constexpr std::array<std::string_view, 7> kNumbers = {"INT",      "UINT",    "FLOAT",  "BYTES",
                                                      "FRACTION", "SECONDS", "VERSION"};

}  // namespace

std::string EnvironmentName(std::string_view flag) {
  std::string name = "TVQ_";
  for (const char c : flag.substr(2)) {
    name += c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  }
  return name;
}

void RefuseEmptyNumbers(CLI::App& app) {
  for (CLI::Option* option : app.get_options()) {
    // What it is checked for stands behind a colon.
    const std::string described = option->get_type_name();
    const std::string_view type = std::string_view(described).substr(0, described.find(':'));
    if (std::find(kNumbers.begin(), kNumbers.end(), type) == kNumbers.end()) continue;
    // A transformation only in that it comes before the checks.
    option->transform(CLI::Validator(
        [](std::string& text) { return text.empty() ? "it is empty, must be a number" : ""; }, ""));
  }
  for (CLI::App* command : app.get_subcommands({})) RefuseEmptyNumbers(*command);
}

}  // namespace tvq::flags
