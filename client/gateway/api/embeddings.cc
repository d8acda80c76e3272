// POST /v1/embeddings
#include "client/gateway/bodies/embeddings.h"

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/gateway/api/answer.h"
#include "client/gateway/api/aside.h"
#include "client/gateway/api/generate.h"
#include "client/gateway/api/read_json.h"
#include "client/gateway/api/services.h"
#include "client/gateway/api/whole_reply.h"
#include "client/gateway/upstream/unary_call.h"

namespace tvq::gateway {
namespace {

// Calls of one request at a time: the server always has its next text, and a long list does not
// fill the server's queue.
constexpr size_t kAtOnce = 8;
// Bytes of memory for each byte of vectors on the wire while the JSON is made: the numbers, whose
// array may double, and sixteen characters for each four bytes.
constexpr size_t kVectorsMemory = 6;

// The calls of one request.
class EncodeCalls {
 public:
  // `requests` outlives it; each loses its text when its call has begun.
  EncodeCalls(Services& services, Exchange& exchange, std::vector<v1::EncodeRequest>& requests)
      : services_(services),
        exchange_(exchange),
        requests_(requests),
        changed_(std::make_shared<Signal>(exchange.executor())) {
    exchange.OnHangUp([open = open_] { Cancel(*open); });
  }
  ~EncodeCalls() { Cancel(*open_); }
  EncodeCalls(const EncodeCalls&) = delete;

  // Begins those whose turn has come.
  void Start() {
    while (open_->size() < kAtOnce && next_ < requests_.size()) {
      v1::EncodeRequest& request = requests_[next_];
      const auto question = std::make_shared<EncodeQuestion>(HeadersOf(exchange_), changed_);
      open_->push_back({question, next_++});
      question->Start([&](grpc::ClientContext* context) {
        const Stubs& stubs = services_.upstream.Next();
        return stubs.generation->PrepareAsyncEncode(context, request, stubs.queue);
      });
      request.clear_input();
    }
  }

  const std::shared_ptr<Signal>& changed() const { return changed_; }

  // Hands what has come to `take`: (number of the call, absl::StatusOr of the reply).
  template <typename Take>
  void Poll(const Take& take) {
    for (size_t i = 0; i < open_->size();) {
      const Open open = (*open_)[i];
      if (!open.question->done()) {
        ++i;
        continue;
      }
      (*open_)[i] = open_->back();
      open_->pop_back();
      take(open.call, open.question->Take());
    }
  }

  bool ended() const { return open_->empty() && next_ == requests_.size(); }

 private:
  using EncodeQuestion = Question<v1::EncodeResponse>;
  struct Open {
    std::shared_ptr<EncodeQuestion> question;
    size_t call = 0;
  };

  static void Cancel(const std::vector<Open>& calls) {
    for (const Open& open : calls) open.question->Cancel();
  }

  Services& services_;
  Exchange& exchange_;
  std::vector<v1::EncodeRequest>& requests_;
  const std::shared_ptr<Signal> changed_;
  const std::shared_ptr<std::vector<Open>> open_ = std::make_shared<std::vector<Open>>();
  size_t next_ = 0;
};

// Adds up what comes of the calls until one of them, or its answer's memory, fails.
class Collected {
 public:
  Collected(Exchange& exchange, const EmbeddingsRequest& request)
      : exchange_(exchange), request_(request), answer_(request) {}

  void Add(size_t call, absl::StatusOr<v1::EncodeResponse> reply) {
    if (error_) return;
    absl::Status status = reply.status();
    if (status.ok()) status = CheckDimensions(request_, reply->width());
    if (!status.ok()) {
      error_ = ToEmbeddingsError(status, request_, call);
      return;
    }
    const size_t bytes = reply->ByteSizeLong();
    bytes_ += bytes;
    if (bytes_ > kMaxAnswerBytes) {
      error_ = HttpError(413, absl::StrCat("input: has too many texts for one answer: it would be "
                                           "of more than ",
                                           kMaxAnswerBytes, " bytes"));
    } else if (!exchange_.Hold(bytes * kVectorsMemory)) {
      error_ = NoMemory(exchange_);
    } else {
      answer_.Add(call, *std::move(reply));
    }
  }

  const std::optional<ApiError>& error() const { return error_; }
  size_t bytes() const { return bytes_; }
  const EmbeddingsAnswer& answer() const { return answer_; }

 private:
  Exchange& exchange_;
  const EmbeddingsRequest& request_;
  EmbeddingsAnswer answer_;
  size_t bytes_ = 0;
  std::optional<ApiError> error_;
};

asio::awaitable<void> Embed(Services& services, Exchange& exchange) {
  auto request = co_await ReadJson(services, exchange, ParseEmbeddings);
  if (!request) co_return;
  const auto model = co_await ModelNamed(services, exchange, request->model);
  if (!model.ok()) {
    co_await exchange.Respond(ErrorResponse(ToApiError(model.status())));
    co_return;
  }
  auto collected = std::make_unique<Collected>(exchange, *request);
  EncodeCalls calls(services, exchange, request->calls);
  if (exchange.gone()) co_return;
  calls.Start();
  while (!collected->error() && !calls.ended()) {
    co_await calls.changed()->Wait();
    if (exchange.gone()) co_return;
    calls.Poll([&](size_t call, absl::StatusOr<v1::EncodeResponse> reply) {
      collected->Add(call, std::move(reply));
    });
    if (!collected->error()) calls.Start();
  }
  if (collected->error()) {
    co_await exchange.Respond(ErrorResponse(*collected->error()));
    co_return;
  }
  const auto write = [&] { return Fitted(collected->answer().ToJson(*model)); };
  std::string json = co_await Aside(services.beside, exchange, collected->bytes(), write);
  collected.reset();
  co_await RespondJson(exchange, std::move(json));
}

}  // namespace

void AddEmbeddings(Services& services, Router* router) {
  router->Add("POST", "/v1/embeddings", [&services](Exchange& exchange, const PathFields&) {
    return Embed(services, exchange);
  });
}

}  // namespace tvq::gateway
