// tvq session save, load.
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "base/output_file.h"
#include "client/cli/command.h"
#include "client/cli/create_options.h"
#include "client/cli/io/input.h"
#include "client/cli/io/session_text.h"
#include "client/cli/session_call_options.h"

namespace tvq::cli {
namespace {

struct SaveOptions {
  SessionCallOptions session;
  std::string file;
};

struct LoadOptions {
  CreateOptions create;
  std::string file;
};

int SaveOnServer(const Globals& globals, const SaveOptions& options) {
  v1::SaveSessionRequest request;
  options.session.Fill(request.mutable_session());
  const auto position = globals.client->sessions().Save(request, globals.Call());
  if (!position.ok()) return globals.Fail(position.status());
  const std::string text = globals.json ? ToJson(*position).dump(2) : Text(*position);
  std::printf("%s\n", text.c_str());
  return kOk;
}

int SaveToFile(const Globals& globals, const SaveOptions& options) {
  if (const std::string given = options.session.GivenForWrites(); !given.empty()) {
    return globals.FailUsage(absl::InvalidArgumentError(absl::StrCat(
        given, ": is for `session save` without a file, which writes to the session")));
  }
  v1::ExportSessionRequest request;
  options.session.Fill(request.mutable_session());
  OutputFile file(options.file, Readers::kOwner);
  absl::Status written = file.Open();
  if (!written.ok()) return globals.FailUsage(written);
  if (file.IsTerminal()) {
    return globals.FailUsage(absl::InvalidArgumentError(
        "file: a terminal cannot show a snapshot; name a file, or send stdout into one"));
  }
  int64_t bytes = 0;
  const auto stream = globals.client->sessions().Export(request, globals.Call());
  const Interrupt::Guard guard(*globals.interrupt, [&] { stream->Cancel(); });
  const absl::Status status =
      client::Sessions::Receive(*stream, [&](std::string_view chunk, int64_t) {
        bytes += static_cast<int64_t>(chunk.size());
        return written = file.Write(chunk);
      });
  if (!written.ok()) return globals.FailUsage(written);
  if (!status.ok()) return globals.Fail(status);
  if (written = file.Commit(); !written.ok()) return globals.FailUsage(written);
  if (options.file == "-") return kOk;
  if (globals.json) {
    const nlohmann::json json = {
        {"session_id", options.session.id()}, {"file", options.file}, {"bytes", bytes}};
    // A file's name may be no UTF-8.
    const auto replace = nlohmann::json::error_handler_t::replace;
    std::printf("%s\n", json.dump(2, ' ', /*ensure_ascii=*/false, replace).c_str());
  } else {
    std::printf("%lld bytes in %s\n", static_cast<long long>(bytes), options.file.c_str());
  }
  return kOk;
}

int RunLoad(const Globals& globals, const LoadOptions& options) {
  Input file(options.file, "snapshot", Content::kBinary);
  absl::Status read = file.Open();
  if (!read.ok()) return globals.FailUsage(read);
  const auto source = [&] {
    absl::StatusOr<std::string> piece = file.Read();
    read.Update(piece.status());
    return piece;
  };
  v1::CreateSessionRequest create;
  options.create.Fill(&create);
  const auto session = globals.client->sessions().Import(create, source, globals.Call());
  if (!read.ok()) return globals.FailUsage(read);
  if (!session.ok()) return globals.Fail(session.status());
  Print(globals, *session);
  return EndOfNew(globals, {&*session, 1}, options.create.idempotency_key());
}

}  // namespace

void AddSessionSnapshots(flags::Command session, Globals& globals) {
  auto save = std::make_shared<SaveOptions>();
  flags::Command command = session.AddCommand(
      "save", "Makes a session outlive the server; with a file: writes a snapshot of it there");
  save->session.AddTo(command, "The session");
  command.Add("file", save->file, "Where to; -: stdout. Marks are not part of a snapshot")
      .TypeName("")
      .NotEmpty("a file's name");
  command.OnParsed([&globals, save] {
    globals.run = [&globals, save] {
      return save->file.empty() ? SaveOnServer(globals, *save) : SaveToFile(globals, *save);
    };
  });

  auto load = std::make_shared<LoadOptions>();
  command = session.AddCommand("load", "A new session from a snapshot; prints its id");
  command.Add("file", load->file, "What `session save` wrote; -: stdin")
      .TypeName("")
      .NotEmpty("a file's name")
      .Required();
  load->create.AddTo(command);
  command.OnParsed(
      [&globals, load] { globals.run = [&globals, load] { return RunLoad(globals, *load); }; });
}

}  // namespace tvq::cli
