// tvq session chat: a conversation in the terminal.
#include <iostream>

#include "client/cli/chat.h"
#include "client/cli/command.h"
#include "client/cli/create_options.h"

namespace tvq::cli {
namespace {

struct Options {
  Chat::Options chat;
  CreateOptions create;
};

int Run(const Globals& globals, Options& options) {
  options.chat.durability = options.create.durability();
  if (options.chat.id.empty()) {
    v1::CreateSessionRequest request;
    options.create.Fill(&request);
    const auto session = globals.client->sessions().Create(request, globals.Call());
    if (!session.ok()) return globals.Fail(session.status());
    options.chat.id = session->id();
    std::cerr << "new session " << session->id() << "\n";
  }
  return Chat(globals, options.chat).Run();
}

}  // namespace

void AddSessionChat(CLI::App& session, Globals& globals) {
  auto options = std::make_shared<Options>();
  CLI::App* command = session.add_subcommand(
      "chat", "A conversation: a line in, an answer out; /help inside tells more");
  command->add_option("id", options->chat.id, "The session; without it: a new one")->type_name("");
  command->add_option("--suffix", options->chat.suffix, "Follows each line; default: a newline");
  options->create.AddTo(*command);
  options->chat.sampling.AddTo(*command);
  command->callback([&globals, options] {
    globals.run = [&globals, options] { return Run(globals, *options); };
  });
}

}  // namespace tvq::cli
