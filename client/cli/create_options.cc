#include "client/cli/create_options.h"

#include "client/cli/io/seconds.h"
#include "client/cli/session_call_options.h"

namespace tvq::cli {

CLI::Option* AddTtl(CLI::App& command, std::optional<double>& ttl) {
  return AsSeconds(command.add_option(
      "--ttl", ttl, "Delete it when unused for so long; else the server's default"));
}

void CreateOptions::AddTo(CLI::App& command) {
  AddModel(command, model_);
  command.add_option("--label", label_, "A name of your own for it");
  AddTtl(command, ttl_);
  CLI::Option* transcript = command.add_flag_callback(
      "--transcript", [this] { transcript_ = true; },
      "Keep the token ids beside the state; else the server's default");
  command.add_flag_callback(
             "--no-transcript", [this] { transcript_ = false; }, "Do not keep them")
      ->excludes(transcript);
  AddDurability(command, durability_);
  command
      .add_option("--idempotency-key", idempotency_key_,
                  "A call repeated with the same key is done once")
      ->type_name("KEY");
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
