// tvq score of a file of many examples.
#ifndef TVQ_CLIENT_CLI_COMMANDS_SCORE_EXAMPLES_H_
#define TVQ_CLIENT_CLI_COMMANDS_SCORE_EXAMPLES_H_

#include <initializer_list>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "client/cli/command.h"

namespace tvq::cli {

struct ExampleOptions {
  std::string pairs;   // path, or "-"
  std::string images;  // likewise
  std::optional<int64_t> count;

  // Not beside any of `others`.
  void AddTo(flags::Command command, std::initializer_list<flags::Option> others);
  bool given() const { return !pairs.empty() || !images.empty(); }
  // Whether what was given belongs together.
  absl::Status Check() const;
};

// Scores the examples one after another and prints the mean. Returns an exit code.
// `allow_unknown`: pairs may have characters outside the vocabulary.
int ScoreExamples(const Globals& globals, const ExampleOptions& options, bool allow_unknown,
                  const v1::Model& model);

}  // namespace tvq::cli

#endif  // TVQ_CLIENT_CLI_COMMANDS_SCORE_EXAMPLES_H_
