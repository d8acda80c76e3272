#include "server/sessions/record/replies.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/quoted.h"
#include "base/refusal.h"

namespace tvq {
namespace {

constexpr size_t kHashDigits = 16;

// Stored, so not to be changed.
const char* Name(CallKind kind) {
  switch (kind) {
    case CallKind::kCreate:
      return "create";
    case CallKind::kImport:
      return "import";
    case CallKind::kFork:
      return "fork";
    case CallKind::kCompute:
      return "compute";
    case CallKind::kMark:
      return "mark";
    case CallKind::kUnmark:
      return "unmark";
    case CallKind::kRewind:
      return "rewind";
    case CallKind::kSave:
      return "save";
    case CallKind::kDelete:
      return "delete";
  }
  std::abort();
}

bool IsAsked(std::string_view text) {
  const size_t dash = text.find('-');
  if (dash == 0 || dash == text.npos || text.size() != dash + 1 + kHashDigits) return false;
  const auto digits = text.substr(dash + 1);
  return std::all_of(text.begin(), text.begin() + static_cast<int64_t>(dash),
                     [](char c) { return absl::ascii_islower(static_cast<unsigned char>(c)); }) &&
         std::all_of(digits.begin(), digits.end(),
                     [](char c) { return absl::ascii_isxdigit(static_cast<unsigned char>(c)); });
}

}  // namespace

std::string AskedBy(CallKind kind, uint64_t request_hash) {
  return absl::StrCat(Name(kind), "-", absl::Hex(request_hash, absl::kZeroPad16));
}

absl::Status KeyIsTaken(const std::string& key) {
  return Refused(
      Reason::kIdempotencyKeyTaken, "idempotency_key",
      absl::StrCat(
          Quoted(key),
          " belongs to an earlier call that asked something else; a retry must ask the same"));
}

void Replies::Add(const std::string& key, const std::string& asked, std::string_view reply) {
  if (key.empty()) return;
  std::string text;
  text.reserve(asked.size() + 1 + reply.size());
  Restore(key, std::move(text.append(asked).append(" ").append(reply)));
}

void Replies::Restore(const std::string& key, std::string text) {
  if (entries_.size() == kKept) entries_.pop_front();
  entries_.push_back({key, std::make_shared<const std::string>(std::move(text))});
}

int64_t Replies::bytes() const {
  size_t bytes = 0;
  for (const Entry& entry : entries_) bytes += entry.key.size() + entry.text->size();
  return static_cast<int64_t>(bytes);
}

absl::StatusOr<std::optional<std::string>> Replies::Find(const std::string& key,
                                                         const std::string& asked) const {
  if (key.empty()) return std::nullopt;
  const auto found = std::find_if(entries_.rbegin(), entries_.rend(),
                                  [&](const Entry& entry) { return entry.key == key; });
  if (found == entries_.rend()) return std::nullopt;
  const std::string_view text = *found->text;
  const size_t space = text.find(' ');
  const std::string_view first = text.substr(0, space);
  if (space == text.npos || !IsAsked(first)) {
    return Refused(Reason::kStoredDataDamaged, "idempotency_key",
                   absl::StrCat("what the first call with the key ", Quoted(key),
                                " was answered cannot be read any more"));
  }
  if (first != asked) return KeyIsTaken(key);
  return std::string(text.substr(space + 1));
}

}  // namespace tvq
