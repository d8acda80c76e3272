#include "client/cli/commands/dialogue.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace tvq::cli {
namespace {

class TextDialogue final : public Dialogue {
 public:
  explicit TextDialogue(std::string suffix) : suffix_(std::move(suffix)) {}

  absl::StatusOr<std::vector<chat::Place>> Ask(const std::string& text,
                                               v1::GenerateRequest* request) override {
    if (text.empty()) return std::vector<chat::Place>();
    request->set_text(text + suffix_);
    return std::vector<chat::Place>{{.begin = 0, .end = text.size()}};
  }

  absl::Status SetSystem(const std::string& /*text*/) override {
    return absl::FailedPreconditionError(
        "system: lines are fed as they are here, for want of a chat template or with --suffix");
  }

 private:
  const std::string suffix_;
};

class TurnsDialogue final : public Dialogue {
 public:
  explicit TurnsDialogue(v1::Model model) : model_(std::move(model)) {}

  absl::StatusOr<std::vector<chat::Place>> Ask(const std::string& text,
                                               v1::GenerateRequest* request) override {
    asked_system_ = false;
    if (text.empty()) {
      chat::GoOn(model_.chat_template(), request);
      return std::vector<chat::Place>();
    }
    std::vector<chat::Message> messages;
    if (!system_.empty()) messages.push_back({.role = "system", .content = system_});
    messages.push_back({.role = "user", .content = text});
    asked_system_ = !system_.empty();
    auto places = chat::Ask(model_, messages, request);
    if (places.ok() && asked_system_) places->erase(places->begin());
    return places;
  }

  void Answered(const std::string& /*answer*/, bool /*interrupted*/) override {
    answered_system_ = asked_system_ ? std::exchange(system_, "") : "";
  }

  void TakenBack() override {
    if (system_.empty()) system_ = std::exchange(answered_system_, "");
  }

  absl::Status SetSystem(const std::string& text) override {
    if (!model_.chat_template().has_system()) {
      return absl::FailedPreconditionError(
          absl::StrCat("system: the chat template of ", model_.name(), " has no system messages"));
    }
    system_ = text;
    return absl::OkStatus();
  }

 private:
  const v1::Model model_;
  std::string system_;           // stands before the next message
  std::string answered_system_;  // stood before the last one
  bool asked_system_ = false;
};

}  // namespace

absl::StatusOr<std::string> Dialogue::Undo() {
  return absl::UnimplementedError("undo: the dialogue does not have what was said");
}

std::unique_ptr<Dialogue> MakeTextDialogue(const std::string& suffix) {
  return std::make_unique<TextDialogue>(suffix);
}

std::unique_ptr<Dialogue> MakeTurnsDialogue(const v1::Model& model) {
  return std::make_unique<TurnsDialogue>(model);
}

}  // namespace tvq::cli
