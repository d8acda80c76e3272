// Keeps committed states where there is room for them: on the device, in host memory as images, on
// the durable tier.
#ifndef TVQ_SERVER_SESSIONS_PLACEMENT_TIERS_H_
#define TVQ_SERVER_SESSIONS_PLACEMENT_TIERS_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "base/task_threads.h"
#include "server/engine/engine.h"
#include "server/engine/request/continuation.h"
#include "server/sessions/durable/durable_tier.h"
#include "server/sessions/record/session_stats.h"
#include "server/sessions/session_store.h"
#include "server/sessions/snapshot/checkpoint.h"
#include "server/sessions/snapshot/holders.h"
#include "server/sessions/snapshot/snapshot.h"

namespace tvq {

// If the server cannot read what it wrote itself, that was damaged since: an error of the input
// becomes DATA_LOSS, naming `what`. A state that no longer fits because its model was exchanged
// under its name is not damaged: that error stays.
absl::Status AsDataLoss(const absl::Status& status, const std::string& what);

// What a reader has found beside the state.
CheckpointHead HeadOf(StateImageReader& image);

// The device is a cache inside the engine's StateBudget: when that runs short, the checkpoints that
// were not used for longest move to host memory. When that is full, what was not used for longest
// is stored on the durable tier, if it is not there yet, and dropped. What cannot move is passed
// over. A checkpoint is given up only where every session and mark at it has a copy of its own
// further down, so that each can lose its own without asking the others. What cannot be stored
// stays where it is; what is larger than all of host memory is stored straight from the device.
//
// Thread-safe. Two threads of its own evict, others copy and load; the caller's thread never does
// either, but where a method says that it blocks. Checkpoints and the state sources made from them
// keep it alive; after Stop nothing moves.
class Tiers : public std::enable_shared_from_this<Tiers> {
 public:
  struct Options {
    Engine* engine = nullptr;
    int64_t host_bytes = 0;
    DurableTier* durable = nullptr;  // may be null
    // Stores a session with its marks, blocking, and tells SetStored.
    std::function<absl::Status(const std::string& id)> persist;
  };
  static std::shared_ptr<Tiers> Create(Options options);

  // A state that was just computed, with its share of the device.
  std::shared_ptr<Checkpoint> Add(size_t model, Continuation next);
  // A state of `bytes` bytes that only the durable tier has, at `at`, as an image of at most
  // `image_bytes`.
  std::shared_ptr<Checkpoint> AddStored(size_t model, int64_t bytes, int64_t image_bytes,
                                        StoredPlace at);

  // A state that was read from elsewhere, as its image, into host memory. The image's header is
  // checked; what copies the state checks the rest.
  absl::StatusOr<std::shared_ptr<Checkpoint>> AddImage(size_t model,
                                                       std::shared_ptr<const Blob> image);

  // A session or mark is at the checkpoint, or is no more. A checkpoint that only the durable tier
  // has can take no further holder: BringToHost first, and keep the pin until it has it.
  void AddHolder(Checkpoint& checkpoint, StoredPlace at);
  void RemoveHolder(Checkpoint& checkpoint, const StoredPlace& at);
  void SetStored(Checkpoint& checkpoint, const StoredPlace& at, bool stored = true);
  bool IsStored(const Checkpoint& checkpoint, const StoredPlace& at) const;

  // A session's present state was at `before` and is at `after`; null: at none.
  void MovePresent(Checkpoint* before, Checkpoint* after);
  // Ids of sessions whose present state, or a mark's, has left memory and is on the durable tier
  // alone. For each state each id comes once, at most `most` at a time. Empty: there are no more.
  std::vector<std::string> TakeParked(size_t most);

  // Keeps a checkpoint from being moved.
  class Pin {
   public:
    Pin(std::shared_ptr<Tiers> tiers, std::shared_ptr<Checkpoint> checkpoint);
    Pin(Pin&&) = default;
    ~Pin();

   private:
    std::shared_ptr<Tiers> tiers_;
    std::shared_ptr<Checkpoint> checkpoint_;
  };
  // Makes sure that the checkpoint is on the device or in host memory. Blocks.
  absl::StatusOr<Pin> BringToHost(const std::shared_ptr<Checkpoint>& checkpoint) {
    return BringToHost(checkpoint, [](int64_t) { return absl::OkStatus(); });
  }

