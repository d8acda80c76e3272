#include "server/startup/logs.h"

#include <spdlog/formatter.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "base/json.h"
#include "base/quoted.h"
#include "base/refusal.h"

namespace tvq {
namespace {

using Json = nlohmann::ordered_json;

constexpr char kServer[] = "tvq-server";
constexpr char kCalls[] = "calls";

std::string Dump(const Json& json) {
  return JsonLine(json.dump(-1, ' ', false, Json::error_handler_t::replace));
}

// The lines of the logger kCalls are the further fields of the object already.
class JsonFormatter : public spdlog::formatter {
 public:
  void format(const spdlog::details::log_msg& message, spdlog::memory_buf_t& out) override {
    const std::string_view text(message.payload.data(), message.payload.size());
    const auto level = spdlog::level::to_string_view(message.level);
    std::string line =
        Dump({{"time", absl::FormatTime("%Y-%m-%dT%H:%M:%E3SZ", absl::FromChrono(message.time),
                                        absl::UTCTimeZone())},
              {"level", std::string_view(level.data(), level.size())}});
    line.pop_back();
    line += ",";
    const bool fields =
        std::string_view(message.logger_name.data(), message.logger_name.size()) == kCalls;
    line += fields ? text : std::string_view(Dump({{"message", text}})).substr(1);
    line += "\n";
    out.append(line.data(), line.data() + line.size());
  }

  std::unique_ptr<spdlog::formatter> clone() const override {
    return std::make_unique<JsonFormatter>();
  }
};

std::string JsonFields(const FinishedCall& call, double ms, const std::string& error) {
  Json fields = {{"message", "call"},
                 {"request_id", call.caller.request_id},
                 {"owner", call.caller.owner},
                 {"method", call.method.name},
                 {"code", absl::StatusCodeToString(call.status.code())},
                 {"ms", ms}};
  if (!call.status.ok()) {
    const Refusal refusal = RefusalOf(call.status);
    fields["reason"] = InfoOf(refusal.reason).name;
    if (!refusal.field.empty()) fields["field"] = refusal.field;
  }
  if (!call.caller.session_id.empty()) fields["session"] = call.caller.session_id;
  if (!error.empty()) fields["error"] = error;
  return Dump(fields).substr(1);
}

std::string TextLine(const FinishedCall& call, double ms, const std::string& error) {
  std::string line = absl::StrFormat("request %s of \"%s\": %s %s after %.1f ms",
                                     call.caller.request_id, call.caller.owner, call.method.name,
                                     absl::StatusCodeToString(call.status.code()), ms);
  if (!call.status.ok()) {
    const Refusal refusal = RefusalOf(call.status);
    absl::StrAppend(&line, ", ", std::string(InfoOf(refusal.reason).name));
    if (!refusal.field.empty()) absl::StrAppend(&line, " of ", refusal.field);
  }
  if (!call.caller.session_id.empty()) {
    absl::StrAppend(&line, ", session ", Quoted(call.caller.session_id));
  }
  if (!error.empty()) line += ": " + error;
  return line;
}

spdlog::level::level_enum LevelOf(const FinishedCall& call, absl::Duration slow) {
  if (absl::IsInternal(call.status) || absl::IsDataLoss(call.status)) return spdlog::level::err;
  const bool session_kept_out = !call.status.ok() && !call.caller.session_id.empty();
  return call.took > slow || session_kept_out ? spdlog::level::info : spdlog::level::debug;
}

}  // namespace

void SetUpLogs(const LogOptions& options, spdlog::sink_ptr sink) {
  if (sink == nullptr) sink = std::make_shared<spdlog::sinks::stderr_color_sink_mt>();
  if (options.format == "json") sink->set_formatter(std::make_unique<JsonFormatter>());
  const auto level = spdlog::level::from_str(options.level);
  spdlog::drop_all();
  const auto calls = std::make_shared<spdlog::logger>(kCalls, sink);
  calls->set_level(level);
  spdlog::register_logger(calls);
  const auto server = std::make_shared<spdlog::logger>(kServer, std::move(sink));
  server->set_level(level);
  spdlog::set_default_logger(server);
}

CallRecorder::Log CallLog(const LogOptions& options) {
  return [logger = spdlog::get(kCalls), json = options.format == "json",
          slow = absl::Seconds(options.slow_call_seconds)](const FinishedCall& call) {
    const auto level = LevelOf(call, slow);
    if (!logger->should_log(level)) return;
    const double ms = absl::ToDoubleMilliseconds(call.took);
    const std::string error =
        absl::IsInternal(call.status) ? std::string(call.status.message()) : "";
    logger->log(level, spdlog::string_view_t(json ? JsonFields(call, ms, error)
                                                  : TextLine(call, ms, error)));
  };
}

}  // namespace tvq
