// tvq session save, load.
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "client/cli/atomic_file.h"
#include "client/cli/command.h"
#include "client/cli/create_options.h"
#include "client/cli/input.h"
#include "client/cli/session_call_options.h"
#include "client/cli/session_text.h"

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

// Writes the chunks of an export and counts their bytes. `write` says what went wrong here; the
// result, what went wrong there.
absl::Status Receive(const Globals& globals, const v1::ExportSessionRequest& request,
                     const std::function<absl::Status(std::string_view)>& write, int64_t* received,
                     absl::Status* written) {
  const auto stream = globals.client->sessions().Export(request, globals.Call());
  const Interrupt::Guard guard(*globals.interrupt, [&] { stream->Cancel(); });
  v1::ExportSessionResponse response;
  int64_t total = 0;
  while (stream->Next(&response)) {
    total = std::max(total, response.total_bytes());
    *received += static_cast<int64_t>(response.chunk().size());
    if (written->ok()) *written = write(response.chunk());
    if (!written->ok()) stream->Cancel();
  }
  const absl::Status status = stream->Finish();
  if (status.ok() && *received != total) {
    return absl::DataLossError(
        absl::StrCat("the snapshot has ", total, " bytes, the server sent ", *received));
  }
  return status;
}

absl::Status WriteStdout(std::string_view bytes) {
  if (std::fwrite(bytes.data(), 1, bytes.size(), stdout) == bytes.size()) return absl::OkStatus();
  return absl::ErrnoToStatus(errno, "cannot write to stdout");
}

int SaveToFile(const Globals& globals, const SaveOptions& options) {
  v1::ExportSessionRequest request;
  options.session.Fill(request.mutable_session());
  const bool to_stdout = options.file == "-";
  AtomicFile file(options.file);
  absl::Status written = to_stdout ? absl::OkStatus() : file.Open();
  if (!written.ok()) return globals.FailUsage(written);
  int64_t bytes = 0;
  const absl::Status status = Receive(
      globals, request,
      [&](std::string_view chunk) { return to_stdout ? WriteStdout(chunk) : file.Write(chunk); },
      &bytes, &written);
  if (!written.ok()) return globals.FailUsage(written);
  if (!status.ok()) return globals.Fail(status);
  if (to_stdout) {
    if (std::fflush(stdout) != 0) {
      return globals.FailUsage(absl::ErrnoToStatus(errno, "cannot write to stdout"));
    }
    return kOk;
  }
  if (written = file.Commit(); !written.ok()) return globals.FailUsage(written);
  if (globals.json) {
    const nlohmann::json json = {
        {"session_id", options.session.id()}, {"file", options.file}, {"bytes", bytes}};
    std::printf("%s\n", json.dump(2).c_str());
  } else {
    std::printf("%lld bytes in %s\n", static_cast<long long>(bytes), options.file.c_str());
  }
  return kOk;
}

int RunLoad(const Globals& globals, const LoadOptions& options) {
  Input file(options.file);
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
  return kOk;
}

}  // namespace

void AddSessionSnapshots(CLI::App& session, Globals& globals) {
  auto save = std::make_shared<SaveOptions>();
  CLI::App* command = session.add_subcommand(
      "save", "Makes a session outlive the server; with a file: writes a snapshot of it there");
  save->session.AddTo(*command, "The session");
  command->add_option("file", save->file, "Where to; -: stdout. Marks are not part of a snapshot");
  command->callback([&globals, save] {
    globals.run = [&globals, save] {
      return save->file.empty() ? SaveOnServer(globals, *save) : SaveToFile(globals, *save);
    };
  });

  auto load = std::make_shared<LoadOptions>();
  command = session.add_subcommand("load", "A new session from a snapshot; prints its id");
  command->add_option("file", load->file, "What `session save` wrote; -: stdin")->required();
  load->create.AddTo(*command);
  command->callback(
      [&globals, load] { globals.run = [&globals, load] { return RunLoad(globals, *load); }; });
}

}  // namespace tvq::cli
