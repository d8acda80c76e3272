// Any bytes as a chat template, and behind a zero byte as messages: each ends with a status.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "models/runtime/text/template_writer.h"

namespace {

constexpr char kTokenizer[] = R"({"version": "1.0",
    "added_tokens": [{"id": 2, "content": "<e>", "single_word": false, "lstrip": false,
                      "rstrip": false, "normalized": false, "special": true}],
    "model": {"type": "BPE", "vocab": {"a": 0, "<": 1}, "merges": []}})";

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const auto tokenizer = [] {
    tvq::CommonConfig config;
    config.vocab_size = 3;
    return *tvq::HuggingFaceTokenizer::Make(kTokenizer, "tokenizer.json", config);
  }();
  const std::string_view all(reinterpret_cast<const char*>(data), size);
  const size_t end = std::min(all.find('\0'), size);
  tvq::TokenizerSettings settings;
  settings.chat_templates.push_back(
      {"default", "chat_template.jinja", std::string(all.substr(0, end))});
  const auto writer = tvq::TemplateWriter::Make(settings, *tokenizer);
  if (!writer.ok()) return 0;
  tvq::ConversationRequest request;
  request.messages =
      end < size ? std::string(all.substr(end + 1)) : R"([{"role": "user", "content": "a<e>"}])";
  const auto written = (*writer)->Write(request);
  if (!written.ok()) return 0;
  if (!(*writer)->Continue(*written, written->ids).ok()) std::abort();
  return 0;
}
