#ifndef TVQ_CLIENT_CLI_COMMANDS_CHAT_INPUT_H_
#define TVQ_CLIENT_CLI_COMMANDS_CHAT_INPUT_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "client/cli/io/interrupt.h"
#include "client/cli/line/line_editor.h"
#include "client/cli/line/line_history.h"
#include "client/cli/line/message_lines.h"

namespace tvq::cli {

// The messages and commands of a chat. Of a terminal they are typed with a line editor, its history
// and several lines to a message; else each line of stdin is one.
class ChatInput {
 public:
  struct Entry {
    std::string text;
    bool is_command = false;
    size_t left_out = 0;  // bytes that were typed before the text
  };
  enum class Got : uint8_t { kEntry, kEnd, kInterrupt };

  explicit ChatInput(Interrupt& interrupt);

  bool is_terminal() const { return terminal_; }
  // kInterrupt: somebody wants to leave by Ctrl-C.
  Got Read(Entry* entry);
  // When the process ends amid a Read; in any thread.
  void Restore();

 private:
  // A line more of the message.
  LineEditor::Outcome ReadLine(std::string* line);
  void Remember(const std::string& typed);

  Interrupt& interrupt_;
  const bool terminal_;  // stdin is one
  const std::unique_ptr<LineEditor> editor_;
  const LineHistory history_;
  MessageLines lines_;
  bool keeps_history_;   // until that fails
  bool warned_ = false;  // what another Ctrl-C does
};

}  // namespace tvq::cli

#endif  // TVQ_CLIENT_CLI_COMMANDS_CHAT_INPUT_H_
