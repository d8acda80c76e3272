#include "client/gateway/http/connection.h"

#include <algorithm>
#include <exception>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/gateway/http/response_head.h"

namespace tvq::gateway {
namespace {

constexpr size_t kHeaderBytes = 2048;              // read at once, of a header
constexpr size_t kBodyBytes = size_t{64} << 10;    // and of a body
constexpr size_t kSkipBytes = size_t{256} << 10;   // of a body that is not wanted
constexpr size_t kSliceBytes = size_t{256} << 10;  // of an answer, that write_timeout is for
constexpr size_t kPieceBytes = size_t{1} << 20;    // that body_timeout is for
constexpr size_t kKeptBytes = 4096;                // by an idle connection, for its next answer
constexpr std::chrono::seconds kLingerTime{2};
// For the rest of a body ahead of the answer to it: some clients send it only when they have that.
constexpr std::chrono::milliseconds kSkipTime{200};
constexpr char kStopped[] =
    "the gateway stops and did not wait for this request's end; what the request changes may be "
    "done";

bool IsRequestId(std::string_view id) {
  return !id.empty() && id.size() <= 128 &&
         std::all_of(id.begin(), id.end(), [](char c) { return c > ' ' && c <= '~'; });
}

// To `size` bytes of at most `most`. Takes memory for about twice as much as there is, and for no
// more than `most`, which a string that grows by itself may do.
void Grow(size_t size, size_t most, std::string* bytes) {
  if (size > bytes->capacity()) {
    std::string larger;
    larger.reserve(std::min(most, 2 * size + kBodyBytes));
    larger += *bytes;
    bytes->swap(larger);
  }
  bytes->resize(size);
}

// As much again as came, so that a body that is only announced has no large buffer.
size_t ReadAtOnce(size_t came) { return std::clamp(came, kHeaderBytes, kBodyBytes); }

std::string RequestIdOf(const Request& request) {
  if (const std::string_view id = request.Find("x-request-id"); IsRequestId(id)) {
    return std::string(id);
  }
  thread_local std::mt19937_64 random{std::random_device{}()};
  return absl::StrFormat("%016x", static_cast<uint64_t>(random()));
}

}  // namespace

Connection::Connection(std::unique_ptr<Transport> transport, const asio::any_io_executor& executor,
                       const HttpLimits& limits, const ConnectionHooks& hooks, BodyBudget& budget,
                       std::shared_ptr<Peer> peer)
    : transport_(std::move(transport)),
      incoming_(std::make_shared<Incoming>(transport_, executor)),
      limits_(limits),
      hooks_(hooks),
      budget_(budget),
      peer_(std::move(peer)),
      executor_(executor),
      deadline_(std::make_shared<Deadline>(executor, [this] {
        timed_out_ = true;
        transport_->Cancel();
      })) {}

Connection::~Connection() {
  incoming_->Unwatch();
  Give(taken());
}

asio::awaitable<void> Connection::Run() {
  const auto self = shared_from_this();
  deadline_->Set(limits_.header_timeout);
  const ErrorCode error = co_await transport_->Handshake();
  bool open = !error;
  while (open && !gone_) {
    open = co_await ReadHeader();
    if (!open) break;
    co_await Serve();
    open = keep_alive_ && ended_ && !gone_;
  }
  if (!gone_ && lingers_) co_await Linger();
  if (!gone_ && !incoming_->reading() && !timed_out_ && !error) {
    deadline_->Set(kLingerTime);
    co_await transport_->Finish();
  }
  deadline_->Stop();
  transport_->Close();
}

void Connection::FinishSoon() {
  stopping_ = true;
  if (idle_) EndNow();
}

void Connection::EndNow() {
  HangUp();
  transport_->Close();
}

void Connection::StopNow() {
  if (!serving_ || gone_ || stopped_ || status_ != 0) return EndNow();
  stopping_ = stopped_ = true;
  keep_alive_ = false;
  if (on_hang_up_) std::exchange(on_hang_up_, nullptr)();
  transport_->Cancel();  // if it reads the body
}

asio::awaitable<bool> Connection::ReadHeader() {
  parser_.emplace(limits_.max_header_bytes);
  status_ = 0;
  idle_ = true;
  idle_since_ = Clock::now();
  deadline_->Set(limits_.idle_timeout);
  while (true) {
    size_t consumed = 0;
    const auto result = parser_->ParseHeader(incoming_->bytes(), &consumed);
    incoming_->Consume(consumed);
    const bool begun = result != RequestParser::Result::kMore || !incoming_->bytes().empty();
    if (begun && std::exchange(idle_, false)) {
      started_ = Clock::now();
      deadline_->Set(limits_.header_timeout);
    }
    const bool is_done = result == RequestParser::Result::kDone;
    if (!HoldHeader(is_done ? consumed : incoming_->bytes().size())) {
      co_await Refuse(429, MemoryFull());
      co_return false;
    }
    if (is_done) break;
    if (result == RequestParser::Result::kTooLarge) {
      co_await Refuse(431, absl::StrCat("the request line and headers have more than ",
                                        limits_.max_header_bytes, " bytes or ",
                                        RequestParser::kMaxHeaderLines, " lines"));
      co_return false;
    }
    if (result != RequestParser::Result::kMore) {
      co_await Refuse(400, "this is no HTTP/1.1 request");
      co_return false;
    }
    if (!begun && stopping_) co_return false;
    const bool more = co_await incoming_->More(kHeaderBytes);
    if (more) continue;
    if (timed_out_ && !idle_) co_await Refuse(408, "the header did not come in time");
    co_return false;
  }
  deadline_->Clear();
  request_ = parser_->TakeRequest();
  co_return true;
}

// So much of it has come. It is in memory as it came and as a request, and counts where it is more
// than every connection has room for.
bool Connection::HoldHeader(size_t bytes) {
  const size_t wanted = bytes > kHeaderBytes ? 2 * bytes : 0;
  if (wanted <= held_header_) return true;
  if (!Take(wanted - held_header_)) return false;
  held_header_ = wanted;
  return true;
}

// An answer to what did not become a request, or not one that is understood.
asio::awaitable<void> Connection::Refuse(int status, std::string_view message) {
  idle_ = false;
  timed_out_ = false;
  request_ = {};
  request_id_ = RequestIdOf(request_);
  route_ = "";
  extra_headers_.clear();
  keep_alive_ = false;
  ended_ = false;
  bytes_sent_ = 0;
  status_ = 0;
  lingers_ = true;
  Response response = hooks_.error(status, message);
  response.headers.push_back({"X-Request-Id", request_id_});
  std::string answer = Head(response, response.body.size());
  answer += response.body;
  status_ = status;
  co_await Send(answer);
  hooks_.finished({request_, request_id_, "", status, Clock::now() - started_, bytes_sent_});
}

asio::awaitable<void> Connection::Serve() {
  request_id_ = RequestIdOf(request_);
  route_ = "";
  extra_headers_.clear();
  extra_headers_.push_back({"X-Request-Id", request_id_});
  continue_sent_ = false;
  body_bytes_ = 0;
  keep_alive_ = parser_->keep_alive() && !stopping_;
  ended_ = false;
  status_ = 0;
  bytes_sent_ = 0;
  serving_ = true;

  const std::string_view expect = request_.Find("expect");
  if (!request_.http10 && request_.Count("host") != 1) {
    keep_alive_ = false;
    co_await Respond(hooks_.error(400, "host: the request must have this header once"));
  } else if (!expect.empty() && !parser_->expects_continue()) {
    keep_alive_ = false;
    co_await Respond(hooks_.error(417, "expect: only 100-continue is known"));
  } else {
    bool failed = false;
    try {
      co_await hooks_.handler(*this);
    } catch (const std::exception&) {
      failed = true;
    }
    if (failed && status_ == 0) {
      keep_alive_ = false;
      co_await Respond(hooks_.error(500, "the gateway could not answer this request"));
    } else if (failed) {
      Abort();
    }
  }
  serving_ = false;
  incoming_->Unwatch();
  on_hang_up_ = nullptr;
  BodyDone();
  Give(held_ + held_header_);
  held_ = held_header_ = 0;
  if (chunk_.capacity() > kKeptBytes) std::string().swap(chunk_);
  hooks_.finished(
      {request_, request_id_, route_, gone_ ? 499 : status_, Clock::now() - started_, bytes_sent_});
  // What was refused early may still be on its way here, and would take the answer with it.
  if (ended_) lingers_ = !parser_->body_done();
}

// False: there is more of it, or it cannot be read.
asio::awaitable<bool> Connection::SkipBody() {
  // A client that was not asked to continue may or may not send it.
  if (parser_->expects_continue() && !continue_sent_) co_return false;
  if (parser_->content_length().value_or(0) > kSkipBytes) co_return false;
  std::vector<char> ignored(size_t{16} << 10);
  size_t skipped = 0;
  deadline_->Set(kSkipTime);
  while (!parser_->body_done() && skipped < kSkipBytes) {
    size_t consumed = 0, written = 0;
    const auto result =
        parser_->ParseBody(incoming_->bytes(), &consumed, ignored.data(), ignored.size(), &written);
    incoming_->Consume(consumed);
    skipped += written;
    bool more = result != RequestParser::Result::kBad && result != RequestParser::Result::kTooLarge;
    if (result == RequestParser::Result::kMore) {
      more = co_await incoming_->More(ReadAtOnce(skipped));
    }
    if (!more) co_return false;
  }
  deadline_->Clear();
  co_return parser_->body_done();
}

// A socket that is closed while unread bytes wait resets the connection, and the client may never
// see the answer.
asio::awaitable<void> Connection::Linger() {
  transport_->HalfClose();
  timed_out_ = false;
  deadline_->Set(kLingerTime);
  size_t skipped = 0;
  bool more = true;
  while (more && skipped < 64 * kSkipBytes) {
    skipped += incoming_->bytes().size();
    incoming_->Consume(incoming_->bytes().size());
    more = co_await incoming_->More(ReadAtOnce(skipped));
  }
}

asio::awaitable<absl::StatusOr<std::string>> Connection::ReadPiece(size_t size) {
  auto piece = co_await TakePiece(size);
  if (!piece.ok()) BodyDone();  // it is lost
  co_return piece;
}

asio::awaitable<absl::StatusOr<std::string>> Connection::TakePiece(size_t size) {
  std::string piece;
  if (parser_->body_done()) co_return piece;
  if (parser_->expects_continue() && !std::exchange(continue_sent_, true) &&
      incoming_->bytes().empty()) {
    const bool sent = co_await Send("HTTP/1.1 100 Continue\r\n\r\n");
    if (!sent) co_return absl::CancelledError("the client has gone");
  }
  BodyDone();  // the piece before is in other hands
  size_t filled = 0;
  const Clock::time_point began = Clock::now();
  deadline_->Set(limits_.body_timeout);
  size_t next_deadline = kPieceBytes;
  while (filled < size && !parser_->body_done()) {
    // No more than has come: what a client only announces takes no memory.
    const size_t room = std::min(size - filled, incoming_->bytes().size());
    if (!Take(room)) {
      co_return absl::ResourceExhaustedError(MemoryFull());
    }
    budgeted_ += room;
    auto result = RequestParser::Result::kMore;
    if (room > 0) {
      Grow(filled + room, std::min<uint64_t>(parser_->content_length().value_or(size), size),
           &piece);
      size_t consumed = 0, written = 0;
      result =
          parser_->ParseBody(incoming_->bytes(), &consumed, piece.data() + filled, room, &written);
      incoming_->Consume(consumed);
      filled += written;
      body_bytes_ += written;
      Give(room - written);
      budgeted_ -= room - written;
    }
    if (filled >= next_deadline) {
      next_deadline += kPieceBytes;
      const auto at_rate = std::chrono::milliseconds(filled * 1000 / limits_.min_body_rate);
      const auto left = began + limits_.body_timeout + at_rate - Clock::now();
      deadline_->Set(std::min<Clock::duration>(limits_.body_timeout, left));
    }
    if (result == RequestParser::Result::kBad) {
      keep_alive_ = false;
      co_return absl::InvalidArgumentError("the body's chunks are malformed");
    }
    if (result == RequestParser::Result::kTooLarge) {
      keep_alive_ = false;
      co_return absl::InvalidArgumentError(absl::StrCat(
          "a chunk's header or the trailers are longer than ", limits_.max_header_bytes, " bytes"));
    }
    bool more = true;
    if (result == RequestParser::Result::kMore) {
      more = co_await incoming_->More(ReadAtOnce(body_bytes_));
    }
    if (!more) {
      keep_alive_ = false;
      if (stopped_) co_return absl::UnavailableError(kStopped);
      if (timed_out_) co_return absl::DeadlineExceededError("the body did not come in time");
      HangUp();
      co_return absl::CancelledError("the client has gone");
    }
  }
  deadline_->Clear();
  piece.resize(filled);
  co_return piece;
}

bool Connection::Hold(size_t bytes) {
  if (!Take(bytes)) return false;
  held_ += bytes;
  return true;
}

bool Connection::HoldInstead(size_t bytes) {
  if (bytes > held_) return Hold(bytes - held_);
  Give(held_ - bytes);
  held_ = bytes;
  return true;
}

void Connection::OnHangUp(absl::AnyInvocable<void()> cancel) {
  if (gone_ || stopped_) return cancel();
  on_hang_up_ = std::move(cancel);
  // A read that took too long has an answer still, and so has one that StopNow ended.
  incoming_->Watch([this] {
    if (!timed_out_ && !stopped_) HangUp();
  });
}

void Connection::HangUp() {
  if (std::exchange(gone_, true)) return;
  transport_->Close();  // ends a write that waits
  if (on_hang_up_) std::exchange(on_hang_up_, nullptr)();
}

std::string Connection::Head(const Response& response, std::optional<uint64_t> length) {
  const bool has_body = !HasNoBody(response.status);
  if (!has_body) length.reset();
  chunked_ = has_body && !length && !request_.http10;
  // The body ends where the connection does.
  if (has_body && !length && !chunked_) keep_alive_ = false;
  if (stopping_) keep_alive_ = false;
  return ResponseHead(response, extra_headers_,
                      {.length = length,
                       .chunked = chunked_,
                       .keep_alive = keep_alive_,
                       .http10 = request_.http10});
}

asio::awaitable<void> Connection::Respond(Response response) {
  // An answer that was ready goes out as it is: it may say what has been changed.
  if (stopped_ && response.status >= 499) response = hooks_.error(503, kStopped);
  if (keep_alive_ && !parser_->body_done()) {
    incoming_->Unwatch();
    // Ahead of the answer, which says whether the connection goes on behind it.
    keep_alive_ = co_await SkipBody();
    timed_out_ = false;
  }
  std::string answer = Head(response, response.body.size());
  status_ = response.status;
  const bool has_body = request_.method != "HEAD" && !HasNoBody(status_);
  // A large one is not copied.
  const bool together = has_body && response.body.size() <= kSliceBytes;
  if (together) answer += response.body;
  ended_ = co_await Send(answer);
  if (ended_ && has_body && !together) ended_ = co_await Send(response.body);
}

asio::awaitable<bool> Connection::Begin(Response head, std::optional<uint64_t> length) {
  if (!parser_->body_done()) keep_alive_ = false;
  const std::string text = Head(head, length);
  status_ = head.status;
  const bool sent = co_await Send(text);
  co_return sent&& request_.method != "HEAD";
}

asio::awaitable<bool> Connection::Write(std::string_view piece) {
  if (piece.empty() || request_.method == "HEAD") co_return !gone_;
  if (chunked_) {
    chunk_.clear();
    absl::StrAppend(&chunk_, absl::Hex(piece.size()), "\r\n",
                    absl::string_view(piece.data(), piece.size()), "\r\n");
    piece = chunk_;
  }
  if (gone_) co_return false;
  SendNow(&piece);  // spares a token's event the way through the loop
  if (piece.empty()) co_return true;
  const bool sent = co_await Send(piece);
  co_return sent;
}

asio::awaitable<void> Connection::End() {
  ended_ = true;
  if (chunked_ && request_.method != "HEAD") ended_ = co_await Send("0\r\n\r\n");
}

void Connection::Abort() {
  gone_ = true;
  transport_->Reset();
}

void Connection::SendNow(std::string_view* bytes) {
  const size_t sent = transport_->WriteNow(asio::buffer(bytes->data(), bytes->size()));
  bytes_sent_ += sent;
  bytes->remove_prefix(sent);
}

asio::awaitable<bool> Connection::Send(std::string_view bytes) {
  if (gone_) co_return false;
  while (!bytes.empty()) {
    const std::string_view slice = bytes.substr(0, kSliceBytes);
    deadline_->Set(limits_.write_timeout);
    const ErrorCode error = co_await transport_->Write(asio::buffer(slice.data(), slice.size()));
    deadline_->Clear();
    if (error) HangUp();
    if (gone_) co_return false;
    bytes_sent_ += slice.size();
    bytes.remove_prefix(slice.size());
  }
  co_return true;
}

}  // namespace tvq::gateway
