#include "server/sessions/placement/prefix_cache.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <utility>

#include "base/refusal.h"
#include "server/sessions/placement/prefix_names.h"

namespace tvq {

// Takes the states of one request's prompt.
class PrefixCache::Sink : public PrefixSink {
 public:
  // `marks`: by the tokens that the state holds.
  Sink(std::shared_ptr<PrefixCache> cache, std::string owner, size_t model, int64_t vocab_size,
       std::vector<int32_t> tokens, std::map<int64_t, Mark> marks)
      : cache_(std::move(cache)),
        owner_(std::move(owner)),
        model_(model),
        vocab_size_(vocab_size),
        tokens_(std::move(tokens)),
        marks_(std::move(marks)) {}

  void OnPrefix(int64_t prompt_tokens, HeldState copy) override {
    const Mark& mark = marks_.at(prompt_tokens);
    Entry entry{.owner = owner_, .model = model_, .name = mark.name};
    entry.tokens.assign(tokens_.begin(), tokens_.begin() + prompt_tokens);
    // Shared, because a std::function has to be copyable.
    auto held = std::make_shared<HeldState>(std::move(copy));
    auto keep = [cache = cache_, entry = std::move(entry), held, vocab = vocab_size_,
                 met = mark.met]() mutable {
      // Nothing is sampled here, but an image has logits.
      entry.checkpoint = cache->tiers_->Add(
          entry.model,
          {.held = std::move(*held), .logits = std::vector<float>(static_cast<size_t>(vocab))});
      if (met) cache->Met(entry);
      cache->Keep(std::move(entry));
    };
    // Not on the loop. After a shutdown it is not needed.
    (void)cache_->tiers_->Schedule(std::move(keep));
  }

