#include "client/cli/health.h"

#include <cstdio>
#include <nlohmann/json.hpp>

#include "client/cpp/health.h"

namespace tvq::cli {
namespace {

constexpr absl::Duration kPatience = absl::Seconds(5);  // without --timeout

int Run(const Globals& globals) {
  const auto connect = globals.connect.Options();
  if (!connect.ok()) return globals.FailUsage(connect.status());
  client::CallOptions call = globals.Call();
  if (globals.timeout == 0) call.timeout = kPatience;
  const auto serving = client::IsServing(*connect, call);
  if (!serving.ok()) return globals.Fail(serving.status());
  const char* const status = *serving ? "SERVING" : "NOT_SERVING";
  if (globals.json) {
    std::printf("%s\n", nlohmann::json({{"status", status}}).dump(2).c_str());
  } else {
    std::printf("%s\n", status);
  }
  return *serving ? kOk : kUnavailable;
}

}  // namespace

void AddHealth(CLI::App& app, Globals& globals) {
  CLI::App* command = app.add_subcommand(
      "health", "Whether the server serves; sends no key, believes any certificate, waits 5 s");
  command->callback([&globals] { globals.run = [&globals] { return Run(globals); }; });
}

}  // namespace tvq::cli
