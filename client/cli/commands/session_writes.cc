// tvq session append, fork, mark, unmark, rewind.
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "client/cli/command.h"
#include "client/cli/create_options.h"
#include "client/cli/io/reading.h"
#include "client/cli/io/seconds.h"
#include "client/cli/io/session_text.h"
#include "client/cli/io/text_input.h"
#include "client/cli/session_call_options.h"

namespace tvq::cli {
namespace {

struct WriteOptions {
  SessionCallOptions session;
  // append
  TextInput input;
  std::optional<bool> add_special_tokens;
  // fork
  int32_t count = 1;
  std::string label;
  std::optional<double> ttl;
  // mark, unmark, rewind; fork: where from
  std::string mark;
};

int Done(const Globals& globals, const absl::StatusOr<v1::SessionPosition>& position) {
  if (!position.ok()) return globals.Fail(position.status());
  const std::string text = globals.json ? ToJson(*position).dump(2) : Text(*position);
  std::printf("%s\n", text.c_str());
  return kOk;
}

int RunAppend(const Globals& globals, const WriteOptions& options) {
  v1::AppendSessionRequest request;
  options.session.Fill(request.mutable_session());
  if (options.add_special_tokens) request.set_add_special_tokens(*options.add_special_tokens);
  if (auto status = options.input.Fill(&request); !status.ok()) return globals.FailUsage(status);
  std::optional<Reading> reading(std::in_place, globals, request);
  const auto response = globals.client->sessions().Append(request, globals.Call());
  if (response.ok()) reading->Done();
  reading.reset();
  if (!response.ok()) return globals.Fail(response.status());
  if (globals.json) {
    nlohmann::json json = ToJson(response->session());
    json["tokens"] = response->tokens();
    std::printf("%s\n", json.dump(2).c_str());
  } else {
    std::printf("%s: %s\n", Counted(response->tokens(), "token").c_str(),
                Text(response->session()).c_str());
  }
  return kOk;
}

int RunFork(const Globals& globals, const WriteOptions& options) {
  v1::ForkSessionRequest request;
  options.session.Fill(request.mutable_session());
  request.set_count(options.count);
  request.set_label(options.label);
  request.set_mark(options.mark);
  if (options.ttl) *request.mutable_ttl() = ToDuration(*options.ttl);
  const auto forks = globals.client->sessions().Fork(request, globals.Call());
  if (!forks.ok()) return globals.Fail(forks.status());
  if (globals.json) {
    std::printf("%s\n", ToJson(*forks).dump(2).c_str());
  } else {
    for (const v1::Session& fork : *forks) std::printf("%s\n", fork.id().c_str());
  }
  return EndOfNew(globals, *forks, request.session().idempotency_key());
}

int RunMark(const Globals& globals, const WriteOptions& options) {
  v1::MarkSessionRequest request;
  options.session.Fill(request.mutable_session());
  request.set_name(options.mark);
  return Done(globals, globals.client->sessions().Mark(request, globals.Call()));
}

int RunUnmark(const Globals& globals, const WriteOptions& options) {
  v1::UnmarkSessionRequest request;
  options.session.Fill(request.mutable_session());
  request.set_name(options.mark);
  return Done(globals, globals.client->sessions().Unmark(request, globals.Call()));
}

int RunRewind(const Globals& globals, const WriteOptions& options) {
  v1::RewindSessionRequest request;
  options.session.Fill(request.mutable_session());
  request.set_mark(options.mark);
  return Done(globals, globals.client->sessions().Rewind(request, globals.Call()));
}

}  // namespace

void AddSessionWrites(flags::Command session, Globals& globals) {
  const auto add = [&](const char* name, const char* help, auto run) {
    auto options = std::make_shared<WriteOptions>();
    const flags::Command command = session.AddCommand(name, help);
    options->session.AddTo(command, "The session");
    command.OnParsed([&globals, options, run] {
      globals.run = [&globals, options, run] { return run(globals, *options); };
    });
    return std::make_pair(command, options);
  };
  const auto [append, fed] = add("append", "Feeds a text without generating", RunAppend);
  fed->input.AddTo(append);
  AddSpecialTokens(append, fed->add_special_tokens);

  const auto [fork, forks] =
      add("fork", "Exact copies that go their own ways; prints ids", RunFork);
  fork.Add("--count", forks->count, "How many").Within(1, 128).ShowDefault();
  fork.Add("--label", forks->label, "A name of your own for them");
  fork.Add("--mark", forks->mark, "Fork from this mark, not from the present state")
      .TypeName("NAME")
      .NotEmpty("a mark's name");
  AddTtl(fork, forks->ttl);

  const auto [mark, marked] =
      add("mark", "Keeps the present state under a name, to rewind to or fork from", RunMark);
  mark.Add("name", marked->mark, "Name of the mark; replaces one of this name")
      .TypeName("")
      .Required();
  const auto [unmark, unmarked] = add("unmark", "Forgets a mark", RunUnmark);
  unmark.Add("name", unmarked->mark, "Name of the mark").TypeName("").Required();
  const auto [rewind, rewound] = add("rewind", "Back to a mark, which stays", RunRewind);
  rewind.Add("mark", rewound->mark, "Name of the mark").TypeName("").Required();
}

}  // namespace tvq::cli
