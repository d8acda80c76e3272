#include "client/loadtest/http/http_transport.h"

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <nlohmann/json.hpp>
#include <unordered_set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/loadtest/driver/timer_queue.h"
#include "client/loadtest/http/answers.h"
#include "client/loadtest/http/exchange.h"
#include "client/loadtest/http/sse_parser.h"

namespace tvq::loadtest {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using Clock = std::chrono::steady_clock;
using Json = nlohmann::json;

constexpr Nanos kFetchTimeout = 30 * kSecond;
constexpr size_t kMaxBody = size_t{64} << 20;  // of an answer that is no stream

Reply Failure(std::string status, std::string message) {
  return {.ok = false, .status = std::move(status), .message = std::move(message)};
}

Reply HttpFailure(const ResponseHead& head, const std::string& body) {
  Reply reply = Failure(absl::StrCat(head.status), ErrorMessage(body));
  reply.retry_after = RetryAfterOf(head.retry_after_ms, head.retry_after);
  return reply;
}

// A call over one exchange.
template <typename Stream>
class HttpCall : public Call {
 public:
  explicit HttpCall(CallListener* listener) : listener_(listener) {}

  void set_exchange(std::shared_ptr<Exchange<Stream>> exchange) { exchange_ = std::move(exchange); }
  void Start() { exchange_->Start(); }
  void Cancel() override { exchange_->Cancel(); }
  void Forget() { listener_ = nullptr; }

  void OnHead(const ResponseHead& head) { head_ = head; }
  virtual void OnBody(std::string_view piece) {
    if (body_.size() + piece.size() <= kMaxBody) body_ += piece;
  }
  void OnEnd(const std::string& error) {
    Reply reply = error.empty() ? MakeReply() : Failure("CONNECTION", error);
    reply.reconnected = exchange_->reconnected();
    if (listener_ != nullptr) listener_->OnReply(reply);
  }

 protected:
  virtual Reply MakeReply() {
    if (head_.status / 100 != 2) return HttpFailure(head_, body_);
    const Json json = Json::parse(body_, nullptr, /*allow_exceptions=*/false);
    Reply reply;
    if (json.is_object() && json.contains("id") && json["id"].is_string()) {
      reply.session_id = json["id"];
    }
    return reply;
  }

  CallListener* listener_;
  ResponseHead head_;
  std::string body_;

 private:
  std::shared_ptr<Exchange<Stream>> exchange_;
};

// A streamed completion.
template <typename Stream>
class CompletionCall final : public HttpCall<Stream> {
 public:
  using HttpCall<Stream>::HttpCall;

  void OnBody(std::string_view piece) override {
    if (this->head_.status != 200) return HttpCall<Stream>::OnBody(piece);
    int64_t tokens = 0;
    const bool ok = parser_.Feed(piece, [&](std::string_view data) {
      CompletionEvent event = ReadCompletionEvent(data);
      tokens += event.tokens;
      done_ = done_ || event.done;
      if (event.usage) usage_ = *event.usage;
      if (event.error) error_ = std::move(event.error);
    });
    if (!ok) error_ = "an event is too large";
    tokens_ += tokens;
    if (tokens > 0 && this->listener_ != nullptr) this->listener_->OnTokens(tokens);
  }

 private:
  Reply MakeReply() override {
    if (this->head_.status != 200) return HttpFailure(this->head_, this->body_);
    if (error_) return Failure("STREAM", *error_);
    if (!done_) return Failure("TRUNCATED", "the stream ended without [DONE]");
    const int64_t joined = usage_.completion_tokens - tokens_;
    if (joined > 0 && this->listener_ != nullptr) this->listener_->OnJoinedTokens(joined);
    return {.prompt_tokens = usage_.prompt_tokens, .cached_tokens = usage_.cached_tokens};
  }