  // What Start needs; null if only the durable tier has the state. It is dropped when the state
  // leaves memory, which may be at any time: keep what this returns as long as it is needed.
  std::shared_ptr<const CheckpointHead> Head(const Checkpoint& checkpoint) const;
  // Where a request starts that continues from `checkpoint`, whose head this is: a working copy,
  // made when the request is admitted. Where states can be cut it may be the head of an earlier
  // position: the copy is cut there.
  StartPoint Start(std::shared_ptr<Checkpoint> checkpoint, const CheckpointHead& head);

  // Makes `blank` a copy of the first `position` tokens of the checkpoint, which is pinned. After
  // an error in an image `blank` is blank. Blocks.
  absl::Status Fill(Checkpoint& checkpoint, int64_t position, HeldState& blank);

  // Streams the state's image of `bytes` bytes from wherever it is. Blocks.
  struct Image {
    int64_t bytes = 0;
    std::function<absl::Status(const ByteSink&)> write;
  };
  absl::StatusOr<Image> Read(const std::shared_ptr<Checkpoint>& checkpoint);
  // The same for a slow reader. A part is made only when it is read, and the state may move between
  // two reads. A read is UNAVAILABLE if the moved state cannot be opened again. RESOURCE_EXHAUSTED
  // if the state must come to host memory and other readers leave no room there. Blocks.
  struct ImageReader {
    int64_t bytes = 0;
    std::unique_ptr<ByteSource> source;
  };
  absl::StatusOr<ImageReader> OpenImage(const std::shared_ptr<Checkpoint>& checkpoint);

  Tier Where(const Checkpoint& checkpoint) const;
  // Adds the sessions whose present state lies in each place, and what was restored or corrupt.
  // Sets the bytes on the device and in host memory, and the times of restores.
  void AddStats(SessionStats& stats) const;

  // Runs `task`, which works on memory alone, on a thread that copies states. False, and the task
  // is dropped, once Stop has run what there was.
  [[nodiscard]] bool Schedule(std::function<void()> task) {
    return copies_.Schedule(std::move(task));
  }
  // The same for a task that waits for the durable tier.
  [[nodiscard]] bool ScheduleLoad(std::function<void()> task) {
    return loads_.Schedule(std::move(task));
  }

  // To be called now and then: tries again what failed.
  void Retry();
  // Waits for moves under way.
  void Stop();

 private:
  friend class Checkpoint;
  class Source;
  class SlowSource;
  // A checkpoint as it lay at one moment; shares what it was found with.
  struct Found {
    std::shared_ptr<const HeldState> device;
    std::shared_ptr<const Blob> host;
    std::shared_ptr<const CheckpointHead> head;
  };

  explicit Tiers(Options options);
  const ModelInfo& info(size_t model) const {
    return options_.engine->models()[model].model->info();
  }
  StateBudget& device() const { return options_.engine->budget(); }
  std::shared_ptr<Checkpoint> Enter(std::shared_ptr<Checkpoint> checkpoint);
  void Forget(Checkpoint& checkpoint);
  Found Find(Checkpoint& checkpoint);  // also counts as a use
  // Whatever changes where a checkpoint lies, its use or `presents_` stands between these two.
  void Unindex(const Checkpoint& checkpoint) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Index(Checkpoint& checkpoint) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  static Tier PlaceOf(const Checkpoint& checkpoint);

  // tiers_read.cc
  // After `filled` was filled from an image, its sealed parts lie on the device again. So the
  // checkpoint, if it is at the same position, is put there, too, if the few more bytes are free.
  void ShareAgain(Checkpoint& checkpoint, HeldState& filled);
  // `admit` is asked with the bytes before they are loaded.
  using Admit = std::function<absl::Status(int64_t bytes)>;
  absl::StatusOr<std::shared_ptr<const Blob>> LoadBlob(const Checkpoint& checkpoint,
                                                       const Admit& admit);
  absl::StatusOr<Pin> BringToHost(const std::shared_ptr<Checkpoint>& checkpoint,
                                  const Admit& admit);
  // Takes host memory for an image that will stay there for long: RESOURCE_EXHAUSTED if what stays
  // there now leaves no room. One is always let in.
  absl::Status ReserveHost(int64_t bytes);
  // Runs `read` on a stored snapshot. What is found corrupt there is DATA_LOSS, and counted.
  absl::Status WithStored(
      const Checkpoint& checkpoint,
      const std::function<absl::Status(const StoredPlace& at, const SnapshotHead& head,
                                       ByteSource& rest)>& read);
  absl::StatusOr<ImageReader> OpenStored(const Checkpoint& checkpoint);
  std::optional<StoredPlace> NextStored(const Checkpoint& checkpoint, const StoredPlace& at) const;

