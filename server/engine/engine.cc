#include "server/engine/engine.h"

#include <algorithm>
#include <optional>
#include <set>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/long_slices.h"
#include "base/quoted.h"
#include "base/refusal.h"
#include "server/engine/inbox.h"
#include "server/engine/loop.h"
#include "server/engine/memory/memory_budget.h"
#include "server/engine/sequence/prompt_lookup.h"
#include "server/engine/sequence/submission.h"

namespace tvq {
namespace {

constexpr int32_t kMaxWeight = 1'000'000;
constexpr int kGrammarThreads = 2;  // a grammar may take long: no owner has all of them

absl::Status CheckOption(const char* name, int64_t value, int64_t min) {
  if (value >= min) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(name, ": value is ", value, ", must be at least ", min));
}

absl::Status CheckOptions(const EngineOptions& o) {
  for (const absl::Status& status :
       {CheckOption("max_num_seqs", o.max_num_seqs, 1),
        CheckOption("max_num_admitted_seqs", o.max_num_admitted_seqs, 0),
        CheckOption("max_num_queued_reqs", o.max_num_queued_reqs, 1),
        CheckOption("max_num_queued_tokens", o.max_num_queued_tokens, 1),
        CheckOption("max_num_batched_tokens", o.max_num_batched_tokens, 1),
        CheckOption("stream_interval", o.stream_interval, 1),
        CheckOption("paused_timeout", o.paused_timeout.count(), 1),
        CheckOption("grammar_wait", o.grammar_wait.count(), 0),
        CheckOption("state_memory_bytes", o.state_memory_bytes, 0)}) {
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status CheckModels(const std::vector<ServedModel>& models) {
  if (models.empty()) return absl::InvalidArgumentError("models: there is none to serve");
  std::set<std::string> names;
  for (const ServedModel& m : models) {
    if (m.name.empty()) return absl::InvalidArgumentError("models: a name is empty");
    if (!names.insert(m.name).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("models: the name \"", m.name, "\" is used twice"));
    }
    if (m.weight < 1 || m.weight > kMaxWeight) {
      return absl::InvalidArgumentError(absl::StrCat("models: the weight of \"", m.name, "\" is ",
                                                     m.weight, ", must be in [1, ", kMaxWeight,
                                                     "]"));
    }
  }
  return absl::OkStatus();
}

// Of a device with memory of its own, of which `free` bytes are free when everything else is there.
absl::StatusOr<int64_t> DeviceBudgetBytes(int64_t free, const EngineOptions& options) {
  // The rest is for what the driver takes as it goes.
  const int64_t budget =
      options.state_memory_bytes > 0 ? options.state_memory_bytes : free / 20 * 19;
  if (budget <= free) return budget;
  return absl::ResourceExhaustedError(absl::StrCat("--state-memory-bytes: is ", budget,
                                                   " bytes; beside weights and working memory the "
                                                   "device has ",
                                                   free, " bytes free"));
}

absl::StatusOr<int64_t> BudgetBytes(const std::vector<ServedModel>& models,
                                    const EngineOptions& options) {
  int64_t budget = options.state_memory_bytes;
  if (const std::optional<int64_t> free = models[0].model->FreeDeviceMemory()) {
    const auto of_device = DeviceBudgetBytes(*free, options);
    if (!of_device.ok()) return of_device.status();
    budget = *of_device;
  } else if (budget == 0) {
    const auto facts = ReadMemoryFacts();
    if (!facts.ok()) return facts.status();
    budget = UsableBytes(*facts, WorkspaceBytes(models, options.max_num_seqs));
  }
  for (const ServedModel& m : models) {
    if (m.model->StateBytes(1) > budget) {
      return absl::ResourceExhaustedError(
          absl::StrCat("model \"", m.name, "\": a state takes ", m.model->StateBytes(1),
                       " bytes, the budget of all states is ", budget,
                       " bytes; --state-memory-bytes gives them more"));
    }
  }
  return budget;
}

constexpr int64_t kToldLengths[] = {1 << 10, 1 << 13, 1 << 15, 1 << 17};
// A length of whole pages, by which what is of constant size has all its bytes.
constexpr int64_t kFar = int64_t{1} << 24;

void TellGrowth(const Model& model, ModelCapacity* capacity) {
  capacity->bytes_per_token = (model.StateBytes(2 * kFar) - model.StateBytes(kFar)) / kFar;
  const int64_t longest = model.info().config.max_position;
  for (const int64_t tokens : kToldLengths) {
    if (longest > 0 && tokens > longest) break;
    capacity->sizes.push_back({tokens, model.StateBytes(tokens)});
  }
}

}  // namespace

int64_t WorkspaceBytes(const std::vector<ServedModel>& models, int64_t max_num_seqs) {
  int64_t bytes = 0;
  bool drafts = false;
  for (const ServedModel& m : models) {
    const int64_t rows = max_num_seqs + DraftRows(*m.model);
    bytes += rows * m.model->info().config.vocab_size * static_cast<int64_t>(sizeof(float));
    bytes += m.model->WorkspaceBytes(rows);
    drafts = drafts || DraftRows(*m.model) > 0;
  }
  // So many sequences of all models together have drafts.
  if (drafts) bytes += max_num_seqs * PromptLookup::kMostBytes;
  return bytes;
}

class Engine::Impl {
 public:
  Impl(std::vector<ServedModel> models, const EngineOptions& options, int64_t budget,
       std::vector<ModelRunner> runners, Scheduler scheduler)
      : models(std::move(models)),
        options(options),
        budget(budget),
        inbox(options.max_num_queued_reqs, options.max_num_queued_tokens),
        loop(inbox, this->budget, std::move(runners), std::move(scheduler), options),
        thread([this] {
          TakeLongSlices();  // it computes with the pool
          loop.Run();
        }) {
    this->budget.OnRelief([this] { inbox.Wake(); });
  }

