#include "client/cli/create_options.h"

#include "client/cli/io/seconds.h"
#include "client/cli/session_call_options.h"

namespace tvq::cli {

flags::Option AddTtl(flags::Command command, std::optional<double>& ttl) {
  return AsSeconds(
      command.Add("--ttl", ttl, "Delete it when unused for so long; else the server's default"));
}

void CreateOptions::AddTo(flags::Command command) {
  AddModel(command, model_);
  command.Add("--label", label_, "A name of your own for it");
  AddTtl(command, ttl_);
  const flags::Option transcript = command.AddFlag(
      "--transcript", [this] { transcript_ = true; },
      "Keep the token ids beside the state; else the server's default");
  command.AddFlag(
             "--no-transcript", [this] { transcript_ = false; }, "Do not keep them")
      .Excludes(transcript);
  AddSpecialTokens(command, add_special_tokens_);
  AddDurability(command, durability_);
  command
      .Add("--idempotency-key", idempotency_key_, "A call repeated with the same key is done once")
      .TypeName("KEY");
}

std::string CreateOptions::GivenForNew() const {
  if (!model_.empty()) return "--model";
  if (!label_.empty()) return "--label";
  if (ttl_) return "--ttl";
  if (transcript_) return *transcript_ ? "--transcript" : "--no-transcript";
  if (add_special_tokens_) {
    return *add_special_tokens_ ? "--add-special-tokens" : "--no-add-special-tokens";
  }
  return idempotency_key_.empty() ? "" : "--idempotency-key";
}

void CreateOptions::Fill(v1::CreateSessionRequest* request) const {
  request->set_model(model_);
  request->set_label(label_);
  if (ttl_) *request->mutable_ttl() = ToDuration(*ttl_);
  if (transcript_) request->set_keep_transcript(*transcript_);
  if (add_special_tokens_) request->set_add_special_tokens(*add_special_tokens_);
  request->set_durability(durability_);
  request->set_idempotency_key(idempotency_key_);
}

}  // namespace tvq::cli