  // tiers_evict.cc
  bool HostHasRoom(int64_t bytes) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return host_used_ + bytes <= options_.host_bytes;
  }
  void WakeDevice() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    device_wake_ = true;
    woken_.Notify();
  }
  void WakeHost() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    host_wake_ = true;
    woken_.Notify();
  }
  bool DeviceIsShort() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  using CheckpointPtr = std::shared_ptr<Checkpoint>;
  // What is given up on the way is freed after the lock is given back.
  struct GivenUp {
    std::shared_ptr<const HeldState> device;
    std::shared_ptr<const Blob> host;
    std::shared_ptr<const CheckpointHead> head;
  };
  void EvictDevice();
  // Passes over what could not be moved since the device ran short, `unmovable`, and adds to it.
  bool EvictOneFromDevice(std::vector<CheckpointPtr>& unmovable);
  // Null if nothing can go now; asks then for what is in the way.
  CheckpointPtr DeviceVictim(const std::vector<CheckpointPtr>& unmovable)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  GivenUp DropFromDevice(Checkpoint& victim) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void EvictHost();
  bool EvictOneFromHost();
  CheckpointPtr HostVictim() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  GivenUp DropFromHost(Checkpoint& victim) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void NoteParked(Checkpoint& checkpoint) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whether a session can be stored so that this checkpoint may be given up.
  bool MayStore(const Checkpoint& checkpoint) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Options options_;
  const int64_t headroom_;  // bytes of the device kept free, so that a request seldom waits

  mutable Mutex mutex_;
  Changed woken_;
  // By last use. What is only on the durable tier is in none: there may be very many.
  using ByUse = std::map<uint64_t, Checkpoint*>;
  ByUse on_device_ ABSL_GUARDED_BY(mutex_);
  ByUse in_host_ ABSL_GUARDED_BY(mutex_);  // and not on the device
  ByUse in_both_ ABSL_GUARDED_BY(mutex_);
  uint64_t uses_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t device_used_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t host_used_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t host_reserved_ ABSL_GUARDED_BY(mutex_) = 0;  // of host_used_, by ReserveHost
  int64_t sessions_[3] ABSL_GUARDED_BY(mutex_) = {};   // by Tier of their present states
  // What left memory, and which of its holders were told of last.
  struct Parked {
    std::weak_ptr<Checkpoint> checkpoint;
    StoredPlace told;
  };
  std::deque<Parked> parked_ ABSL_GUARDED_BY(mutex_);
  std::weak_ptr<Checkpoint> too_large_ ABSL_GUARDED_BY(mutex_);  // for host memory: to be stored
  int64_t device_wanted_ ABSL_GUARDED_BY(mutex_) = 0;            // free, for what waits; 0: nothing
  int64_t host_missing_ ABSL_GUARDED_BY(mutex_) = 0;             // for a checkpoint of the device
  bool device_wake_ ABSL_GUARDED_BY(mutex_) = false;
  bool host_wake_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  // After a failure to store, the next try.
  std::chrono::steady_clock::time_point retry_at_ ABSL_GUARDED_BY(mutex_);
  std::chrono::milliseconds retry_after_ ABSL_GUARDED_BY(mutex_){0};
  int64_t restores_count_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t corrupt_ ABSL_GUARDED_BY(mutex_) = 0;
  Histogram restore_time_ ABSL_GUARDED_BY(mutex_);

  // Apart, so that a slow disk does not hold up what is in memory.
  TaskThreads<> copies_{{.threads = 2}};
  TaskThreads<> loads_{{.threads = 4}};
  std::thread device_evictor_;
  std::thread host_evictor_;
};

}  // namespace tvq

#endif  // TVQ_SERVER_SESSIONS_PLACEMENT_TIERS_H_
