// States of common prompts.
#include <future>
#include <utility>

#include "absl/strings/str_cat.h"
#include "models/runtime/begin_id.h"
#include "server/sessions/store/store.h"

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

absl::Status Store::OpenPrefixes(std::unique_ptr<DurableTier> tier) {
  if (options_.prefix_bytes == 0) return absl::OkStatus();
  if (tier != nullptr) {
    auto stored = StoredPrefixes::Open({.tiers = tiers_,
                                        .tier = std::move(tier),
                                        .max_bytes = options_.stored_prefix_bytes,
                                        .ttl = options_.default_ttl,
                                        .clock = clock_,
                                        .on_loss = options_.on_loss});
    if (!stored.ok()) return stored.status();
    stored_prefixes_ = *std::move(stored);
  }
  prefixes_ = std::make_shared<PrefixCache>(tiers_, options_.prefix_bytes, stored_prefixes_.get(),
                                            options_.prefix_scope);
  return absl::OkStatus();
}

void Store::UsePrefixes(Request* request) {
  if (prefixes_ == nullptr || request->start) return;
  const auto index = ModelIndex(request->model);
  // The engine says what is wrong with the request.
  if (index.ok()) prefixes_->Use(*request, *index, model(*index));
}

absl::Status Store::FeedSharedPrompts() {
  if (prefixes_ == nullptr && !options_.shared_prompts.empty()) {
    return absl::InvalidArgumentError(
        "--prefix-cache-bytes: is 0, must be above it with --shared-prompt-file");
  }
  const auto wrong = [](size_t index, const ServedModel& served, const std::string& why) {
    return absl::InvalidArgumentError(absl::StrCat("--shared-prompt-file: the model \"",
                                                   served.name, "\" cannot read number ", index + 1,
                                                   ", which every model must: ", why));
  };
  for (size_t i = 0; i < options_.shared_prompts.size(); ++i) {
    const std::string& text = options_.shared_prompts[i];
    for (const ServedModel& served : engine_->models()) {
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
      UsePrefixes(&request);
      const auto handle = engine_->Submit(std::move(request));
      const auto status = handle.ok() ? sink->Wait() : handle.status();
      if (!status.ok()) return status;
    }
  }
  return absl::OkStatus();
}

}  // namespace tvq
