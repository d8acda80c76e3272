#include "server/sessions/tiers.h"

#include <utility>

namespace tvq {

Checkpoint::~Checkpoint() { tiers_->Forget(this); }

// Copies a checkpoint into the blank state of an admitted request.
class Tiers::Source : public StateSource, public std::enable_shared_from_this<Source> {
 public:
  Source(std::shared_ptr<Tiers> tiers, std::shared_ptr<Checkpoint> checkpoint)
      : tiers_(std::move(tiers)), checkpoint_(std::move(checkpoint)) {}

  void Fill(HeldState blank, Done done) override {
    // Shared, because a std::function has to be copyable.
    auto held = std::make_shared<HeldState>(std::move(blank));
    auto fill = [self = shared_from_this(), held, done] {
      done(self->tiers_->Fill(*self->checkpoint_, std::move(*held)));
    };
    if (!tiers_->restores_.Schedule(std::move(fill))) {
      done(absl::UnavailableError("the server is shutting down"));
    }
  }

 private:
  const std::shared_ptr<Tiers> tiers_;
  const std::shared_ptr<Checkpoint> checkpoint_;
};

std::shared_ptr<Tiers> Tiers::Create() { return std::shared_ptr<Tiers>(new Tiers()); }

void Tiers::Stop() { restores_.Stop(); }

std::shared_ptr<Checkpoint> Tiers::Add(size_t model, Continuation next) {
  const State& state = *next.held.state;
  std::shared_ptr<Checkpoint> checkpoint(
      new Checkpoint(shared_from_this(), model, state.position(), state.bytes()));
  const absl::MutexLock lock(&mutex_);
  checkpoint->pending_ = std::move(next.pending);
  if (checkpoint->pending_.empty() && !next.logits.empty()) {
    checkpoint->logits_ = std::make_shared<const std::vector<float>>(std::move(next.logits));
  }
  checkpoint->device_ = std::make_shared<const HeldState>(std::move(next.held));
  return checkpoint;
}

StartPoint Tiers::Start(std::shared_ptr<Checkpoint> checkpoint) {
  StartPoint start;
  start.position = checkpoint->position();
  {
    const absl::MutexLock lock(&mutex_);
    start.pending = checkpoint->pending_;
    start.logits = checkpoint->logits_;
  }
  start.source = std::make_shared<Source>(shared_from_this(), std::move(checkpoint));
  return start;
}

Tier Tiers::Where(const Checkpoint& checkpoint) const {
  const absl::MutexLock lock(&mutex_);
  return checkpoint.device_ != nullptr ? Tier::kDevice : Tier::kHost;
}

void Tiers::Forget(Checkpoint*) {}

absl::StatusOr<HeldState> Tiers::Fill(const Checkpoint& checkpoint, HeldState blank) {
  std::shared_ptr<const HeldState> device;
  {
    const absl::MutexLock lock(&mutex_);
    device = checkpoint.device_;
  }
  if (auto status = blank.state->CopyFrom(*device->state); !status.ok()) return status;
  return blank;
}

}  // namespace tvq
