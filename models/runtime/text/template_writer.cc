#include "models/runtime/text/template_writer.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/utf8.h"

namespace tvq {
namespace {

// The id between two bytes that no text has.
std::string ShownSpecial(int32_t id) { return absl::StrCat("\xFF", id, "\xFF"); }

bool IsShownSpecial(std::string_view shown) {
  return shown.size() > 2 && shown.front() == '\xFF' && shown.back() == '\xFF';
}

}  // namespace

absl::StatusOr<std::shared_ptr<const ConversationWriter>> TemplateWriter::Make(
    const TokenizerSettings& settings, const HuggingFaceTokenizer& tokenizer) {
  std::vector<TvqTextTemplateSource> sources;
  std::vector<std::string> names;
  for (const ChatTemplateSource& chat : settings.chat_templates) {
    sources.push_back({TextOf(chat.name), TextOf(chat.label), TextOf(chat.source)});
    names.push_back(chat.name);
  }
  const TvqTextTemplates* templates = nullptr;
  std::string error;
  const int32_t code = tvq_text_templates_open(
      sources.data(), sources.size(), TextOf(settings.named_tokens), &templates, SinkOf(&error));
  if (code != kTvqTextOk) return TextLibraryStatus(code, error);
  return std::shared_ptr<const ConversationWriter>(
      new TemplateWriter(templates, std::move(names), tokenizer));
}

TemplateWriter::TemplateWriter(const TvqTextTemplates* templates, std::vector<std::string> names,
                               const HuggingFaceTokenizer& tokenizer)
    : templates_(templates), names_(std::move(names)), library_(tokenizer.library()) {
  for (int32_t id = 0; id < tokenizer.vocab_size(); ++id) {
    shown_.push_back(tokenizer.IsSpecial(id) ? ShownSpecial(id)
                                             : std::string(tokenizer.TokenBytes(id)));
  }
}

TemplateWriter::~TemplateWriter() { tvq_text_templates_close(templates_); }

absl::StatusOr<Conversation> TemplateWriter::Write(const ConversationRequest& request) const {
  const TvqTextWriteRequest asked = {
      .messages = TextOf(request.messages),
      .tools = TextOf(request.tools),
      .template_kwargs = TextOf(request.template_kwargs),
      .template_name = TextOf(request.template_name),
      .add_generation_prompt = request.add_generation_prompt ? 1 : 0,
      .continue_final_message = request.continue_final_message ? 1 : 0};
  Conversation conversation;
  std::string error;
  const int32_t code =
      tvq_text_templates_write(templates_, library_->handle(), asked, SinkOf(&conversation.text),
                               SinkOf(&conversation.ids), SinkOf(&error));
  if (code != kTvqTextOk) return TextLibraryStatus(code, error);
  const auto largest = std::ranges::max_element(conversation.ids);
  if (largest != conversation.ids.end() && *largest >= std::ssize(shown_)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "its text has token id ", *largest, ", but the model's vocabulary has ", shown_.size()));
  }
  return conversation;
}

absl::StatusOr<ConversationWriter::Continuation> TemplateWriter::Continue(
    const Conversation& conversation, std::span<const int32_t> context) const {
  const auto known = [&](int32_t id) { return id >= 0 && id < std::ssize(shown_); };
  if (!std::all_of(context.begin(), context.end(), known)) {
    return absl::InvalidArgumentError("the context has a token id outside the vocabulary");
  }
  const std::span<const int32_t> ids = conversation.ids;
  const auto differ = std::mismatch(context.begin(), context.end(), ids.begin(), ids.end());
  const auto common = static_cast<size_t>(differ.first - context.begin());
  const auto rest = [&](size_t from) {
    return std::vector<int32_t>(ids.begin() + from, ids.end());
  };

  // Compares texts from here on, because the same text may have other tokens in the context: the
  // tokens of an answer are as the model chose them.
  std::string wanted;
  for (const int32_t id : context.subspan(common)) wanted += shown_[static_cast<size_t>(id)];
  const auto whole = static_cast<int64_t>(context.size());
  size_t at = common;
  for (std::string_view left = wanted;; ++at) {
    if (left.empty()) return Continuation{whole, rest(at)};
    if (at == ids.size()) break;
    const std::string& shown = shown_[static_cast<size_t>(ids[at])];
    if (left.starts_with(shown)) {
      left.remove_prefix(shown.size());
      continue;
    }
    if (!shown.starts_with(left)) break;
    const auto within = RestWithinToken(ids.subspan(at), left.size());
    if (within.ok()) return Continuation{whole, *within};
    break;
  }
  return Continuation{static_cast<int64_t>(common), rest(common)};
}

// The ids of what is left of the text of `ids` after its first `skipped` bytes. These bytes end
// within the text of the first id.
absl::StatusOr<std::vector<int32_t>> TemplateWriter::RestWithinToken(std::span<const int32_t> ids,
                                                                     size_t skipped) const {
  std::string text = shown_[static_cast<size_t>(ids.front())];
  if (IsShownSpecial(text)) return absl::NotFoundError("a special token has no parts");
  text.erase(0, skipped);
  size_t next = 1;
  for (; next < ids.size(); ++next) {
    const std::string& shown = shown_[static_cast<size_t>(ids[next])];
    if (IsShownSpecial(shown)) break;
    text += shown;
  }
  if (absl::Status valid = CheckUtf8(text); !valid.ok()) return valid;
  absl::StatusOr<std::vector<int32_t>> encoded = library_->Encode(text, /*plain=*/true);
  if (!encoded.ok()) return encoded;
  // A tokenizer that puts a space before every text adds one here, in the middle of the text.
  std::string shown;
  for (const int32_t id : *encoded) shown += shown_[static_cast<size_t>(id)];
  if (shown != text) return absl::NotFoundError("the rest cannot be written by itself");
  encoded->insert(encoded->end(), ids.begin() + static_cast<std::ptrdiff_t>(next), ids.end());
  return encoded;
}

}  // namespace tvq
