// tvq-bench restore: the first token of a session whose past was saved, against reading that past
// again. Everything goes through the engine and the session store, as in a server.

#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "server/engine/engine.h"
#include "server/sessions/durable/disk/tier_disk.h"
#include "server/sessions/session_store.h"
#include "tests/bench/benches.h"
#include "tests/bench/folder.h"
#include "tests/bench/sessions.h"
#include "tests/bench/statistics.h"

namespace tvq::bench {
namespace {

constexpr char kModelName[] = "bench";
constexpr int64_t kHostBytes = int64_t{1} << 30;

// What a call of one token gave, and what it leaves for the session.
struct FirstToken {
  double seconds = 0;  // since the call began
  TokenLogprob token;
  Continuation end;
};

class Sink : public RequestSink {
 public:
  explicit Sink(const Stopwatch& watch) : watch_(watch) {}
  void OnPrompt(int64_t, std::vector<TokenEvent>) override {}
  void OnDelta(Delta delta) override {
    if (delta.tokens.empty()) return;
    first_.seconds = watch_.Seconds();
    first_.token = delta.tokens.front().token;
  }
  void OnKept(Continuation end) override { first_.end = std::move(end); }
  void OnEnd(const absl::Status& status, const Usage&) override {
    status_ = status;
    done_.Notify();
  }
  absl::StatusOr<FirstToken> Wait() {
    done_.WaitForNotification();
    if (!status_.ok()) return status_;
    return std::move(first_);
  }

 private:
  const Stopwatch watch_;
  FirstToken first_;
  absl::Status status_;
  absl::Notification done_;
};

// Feeds `prompt` where the lease stands and generates one token.
absl::StatusOr<FirstToken> Ask(Engine& engine, Lease& lease, const std::vector<int32_t>& prompt,
                               const Stopwatch& watch) {
  auto sink = std::make_shared<Sink>(watch);
  Request request;
  request.id = "bench";
  request.model = kModelName;
  request.prompt = prompt;
  request.start = lease.Start();
  request.keep = true;
  request.sampling.max_tokens = 1;
  request.sampling.temperature = 0;
  request.sampling.logprobs = 0;
  request.sampling.ignore_eos = true;
  request.sink = sink;
  const absl::StatusOr<RequestHandle> handle = engine.Submit(std::move(request));
  if (!handle.ok()) return handle.status();
  return sink->Wait();
}

// Seconds, by round.
struct Case {
  int64_t context = 0;
  std::string session;           // the id of the one that was read last
  std::vector<double> prefill;   // to the first token, the whole context being the prompt
  std::vector<double> save;      // to have the session on disk
  std::vector<double> resident;  // to the first token of the next call; the state still in memory
  std::vector<double> cached;    // the same, of a store just opened; the file in the page cache
  std::vector<double> cold;      // the same, the file on the disk alone
};

class Bench {
 public:
  Bench(Engine& engine, Folder folder) : engine_(engine), folder_(std::move(folder)) {}

  // Forgets every session that is in memory.
  absl::Status Reopen() {
    store_.reset();
    auto tier = DiskTier::Open(folder_.path(), 0);
    if (!tier.ok()) return tier.status();
    auto store = SessionStore::Open(&engine_, {.host_bytes = kHostBytes}, *std::move(tier));
    if (!store.ok()) return store.status();
    store_ = *std::move(store);
    return absl::OkStatus();
  }

  // The next call on the session, whose outcome is dropped, so that all of them start alike.
  absl::StatusOr<FirstToken> Next(const std::string& id) {
    const Stopwatch watch;
    auto lease = store_->Acquire({.id = id});
    if (!lease.ok()) return lease.status();
    return Ask(engine_, **lease, {1}, watch);
  }

