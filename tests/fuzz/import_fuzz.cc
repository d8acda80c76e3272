// Any bytes as an upload, through a store with a real model, in the two ways that uploads are
// taken: as a new session, as where one request starts. What is accepted holds as many tokens as
// its state does, goes on computing, and leaves as a snapshot that is accepted again.
#include <chrono>
#include <future>
#include <utility>

#include "server/engine/engine.h"
#include "server/sessions/session_store.h"
#include "server/sessions/snapshot/snapshot.h"
#include "tests/fuzz/reseal.h"
#include "tests/fuzz/tiny_state.h"
#include "tests/server/sessions/tiny_model.h"

namespace tvq {
namespace {

constexpr char kModel[] = "tiny";
constexpr std::chrono::seconds kPatience{60};

void Expect(bool sound) {
  if (!sound) std::abort();
}

// Of the process, to its end.
struct World {
  std::shared_ptr<Model> model = fixtures::TinyModel();
  std::unique_ptr<Engine> engine;
  std::unique_ptr<SessionStore> store;

  World() {
    EngineOptions options;
    options.state_memory_bytes = 64 << 20;
    engine = Engine::Create({{kModel, model}}, options).value();
    SessionOptions sessions;
    sessions.host_bytes = 64 << 20;
    store = SessionStore::Open(engine.get(), sessions, nullptr).value();
  }
};

World& TheWorld() {
  static auto* const world = new World();
  return *world;
}

class EndSink : public RequestSink {
 public:
  void OnPrompt(int64_t, std::vector<TokenEvent>) override {}
  void OnDelta(Delta) override {}
  void OnKept(Continuation continuation) override { kept_ = std::move(continuation); }
  void OnEnd(const absl::Status& status, const Usage&) override {
    if (!status.ok()) return end_.set_value(status);
    end_.set_value(std::move(kept_));
  }
  absl::StatusOr<Continuation> Wait() {
    auto end = end_.get_future();
    Expect(end.wait_for(kPatience) == std::future_status::ready);
    return end.get();
  }

 private:
  Continuation kept_;
  std::promise<absl::StatusOr<Continuation>> end_;
};

// One token more. INTERNAL where the numbers of the state, each of them finite, lead to logits that
// are not; INVALID_ARGUMENT for what shows only when the state is loaded.
absl::StatusOr<Continuation> Step(std::optional<StartPoint> start) {
  auto sink = std::make_shared<EndSink>();
  Request request{.model = kModel, .purpose = Purpose::kAppend, .prompt = {1}};
  request.start = std::move(start);
  request.keep = true;
  request.sink = sink;
  const auto handle = TheWorld().engine->Submit(std::move(request));
  Expect(handle.ok());
  return sink->Wait();
}

std::unique_ptr<SnapshotUpload> Upload(std::span<const char> bytes) {
  auto upload = TheWorld().store->NewUpload();
  Expect(upload->Add(bytes).ok());
  return upload;
}

std::string Drain(SnapshotStream& stream) {
  std::string all;
  for (;;) {
    const auto next = stream.Next(1000);
    Expect(next.ok());
    if (next->empty()) break;
    all += *next;
  }
  Expect(static_cast<int64_t>(all.size()) == stream.total_bytes());
  return all;
}

// The snapshot says what the record does.
void CheckSnapshot(const std::string& bytes, const SessionRecord& record) {
  fuzz::InputSource source(std::as_bytes(std::span(bytes)));
  const auto head = ReadSnapshotHead(&source);
  Expect(head.ok() && head->version == head->record.version);
  Expect(head->record.position == record.position);
  auto image = OpenSnapshotState(*head, &source, TheWorld().model->info());
  Expect(image.ok() && image->pending().size() <= 1);
  Expect(image->position() + std::ssize(image->pending()) == record.position);
  Expect(image->pending().empty() || image->logits().empty());
}

// A session that was taken in, and is deleted here.
void CheckSession(const SessionView& view) {
  SessionStore& store = *TheWorld().store;
  const SessionCall call{.owner = view.record.owner, .id = view.record.id};
  const auto exported = store.Export(call, {});
  Expect(exported.ok());
  CheckSnapshot(Drain(**exported), view.record);
  const auto transcript = store.Transcript(call.owner, call.id);
  Expect(transcript.ok() &&
         transcript->tokens.size() == (view.record.has_transcript ? view.record.position : 0));
  {
    auto lease = store.Acquire(call);
    Expect(lease.ok() && !(*lease)->replay());
    auto end = Step((*lease)->Start());
    Expect(end.ok() || absl::IsInternal(end.status()));
    if (end.ok()) {
      const auto after = (*lease)->Commit(*std::move(end), "");
      Expect(after.ok() && after->record.position == view.record.position + 1);
      Expect(after->record.version == view.record.version + 1);
    }
  }
  Expect(store.Delete(call).ok());
}

void CheckStart(std::optional<StartPoint> start) {
  const int64_t before = start ? start->position + static_cast<int64_t>(start->pending.size()) : 0;
  auto end = Step(std::move(start));
  if (!end.ok()) {
    Expect(absl::IsInternal(end.status()) || absl::IsInvalidArgument(end.status()));
    return;
  }
  Expect(end->held.state->position() + std::ssize(end->pending) == before + 1);
  const auto left = TheWorld().store->ToSnapshot(kModel, *std::move(end));
  Expect(left.ok());
  const std::string bytes = Drain(**left);
  Expect(TheWorld().store->StartFrom(kModel, Upload(bytes)).ok());
}

}  // namespace
}  // namespace tvq

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max, unsigned seed) {
  return tvq::fuzz::MutateAndReseal(data, size, max, seed);
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span bytes(reinterpret_cast<const char*>(data), size);
  tvq::SessionStore& store = *tvq::TheWorld().store;
  const auto imported = store.Import("ann", {}, tvq::Upload(bytes));
  if (imported.ok()) {
    tvq::Expect(imported->record.version == 1 && imported->record.owner == "ann");
    tvq::CheckSession(*imported);
  }
  auto start = store.StartFrom(tvq::kModel, tvq::Upload(bytes));
  // What can be a session can be a start; the other way round, a state's content may yet be wrong.
  tvq::Expect(start.ok() || !imported.ok());
  if (start.ok()) tvq::CheckStart(*std::move(start));
  tvq::Expect(store.stats().leased == 0);
  return 0;
}
