// What the commands of a chat do.
#include <iostream>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "base/json.h"
#include "base/output_file.h"
#include "base/quoted.h"
#include "client/cli/commands/chat.h"
#include "client/cli/commands/settled.h"
#include "client/cli/create_options.h"
#include "client/cli/io/session_text.h"
#include "client/cli/io/terminal.h"

namespace tvq::cli {

absl::Status Chat::Command(const ChatCommand& command) {
  const auto& [name, argument] = command;
  if (name == "/help") {
    std::cerr << kChatHelp;
    return absl::OkStatus();
  }
  if (name == "/show") return Show();
  absl::Status status;
  if (name == "/system") {
    status = dialogue_.SetSystem(argument);
  } else if (name == "/undo") {
    status = Undo();
  } else if (name == "/save") {
    status = Save(argument);
  } else if (name == "/fork") {
    status = GoOnInFork(argument);
  } else if (name == "/rewind") {
    status = Rewind(argument, "rewind");
  } else {  // /mark
    const auto position = MarkHere(argument);
    if (position.ok()) dialogue_.Mark(argument);
    status = Report("mark", position);
  }
  return status.ok() ? Write() : status;
}

absl::Status Chat::Undo() {
  if (dialogue_.has_all()) {
    const auto message = dialogue_.Undo();
    if (!message.ok()) return message.status();
    if (globals_.json) {
      const nlohmann::json json = {
          {"command", "undo"}, {"session_id", session_.id()}, {"message", *message}};
      PrintLine(JsonLine(json.dump()));
    } else {
      std::cerr << "taken back: " << Quoted(*message) << "\n";
    }
    return absl::OkStatus();
  }
  if (!no_undo_.ok()) return no_undo_;
  const absl::Status status = Rewind(kUndoMark, "undo");
  if (!status.ok()) return status;
  ForgetMarkForUndo();
  dialogue_.TakenBack();
  return absl::OkStatus();
}

absl::Status Chat::Rewind(const std::string& mark, const char* command) {
  if (const absl::Status status = dialogue_.FindMark(mark); !status.ok()) return status;
  v1::RewindSessionRequest request;
  request.mutable_session()->set_session_id(session_.id());
  request.set_mark(mark);
  const auto position = globals_.client->sessions().Rewind(request, globals_.Call());
  if (position.ok()) dialogue_.Rewind(mark);
  return Report(command, position);
}

absl::StatusOr<v1::SessionPosition> Chat::MarkHere(const std::string& name) {
  v1::MarkSessionRequest request;
  request.mutable_session()->set_session_id(session_.id());
  request.set_name(name);
  return globals_.client->sessions().Mark(request, globals_.Call());
}

absl::Status Chat::Save(const std::string& label) {
  if (!label.empty()) {
    const auto fork = Fork(label);
    if (!fork.ok()) return fork.status();
    // The first one ends, if it is not to stay.
    session_.End(globals_.Call(), kSettleTime);
    session_.GoOnIn(fork->id());
    dialogue_.Forked();
    std::cerr << "now in session " << fork->id() << "\n";
  }
  session_.Keep();
  v1::SaveSessionRequest request;
  request.mutable_session()->set_session_id(session_.id());
  const auto position = globals_.client->sessions().Save(request, globals_.Call());
  if (position.ok()) return Report("save", position);
  if (const absl::Status written = Write(); !written.ok()) return written;
  return {position.status().code(),
          absl::StrCat(std::string(position.status().message()), "; session ", session_.id(),
                       " stays until the server ends")};
}

absl::StatusOr<v1::Session> Chat::Fork(const std::string& label) {
  v1::ForkSessionRequest request;
  request.mutable_session()->set_session_id(session_.id());
  request.set_label(label);
  const auto forks = globals_.client->sessions().Fork(request, globals_.Call());
  if (!forks.ok()) return forks.status();
  if (forks->empty()) return absl::InternalError("the server answered without a fork");
  ForgetMarkForUndo();  // which the fork does not have
  return forks->front();
}

absl::Status Chat::GoOnInFork(const std::string& label) {
  const auto fork = Fork(label);
  if (!fork.ok()) return fork.status();
  session_.Keep();
  if (const absl::Status written = Write(); !written.ok()) return written;
  session_.GoOnIn(fork->id());
  dialogue_.Forked();
  if (globals_.json) {
    PrintLine(JsonLine(ToJson(*fork).dump()));
    if (!FlushStdout().ok()) TryDelete(globals_, fork->id());  // nobody was told of it
  } else {
    std::cerr << "now in session " << fork->id() << "\n";
  }
  return absl::OkStatus();
}

absl::Status Chat::Show() {
  v1::GetSessionRequest request;
  request.set_session_id(session_.id());
  const auto response = globals_.client->sessions().Get(request, globals_.Call());
  if (!response.ok()) return response.status();
  if (globals_.json) {
    PrintLine(JsonLine(ToJson(response->session()).dump()));
  } else {
    std::cerr << Text(response->session());
  }
  return absl::OkStatus();
}

absl::Status Chat::Report(const char* command,
                          const absl::StatusOr<v1::SessionPosition>& position) {
  if (!position.ok()) return position.status();
  if (globals_.json) {
    nlohmann::json json = ToJson(*position);
    json["command"] = command;
    PrintLine(JsonLine(json.dump()));
  } else {
    std::cerr << Text(*position) << "\n";
  }
  return absl::OkStatus();
}

}  // namespace tvq::cli
