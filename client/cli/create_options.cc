#include "client/cli/create_options.h"

#include <cmath>

#include "client/cli/session_call_options.h"

namespace tvq::cli {
namespace {

// google.protobuf.Duration's own limit: 10,000 years.
constexpr double kMaxSeconds = 315'576'000'000;

}  // namespace

CLI::Option* AddTtl(CLI::App& command, std::optional<double>& ttl) {
  return command
      .add_option("--ttl", ttl, "Delete it when unused for so long; else the server's default")
      ->type_name("SECONDS")
      ->check(CLI::Range(0.0, kMaxSeconds).description(""));
}

google::protobuf::Duration ToDuration(double seconds) {
  google::protobuf::Duration duration;
  double whole = 0;
  duration.set_nanos(static_cast<int32_t>(std::modf(seconds, &whole) * 1e9));
  duration.set_seconds(static_cast<int64_t>(whole));
  return duration;
}

void CreateOptions::AddTo(CLI::App& command) {
  AddModel(command, model_);
  command.add_option("--label", label_, "A name of your own for it");
  AddTtl(command, ttl_);
  command.add_flag_function(
      "--transcript,!--no-transcript", [this](int64_t given) { transcript_ = given > 0; },
      "Keep the token ids beside the state, or not; else the server's default");
  AddDurability(command, durability_);
  command.add_option("--idempotency-key", idempotency_key_,
                     "A call repeated with the same key is done once");
}

void CreateOptions::Fill(v1::CreateSessionRequest* request) const {
  request->set_model(model_);
  request->set_label(label_);
  if (ttl_) *request->mutable_ttl() = ToDuration(*ttl_);
  if (transcript_) request->set_keep_transcript(*transcript_);
  request->set_durability(durability_);
  request->set_idempotency_key(idempotency_key_);
}

}  // namespace tvq::cli
