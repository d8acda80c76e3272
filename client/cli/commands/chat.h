#ifndef TVQ_CLIENT_CLI_COMMANDS_CHAT_H_
#define TVQ_CLIENT_CLI_COMMANDS_CHAT_H_

#include <cstddef>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/cli/command.h"
#include "client/cli/commands/chat_commands.h"
#include "client/cli/commands/chat_input.h"
#include "client/cli/commands/chat_session.h"
#include "client/cli/commands/dialogue.h"
#include "client/cli/sampling_options.h"

namespace tvq::cli {

// A conversation on one session: messages in, answers out. Answers go to stdout, or with --json an
// object per line; everything said about the conversation goes to stderr.
class Chat {
 public:
  struct Options {
    SamplingOptions sampling;
    v1::Durability durability = v1::DURABILITY_UNSPECIFIED;
  };

  // All arguments must outlive the chat.
  Chat(const Globals& globals, const Options& options, ChatSession& session, Dialogue& dialogue)
      : globals_(globals), options_(options), session_(session), dialogue_(dialogue) {}

  // Until /quit or the end of what is typed. An error is told; without a terminal, where nobody
  // reads it, it also ends the chat. Returns the exit code.
  int Run(ChatInput& input);
  // One message, and its answer.
  int Run(const std::string& message);

 private:
  static constexpr char kUndoMark[] = "before-last-message";

  absl::Status Do(const ChatInput::Entry& entry, bool can_undo);
  // Without the name of a status that only says that the line was wrong.
  void TellPerson(const absl::Status& status) const;
  absl::Status Answer(const std::string& text, size_t left_out);
  // The answer to a text; its tokens may be so long in coming that the text's size is told.
  absl::Status Stream(const v1::GenerateRequest& request, const std::string& text);

  absl::Status Command(const ChatCommand& command);
  absl::Status Undo();
  absl::Status Rewind(const std::string& mark, const char* command);
  absl::Status Save(const std::string& label);
  absl::StatusOr<v1::Session> Fork(const std::string& label);
  absl::Status GoOnInFork(const std::string& label);
  absl::Status Show();
  absl::StatusOr<v1::SessionPosition> MarkHere(const std::string& name);
  absl::Status Report(const char* command, const absl::StatusOr<v1::SessionPosition>& position);

  // Before a message, if the dialogue cannot take it back itself.
  void MarkForUndo();
  void ForgetMarkForUndo();
  // What was said, if the session stays.
  absl::Status Write() const;
  // Calls again while the server still commits an answer that was interrupted.
  absl::Status Settled(const std::function<absl::Status()>& call) const;

  const Globals& globals_;
  const Options& options_;
  ChatSession& session_;
  Dialogue& dialogue_;
  bool interrupted_ = false;  // the latest answer was
  absl::Status no_undo_ = absl::FailedPreconditionError("undo: nothing was said yet");
};

}  // namespace tvq::cli

#endif  // TVQ_CLIENT_CLI_COMMANDS_CHAT_H_
