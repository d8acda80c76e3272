#include "client/gateway/openai/conversation_body.h"

#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/gateway/openai/json_text.h"
#include "client/gateway/openai/raw_json.h"

namespace tvq::gateway {
namespace {

constexpr char kContent[] = "must be a string, or a list of parts of type text";

// A string, or OpenAI's list of parts, of which those of type text are known.
std::optional<std::string> Content(const Json& content, std::string_view between) {
  if (content.is_string()) return content.get<std::string>();
  if (!content.is_array()) return std::nullopt;
  std::string text;
  bool first = true;
  for (const Json& part : content) {
    if (!part.is_object() || part.value("type", Json()) != "text" || !part.contains("text") ||
        !part["text"].is_string()) {
      return std::nullopt;
    }
    if (!std::exchange(first, false)) text += between;
    text += part["text"].get_ref<const std::string&>();
  }
  return text;
}

void ReadTextMessages(const Json& list, Fields& fields, std::vector<chat::Message>* messages) {
  for (const Json& item : list) {
    const std::string name = absl::StrCat("messages[", messages->size(), "]");
    Fields message(item);
    std::string role = message.String("role").value_or("");
    if (role == "developer") role = "system";  // OpenAI's newer name
    if (role != "system" && role != "user" && role != "assistant") {
      fields.Fail(absl::StrCat(name, ".role"), "must be system, user or assistant");
      return;
    }
    const Json* const content = message.Find("content");
    std::optional<std::string> text;
    if (content != nullptr) text = Content(*content, "");
    if (!text) {
      fields.Fail(absl::StrCat(name, ".content"), kContent);
      return;
    }
    messages->push_back({std::move(role), *std::move(text)});
  }
}

// What a model that continues a text cannot do.
void RefuseTools(Fields& fields) {
  for (const char* name : {"tools", "functions"}) {
    const Json* const value = fields.Find(name);
    if (value == nullptr || value->empty()) continue;
    fields.Fail(name, "must be left out: this model's template only writes texts");
  }
}

// Writes an object again, in which `write` may write another value: (name, value, out).
template <typename Write>
void AppendObject(std::string_view object, const Write& write, std::string* out) {
  char before = '{';
  for (const RawMember& member : MembersOf(object)) {
    out->push_back(std::exchange(before, ','));
    AppendJsonString(member.name, out);
    out->push_back(':');
    if (!write(member.name, member.value, out)) *out += member.value;
  }
  *out += before == '{' ? "{}" : "}";
}

template <typename Write>
void AppendList(std::string_view list, const Write& write, std::string* out) {
  char before = '[';
  for (const std::string_view item : ItemsOf(list)) {
    out->push_back(std::exchange(before, ','));
    write(item, out);
  }
  *out += before == '[' ? "[]" : "]";
}

// Arguments come as the text of an object, and templates want the object.
bool AppendArguments(std::string_view name, std::string_view value, std::string* out) {
  if (name != "arguments" || !value.starts_with('"')) return false;
  const std::string text = Json::parse(value).get<std::string>();
  if (!ParseObject(text).ok()) return false;
  *out += text;
  return true;
}

void AppendToolCall(std::string_view call, std::string* out) {
  const auto function = [](std::string_view name, std::string_view value, std::string* to) {
    if (name != "function" || !value.starts_with('{')) return false;
    AppendObject(value, &AppendArguments, to);
    return true;
  };
  if (call.starts_with('{')) {
    AppendObject(call, function, out);
  } else {
    *out += call;
  }
}

// A message as templates know it: its content is one text.
void AppendMessage(std::string_view raw, std::string* out) {
  const auto member = [](std::string_view name, std::string_view value, std::string* to) {
    if (!value.starts_with('[')) return false;
    if (name == "content") {
      AppendJsonString(Content(Json::parse(value), "\n").value_or(""), to);
    } else if (name == "tool_calls") {
      AppendList(value, &AppendToolCall, to);
    } else {
      return false;
    }
    return true;
  };
  AppendObject(raw, member, out);
}

void CheckOwnMessages(const Json& list, Fields& fields) {
  size_t index = 0;
  for (const Json& item : list) {
    const std::string name = absl::StrCat("messages[", index++, "]");
    Fields message(item);
    if (!message.String("role")) fields.Fail(absl::StrCat(name, ".role"), "must be a string");
    const Json* const content = message.Find("content");
    if (content != nullptr && !Content(*content, "")) {
      fields.Fail(absl::StrCat(name, ".content"), kContent);
    }
  }
}

void ReadOwn(std::string_view body, Fields& fields, v1::Conversation* own) {
  for (const char* name : {"chat_template", "functions"}) {
    const Json* const value = fields.Find(name);
    if (value == nullptr || value->empty()) continue;
    fields.Fail(name, "must be left out: the model's own template writes messages and tools");
  }
  const Json* const tools = fields.Find("tools");
  if (tools != nullptr && !tools->is_array()) fields.Fail("tools", "must be a list");
  fields.Object("chat_template_kwargs");
  if (const auto add = fields.Bool("add_generation_prompt")) own->set_add_generation_prompt(*add);
  own->set_continue_final_message(fields.Bool("continue_final_message").value_or(false));
  if (!fields.status().ok()) return;
  std::string_view messages;
  for (const RawMember& member : MembersOf(body)) {  // the last of a name counts
    if (member.name == "messages") messages = member.value;
    if (member.name == "tools" && fields.Has("tools") && !tools->empty()) {
      own->set_tools(std::string(member.value));
    }
    if (member.name == "chat_template_kwargs" && fields.Has("chat_template_kwargs")) {
      own->set_template_kwargs(std::string(member.value));
    }
  }
  AppendList(messages, &AppendMessage, own->mutable_messages());
}

}  // namespace

size_t BodyConversation::MemoryBytes() const {
  size_t bytes = own.SpaceUsedLong() + messages.capacity() * sizeof(chat::Message);
  for (const chat::Message& message : messages) bytes += message.content.capacity();
  return bytes;
}

BodyConversation ReadConversation(std::string_view body, const Json& json, Fields& fields) {
  BodyConversation conversation;
  const Json* const list = fields.Find("messages");
  if (list == nullptr || !list->is_array() || list->empty()) {
    fields.Fail("messages",
                absl::StrCat("must be a list of at least one message",
                             fields.Has("prompt") ? "; a prompt is for /v1/completions" : ""));
    return conversation;
  }
  for (size_t i = 0; i < list->size(); ++i) {
    if ((*list)[i].is_object()) continue;
    fields.Fail(absl::StrCat("messages[", i, "]"), "must be an object with role and content");
    return conversation;
  }
  Fields text(json);
  RefuseTools(text);
  ReadTextMessages(*list, text, &conversation.messages);
  conversation.text_status = text.status();
  Fields own(json);
  CheckOwnMessages(*list, own);
  ReadOwn(body, own, &conversation.own);
  conversation.own_status = own.status();
  return conversation;
}

absl::StatusOr<std::vector<chat::Place>> Ask(const v1::Model& model, BodyConversation& conversation,
                                             v1::GenerateRequest* call) {
  const BodyConversation taken = std::exchange(conversation, {});
  call->set_model(model.name());
  if (model.has_chat_template()) {
    if (!taken.text_status.ok()) return taken.text_status;
    return chat::Ask(model, taken.messages, call);
  }
  if (model.conversation_templates().empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("model: ", model.name(),
                     " was not made for conversations: its files have no chat template; use "
                     "/v1/completions"));
  }
  if (!taken.own_status.ok()) return taken.own_status;
  *call->mutable_conversation() = taken.own;
  return std::vector<chat::Place>();
}

const FieldNames& ConversationFieldNames() {
  static const FieldNames& names =
      *new FieldNames{{"conversation.messages", "messages"},
                      {"conversation.tools", "tools"},
                      {"conversation.template_kwargs", "chat_template_kwargs"},
                      {"conversation.add_generation_prompt", "add_generation_prompt"},
                      {"conversation.continue_final_message", "continue_final_message"},
                      {"conversation", "messages"}};
  return names;
}

}  // namespace tvq::gateway
