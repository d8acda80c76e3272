#ifndef TVQ_CLIENT_CLI_COMMANDS_DIALOGUE_H_
#define TVQ_CLIENT_CLI_COMMANDS_DIALOGUE_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/chat/conversation.h"
#include "tvq/v1/generation.pb.h"
#include "tvq/v1/model.pb.h"

namespace tvq::cli {

// How what is said in a chat becomes prompts of calls on its session.
class Dialogue {
 public:
  virtual ~Dialogue() = default;

  // The request asks for what follows a text of its user; of an empty one, for more of the answer.
  // Returns where the text is in the prompt, if it is there as it is.
  virtual absl::StatusOr<std::vector<chat::Place>> Ask(const std::string& text,
                                                       v1::GenerateRequest* request) = 0;
  // What Ask asked for last has come: all of it, or what was there when it was interrupted.
  virtual void Answered(const std::string& /*answer*/, bool /*interrupted*/) {}

  // How the model is to answer from now on; empty: as it likes.
  virtual absl::Status SetSystem(const std::string& text) = 0;

  // Whether the dialogue itself has all that was said. Then Undo works, and the session follows
  // with the next call. What it has must then be kept beside a session that stays.
  virtual bool has_all() const { return false; }
  // Returns the message that was taken back.
  virtual absl::StatusOr<std::string> Undo();
  // The session was taken back to before the last exchange.
  virtual void TakenBack() {}
  // For a mark that the session gets, or is rewound to. NOT_FOUND if the dialogue has no such mark.
  virtual void Mark(const std::string& /*name*/) {}
  virtual absl::Status FindMark(const std::string& /*name*/) const { return absl::OkStatus(); }
  virtual void Rewind(const std::string& /*name*/) {}
  // The session is another one now, which lacks the marks.
  virtual void Forked() {}

  // What it has, in a file. Of a session that has none yet, reading gives NOT_FOUND.
  virtual absl::Status Write(const std::string& /*file*/) const { return absl::OkStatus(); }
  virtual absl::Status Read(const std::string& /*file*/) { return absl::OkStatus(); }
};

// Each text is followed by `suffix`.
std::unique_ptr<Dialogue> MakeTextDialogue(const std::string& suffix);
// Each text is a message, as the model's chat template has it.
std::unique_ptr<Dialogue> MakeTurnsDialogue(const v1::Model& model);
// The server writes the conversation, by a template of the model's own. `kwargs`: JSON, or empty.
std::unique_ptr<Dialogue> MakeConversationDialogue(const std::string& kwargs);

}  // namespace tvq::cli

#endif  // TVQ_CLIENT_CLI_COMMANDS_DIALOGUE_H_