  ~Impl() {
    inbox.Abort(/*stop=*/true);
    thread.join();
    budget.OnRelief({});
  }

  absl::StatusOr<size_t> Find(const std::string& name) const {
    for (size_t i = 0; i < models.size(); ++i) {
      if (models[i].name == name) return i;
    }
    return Refused(Reason::kModelUnknown, "model",
                   absl::StrCat("there is no model ", Quoted(name)));
  }

  absl::StatusOr<RequestHandle> Accept(Request request) {
    const auto model = Find(request.model);
    if (!model.ok()) return model.status();
    if (request.deadline <= std::chrono::steady_clock::now()) {
      return Refused(Reason::kDeadlinePassed, "the deadline passed before the request was queued");
    }
    auto submission = Prepare(std::move(request), *models[*model].model, options, budget.total());
    if (!submission.ok()) return submission.status();
    submission->model = *model;
    submission->submitted = std::chrono::steady_clock::now();
    return inbox.Push(*std::move(submission));
  }

  absl::Status Health() {
    if (auto failure = inbox.failure(); !failure.ok()) return failure;
    for (const ServedModel& m : models) {
      if (auto health = m.model->Health(); !health.ok()) inbox.Fail(std::move(health));
    }
    return inbox.failure();
  }

  const std::vector<ServedModel> models;
  const EngineOptions options;
  StateBudget budget;  // of all states
  Inbox inbox;
  Loop loop;
  std::thread thread;  // last: it uses all of the above
};

absl::StatusOr<std::unique_ptr<Engine>> Engine::Create(std::vector<ServedModel> models,
                                                       const EngineOptions& options) {
  if (auto status = CheckOptions(options); !status.ok()) return status;
  if (auto status = CheckModels(models); !status.ok()) return status;
  const auto grammar_threads = std::make_shared<GrammarThreads>(
      GrammarThreads::Options{.threads = kGrammarThreads, .most_of_owner = kGrammarThreads - 1});
  std::vector<ModelRunner> runners;
  std::vector<ModelShare> shares;
  for (const ServedModel& m : models) {
    auto status = m.model->Prepare({.decode_rows = options.max_num_seqs + DraftRows(*m.model),
                                    .top_logprobs = kMaxLogprobs,
                                    .record = !options.enforce_eager});
    if (!status.ok()) return status;
    auto runner = ModelRunner::Create(m.model, options, grammar_threads);
    if (!runner.ok()) return runner.status();
    runners.push_back(*std::move(runner));
    shares.push_back({.prefill_chunk = m.model->info().config.prefill_chunk,
                      .weight = m.weight,
                      .draft_rows = DraftRows(*m.model)});
  }
  const auto budget = BudgetBytes(models, options);
  if (!budget.ok()) return budget.status();
  if (auto status = models[0].model->ReserveStates(*budget); !status.ok()) return status;
  Scheduler scheduler(shares, options.max_num_seqs, options.max_num_batched_tokens);
  return std::unique_ptr<Engine>(new Engine(std::make_unique<Impl>(
      std::move(models), options, *budget, std::move(runners), std::move(scheduler))));
}

Engine::Engine(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Engine::~Engine() = default;

absl::StatusOr<RequestHandle> Engine::Submit(Request request) {
  return impl_->Accept(std::move(request));
}

void Engine::Cancel(RequestHandle handle) { impl_->inbox.Cancel(handle); }

void Engine::Wake() { impl_->inbox.Wake(); }

bool Engine::Drain(SteadyTime until) {
  impl_->inbox.Close();
  if (impl_->inbox.WaitUntilIdle(until)) return true;
  impl_->inbox.Abort(/*stop=*/false);
  impl_->inbox.WaitUntilIdle(SteadyTime::max());
  return false;
}

absl::Status Engine::Health() const { return impl_->Health(); }

EngineStats Engine::stats() const {
  EngineStats stats = impl_->loop.stats();
  stats.healthy = impl_->inbox.failure().ok();
  stats.requests_waiting = impl_->inbox.waiting();
  return stats;
}

absl::StatusOr<ModelCapacity> Engine::Capacity(const std::string& name, int64_t tokens) const {
  const auto index = impl_->Find(name);
  if (!index.ok()) return index.status();
  const Model& model = *impl_->models[*index].model;
  const int64_t longest = model.info().config.max_position;
  if (tokens < 0 || (longest > 0 && tokens > longest)) {
    return Refused(
        Reason::kValueInvalid, "quoted_tokens",
        absl::StrCat("is ", tokens, ", must be 0",
                     longest > 0 ? absl::StrCat(" to ", longest, ", the model's context length")
                                 : " or more"));
  }
  if (tokens == 0) tokens = std::max<int64_t>(1, longest);
  const int64_t bytes = model.StateBytes(tokens);
  ModelCapacity capacity{.grows = model.StatesGrow(),
                         .tokens = tokens,
                         .bytes_per_session = bytes,
                         .max_sessions = impl_->budget.total() / std::max<int64_t>(1, bytes),
                         .sessions_in_use = impl_->loop.model_use(*index).sequences_running};
  if (capacity.grows && model.info().predicts) TellGrowth(model, &capacity);
  return capacity;
}

StateReadTotals Engine::StateReads(size_t model) const {
  return impl_->loop.model_use(model).reads;
}

StateBudget& Engine::budget() { return impl_->budget; }

const std::vector<ServedModel>& Engine::models() const { return impl_->models; }

}  // namespace tvq