  // Either `prompt` is read into a new session, or that of the last round gets one token more; then
  // it is saved.
  absl::Status Round(const std::vector<int32_t>& prompt, bool read, Case& c) {
    absl::Status s = read ? Start(prompt, c) : Extend({1}, nullptr, c);
    if (!s.ok()) return s;

    const auto resident = Next(c.session);
    if (!resident.ok()) return resident.status();
    c.resident.push_back(resident->seconds);
    for (std::vector<double>* times : {&c.cached, &c.cold}) {
      if (absl::Status s = Reopen(); !s.ok()) return s;
      if (times == &c.cold) folder_.DropCache();
      const auto restored = Next(c.session);
      if (!restored.ok()) return restored.status();
      if (restored->token.id != resident->token.id ||
          restored->token.logprob != resident->token.logprob) {
        return absl::AbortedError("a restored session gave another token");
      }
      times->push_back(restored->seconds);
    }
    return absl::OkStatus();
  }

 private:
  absl::Status Start(const std::vector<int32_t>& prompt, Case& c) {
    if (absl::Status s = Reopen(); !s.ok()) return s;
    if (!c.session.empty()) {
      if (absl::Status s = store_->Delete({.id = c.session}); !s.ok()) return s;
    }
    const auto session = store_->Create("", {.model = kModelName, .keep_transcript = false});
    if (!session.ok()) return session.status();
    c.session = session->record.id;
    return Extend(prompt, &c.prefill, c);
  }

  // Feeds `prompt` to the session, generates a token and saves it.
  absl::Status Extend(const std::vector<int32_t>& prompt, std::vector<double>* first_token,
                      Case& c) {
    const Stopwatch watch;
    auto lease = store_->Acquire({.id = c.session, .durability = Durability::kDisk});
    if (!lease.ok()) return lease.status();
    auto first = Ask(engine_, **lease, prompt, watch);
    if (!first.ok()) return first.status();
    if (first_token != nullptr) first_token->push_back(first->seconds);
    const Stopwatch save;
    const auto saved = (*lease)->Commit(std::move(first->end), "");
    c.save.push_back(save.Seconds());
    return saved.status();
  }

  Engine& engine_;
  const Folder folder_;
  std::unique_ptr<SessionStore> store_;
};

Json ReportCase(const Case& c) {
  const double prefill = Median(c.prefill), save = Median(c.save);
  const double resident = Median(c.resident), cached = Median(c.cached), cold = Median(c.cold);
  std::printf("%9lld %12.1f %10.1f %11.1f %11.1f %11.1f %9.1fx\n",
              static_cast<long long>(c.context), prefill * 1e3, save * 1e3, resident * 1e3,
              cached * 1e3, cold * 1e3, prefill / cold);
  return {{"context", c.context},
          {"ms_prefill", prefill * 1e3},
          {"ms_save", save * 1e3},
          {"ms_resident", resident * 1e3},
          {"ms_restore_cached", cached * 1e3},
          {"ms_restore_cold", cold * 1e3},
          {"prefill_over_cold_restore", prefill / cold},
          {"seconds",
           {{"prefill", c.prefill},
            {"save", c.save},
            {"resident", c.resident},
            {"restore_cached", c.cached},
            {"restore_cold", c.cold}}}};
}

}  // namespace

absl::Status BenchRestore(Subject& subject, const Options& options, Json& report) {
  const int64_t vocab = subject.config.common.vocab_size;
  auto engine = Engine::Create({{kModelName, std::shared_ptr<Model>(std::move(subject.model))}},
                               EngineOptions());
  if (!engine.ok()) return engine.status();
  auto folder = Folder::Create(options.session_dir);
  if (!folder.ok()) return folder.status();
  Bench bench(**engine, *std::move(folder));

  std::vector<Case> cases;
  cases.reserve(options.contexts.size());
  for (const int64_t context : options.contexts) cases.push_back({.context = context});
  for (int64_t round = 0; round < options.rounds; ++round) {
    for (Case& c : cases) {
      const bool read = round < options.prefills;
      if (absl::Status s = bench.Round(PromptTokens(c.context, vocab), read, c); !s.ok()) return s;
    }
  }
  std::printf("milliseconds to the first token (save: until the session is on disk)\n");
  std::printf("%9s %12s %10s %11s %11s %11s %10s\n", "context", "prefill", "save", "in memory",
              "page cache", "disk", "of disk");
  for (const Case& c : cases) report["cases"].push_back(ReportCase(c));
  return absl::OkStatus();
}

}  // namespace tvq::bench