 private:
  const std::shared_ptr<PrefixCache> cache_;
  const std::string owner_;
  const size_t model_;
  const int64_t vocab_size_;
  const std::vector<int32_t> tokens_;
  const std::map<int64_t, Mark> marks_;
};

// Reads a stored entry when its request is admitted.
class PrefixCache::StoredSource : public StateSource,
                                  public std::enable_shared_from_this<StoredSource> {
 public:
  StoredSource(std::shared_ptr<PrefixCache> cache, Entry entry, Place less)
      : cache_(std::move(cache)), entry_(std::move(entry)), less_(std::move(less)) {}

  void Fill(HeldState blank, Done done) override {
    // Shared, because a std::function has to be copyable.
    auto held = std::make_shared<HeldState>(std::move(blank));
    auto fill = [self = shared_from_this(), held, done]() mutable {
      const auto status = self->cache_->Fill(self->entry_, self->less_, *held);
      auto filled = status.ok() ? absl::StatusOr<HeldState>(std::move(*held)) : status;
      self.reset();  // nothing is held any more when the request goes on
      held.reset();
      done(std::move(filled));
    };
    if (!cache_->tiers_->ScheduleLoad(std::move(fill))) {
      done(Refused(Reason::kStopping, "the server is shutting down"));
    }
  }

 private:
  const std::shared_ptr<PrefixCache> cache_;
  const Entry entry_;
  const Place less_;
};

PrefixCache::Beginnings PrefixCache::BeginningsOf(std::string owner, size_t model,
                                                  const ModelInfo& info,
                                                  std::span<const int32_t> prompt) const {
  Beginnings all{.owner = std::move(owner)};
  all.hashes = PrefixHashes(all.owner, model, info.config.prefill_chunk, prompt);
  if (stored_ != nullptr) all.names = PrefixNames(scope_, all.owner, info, prompt);
  return all;
}

void PrefixCache::Use(Request& request, size_t index, const Model& model) {
  const ModelInfo& info = model.info();
  const int64_t chunk = info.config.prefill_chunk;
  const std::span<const int32_t> prompt = request.prompt;
  if (std::ssize(prompt) < chunk) return;
  std::vector<Beginnings> owners{BeginningsOf(request.owner, index, info, prompt)};
  if (!request.owner.empty()) owners.push_back(BeginningsOf("", index, info, prompt));
  const Beginnings& own = owners.front();
  const bool scores =
      request.purpose == Purpose::kScore || request.sampling.prompt_logprobs.has_value();
  const auto head = [&](size_t chunks) {
    return prompt.first(chunks * static_cast<size_t>(chunk));
  };
  std::vector<size_t> marks;
  std::shared_ptr<Checkpoint> found;
  std::optional<Entry> stored;
  size_t kept = 0, cached = 0, common = 0;
  {
    const MutexLock lock(&mutex_);
    common = recent_.Shared(own.hashes);
    // A token of the prompt has to be left, to have logits after it. Scores need all of them.
    size_t most = scores ? 0 : own.hashes.size();
    if (most > 0 && head(most).size() == prompt.size()) --most;
    for (size_t chunks = most; chunks > 0 && found == nullptr; --chunks) {
      for (const Beginnings& of : owners) {
        const auto entry = Find(of.owner, index, of.hashes[chunks - 1], head(chunks));
        if (entry == entries_.end()) continue;
        found = entry->checkpoint;
        kept = cached = chunks;
        Met(*entry);
        break;
      }
    }
    // What is stored has to be read, which only more of the prompt is worth.
    for (size_t chunks = most; stored_ != nullptr && chunks > kept && !stored; --chunks) {
      for (const Beginnings& of : owners) {
        const std::string& name = of.names[chunks - 1];
        if (!stored_->Has(name)) continue;
        const auto tokens = head(chunks);
        stored = Entry{.owner = of.owner,
                       .model = index,
                       .hash = of.hashes[chunks - 1],
                       .tokens = {tokens.begin(), tokens.end()},
                       .name = name};
        cached = chunks;
        break;
      }
    }
    if (!scores && !stored) ++(found != nullptr ? hits_ : misses_);
    for (const size_t chunks : {common, own.hashes.size()}) {
      if (chunks <= cached || (!marks.empty() && chunks <= marks.back())) continue;
      if (model.StateBytes(static_cast<int64_t>(chunks) * chunk) > max_bytes_) continue;
      const auto entry = Find(request.owner, index, own.hashes[chunks - 1], head(chunks));
      if (entry == entries_.end()) {
        marks.push_back(chunks);
      } else if (chunks <= common) {
        Met(*entry);
      }
    }
  }
  const auto tokens = static_cast<int64_t>(head(cached).size());
  const Place place{found, static_cast<int64_t>(head(kept).size())};
  if (stored) {
    request.start = StartPoint{
        .source = std::make_shared<StoredSource>(shared_from_this(), *std::move(stored), place),
        .position = tokens};
  } else if (found != nullptr) {
    request.start = tiers_->Start(found, {.position = tokens});
  }
  if (request.start) request.start->prompt_tokens = tokens;
  if (marks.empty()) return;
  const auto longest = head(marks.back());
  std::map<int64_t, Mark> by_tokens;
  for (const size_t chunks : marks) {
    const int64_t at = static_cast<int64_t>(chunks) * chunk;
    request.prefix_marks.push_back(at);
    by_tokens[at] = {.name = stored_ != nullptr ? own.names[chunks - 1] : "",
                     .met = chunks <= common};
  }
  request.prefixes = std::make_shared<Sink>(
      shared_from_this(), request.owner, index, info.config.vocab_size,
      std::vector<int32_t>(longest.begin(), longest.end()), std::move(by_tokens));
}

void PrefixCache::Met(const Entry& entry) {
  if (stored_ == nullptr) return;
  stored_->Met({.name = entry.name, .owner = entry.owner, .position = entry.position()},
               entry.checkpoint);
}

std::shared_ptr<Checkpoint> PrefixCache::Kept(const Entry& entry) {
  const MutexLock lock(&mutex_);
  const auto kept = Find(entry.owner, entry.model, entry.hash, entry.tokens);
  return kept != entries_.end() ? kept->checkpoint : nullptr;
}

absl::StatusOr<std::shared_ptr<Checkpoint>> PrefixCache::Load(const Entry& entry) {
  auto image = stored_->Load(entry.name, entry.position());
  if (!image.ok()) return image.status();
  auto checkpoint = tiers_->AddImage(entry.model, *std::move(image));
  if (checkpoint.ok() && tiers_->Head(**checkpoint)->position != entry.position()) {
    return absl::InvalidArgumentError("the state is of another position");
  }
  return checkpoint;
}

absl::Status PrefixCache::Copy(const Place& place, HeldState& blank) {
  if (place.checkpoint == nullptr) return absl::OkStatus();
  const Tiers::Pin pin(tiers_, place.checkpoint);
  return tiers_->Fill(*place.checkpoint, place.position, blank);
}

absl::Status PrefixCache::Fill(Entry entry, const Place& less, HeldState& blank) {
  entry.checkpoint = Kept(entry);  // another request may have brought it
  const bool kept = entry.checkpoint != nullptr;
  absl::Status status;
  if (!kept) {
    auto loaded = Load(entry);
    status = loaded.status();
    if (loaded.ok()) entry.checkpoint = *std::move(loaded);
  }
  if (status.ok()) status = Copy({entry.checkpoint, entry.position()}, blank);
  const bool begins = status.ok() || less.checkpoint != nullptr;
  {
    const MutexLock lock(&mutex_);
    ++(begins ? hits_ : misses_);
    stored_hits_ += status.ok() && !kept ? 1 : 0;
  }
  if (!status.ok()) {
    stored_->Refuse(entry.name, status);
    return Copy(less, blank);
  }
  Met(entry);
  if (!kept) Keep(std::move(entry));
  return status;
}

PrefixCache::Entries::iterator PrefixCache::Find(const std::string& owner, size_t model,
                                                 uint64_t hash, std::span<const int32_t> tokens) {
  const auto [begin, end] = by_hash_.equal_range(hash);
  for (auto at = begin; at != end; ++at) {
    const Entry& entry = *at->second;
    if (entry.owner != owner || entry.model != model ||
        !std::equal(tokens.begin(), tokens.end(), entry.tokens.begin(), entry.tokens.end())) {
      continue;
    }
    entries_.splice(entries_.end(), entries_, at->second);
    return at->second;
  }
  return entries_.end();
}

void PrefixCache::Keep(Entry entry) {
  entry.hash = PrefixHashes(entry.owner, entry.model, static_cast<int64_t>(entry.tokens.size()),
                            entry.tokens)
                   .back();
  entry.bytes =
      entry.checkpoint->image_bytes() + static_cast<int64_t>(entry.tokens.size() * sizeof(int32_t));
  Entries dropped;  // freed after the lock
  const MutexLock lock(&mutex_);
  const bool known = Find(entry.owner, entry.model, entry.hash, entry.tokens) != entries_.end();
  if (known) return;
  // The operator's are not dropped for others'.
  const auto stays = [&](const Entry& old) { return old.owner.empty() && !entry.owner.empty(); };
  int64_t staying = 0;
  for (const Entry& old : entries_) staying += stays(old) ? old.bytes : 0;
  if (staying + entry.bytes > max_bytes_) return;
  auto next = entries_.begin();
  while (bytes_ + entry.bytes > max_bytes_) {
    const auto victim = next++;
    if (stays(*victim)) continue;
    const auto [begin, end] = by_hash_.equal_range(victim->hash);
    by_hash_.erase(std::find_if(begin, end, [&](const auto& h) { return h.second == victim; }));
    bytes_ -= victim->bytes;
    dropped.splice(dropped.end(), entries_, victim);
  }
  bytes_ += entry.bytes;
  const uint64_t hash = entry.hash;
  entries_.push_back(std::move(entry));
  by_hash_.emplace(hash, std::prev(entries_.end()));
}

void PrefixCache::AddStats(SessionStats& stats) const {
  const MutexLock lock(&mutex_);
  stats.prefixes = static_cast<int64_t>(entries_.size());
  stats.prefix_hits = hits_;
  stats.prefix_misses = misses_;
  stats.stored_prefixes.hits = stored_hits_;
}

}  // namespace tvq
