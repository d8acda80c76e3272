#include "client/cli/commands/chat_input.h"

#include <unistd.h>

#include <iostream>

#include "client/cli/line/state_files.h"

namespace tvq::cli {
namespace {

constexpr char kHowToLeave[] = "(Ctrl-C again or /quit leaves)\n";

}  // namespace

ChatInput::ChatInput(Interrupt& interrupt)
    : interrupt_(interrupt),
      terminal_(isatty(STDIN_FILENO) == 1),
      editor_(LineEditor::Make()),
      history_(StateFile("history")),
      keeps_history_(editor_ != nullptr && !StateFile("history").empty()) {
  if (!keeps_history_) return;
  const auto earlier = history_.Load();
  if (!earlier.ok()) {
    std::cerr << "tvq: no history: " << earlier.status().message() << "\n";
    keeps_history_ = false;
    return;
  }
  for (const std::string& line : *earlier) editor_->Remember(line);
}

LineEditor::Outcome ChatInput::ReadLine(std::string* line) {
  const std::string prompt = lines_.begun() ? "... " : "> ";
  if (editor_ != nullptr) {
    const Interrupt::Guard guard(interrupt_, [this] { editor_->Interrupt(); });
    return editor_->Read(prompt, line);
  }
  if (!terminal_) {
    if (!std::getline(std::cin, *line)) return LineEditor::Outcome::kEnd;
    if (line->ends_with('\r')) line->pop_back();  // as lines end on Windows
    return LineEditor::Outcome::kLine;
  }
  // Before the prompt: who sees it may press Ctrl-C.
  const Interrupt::Guard guard(interrupt_, [&] { std::cerr << "\n" << kHowToLeave << prompt; });
  std::cerr << prompt;
  if (std::getline(std::cin, *line)) return LineEditor::Outcome::kLine;
  std::cerr << "\n";
  return LineEditor::Outcome::kEnd;
}

ChatInput::Got ChatInput::Read(Entry* entry) {
  lines_.Clear();
  while (true) {
    std::string line;
    const LineEditor::Outcome outcome = ReadLine(&line);
    if (outcome == LineEditor::Outcome::kEnd) return Got::kEnd;
    if (outcome == LineEditor::Outcome::kInterrupted) {
      const bool nothing_typed = line.empty() && !lines_.begun();
      if (nothing_typed && warned_) return Got::kInterrupt;
      if (nothing_typed) std::cerr << kHowToLeave;
      warned_ = nothing_typed;
      lines_.Clear();
      continue;
    }
    warned_ = false;
    if (!terminal_) {
      lines_.Clear();
      *entry = {.text = std::move(line)};
      break;
    }
    if (!lines_.Add(line)) continue;
    *entry = {.text = lines_.text(), .left_out = lines_.left_out()};
    Remember(lines_.Typed());
    break;
  }
  if (lines_.is_quoted() || !entry->text.starts_with('/')) return Got::kEntry;
  if (entry->text.starts_with("//")) {
    entry->text.erase(0, 1);
    entry->left_out = 1;
  } else {
    entry->is_command = true;
  }
  return Got::kEntry;
}

void ChatInput::Remember(const std::string& typed) {
  if (editor_ == nullptr || typed.empty()) return;
  editor_->Remember(typed);
  if (!keeps_history_) return;
  if (const auto status = history_.Add(typed); !status.ok()) {
    std::cerr << "tvq: no history: " << status.message() << "\n";
    keeps_history_ = false;
  }
}

void ChatInput::Restore() {
  if (editor_ != nullptr) editor_->Restore();
}

}  // namespace tvq::cli
