#ifndef TVQ_CLIENT_CLI_COMMANDS_CHAT_H_
#define TVQ_CLIENT_CLI_COMMANDS_CHAT_H_

#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/chat/conversation.h"
#include "client/cli/command.h"
#include "client/cli/sampling_options.h"
#include "client/cli/session_call_options.h"

namespace tvq::cli {

// A conversation on one session: lines in, answers out. Answers go to stdout, or with --json an
// object per line; everything said about the conversation goes to stderr.
class Chat {
 public:
  struct Options {
    std::string id;
    // A line is a message of its user, as its chat template has it. Unset: `suffix` follows it.
    std::optional<v1::Model> model;
    std::string suffix = "\n";
    SamplingOptions sampling;
    v1::Durability durability = v1::DURABILITY_UNSPECIFIED;
  };

  // Of this session. Both arguments must outlive the chat.
  Chat(const Globals& globals, const Options& options);

  // Until /quit or the end of stdin. An error is told; without a terminal, where nobody reads it,
  // it also ends the chat. Returns the exit code.
  int Run();

 private:
  bool ReadLine(std::string* line);
  absl::Status Answer(const std::string& line);
  // Makes the request ask for what follows the line. Returns where in its text the line is; an
  // empty one is not there.
  absl::StatusOr<std::vector<chat::Place>> Ask(const std::string& line,
                                               v1::GenerateRequest* request) const;
  absl::Status Stream(const v1::GenerateRequest& request);
  absl::Status Command(const std::string& name, const std::string& argument);
  absl::Status Fork(const std::string& label);
  absl::Status Report(const char* command, const absl::StatusOr<v1::SessionPosition>& position);
  // Calls again while the server still commits an answer that was interrupted.
  absl::Status Settled(const std::function<absl::Status()>& call);

  const Globals& globals_;
  const Options& options_;
  const bool terminal_;       // stdin is one
  std::string id_;            // changes with /fork
  bool interrupted_ = false;  // the latest answer was
};

}  // namespace tvq::cli

#endif  // TVQ_CLIENT_CLI_COMMANDS_CHAT_H_