  SseParser parser_;
  CompletionEvent::Usage usage_;
  std::optional<std::string> error_;
  int64_t tokens_ = 0;  // as events show them
  bool done_ = false;
};

template <typename Stream>
class AsioTransport final : public HttpTransport {
 public:
  AsioTransport(const HttpOptions& options, RequestSettings settings,
                std::unique_ptr<asio::ssl::context> tls, asio::ip::tcp::resolver::results_type to)
      : options_(options),
        settings_(std::move(settings)),
        tls_(std::move(tls)),
        pool_(io_, tls_.get(), std::move(to), options) {}

  Nanos Now() const override {
    return std::chrono::nanoseconds(Clock::now().time_since_epoch()).count();
  }
  void At(Nanos time, std::function<void()> callback) override {
    timers_.Add(time, std::move(callback));
    ArmTimer();
  }

  Call* Generate(const GenerateSpec& spec, CallListener* listener) override {
    Json body = {{"model", settings_.model},
                 {"max_tokens", spec.max_tokens},
                 {"seed", spec.seed >> 1},  // a signed number for servers that read it as one
                 {"stream", true},
                 {"stream_options", {{"include_usage", true}}},
                 {"ignore_eos", settings_.ignore_eos}};
    if (spec.prompt.ids.empty()) {
      body["prompt"] = spec.prompt.text;
    } else {
      body["prompt"] = spec.prompt.ids;
    }
    if (spec.count_tokens) body["return_token_ids"] = true;
    if (settings_.temperature) body["temperature"] = *settings_.temperature;
    if (!spec.session_id.empty()) body["session_id"] = spec.session_id;
    return Send(std::make_shared<CompletionCall<Stream>>(listener), "POST", "/v1/completions",
                body.dump(-1, ' ', false, Json::error_handler_t::replace), spec.read_pause);
  }
  Call* CreateSession(CallListener* listener) override {
    const Json body = {
        {"model", settings_.model}, {"ttl", settings_.session_ttl}, {"label", "tvq-loadtest"}};
    return Send(std::make_shared<HttpCall<Stream>>(listener), "POST", "/v1/sessions", body.dump(),
                0);
  }
  Call* DeleteSession(const std::string& session_id, CallListener* listener) override {
    return Send(std::make_shared<HttpCall<Stream>>(listener), "DELETE",
                "/v1/sessions/" + session_id, "", 0);
  }

  absl::StatusOr<std::string> Fetch(const std::string& method, const std::string& path,
                                    const std::string& body) override;

  void Run() override {
    const auto work = asio::make_work_guard(io_);
    io_.restart();
    io_.run();
  }
  void Stop() override {
    timers_.Clear();
    for (const auto& call : calls_) {
      call->Forget();
      call->Cancel();
    }
    io_.stop();
  }

 private:
  using CallPointer = std::shared_ptr<HttpCall<Stream>>;

  typename Exchange<Stream>::Request MakeRequest(const std::string& method, const std::string& path,
                                                 std::string body) const {
    typename Exchange<Stream>::Request request;
    request.method_string(method);
    request.target(options_.url.prefix + path);
    request.version(11);
    request.keep_alive(pool_.keep_alive());
    request.set(http::field::host, options_.url.authority());
    request.set(http::field::user_agent, "tvq-loadtest");
    if (!options_.api_key.empty()) {
      request.set(http::field::authorization, "Bearer " + options_.api_key);
    }
    if (!body.empty()) request.set(http::field::content_type, "application/json");
    request.body() = std::move(body);
    request.prepare_payload();
    return request;
  }

  // Returns the call, which ends no sooner than in a later turn of the loop.
  Call* Send(const CallPointer& call, const std::string& method, const std::string& path,
             std::string body, Nanos read_pause) {
    typename Exchange<Stream>::Events events;
    events.on_head = [call = call.get()](const ResponseHead& head) { call->OnHead(head); };
    events.on_body = [call = call.get()](std::string_view piece) { call->OnBody(piece); };
    events.on_end = [this, weak = std::weak_ptr(call)](const std::string& error) {
      const CallPointer held = weak.lock();
      calls_.erase(held);
      held->OnEnd(error);
    };
    if (read_pause > 0) {
      events.pause = [this, read_pause](std::function<void()> resume) {
        auto timer =
            std::make_shared<asio::steady_timer>(io_, std::chrono::nanoseconds(read_pause));
        timer->async_wait([timer, resume = std::move(resume)](auto) { resume(); });
      };
    }
    call->set_exchange(std::make_shared<Exchange<Stream>>(
        &pool_, MakeRequest(method, path, std::move(body)), std::move(events)));
    calls_.insert(call);
    call->Start();
    return call.get();
  }

