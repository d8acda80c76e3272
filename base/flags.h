// What the command lines of the programs have in common.
#ifndef TVQ_BASE_FLAGS_H_
#define TVQ_BASE_FLAGS_H_

#include <CLI/CLI.hpp>
#include <string>
#include <string_view>

namespace tvq::flags {

// "--max-num-seqs" -> "TVQ_MAX_NUM_SEQS".
std::string EnvironmentName(std::string_view flag);

// An option that the environment may give, too; the command line wins. --help shows its default.
template <typename T>
CLI::Option* Add(CLI::App& app, const std::string& flag, T& value, const std::string& help) {
  return app.add_option(flag, value, help)->envname(EnvironmentName(flag))->capture_default_str();
}

// The same in bytes, also as 512KB, 2GB (powers of 1024).
template <typename T>
CLI::Option* AddSize(CLI::App& app, const std::string& flag, T& value, const std::string& help) {
  return Add(app, flag, value, help)->transform(CLI::AsSizeValue(false))->type_name("BYTES");
}

// CLI11 takes an empty text for the number 0, and for a list of it, or refuses it as out of range.
// After this the options of `app` and its commands that are numbers refuse it as what it is. They
// are known by the names of their types: CLI11's, BYTES, FRACTION, SECONDS and VERSION. Call it
// when all options are there.
void RefuseEmptyNumbers(CLI::App& app);

}  // namespace tvq::flags

#endif  // TVQ_BASE_FLAGS_H_
