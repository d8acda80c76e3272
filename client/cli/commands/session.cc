// tvq session: create, list, show, tree, delete; the rest is in files of its own.
#include <cstdio>
#include <nlohmann/json.hpp>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/output_file.h"
#include "client/cli/command.h"
#include "client/cli/commands/chat_file.h"
#include "client/cli/commands/session_tree.h"
#include "client/cli/create_options.h"
#include "client/cli/io/session_text.h"
#include "client/cli/session_call_options.h"

namespace tvq::cli {
namespace {

struct Query {
  std::string id;
  std::string model;
  std::string parent;
  bool transcript = false;
  std::vector<std::string> ids;
};

absl::StatusOr<std::vector<v1::Session>> List(const Globals& globals, const Query& query) {
  v1::ListSessionsRequest request;
  request.set_model(query.model);
  request.set_parent_id(query.parent);
  request.set_page_size(1000);
  return globals.client->sessions().ListAll(request, globals.Call());
}

int RunCreate(const Globals& globals, const CreateOptions& options) {
  v1::CreateSessionRequest request;
  options.Fill(&request);
  const auto session = globals.client->sessions().Create(request, globals.Call());
  if (!session.ok()) return globals.Fail(session.status());
  Print(globals, *session);
  return EndOfNew(globals, {&*session, 1}, options.idempotency_key());
}

int RunList(const Globals& globals, const Query& query) {
  const auto sessions = List(globals, query);
  if (!sessions.ok()) return globals.Fail(sessions.status());
  if (globals.json) {
    std::printf("%s\n", ToJson(*sessions).dump(2).c_str());
  } else {
    std::printf("%s", Table(*sessions, absl::Now()).c_str());
  }
  return kOk;
}

absl::StatusOr<v1::GetSessionResponse> Get(const Globals& globals, const Query& query) {
  client::Sessions& sessions = globals.client->sessions();
  if (query.transcript) return sessions.GetWithTranscript(query.id, globals.Call());
  v1::GetSessionRequest request;
  request.set_session_id(query.id);
  return sessions.Get(request, globals.Call());
}

int RunShow(const Globals& globals, const Query& query) {
  const auto response = Get(globals, query);
  if (!response.ok()) return globals.Fail(response.status());
  if (globals.json) {
    nlohmann::json json = ToJson(response->session());
    if (query.transcript) json["transcript"] = response->transcript();
    std::printf("%s\n", json.dump(2).c_str());
    return kOk;
  }
  std::printf("%s", Text(response->session()).c_str());
  if (!query.transcript) return kOk;
  std::printf("transcript");
  for (const int32_t id : response->transcript()) std::printf(" %d", id);
  std::printf("\n");
  return kOk;
}

int RunTree(const Globals& globals, const Query& query) {
  auto sessions = List(globals, query);
  if (!sessions.ok()) return globals.Fail(sessions.status());
  if (!query.id.empty()) {
    *sessions = Subtree(*sessions, query.id);
    if (sessions->empty()) {
      return globals.Fail(absl::NotFoundError(absl::StrCat("no session \"", query.id, "\"")));
    }
  }
  if (globals.json) {
    std::printf("%s\n", ToJson(*sessions).dump(2).c_str());
  } else {
    std::printf("%s", DrawTree(*sessions).c_str());
  }
  return kOk;
}

// One that cannot be deleted is told, and the others are deleted all the same.
int RunDelete(const Globals& globals, const Query& query) {
  int code = kOk;
  for (const std::string& id : query.ids) {
    v1::DeleteSessionRequest request;
    request.mutable_session()->set_session_id(id);
    const absl::Status status = globals.client->sessions().Delete(request, globals.Call());
    if (!status.ok()) {
      code = globals.Fail(WithChatFile(status, id));
      if (code != kServerError) return code;  // the others would fail, too
      continue;
    }
    const absl::Status forgotten = DeleteChatFile(id);
    if (!forgotten.ok()) code = globals.Fail(forgotten);
    if (globals.json) std::printf("%s\n", nlohmann::json({{"deleted", id}}).dump().c_str());
    if (const auto written = FlushStdout(); !written.ok()) return globals.FailUsage(written);
  }
  return code;
}

}  // namespace

void Print(const Globals& globals, const v1::Session& session) {
  if (globals.json) {
    std::printf("%s\n", ToJson(session).dump(2).c_str());
  } else {
    std::printf("%s\n", session.id().c_str());
  }
}

int EndOfNew(const Globals& globals, std::span<const v1::Session> made,
             const std::string& idempotency_key) {
  const absl::Status written = FlushStdout();
  if (written.ok()) return kOk;
  for (const v1::Session& session : made) {
    if (idempotency_key.empty()) TryDelete(globals, session.id());
  }
  return globals.FailUsage(written);
}

void TryDelete(const Globals& globals, const std::string& id) {
  v1::DeleteSessionRequest request;
  request.mutable_session()->set_session_id(id);
  globals.client->sessions().Delete(request, globals.Call()).IgnoreError();
}

void AddSessionQueries(flags::Command session, Globals& globals) {
  const auto add = [&](const char* name, const char* help, auto run) {
    auto query = std::make_shared<Query>();
    const flags::Command command = session.AddCommand(name, help);
    command.OnParsed([&globals, query, run] {
      globals.run = [&globals, query, run] { return run(globals, *query); };
    });
    return std::make_pair(command, query);
  };
  const auto [list, listed] = add("list", "All sessions, oldest first", RunList);
  list.Add("--model", listed->model, "Only those of this model").TypeName("NAME");
  list.Add("--parent", listed->parent, "Only forks of this session").TypeName("ID").NotEmpty(kAnId);
  const auto [show, shown] = add("show", "What the server knows of a session", RunShow);
  show.Add("id", shown->id, "The session").TypeName("").NotEmpty(kAnId).Required();
  show.AddFlag("--transcript", shown->transcript, "Its token ids too, if it keeps them");
  const auto [tree, root] = add("tree", "Sessions and their forks", RunTree);
  tree.Add("id", root->id, "Only this session and what descends from it")
      .TypeName("")
      .NotEmpty(kAnId);
  tree.Add("--model", root->model, "Only those of this model").TypeName("NAME");
  const auto [remove, removed] = add(
      "delete", "Deletes sessions, and what a chat kept of them here; their forks stay", RunDelete);
  remove.Add("ids", removed->ids, "The sessions").TypeName("").NotEmpty(kAnId).Required();
}

void AddSession(flags::Command app, Globals& globals) {
  const flags::Command session = app.AddCommand(
      "session", "Conversations that stay on the server, at a fixed cost however long they are");
  session.RequireCommand();
  auto options = std::make_shared<CreateOptions>();
  const flags::Command create = session.AddCommand("create", "A new session; prints its id");
  options->AddTo(create);
  create.OnParsed([&globals, options] {
    globals.run = [&globals, options] { return RunCreate(globals, *options); };
  });
  AddSessionQueries(session, globals);
  AddSessionWrites(session, globals);
  AddSessionSnapshots(session, globals);
  AddSessionChat(session, globals);
}

}  // namespace tvq::cli