  void ArmTimer() {
    const std::optional<Nanos> next = timers_.next();
    if (!next || (armed_ >= 0 && armed_ <= *next)) return;
    armed_ = *next;
    timer_.expires_at(Clock::time_point(std::chrono::nanoseconds(*next)));
    timer_.async_wait([this](boost::system::error_code error) {
      if (error) return;  // another time was set
      armed_ = -1;
      // Those that are due now: callbacks may add others.
      const Nanos now = Now();
      while (const std::function<void()> callback = timers_.PopDue(now)) callback();
      ArmTimer();
    });
  }

  const HttpOptions options_;
  const RequestSettings settings_;
  asio::io_context io_{1};  // no locks
  asio::steady_timer timer_{io_};
  TimerQueue timers_;
  Nanos armed_ = -1;
  const std::unique_ptr<asio::ssl::context> tls_;
  ConnectionPool<Stream> pool_;
  std::unordered_set<CallPointer> calls_;
};

template <typename Stream>
absl::StatusOr<std::string> AsioTransport<Stream>::Fetch(const std::string& method,
                                                         const std::string& path,
                                                         const std::string& body) {
  ResponseHead head;
  std::string content, failure;
  bool ended = false;
  typename Exchange<Stream>::Events events;
  events.on_head = [&](const ResponseHead& h) { head = h; };
  events.on_body = [&](std::string_view piece) {
    if (content.size() + piece.size() <= kMaxBody) content += piece;
  };
  events.on_end = [&](const std::string& error) {
    failure = error;
    ended = true;
    io_.stop();
  };
  const auto exchange = std::make_shared<Exchange<Stream>>(&pool_, MakeRequest(method, path, body),
                                                           std::move(events));
  exchange->Start();
  io_.restart();
  io_.run_for(std::chrono::nanoseconds(kFetchTimeout));
  if (!ended) {
    exchange->Cancel();
    io_.restart();
    io_.run();
    failure = "no answer";
  }
  const std::string where = absl::StrCat(options_.url.authority(), path, ": ");
  if (!failure.empty()) return absl::UnavailableError(absl::StrCat(where, failure));
  if (head.status / 100 == 2) return content;
  return absl::UnknownError(absl::StrCat(where, head.status, ": ", ErrorMessage(content)));
}

absl::StatusOr<std::unique_ptr<asio::ssl::context>> MakeTls(const HttpOptions& options) {
  auto tls = std::make_unique<asio::ssl::context>(asio::ssl::context::tls_client);
  boost::system::error_code error;
  tls->set_verify_mode(asio::ssl::verify_peer, error);
  if (options.ca_file.empty()) {
    tls->set_default_verify_paths(error);
  } else {
    tls->load_verify_file(options.ca_file, error);
  }
  if (error) {
    return absl::NotFoundError(
        absl::StrCat("CA certificates: ", options.ca_file, ": ", error.message()));
  }
  return tls;
}

}  // namespace

absl::StatusOr<std::unique_ptr<HttpTransport>> MakeHttpTransport(const HttpOptions& options,
                                                                 const RequestSettings& settings) {
  asio::io_context io;
  boost::system::error_code error;
  const auto endpoints =
      asio::ip::tcp::resolver(io).resolve(options.url.host, options.url.port, error);
  if (error) {
    return absl::NotFoundError(absl::StrCat(options.url.authority(), ": ", error.message()));
  }
  if (!options.url.tls) {
    return std::make_unique<AsioTransport<TcpSocket>>(options, settings, nullptr, endpoints);
  }
  auto tls = MakeTls(options);
  if (!tls.ok()) return tls.status();
  return std::make_unique<AsioTransport<TlsStream>>(options, settings, std::move(*tls), endpoints);
}

}  // namespace tvq::loadtest
