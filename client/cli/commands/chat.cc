#include "client/cli/commands/chat.h"

#include <algorithm>
#include <iostream>

#include "absl/strings/str_cat.h"
#include "base/json.h"
#include "base/output_file.h"
#include "client/cli/commands/chat_file.h"
#include "client/cli/commands/settled.h"
#include "client/cli/io/output.h"
#include "client/cli/io/reading.h"
#include "client/cli/io/terminal.h"
#include "client/cli/line/thinking.h"

namespace tvq::cli {
namespace {

// An answer's length when --max-tokens does not say: the server's own, 16, is less than a sentence.
// One in a conversation ends by itself.
constexpr int32_t kMaxTokens = 256;
constexpr int32_t kMaxTokensOfTurn = 4096;

}  // namespace

int Chat::Run(ChatInput& input) {
  if (input.is_terminal()) std::cerr << "session " << session_.id() << "; /help tells more\n";
  int code = kOk;
  while (true) {
    ChatInput::Entry entry;
    const ChatInput::Got got = input.Read(&entry);
    if (got == ChatInput::Got::kInterrupt) code = kInterrupted;
    if (got != ChatInput::Got::kEntry || (entry.is_command && entry.text == "/quit")) break;
    const absl::Status status = Do(entry, /*can_undo=*/input.is_terminal());
    if (const auto written = FlushStdout(); !written.ok()) {
      code = globals_.FailUsage(written);
      break;
    }
    if (status.ok()) continue;
    if (!input.is_terminal()) {
      code = globals_.Fail(status);
      break;
    }
    TellPerson(status);
  }
  if (session_.stays()) ForgetMarkForUndo();
  return code;
}

void Chat::TellPerson(const absl::Status& status) const {
  const bool is_slip = absl::IsInvalidArgument(status) || absl::IsFailedPrecondition(status);
  is_slip ? globals_.FailUsage(status) : globals_.Fail(status);
}

int Chat::Run(const std::string& message) {
  const absl::Status status = Answer(message, /*left_out=*/0);
  if (const auto written = FlushStdout(); !written.ok()) return globals_.FailUsage(written);
  if (!status.ok()) return globals_.Fail(status);
  return interrupted_ ? kInterrupted : kOk;
}

absl::Status Chat::Do(const ChatInput::Entry& entry, bool can_undo) {
  if (entry.is_command) {
    const absl::StatusOr<ChatCommand> command = ParseChatCommand(entry.text);
    return command.ok() ? Settled([&] { return Command(*command); }) : command.status();
  }
  if (can_undo) {
    MarkForUndo();
  } else {
    no_undo_ = absl::FailedPreconditionError(
        "undo: only in a terminal is the place before a message kept; /mark keeps one");
  }
  return Answer(entry.text, entry.left_out);
}

absl::Status Chat::Answer(const std::string& text, size_t left_out) {
  v1::GenerateRequest request;
  options_.sampling.Fill(request.mutable_sampling());
  v1::SamplingParams& sampling = *request.mutable_sampling();
  if (!sampling.has_max_tokens()) {
    const int32_t most = dialogue_.has_all() ? kMaxTokensOfTurn : kMaxTokens;
    sampling.set_max_tokens(std::max(most, sampling.min_tokens()));
    sampling.set_limit_to_context(true);  // nobody asked for so many
  }
  request.mutable_session()->set_session_id(session_.id());
  request.mutable_session()->set_durability(options_.durability);
  request.mutable_session()->set_commit_on_cancel(true);
  auto contents = dialogue_.Ask(text, &request);
  if (!contents.ok()) return contents.status();
  if (!contents->empty()) contents->front().left_out = left_out;
  const absl::Status status = Settled([&] { return Stream(request, text); });
  if (status.ok()) return Write();
  std::string message(status.message());
  if (!chat::CountInMessage(*contents, &message)) return status;
  return {status.code(), message};
}

absl::Status Chat::Stream(const v1::GenerateRequest& request, const std::string& text) {
  v1::GenerateRequest read = request;
  if (read.has_conversation()) read.set_text(text);  // the session has the rest
  Reading reading(globals_, read);
  Output output(globals_.json ? Output::Printed::kNothing : Output::Printed::kText);
  DimmedThinking thinking;
  const bool dims = !globals_.json && ShowsStyles();
  if (dims) output.ShowAs([&](const std::string& piece) { return thinking.Show(piece); });
  const auto stream = globals_.client->Generate(request, globals_.Call());
  absl::Status status;
  {  // not to the end of the line: who sees that may press Ctrl-C
    const Interrupt::Guard guard(*globals_.interrupt, [&] { stream->Cancel(); });
    status = output.Add(*stream, [&] { reading.Done(); });
  }
  if (dims) std::fputs(thinking.End().c_str(), stdout);
  const bool interrupted = absl::IsCancelled(status) && globals_.interrupt->happened();
  if (!status.ok() && !interrupted) return status;
  interrupted_ = interrupted;
  const auto answer = output.samples().find(0);  // there is one, unless it was interrupted early
  dialogue_.Answered(answer == output.samples().end() ? "" : answer->second.text, interrupted);
  if (globals_.json) {
    if (interrupted) EndTerminalLine();
    nlohmann::json json = output.ToJson();
    json.erase("samples");  // its fields stand beside
    if (interrupted) json["finish_reason"] = "cancelled";
    PrintLine(JsonLine(json.dump()));
  } else {
    PrintLine("");
  }
  return absl::OkStatus();
}

void Chat::MarkForUndo() {
  if (dialogue_.has_all()) return;
  no_undo_ = Settled([this] { return MarkHere(kUndoMark).status(); });
}

void Chat::ForgetMarkForUndo() {
  if (!no_undo_.ok()) return;
  v1::UnmarkSessionRequest request;
  request.mutable_session()->set_session_id(session_.id());
  request.mutable_session()->set_durability(options_.durability);
  request.set_name(kUndoMark);
  Settled([&] {
    return globals_.client->sessions().Unmark(request, globals_.Call()).status();
  }).IgnoreError();
  no_undo_ = absl::FailedPreconditionError("undo: nothing was said since");
}

absl::Status Chat::Settled(const std::function<absl::Status()>& call) const {
  return UntilSettled(interrupted_ ? kSettleTime : absl::ZeroDuration(), call);
}

absl::Status Chat::Write() const {
  if (!dialogue_.has_all() || !session_.stays()) return absl::OkStatus();
  const std::string file = ChatFile(session_.id());
  if (file.empty()) {
    return absl::FailedPreconditionError(
        "what was said is kept nowhere: neither XDG_STATE_HOME nor HOME names a folder");
  }
  return dialogue_.Write(file);
}

}  // namespace tvq::cli
