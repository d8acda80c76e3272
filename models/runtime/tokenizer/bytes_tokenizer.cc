#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/utf8.h"
#include "models/runtime/tokenizer/token_table.h"
#include "models/runtime/tokenizer/types.h"

namespace tvq {
namespace {

constexpr int64_t kFirstByte = 3;  // after pad, end, unknown
constexpr int64_t kIds = kFirstByte + 256;

class BytesTokenizer : public TableTokenizer {
 public:
  using TableTokenizer::TableTokenizer;

  absl::StatusOr<std::vector<int32_t>> Encode(std::string_view text) const override {
    absl::Status valid = CheckUtf8(text);
    if (!valid.ok()) return valid;
    std::vector<int32_t> ids;
    ids.reserve(text.size());
    for (const char c : text) {
      ids.push_back(static_cast<int32_t>(kFirstByte + static_cast<unsigned char>(c)));
    }
    return ids;
  }
  bool StripsLeadingSpace() const override { return false; }
  std::string_view type() const override { return "bytes"; }
};

}  // namespace

absl::StatusOr<std::unique_ptr<Tokenizer>> MakeBytesTokenizer(const CommonConfig& config) {
  if (config.vocab_size < kIds) {
    return absl::InvalidArgumentError(absl::StrCat("config.json: field \"vocab_size\" is ",
                                                   config.vocab_size,
                                                   "; the bytes tokenizer needs at least ", kIds));
  }
  TokenTable table(kIds);
  for (int64_t byte = 0; byte < 256; ++byte) {
    table.Set(kFirstByte + byte, std::string(1, static_cast<char>(byte)));
  }
  return std::make_unique<BytesTokenizer>(std::move(table), config.vocab_size);
}

}  // namespace tvq
