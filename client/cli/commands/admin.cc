// tvq admin: operating a server.
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>

#include "client/cli/command.h"
#include "client/cli/io/seconds.h"

namespace tvq::cli {
namespace {

struct Options {
  std::optional<double> shutdown_timeout;  // seconds
};

int FailAdmin(const Globals& globals, const absl::Status& status) {
  if (!absl::IsUnimplemented(status)) return globals.Fail(status);
  return globals.Fail(absl::UnimplementedError(
      "this server takes no admin calls, for it has no keys (tvq-server --api-key-file)"));
}

int RunDrain(const Globals& globals, const Options& options) {
  v1::DrainRequest request;
  if (options.shutdown_timeout) *request.mutable_timeout() = ToDuration(*options.shutdown_timeout);
  const auto response = globals.client->admin().Drain(request, globals.Call());
  if (!response.ok()) return FailAdmin(globals, response.status());
  const int64_t running = response->requests_running();
  if (globals.json) {
    std::printf("%s\n", nlohmann::json({{"requests_running", running}}).dump(2).c_str());
  } else {
    std::printf("draining; %s running\n", Counted(running, "request").c_str());
  }
  return kOk;
}

int RunReload(const Globals& globals) {
  const auto response = globals.client->admin().ReloadCredentials(globals.Call());
  if (!response.ok()) return FailAdmin(globals, response.status());
  if (globals.json) {
    const nlohmann::json json = {{"keys", response->keys()},
                                 {"certificates_reloaded", response->certificates_reloaded()}};
    std::printf("%s\n", json.dump(2).c_str());
  } else {
    std::printf("%s%s\n", Counted(response->keys(), "key").c_str(),
                response->certificates_reloaded() ? ", new certificates" : "");
  }
  return kOk;
}

}  // namespace

void AddAdmin(flags::Command app, Globals& globals) {
  const flags::Command admin =
      app.AddCommand("admin", "Operates a server; needs a key that allows it");
  admin.RequireCommand();
  auto options = std::make_shared<Options>();
  const flags::Command drain = admin.AddCommand(
      "drain",
      "The server accepts nothing new, finishes what runs, stores its sessions, and stops");
  AsSeconds(drain.Add("--shutdown-timeout", options->shutdown_timeout,
                      "End what still runs after so long; else the server's own"));
  drain.OnParsed([&globals, options] {
    globals.run = [&globals, options] { return RunDrain(globals, *options); };
  });
  const flags::Command reload =
      admin.AddCommand("reload", "The server reads its keys and certificates again");
  reload.OnParsed([&globals] { globals.run = [&globals] { return RunReload(globals); }; });
}

}  // namespace tvq::cli
