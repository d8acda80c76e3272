#include "server/sessions/store/common_prompts.h"

#include <future>
#include <utility>

#include "absl/strings/str_cat.h"
#include "models/runtime/begin_id.h"

namespace tvq {
namespace {

class DoneSink : public RequestSink {
 public:
  void OnPrompt(int64_t, std::vector<TokenEvent>) override {}
  void OnDelta(Delta) override {}
  void OnEnd(const absl::Status& status, const Usage&) override { done_.set_value(status); }
  absl::Status Wait() { return done_.get_future().get(); }

 private:
  std::promise<absl::Status> done_;
};

}  // namespace

absl::Status CommonPrompts::Open(std::unique_ptr<DurableTier> tier) {
  if (context_.options.prefix_bytes == 0) return absl::OkStatus();
  if (tier != nullptr) {
    auto stored = StoredPrefixes::Open({.tiers = tiers_.shared_from_this(),
                                        .tier = std::move(tier),
                                        .max_bytes = context_.options.stored_prefix_bytes,
                                        .ttl = context_.options.default_ttl,
                                        .clock = context_.clock,
                                        .on_loss = context_.options.on_loss});
    if (!stored.ok()) return stored.status();
    stored_ = *std::move(stored);
  }
  cache_ = std::make_shared<PrefixCache>(tiers_.shared_from_this(), context_.options.prefix_bytes,
                                         stored_.get(), context_.options.prefix_scope);
  return absl::OkStatus();
}

void CommonPrompts::Use(Request* request) {
  if (cache_ == nullptr || request->start) return;
  const auto index = context_.ModelIndex(request->model);
  // The engine says what is wrong with the request.
  if (index.ok()) cache_->Use(*request, *index, context_.model(*index));
}

absl::Status CommonPrompts::FeedShared() {
  if (cache_ == nullptr && !context_.options.shared_prompts.empty()) {
    return absl::InvalidArgumentError(
        "--prefix-cache-bytes: is 0, must be above it with --shared-prompt-file");
  }
  const auto wrong = [](size_t index, const ServedModel& served, const std::string& why) {
    return absl::InvalidArgumentError(absl::StrCat("--shared-prompt-file: the model \"",
                                                   served.name, "\" cannot read number ", index + 1,
                                                   ", which every model must: ", why));
  };
  for (size_t i = 0; i < context_.options.shared_prompts.size(); ++i) {
    const std::string& text = context_.options.shared_prompts[i];
    for (const ServedModel& served : context_.engine->models()) {
      if (!served.model->info().predicts) continue;
      auto prompt = served.model->tokenizer().Encode(text);
      if (!prompt.ok()) return wrong(i, served, std::string(prompt.status().message()));
      const auto known = served.model->tokenizer().CheckKnown(text, *prompt);
      if (!known.ok()) return wrong(i, served, std::string(known.message()));
      if (prompt->empty()) continue;
      AddBosToken(served.model->info(), &*prompt);
      const auto sink = std::make_shared<DoneSink>();
      Request request{.model = served.name,
                      .purpose = Purpose::kAppend,
                      .prompt = *std::move(prompt),
                      .prompt_field = "--shared-prompt-file",
                      .sink = sink};
      Use(&request);
      const auto handle = context_.engine->Submit(std::move(request));
      const auto status = handle.ok() ? sink->Wait() : handle.status();
      if (!status.ok()) return status;
    }
  }
  return absl::OkStatus();
}

void CommonPrompts::Sweep() {
  if (stored_ != nullptr) stored_->Sweep();
}

void CommonPrompts::Stop() {
  if (stored_ != nullptr) stored_->Stop();
}

void CommonPrompts::AddStats(SessionStats& stats) const {
  if (cache_ != nullptr) cache_->AddStats(stats);
  if (stored_ != nullptr) stored_->AddStats(stats);
}

}  // namespace tvq
