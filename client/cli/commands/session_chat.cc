// tvq session chat, for short tvq chat: a conversation in the terminal.
#include <iostream>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "client/cli/command.h"
#include "client/cli/commands/chat.h"
#include "client/cli/create_options.h"
#include "client/cli/session_call_options.h"

namespace tvq::cli {
namespace {

struct Options {
  Chat::Options chat;
  std::optional<std::string> suffix;
  CreateOptions create;
};

// How long each call may take when the process is to end.
constexpr absl::Duration kEndTime = absl::Seconds(1);

// Deletes a session that was made for a chat in which nothing became of it.
void DeleteUnused(client::Sessions& sessions, const v1::Session& made,
                  const client::CallOptions& call) {
  v1::GetSessionRequest get;
  get.set_session_id(made.id());
  const auto found = sessions.Get(get, call);
  if (!found.ok()) return;
  const v1::Session& now = found->session();
  const bool is_used = now.position() > 0 || now.version() != made.version() ||
                       now.persisted_version() != made.persisted_version();
  if (is_used) return;
  v1::DeleteSessionRequest request;
  request.mutable_session()->set_session_id(made.id());
  request.mutable_session()->set_expected_version(made.version());
  sessions.Delete(request, call).IgnoreError();
}

// The one that is asked for, or a new one.
absl::StatusOr<v1::Session> Open(const Globals& globals, const Options& options) {
  client::Sessions& sessions = globals.client->sessions();
  if (!options.chat.id.empty()) {
    v1::GetSessionRequest request;
    request.set_session_id(options.chat.id);
    const auto found = sessions.Get(request, globals.Call());
    return found.ok() ? absl::StatusOr<v1::Session>(found->session()) : found.status();
  }
  v1::CreateSessionRequest request;
  options.create.Fill(&request);
  return sessions.Create(request, globals.Call());
}

// Returns the exit code.
int Converse(const Globals& globals, Options& options, const v1::Session& session) {
  options.chat.id = session.id();
  if (options.suffix) {
    options.chat.suffix = *options.suffix;
  } else {
    auto model = globals.client->GetModel(session.model(), globals.Call());
    if (!model.ok()) return globals.Fail(model.status());
    if (model->has_chat_template()) options.chat.model = *std::move(model);
  }
  return Chat(globals, options.chat).Run();
}

int Run(const Globals& globals, Options& options) {
  if (const auto status = options.chat.sampling.CheckShown(globals.json); !status.ok()) {
    return globals.FailUsage(status);
  }
  if (const std::string given = options.create.GivenForNew();
      !options.chat.id.empty() && !given.empty()) {
    return globals.FailUsage(absl::InvalidArgumentError(
        absl::StrCat(given, ": is for a new session, of which no id is given")));
  }
  options.chat.durability = options.create.durability();
  const bool is_new = options.chat.id.empty();
  // A call with the same key would be told of it again.
  const bool is_own = is_new && options.create.idempotency_key().empty();
  const auto session = Open(globals, options);
  if (!session.ok()) return globals.Fail(session.status());
  client::Sessions& sessions = globals.client->sessions();
  if (is_own) {
    globals.interrupt->AtEnd([&] { DeleteUnused(sessions, *session, {.timeout = kEndTime}); });
  }
  if (is_new) std::cerr << "new session " << session->id() << "\n";
  const int code = Converse(globals, options, *session);
  if (is_own) DeleteUnused(sessions, *session, globals.Call());
  globals.interrupt->AtEnd(nullptr);
  return code;
}

}  // namespace

void AddSessionChat(flags::Command session, Globals& globals) {
  auto options = std::make_shared<Options>();
  const flags::Command command = session.AddCommand(
      "chat", "A conversation: a line in, an answer out; /help inside tells more");
  command.Add("id", options->chat.id, "The session; without it: a new one")
      .TypeName("")
      .NotEmpty(kAnId);
  command.Add("--suffix", options->suffix,
              "Follows each line; default: a line is a message as the model's chat template has "
              "it, or is followed by a newline if there is none");
  options->create.AddTo(command);
  options->chat.sampling.AddTo(command, /*samples=*/false);
  command.OnParsed([&globals, options] {
    globals.run = [&globals, options] { return Run(globals, *options); };
  });
}

}  // namespace tvq::cli
