// tvq info, also as tvq models: what the server is and serves.
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "client/cli/command.h"

namespace tvq::cli {
namespace {

nlohmann::json ModelJson(const v1::Model& m) {
  nlohmann::json json = {{"name", m.name()},
                         {"family", m.family()},
                         {"parameters", m.parameters()},
                         {"vocab_size", m.vocab_size()},
                         {"dtype", m.dtype()},
                         {"state_dtype", m.state_dtype()},
                         {"weight_bytes", m.weight_bytes()},
                         {"bytes_per_session", m.bytes_per_session()},
                         {"state_grows", m.state_grows()},
                         {"quoted_tokens", m.quoted_tokens()},
                         {"max_sessions", m.max_sessions()},
                         {"sessions_in_use", m.sessions_in_use()},
                         {"prefill_chunk", m.prefill_chunk()},
                         {"max_position", m.max_position()},
                         {"max_prompt_tokens", m.max_prompt_tokens()},
                         {"tokenizer", m.tokenizer()},
                         {"can_encode", m.can_encode()},
                         {"fingerprint", m.fingerprint()},
                         {"add_bos_token", m.add_bos_token()},
                         {"pad_token_id", nullptr},
                         {"bos_token_id", nullptr},
                         {"eos_token_id", nullptr},
                         {"unk_token_id", nullptr},
                         {"image", nullptr}};
  if (m.has_pad_token_id()) json["pad_token_id"] = m.pad_token_id();
  if (m.has_bos_token_id()) json["bos_token_id"] = m.bos_token_id();
  if (m.has_eos_token_id()) json["eos_token_id"] = m.eos_token_id();
  if (m.has_unk_token_id()) json["unk_token_id"] = m.unk_token_id();
  json["bytes_per_token"] = m.bytes_per_token();
  json["cache_bytes_per_token"] = m.cache_bytes_per_token();
  json["session_sizes"] = nlohmann::json::array();
  for (const v1::SessionSize& size : m.session_sizes()) {
    json["session_sizes"].push_back({{"tokens", size.tokens()}, {"bytes", size.bytes()}});
  }
  if (m.has_image()) {
    json["image"] = {{"height", m.image().height()},
                     {"width", m.image().width()},
                     {"channels", m.image().channels()},
                     {"levels", m.image().levels()},
                     {"first_token_id", m.image().first_token_id()}};
  }
  return json;
}

double Seconds(const google::protobuf::Duration& duration) {
  return static_cast<double>(duration.seconds()) + 1e-9 * duration.nanos();
}

void PrintJson(const v1::GetServerInfoResponse& server, const v1::ListModelsResponse& models) {
  nlohmann::json json = {{"version", server.version()},
                         {"build", server.build()},
                         {"device", server.device()},
                         {"uptime_seconds", Seconds(server.uptime())},
                         {"draining", server.draining()},
                         {"requests_running", server.requests_running()},
                         {"requests_waiting", server.requests_waiting()},
                         {"models", nlohmann::json::array()}};
  for (const v1::Model& model : models.models()) json["models"].push_back(ModelJson(model));
  std::printf("%s\n", json.dump(2).c_str());
}

std::string Megabytes(int64_t bytes) {
  return absl::StrFormat("%.1f MB", static_cast<double>(bytes) / 1e6);
}

// What a session takes more and more of.
void PrintGrowth(const v1::Model& m) {
  if (m.session_sizes().empty()) return;
  std::vector<std::string> sizes;
  for (const v1::SessionSize& size : m.session_sizes()) {
    sizes.push_back(absl::StrCat(Megabytes(size.bytes()), " at ", size.tokens(), " tokens"));
  }
  std::printf("  growth    %lld bytes a token: %s\n", static_cast<long long>(m.bytes_per_token()),
              absl::StrJoin(sizes, ", ").c_str());
}

std::string OfWhatLength(const v1::Model& m) {
  if (!m.state_grows()) return "";
  return " at " + std::to_string(m.quoted_tokens()) + " tokens, less before";
}

void PrintText(const v1::GetServerInfoResponse& server, const v1::ListModelsResponse& models) {
  std::printf("tvq-server %s (%s)%s\n", server.version().c_str(), server.build().c_str(),
              server.draining() ? ", draining" : "");
  std::printf("  device    %s\n  uptime    %.0f s\n  requests  %lld running, %lld waiting\n",
              server.device().c_str(), Seconds(server.uptime()),
              static_cast<long long>(server.requests_running()),
              static_cast<long long>(server.requests_waiting()));
  for (const v1::Model& m : models.models()) {
    std::printf("%s\n  family    %s, %.2f M parameters, %s, %.1f MB\n", m.name().c_str(),
                m.family().c_str(), static_cast<double>(m.parameters()) / 1e6, m.dtype().c_str(),
                static_cast<double>(m.weight_bytes()) / 1e6);
    std::printf("  text      %d token ids (%s)\n", m.vocab_size(), m.tokenizer().c_str());
    if (!m.fingerprint().empty()) std::printf("  identity  %s\n", m.fingerprint().c_str());
    // What encodes keeps no sessions: a text takes the memory while it is encoded.
    std::printf("  %s  %lld bytes each%s, %lld fit, %lld in use\n",
                m.can_encode() ? "texts   " : "sessions",
                static_cast<long long>(m.bytes_per_session()), OfWhatLength(m).c_str(),
                static_cast<long long>(m.max_sessions()),
                static_cast<long long>(m.sessions_in_use()));
    PrintGrowth(m);
  }
}

int RunInfo(const Globals& globals) {
  const auto server = globals.client->GetServerInfo(globals.Call());
  if (!server.ok()) return globals.Fail(server.status());
  const auto models = globals.client->ListModels(globals.Call());
  if (!models.ok()) return globals.Fail(models.status());
  if (globals.json) {
    PrintJson(*server, *models);
  } else {
    PrintText(*server, *models);
  }
  return kOk;
}

}  // namespace

void AddInfo(flags::Command app, Globals& globals) {
  const auto add = [&](const char* name, const char* help) {
    app.AddCommand(name, help).OnParsed([&globals] {
      globals.run = [&globals] { return RunInfo(globals); };
    });
  };
  add("info", "The server, its models and how much fits");
  add("models", "The same as info");
}

}  // namespace tvq::cli
