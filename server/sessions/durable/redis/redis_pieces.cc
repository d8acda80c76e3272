#include "server/sessions/durable/redis/redis_pieces.h"

#include <algorithm>
#include <cstring>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"

namespace tvq {
namespace {

// A piece that Redis works on while the next is sent.
constexpr int64_t kMaxOutstanding = 1;

}  // namespace

int64_t PieceLayout::SizeOf(int64_t piece) const {
  return std::min(piece_bytes, bytes - piece * piece_bytes);
}

std::string PieceLayout::Key(int64_t piece) const { return absl::StrCat(prefix, piece); }

PieceWriter::PieceWriter(RedisClient::Lent* connection, PieceLayout layout)
    : connection_(connection), layout_(std::move(layout)) {
  piece_.reserve(static_cast<size_t>(std::min(layout_.piece_bytes, layout_.bytes)));
}

absl::Status PieceWriter::Add(std::span<const std::byte> bytes) {
  added_ += std::ssize(bytes);
  if (added_ > layout_.bytes) return Finish();
  while (!bytes.empty()) {
    const size_t room = static_cast<size_t>(layout_.SizeOf(sent_)) - piece_.size();
    const size_t now = std::min(room, bytes.size());
    piece_.append(reinterpret_cast<const char*>(bytes.data()), now);
    bytes = bytes.subspan(now);
    if (now < room) continue;
    if (absl::Status status = SendPiece(); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status PieceWriter::SendPiece() {
  const std::string key = layout_.Key(sent_);
  const std::string_view command[] = {"SET", key, piece_, "EX", kUncommittedSeconds};
  if (absl::Status status = (*connection_)->Send(command); !status.ok()) return status;
  ++sent_;
  ++outstanding_;
  piece_.clear();
  return ReceiveUntil(kMaxOutstanding);
}

absl::Status PieceWriter::ReceiveUntil(int64_t outstanding) {
  absl::Status status;
  while (outstanding_ > outstanding) {
    --outstanding_;
    status.Update((*connection_)->Receive().status());
  }
  return status;
}

absl::Status PieceWriter::Finish() {
  absl::Status status = ReceiveUntil(0);
  if (status.ok() && added_ != layout_.bytes) {
    return absl::InternalError(
        absl::StrCat("a state of ", layout_.bytes, " bytes was written with ", added_, " or more"));
  }
  return status;
}

PieceSource::PieceSource(RedisClient* client, PieceLayout layout,
                         std::function<absl::Status(int64_t)> lost)
    : client_(client), layout_(std::move(layout)), lost_(std::move(lost)) {}

absl::Status PieceSource::Request(int64_t piece) {
  if (!connection_) {
    absl::StatusOr<RedisClient::Lent> lent = client_->Borrow();
    if (!lent.ok()) return lent.status();
    connection_.emplace(*std::move(lent));
  }
  const std::string key = layout_.Key(piece);
  const std::string_view command[] = {"GET", key};
  requested_ = piece + 1;
  return (*connection_)->Send(command);
}

absl::Status PieceSource::NextPiece() {
  const int64_t piece = received_;
  if (piece == layout_.pieces()) {
    return absl::OutOfRangeError(
        absl::StrCat("the stored state ends after ", layout_.bytes, " bytes"));
  }
  piece_.reset();
  if (requested_ == piece) {
    if (absl::Status status = Request(piece); !status.ok()) return status;
  }
  absl::StatusOr<RedisReply> reply = (*connection_)->Receive();
  if (!reply.ok()) return reply.status();
  if ((*reply)->type != REDIS_REPLY_STRING ||
      static_cast<int64_t>((*reply)->len) != layout_.SizeOf(piece)) {
    return lost_(piece);
  }
  piece_ = *std::move(reply);
  used_ = 0;
  ++received_;
  return received_ < layout_.pieces() ? Request(received_) : absl::OkStatus();
}

absl::Status PieceSource::Read(std::span<std::byte> out) {
  while (!out.empty()) {
    if (piece_ == nullptr || used_ == piece_->len) {
      if (absl::Status status = NextPiece(); !status.ok()) return status;
    }
    const size_t now = std::min(out.size(), piece_->len - used_);
    std::memcpy(out.data(), piece_->str + used_, now);
    used_ += now;
    out = out.subspan(now);
  }
  return absl::OkStatus();
}

}  // namespace tvq
