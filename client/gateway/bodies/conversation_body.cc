#include "client/gateway/bodies/conversation_body.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/json.h"
#include "base/refusal.h"
#include "client/gateway/bodies/json_text.h"
#include "client/gateway/bodies/raw_json.h"

namespace tvq::gateway {
namespace {

constexpr char kContent[] = "must be a string, or a list of parts of type text";
constexpr char kOnlyTexts[] = "must be left out: this model's template only writes texts";

// Null: the object does not have it.
const Json* Member(const Json& object, const char* name) {
  const auto found = object.find(name);  // its end of what is no object
  return found == object.end() ? nullptr : &*found;
}

// A string, or OpenAI's list of parts, of which those of type text are known.
bool IsText(const Json& content) {
  const auto is_text = [](const Json& part) {
    return part.is_object() && part.value("type", Json()) == "text" && part.contains("text") &&
           part["text"].is_string();
  };
  return content.is_string() ||
         (content.is_array() && std::all_of(content.begin(), content.end(), is_text));
}

// Of what IsText; of parts as AppendContent joins them.
std::string Text(const Json& content) {
  if (content.is_string()) return content.get<std::string>();
  std::string text;
  bool first = true;
  for (const Json& part : content) {
    if (!std::exchange(first, false)) text += '\n';
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
      fields.Wrong(absl::StrCat(name, ".role"), Member(item, "role"),
                   "must be system, user or assistant");
      return;
    }
    if (message.Has("tool_calls")) {
      fields.Fail(absl::StrCat(name, ".tool_calls"), kOnlyTexts);
      return;
    }
    const Json* const content = Member(item, "content");
    if (content == nullptr || !IsText(*content)) {
      fields.Wrong(absl::StrCat(name, ".content"), content, kContent);
      return;
    }
    messages->push_back({std::move(role), Text(*content)});
  }
}

// Whether the model may be shown the tools: tool_choice is not none.
bool ReadToolChoice(Fields& fields) {
  const Json* const choice = fields.Find("tool_choice");
  if (choice == nullptr || *choice == "auto") return true;
  if (*choice != "none") {
    fields.Fail("tool_choice",
                "must be auto, none or left out: a model cannot be made to call a tool");
  }
  return false;
}

// What a model that continues a text cannot do.
void RefuseTools(bool shows_tools, Fields& fields) {
  for (const char* name : {"tools", "functions"}) {
    const Json* const value = fields.Find(name);
    if (value == nullptr || value->empty()) continue;
    if (!shows_tools && name == std::string_view("tools")) continue;
    fields.Fail(name, kOnlyTexts);
  }
}

// Writes an object again, in which `write` may have written another value: (name, value).
template <typename Write>
void AppendObject(std::string_view object, const Write& write, std::string* out) {
  char before = '{';
  for (const RawMember& member : MembersOf(object)) {
    out->push_back(std::exchange(before, ','));
    AppendJsonString(member.name, out);
    out->push_back(':');
    if (!write(member.name, member.value)) *out += member.value;
  }
  *out += before == '{' ? "{}" : "}";
}

// Writes a list again by `write`: (item, the same as read). As it is if that has other items, which
// a list has that is given twice.
template <typename Write>
void AppendList(std::string_view raw, const Json& list, const Write& write, std::string* out) {
  const std::vector<std::string_view> items = ItemsOf(raw);
  if (items.size() != list.size()) {
    *out += raw;
    return;
  }
  char before = '[';
  for (size_t i = 0; i < items.size(); ++i) {
    out->push_back(std::exchange(before, ','));
    write(items[i], list[i]);
  }
  *out += before == '[' ? "[]" : "]";
}

// The arguments of a tool call, if they are a text.
const Json* ArgumentsOf(const Json& call) {
  const Json* const function = Member(call, "function");
  const Json* const arguments = function == nullptr ? nullptr : Member(*function, "arguments");
  return arguments == nullptr || !arguments->is_string() ? nullptr : arguments;
}

// To read one takes more memory than it has, beside the body.
constexpr size_t kMaxArgumentsBytes = size_t{64} << 10;
// Deeper ones stay a text: the server reads messages that are nested so deep no more.
constexpr JsonLimits kArgumentsLimits = {.depth = 32};

// Those of all messages that are the text of an object.
std::set<const Json*> ObjectArguments(const Json& messages) {
  std::set<const Json*> found;
  for (const Json& message : messages) {
    const Json* const calls = Member(message, "tool_calls");
    if (calls == nullptr || !calls->is_array()) continue;
    for (const Json& call : *calls) {
      const Json* const arguments = ArgumentsOf(call);
      if (arguments == nullptr) continue;
      const auto& text = arguments->get_ref<const std::string&>();
      if (!text.starts_with('{') || text.size() > kMaxArgumentsBytes) continue;
      if (ParseJsonObject(text, "arguments", kArgumentsLimits).ok()) found.insert(arguments);
    }
  }
  return found;
}

// A content that is a list of parts as one text.
void AppendContent(const Json& parts, std::string* out) {
  out->push_back('"');
  bool first = true;
  for (const Json& part : parts) {
    if (!std::exchange(first, false)) *out += "\\n";
    const size_t quote = out->size();
    AppendJsonString(part["text"].get_ref<const std::string&>(), out);
    out->erase(quote, 1);
    out->pop_back();
  }
  out->push_back('"');
}

void AppendToolCall(std::string_view raw, const Json& call,
                    const std::set<const Json*>& object_arguments, std::string* out) {
  const Json* const arguments = ArgumentsOf(call);
  if (!object_arguments.contains(arguments)) {
    *out += raw;
    return;
  }
  const auto write_arguments = [&](std::string_view name, std::string_view) {
    if (name == "arguments") *out += arguments->get_ref<const std::string&>();
    return name == "arguments";
  };
  const auto write_function = [&](std::string_view name, std::string_view value) {
    const bool is_function = name == "function" && value.starts_with('{');
    if (is_function) AppendObject(value, write_arguments, out);
    return is_function;
  };
  AppendObject(raw, write_function, out);
}

// A message as templates know it: its content is one text, and arguments of tool calls, which come
// as the text of an object, are the object.
void AppendMessage(std::string_view raw, const Json& message,
                   const std::set<const Json*>& object_arguments, std::string* out) {
  const auto write_call = [&](std::string_view call, const Json& parsed) {
    AppendToolCall(call, parsed, object_arguments, out);
  };
  const auto write = [&](std::string_view name, std::string_view value) {
    if (name != "content" && name != "tool_calls") return false;
    const Json& parsed = message[std::string(name)];
    if (!value.starts_with('[') || !parsed.is_array()) return false;
    if (name == "content") {
      AppendContent(parsed, out);
    } else {
      AppendList(value, parsed, write_call, out);
    }
    return true;
  };
  AppendObject(raw, write, out);
}

void CheckOwnMessages(const Json& list, Fields& fields) {
  size_t index = 0;
  for (const Json& item : list) {
    const std::string name = absl::StrCat("messages[", index++, "]");
    Fields message(item);
    if (!message.String("role")) {
      fields.Wrong(absl::StrCat(name, ".role"), Member(item, "role"), "must be a string");
    }
    const Json* const content = message.Find("content");
    if (content != nullptr && !IsText(*content)) {
      fields.Wrong(absl::StrCat(name, ".content"), content, kContent);
    }
  }
}

void ReadOwn(std::string_view body, const Json& list, bool shows_tools, Fields& fields,
             v1::Conversation* own) {
  CheckOwnMessages(list, fields);
  const Json* const functions = fields.Find("functions");
  if (functions != nullptr && !functions->empty()) {
    fields.Fail("functions", "must be left out: tools are what the model's template is given");
  }
  own->set_template_name(fields.String("chat_template").value_or(""));
  const Json* const tools = fields.Find("tools");
  if (tools != nullptr && !tools->is_array()) fields.Fail("tools", "must be a list");
  fields.Object("chat_template_kwargs");
  if (const auto add = fields.Bool("add_generation_prompt")) own->set_add_generation_prompt(*add);
  own->set_continue_final_message(fields.Bool("continue_final_message").value_or(false));
  if (!fields.status().ok()) return;
  const std::set<const Json*> object_arguments = ObjectArguments(list);
  std::string_view messages;
  for (const RawMember& member : MembersOf(body)) {  // the last of a name counts
    if (member.name == "messages") messages = member.value;
    if (member.name == "tools" && shows_tools && tools != nullptr && !tools->empty()) {
      own->set_tools(std::string(member.value));
    }
    if (member.name == "chat_template_kwargs" && fields.Has("chat_template_kwargs")) {
      own->set_template_kwargs(std::string(member.value));
    }
  }
  std::string* const out = own->mutable_messages();
  out->reserve(messages.size());
  const auto write = [&](std::string_view raw, const Json& message) {
    AppendMessage(raw, message, object_arguments, out);
  };
  AppendList(messages, list, write, out);
}

// Clients send whole templates in this field, too.
absl::Status CheckTemplate(const v1::Model& model, const std::string& name) {
  const auto& names = model.conversation_templates();
  if (name.empty() || absl::c_linear_search(names, name)) return absl::OkStatus();
  return Refused(Reason::kValueInvalid, "chat_template",
                 absl::StrCat("must be the name of one of the model's own templates, of ",
                              absl::StrJoin(names, ", "), ", or left out; a request brings none"));
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
  const bool shows_tools = ReadToolChoice(fields);
  Fields own(json);
  ReadOwn(body, *list, shows_tools, own, &conversation.own);
  conversation.own_status = own.status();
  Fields text(json);
  RefuseTools(shows_tools, text);
  ReadTextMessages(*list, text, &conversation.messages);
  conversation.text_status = text.status();
  return conversation;
}

absl::StatusOr<std::vector<chat::Place>> Ask(const v1::Model& model, BodyConversation& conversation,
                                             v1::GenerateRequest* call) {
  BodyConversation taken = std::exchange(conversation, {});
  call->set_model(model.name());
  if (model.has_chat_template()) {
    if (!taken.text_status.ok()) return taken.text_status;
    return chat::Ask(model, taken.messages, call);
  }
  if (model.conversation_templates().empty()) {
    return Refused(
        Reason::kModelUnfit, "model",
        absl::StrCat(model.name(),
                     " was not made for conversations: its files have no chat template; use "
                     "/v1/completions"));
  }
  if (!taken.own_status.ok()) return taken.own_status;
  if (auto status = CheckTemplate(model, taken.own.template_name()); !status.ok()) return status;
  *call->mutable_conversation() = std::move(taken.own);
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
