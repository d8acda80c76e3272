// A dialogue that the server writes by a template of the model's own: the messages are kept here.
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/json.h"
#include "base/output_file.h"
#include "base/quoted.h"
#include "base/read_file.h"
#include "base/utf8.h"
#include "client/cli/commands/dialogue.h"
#include "client/cli/line/state_files.h"

namespace tvq::cli {
namespace {

constexpr int64_t kMostBytes = int64_t{1} << 26;

nlohmann::json Message(const char* role, const std::string& content) {
  return {{"role", role}, {"content", content}};
}

bool IsFrom(const nlohmann::json& messages, const char* role) {
  return !messages.empty() && messages.back()["role"] == role;
}

// Whether these are messages as Message makes them.
bool AreMessages(const nlohmann::json& messages) {
  if (!messages.is_array()) return false;
  for (const auto& message : messages) {
    if (!message.is_object() || !message.contains("role") || !message["role"].is_string() ||
        !message.contains("content") || !message["content"].is_string()) {
      return false;
    }
  }
  return true;
}

class ConversationDialogue final : public Dialogue {
 public:
  explicit ConversationDialogue(std::string kwargs) : kwargs_(std::move(kwargs)) {}

  absl::StatusOr<std::vector<chat::Place>> Ask(const std::string& text,
                                               v1::GenerateRequest* request) override {
    if (const absl::Status valid = CheckUtf8(text); !valid.ok()) {
      return absl::InvalidArgumentError(absl::StrCat("text: ", std::string(valid.message())));
    }
    asked_ = messages_;
    v1::Conversation& conversation = *request->mutable_conversation();
    if (!text.empty()) {
      asked_.push_back(Message("user", text));
    } else if (IsFrom(asked_, "assistant")) {
      conversation.set_add_generation_prompt(false);
      conversation.set_continue_final_message(true);
    } else {
      return absl::InvalidArgumentError("text: there is no answer yet that could go on");
    }
    nlohmann::json all = nlohmann::json::array();
    if (!system_.empty()) all.push_back(Message("system", system_));
    for (const auto& message : asked_) all.push_back(message);
    conversation.set_messages(all.dump());
    conversation.set_template_kwargs(kwargs_);
    return std::vector<chat::Place>();
  }

  void Answered(const std::string& answer, bool interrupted) override {
    if (interrupted && answer.empty()) return;  // as if nothing had been asked
    messages_ = std::move(asked_);
    if (IsFrom(messages_, "assistant")) {
      std::string& content = messages_.back()["content"].get_ref<std::string&>();
      content += answer;
    } else {
      messages_.push_back(Message("assistant", answer));
    }
  }

  absl::Status SetSystem(const std::string& text) override {
    if (const absl::Status valid = CheckUtf8(text); !valid.ok()) {
      return absl::InvalidArgumentError(absl::StrCat("system: ", std::string(valid.message())));
    }
    system_ = text;
    return absl::OkStatus();
  }

  bool has_all() const override { return true; }

  absl::StatusOr<std::string> Undo() override {
    if (messages_.empty()) return absl::FailedPreconditionError("undo: nothing was said yet");
    if (IsFrom(messages_, "assistant")) messages_.erase(messages_.size() - 1);
    std::string text;
    if (IsFrom(messages_, "user")) {
      text = messages_.back()["content"].get<std::string>();
      messages_.erase(messages_.size() - 1);
    }
    return text;
  }

  void Mark(const std::string& name) override { marks_[name] = messages_; }
  absl::Status FindMark(const std::string& name) const override {
    if (marks_.contains(name)) return absl::OkStatus();
    return absl::NotFoundError(absl::StrCat("mark: this chat has no mark ", Quoted(name)));
  }
  void Rewind(const std::string& name) override { messages_ = marks_.at(name); }
  void Forked() override { marks_.clear(); }

  absl::Status Write(const std::string& file) const override {
    nlohmann::json all = {{"messages", messages_}, {"system", system_}, {"marks", marks_}};
    MakeFoldersOf(file);
    OutputFile output(file, Readers::kOwner);
    absl::Status status = output.Open();
    if (status.ok()) status = output.Write(all.dump() + "\n");
    return status.ok() ? output.Commit() : status;
  }

  absl::Status Read(const std::string& file) override {
    const auto text = ReadFile(file, kMostBytes);
    if (!text.ok()) return text.status();
    const auto all = ParseJsonObject(*text, file, {});
    if (!all.ok()) return all.status();
    const nlohmann::json none = nlohmann::json::object();
    const nlohmann::json messages = all->value("messages", none);
    const nlohmann::json marks = all->value("marks", none);
    const nlohmann::json system = all->value("system", none);
    bool is_ours = AreMessages(messages) && marks.is_object() && system.is_string();
    for (const auto& [name, marked] : marks.items()) is_ours = is_ours && AreMessages(marked);
    if (!is_ours) {
      return absl::DataLossError(absl::StrCat(file, ": has no messages as `tvq chat` writes them"));
    }
    messages_ = messages;
    system_ = system.get<std::string>();
    for (const auto& [name, marked] : marks.items()) marks_[name] = marked;
    return absl::OkStatus();
  }

 private:
  const std::string kwargs_;
  std::string system_;
  nlohmann::json messages_ = nlohmann::json::array();  // but for that of the system
  nlohmann::json asked_;                               // the same with what was asked last
  std::map<std::string, nlohmann::json> marks_;        // the messages at each
};

}  // namespace

std::unique_ptr<Dialogue> MakeConversationDialogue(const std::string& kwargs) {
  return std::make_unique<ConversationDialogue>(kwargs);
}

}  // namespace tvq::cli
