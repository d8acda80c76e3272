#include "client/cli/health.h"

#include <cstdio>
#include <nlohmann/json.hpp>

#include "client/cpp/health.h"

namespace tvq::cli {
namespace {

constexpr absl::Duration kPatience = absl::Seconds(5);  // without --timeout

const char* Name(client::Health health) {
  switch (health) {
    case client::Health::kServing:
      return "SERVING";
    case client::Health::kNotServing:
      return "NOT_SERVING";
    case client::Health::kAlive:
      return "ALIVE";
  }
  return "";
}

int RunHealth(const Globals& globals) {
  client::CallOptions call = globals.Call();
  if (globals.timeout == 0) call.timeout = kPatience;
  const auto health = client::CheckHealth(globals.connect.OptionsWithoutKey(), call);
  if (!health.ok()) return globals.Fail(health.status());
  const char* const status = Name(*health);
  if (globals.json) {
    std::printf("%s\n", nlohmann::json({{"status", status}}).dump(2).c_str());
  } else {
    std::printf("%s\n", status);
  }
  return *health == client::Health::kNotServing ? kUnavailable : kOk;
}

}  // namespace

void AddHealth(flags::Command app, Globals& globals) {
  const flags::Command command = app.AddCommand(
      "health", "Whether the server serves; sends no key, believes any certificate, waits 5 s");
  command.OnParsed([&globals] {
    globals.sends_key = false;
    globals.run = [&globals] { return RunHealth(globals); };
  });
}

}  // namespace tvq::cli
