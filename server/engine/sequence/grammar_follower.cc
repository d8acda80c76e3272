#include "server/engine/sequence/grammar_follower.h"

#include <atomic>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "base/mutex.h"
#include "base/refusal.h"

namespace tvq {
namespace {

// Errors of the library. What is wrong with a grammar is the client's to mend.
absl::Status ToRefusal(const absl::Status& status) {
  if (!absl::IsInvalidArgument(status) && !absl::IsResourceExhausted(status)) return status;
  return Refused(
      Reason::kValueInvalid,
      absl::StrCat("what the sample must be cannot be followed any further: ", status.message()));
}

}  // namespace

// A task uses matcher, mask and status while `ready` is false, and the loop while it is true.
struct GrammarFollower::Work {
  explicit Work(std::shared_ptr<const Grammar> of)
      : grammar(std::move(of)), mask(static_cast<size_t>(grammar->mask_words())) {}

  absl::Status Find(std::optional<int32_t> id) {
    if (!matcher) {
      absl::StatusOr<GrammarMatcher> begun = grammar->Begin();
      if (!begun.ok()) return begun.status();
      matcher = *std::move(begun);
    }
    if (id) {
      if (absl::Status s = matcher->Accept(*id); !s.ok()) return s;
    }
    return matcher->Mask(mask);
  }

  const std::shared_ptr<const Grammar> grammar;
  std::optional<GrammarMatcher> matcher;
  std::vector<uint32_t> mask;
  absl::Status status;
  std::atomic<bool> abandoned = false;
  Mutex mutex;
  Changed changed;
  bool ready ABSL_GUARDED_BY(mutex) = false;
};

GrammarFollower::GrammarFollower(std::shared_ptr<const Grammar> grammar, std::string owner,
                                 std::shared_ptr<GrammarThreads> threads)
    : owner_(std::move(owner)),
      threads_(std::move(threads)),
      work_(std::make_shared<Work>(std::move(grammar))) {
  Schedule(std::nullopt);
}

GrammarFollower::~GrammarFollower() {
  if (work_ == nullptr) return;
  work_->abandoned = true;
  // To free it may take long, too.
  threads_->Schedule(owner_, 0, /*is_short=*/false, [work = std::move(work_)] {});
}

void GrammarFollower::Accept(int32_t id) {
  {
    const MutexLock lock(&work_->mutex);
    work_->ready = false;
  }
  Schedule(id);
}

void GrammarFollower::Schedule(std::optional<int32_t> id) {
  threads_->Schedule(owner_, 0, /*is_short=*/false, [work = work_, id] {
    if (work->abandoned) return;
    work->status = ToRefusal(work->Find(id));
    const MutexLock lock(&work->mutex);
    work->ready = true;
    work->changed.Notify();
  });
}

absl::StatusOr<std::optional<std::span<const uint32_t>>> GrammarFollower::Await(
    SteadyTime until) const {
  Work& work = *work_;
  {
    const MutexLock lock(&work.mutex);
    const auto ready = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(work.mutex) { return work.ready; };
    if (!work.changed.AwaitUntil(&work.mutex, until, ready)) return std::nullopt;
  }
  if (!work.status.ok()) return work.status;
  return work.mask;
}

}  // namespace tvq
