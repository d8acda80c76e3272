// tvq session chat, for short tvq chat: a conversation in the terminal.
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/json.h"
#include "client/cli/command.h"
#include "client/cli/commands/chat.h"
#include "client/cli/commands/chat_file.h"
#include "client/cli/commands/settled.h"
#include "client/cli/create_options.h"
#include "client/cli/session_call_options.h"

namespace tvq::cli {
namespace {

constexpr char kKwargs[] = "--chat-template-kwargs";

struct Options {
  Chat::Options chat;
  std::string id;
  std::optional<std::string> suffix, system, message;
  std::string kwargs;
  bool keep = false;
  CreateOptions create;
};

// How long may be taken when the process is to end.
constexpr absl::Duration kEndTime = absl::Seconds(1);

// What the options have that does not fit together.
absl::Status Check(const Globals& globals, const Options& options) {
  if (auto status = options.chat.sampling.CheckShown(globals.json); !status.ok()) return status;
  const std::string given = options.keep ? "--keep" : options.create.GivenForNew();
  if (!options.id.empty() && !given.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(given, ": is for a new session, of which no id is given"));
  }
  if (options.kwargs.empty()) return absl::OkStatus();
  return ParseJsonObject(options.kwargs, kKwargs, {}).status();
}

// The session that is asked for and its model, or the model of a new one.
struct Place {
  std::optional<v1::Session> session;
  v1::Model model;  // with --suffix, which makes it unimportant, nothing of it is known
};

absl::StatusOr<Place> Find(const Globals& globals, const Options& options) {
  Place place;
  if (!options.id.empty()) {
    v1::GetSessionRequest request;
    request.set_session_id(options.id);
    auto found = globals.client->sessions().Get(request, globals.Call());
    if (!found.ok()) return WithChatFile(found.status(), options.id);
    place.session = std::move(*found->mutable_session());
  }
  if (options.suffix) return place;
  auto model = globals.client->GetModel(
      place.session ? place.session->model() : options.create.model(), globals.Call());
  if (!model.ok()) return model.status();
  place.model = *std::move(model);
  return place;
}

absl::StatusOr<v1::Session> Create(const Globals& globals, const Options& options,
                                   const v1::Model& model) {
  v1::CreateSessionRequest request;
  options.create.Fill(&request);
  // By it the server knows how much of a conversation the session has.
  if (!request.has_keep_transcript() && !model.conversation_templates().empty()) {
    request.set_keep_transcript(true);
  }
  return globals.client->sessions().Create(request, globals.Call());
}

// What was said on the session before is known only to whoever said it.
absl::Status ReadEarlier(const v1::Session& session, Dialogue& dialogue) {
  if (!dialogue.has_all() || session.position() == 0) return absl::OkStatus();
  const std::string file = ChatFile(session.id());
  const absl::Status read = file.empty() ? absl::NotFoundError("") : dialogue.Read(file);
  if (!absl::IsNotFound(read)) return read;
  return absl::FailedPreconditionError(
      absl::StrCat("session ", session.id(),
                   ": what was said on it is not known here, for no chat of this user ",
                   "kept it; `tvq generate --session` continues it as a text"));
}

absl::StatusOr<std::unique_ptr<Dialogue>> Begin(const Options& options, const v1::Model& model,
                                                const v1::Session& session) {
  std::unique_ptr<Dialogue> dialogue =
      !model.conversation_templates().empty() ? MakeConversationDialogue(options.kwargs)
      : model.has_chat_template()             ? MakeTurnsDialogue(model)
                                              : MakeTextDialogue(options.suffix.value_or("\n"));
  if (!options.kwargs.empty() && !dialogue->has_all()) {
    return absl::FailedPreconditionError(
        absl::StrCat(kKwargs, ": is for a model with a Jinja template, without --suffix"));
  }
  absl::Status status = ReadEarlier(session, *dialogue);
  if (status.ok() && options.system) status = dialogue->SetSystem(*options.system);
  return status.ok() ? absl::StatusOr<std::unique_ptr<Dialogue>>(std::move(dialogue)) : status;
}

// Returns the exit code.
int Converse(const Globals& globals, const Options& options, ChatSession& session,
             Dialogue& dialogue) {
  Chat chat(globals, options.chat, session, dialogue);
  if (options.message) return chat.Run(*options.message);
  ChatInput input(*globals.interrupt);
  globals.interrupt->AtEnd([&] {
    input.Restore();
    session.End({.timeout = kEndTime}, kEndTime);
  });
  const int code = chat.Run(input);
  // The input goes before the session does.
  globals.interrupt->AtEnd([&] { session.End({.timeout = kEndTime}, kEndTime); });
  return code;
}

int Run(const Globals& globals, Options& options) {
  if (const auto status = Check(globals, options); !status.ok()) return globals.FailUsage(status);
  options.chat.durability = options.create.durability();
  const auto place = Find(globals, options);
  if (!place.ok()) return globals.Fail(place.status());
  const bool is_new = !place->session;
  const auto made = is_new ? Create(globals, options, place->model) : *place->session;
  if (!made.ok()) return globals.Fail(made.status());
  using Stays = ChatSession::Stays;
  // A call with the same key would be told of it again.
  const bool stays = !is_new || !options.create.idempotency_key().empty();
  ChatSession session(*globals.client, *made,
                      stays                                          ? Stays::kAlways
                      : options.keep || options.create.MeantToStay() ? Stays::kIfUsed
                                                                     : Stays::kNever);
  globals.interrupt->AtEnd([&] { session.End({.timeout = kEndTime}, kEndTime); });
  if (is_new) std::cerr << "new session " << made->id() << "\n";
  const auto dialogue = Begin(options, place->model, *made);
  const int code = dialogue.ok() ? Converse(globals, options, session, **dialogue)
                                 : globals.Fail(dialogue.status());
  session.End(globals.Call(), kSettleTime);
  globals.interrupt->AtEnd(nullptr);
  return code;
}

}  // namespace

void AddSessionChat(flags::Command session, Globals& globals) {
  auto options = std::make_shared<Options>();
  const flags::Command command = session.AddCommand(
      "chat", "A conversation: a message in, an answer out; /help inside tells more");
  command.Add("id", options->id, "The session; without it: a new one, which ends with the chat")
      .TypeName("")
      .NotEmpty(kAnId);
  command.AddFlag("--keep", options->keep, "Let a new session stay when the chat ends");
  command.Add("--system", options->system, "How the model is to answer, where it can be told");
  command.Add("--message", options->message, "One message, and its answer; nothing is read");
  command
      .Add("--suffix", options->suffix,
           "Follows each line; default: a line is a message as the model's chat template has it, "
           "or is followed by a newline if there is none")
      .Excludes(command.Find("--system"));
  command
      .Add(kKwargs, options->kwargs,
           "What a Jinja template is given besides, such as {\"enable_thinking\": false}")
      .TypeName("JSON");
  options->create.AddTo(command);
  options->chat.sampling.AddTo(command, /*samples=*/false);
  command.OnParsed([&globals, options] {
    globals.run = [&globals, options] { return Run(globals, *options); };
  });
}

}  // namespace tvq::cli
