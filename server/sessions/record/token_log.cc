#include "server/sessions/record/token_log.h"

#include <algorithm>
#include <cstddef>
#include <iterator>

namespace tvq {
namespace {

// Pieces below this many ids are merged with what follows, so that many short turns do not become
// many pointers. A call copies at most so many ids again.
constexpr size_t kWholePiece = 4096;

}  // namespace

void TokenLog::Append(std::span<const int32_t> ids) {
  if (ids.empty()) return;
  auto piece = std::make_shared<Piece>();
  if (!pieces_.empty() && pieces_.back()->size() < kWholePiece) {
    piece->reserve(pieces_.back()->size() + ids.size());
    *piece = *pieces_.back();
    pieces_.pop_back();
  }
  piece->insert(piece->end(), ids.begin(), ids.end());
  pieces_.push_back(std::move(piece));
  size_ += static_cast<int64_t>(ids.size());
}

std::vector<int32_t> TokenLog::Ids(int64_t first, int64_t count) const {
  std::vector<int32_t> ids;
  ids.reserve(static_cast<size_t>(count));
  for (const auto& piece : pieces_) {
    const int64_t skipped = std::min(first, std::ssize(*piece));
    const int64_t taken = std::min(count, std::ssize(*piece) - skipped);
    ids.insert(ids.end(), piece->begin() + skipped, piece->begin() + skipped + taken);
    first -= skipped;
    count -= taken;
  }
  return ids;
}

TokenLog TokenLog::First(int64_t count) const {
  TokenLog first;
  for (const auto& piece : pieces_) {
    const int64_t left = count - first.size_;
    if (left < std::ssize(*piece)) {
      first.Append(std::span(*piece).first(static_cast<size_t>(left)));
      break;
    }
    first.pieces_.push_back(piece);
    first.size_ += std::ssize(*piece);
  }
  return first;
}

}  // namespace tvq
