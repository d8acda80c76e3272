#include "server/sessions/placement/prefix_cache.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace tvq {

// Takes the states of one request's prompt.
class PrefixCache::Sink : public PrefixSink {
 public:
  Sink(std::shared_ptr<PrefixCache> cache, std::string owner, size_t model, int64_t vocab_size,
       std::vector<int32_t> tokens)
      : cache_(std::move(cache)),
        owner_(std::move(owner)),
        model_(model),
        vocab_size_(vocab_size),
        tokens_(std::move(tokens)) {}

  void OnPrefix(int64_t prompt_tokens, HeldState copy) override {
    Entry entry{.owner = owner_, .model = model_};
    entry.tokens.assign(tokens_.begin(), tokens_.begin() + prompt_tokens);
    // Shared, because a std::function has to be copyable.
    auto held = std::make_shared<HeldState>(std::move(copy));
    auto keep = [cache = cache_, entry = std::move(entry), held, vocab = vocab_size_]() mutable {
      // Nothing is sampled here, but an image has logits.
      entry.checkpoint = cache->tiers_->Add(
          entry.model,
          {.held = std::move(*held), .logits = std::vector<float>(static_cast<size_t>(vocab))});
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
};

void PrefixCache::Use(Request& request, size_t index, const Model& model) {
  const ModelInfo& info = model.info();
  const int64_t chunk = info.config.prefill_chunk;
  const std::span<const int32_t> prompt = request.prompt;
  const auto own = PrefixHashes(request.owner, index, chunk, prompt);
  if (own.empty()) return;
  const auto shared = request.owner.empty() ? own : PrefixHashes("", index, chunk, prompt);
  const bool scores =
      request.purpose == Purpose::kScore || request.sampling.prompt_logprobs.has_value();
  const auto head = [&](size_t chunks) {
    return prompt.first(chunks * static_cast<size_t>(chunk));
  };
  std::vector<size_t> marks;
  std::shared_ptr<Checkpoint> found;
  size_t cached = 0;
  {
    const MutexLock lock(&mutex_);
    const size_t common = recent_.Shared(own);
    // A token of the prompt has to be left, to have logits after it. Scores need all of them.
    size_t most = scores ? 0 : own.size();
    if (most > 0 && head(most).size() == prompt.size()) --most;
    for (size_t chunks = most; chunks > 0 && found == nullptr; --chunks) {
      auto entry = Find(request.owner, index, own[chunks - 1], head(chunks));
      if (entry == entries_.end()) entry = Find("", index, shared[chunks - 1], head(chunks));
      if (entry == entries_.end()) continue;
      found = entry->checkpoint;
      cached = chunks;
    }
    if (!scores) ++(found != nullptr ? hits_ : misses_);
    for (const size_t chunks : {common, own.size()}) {
      if (chunks <= cached || (!marks.empty() && chunks <= marks.back())) continue;
      if (model.StateBytes(static_cast<int64_t>(chunks) * chunk) > max_bytes_) continue;
      if (Find(request.owner, index, own[chunks - 1], head(chunks)) == entries_.end()) {
        marks.push_back(chunks);
      }
    }
  }
  if (found != nullptr) {
    const auto tokens = static_cast<int64_t>(head(cached).size());
    request.start = tiers_->Start(found, {.position = tokens});
    request.start->prompt_tokens = tokens;
  }
  if (marks.empty()) return;
  const auto longest = head(marks.back());
  for (const size_t chunks : marks) {
    request.prefix_marks.push_back(static_cast<int64_t>(chunks) * chunk);
  }
  request.prefixes =
      std::make_shared<Sink>(shared_from_this(), request.owner, index, info.config.vocab_size,
                             std::vector<int32_t>(longest.begin(), longest.end()));
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
}

}  // namespace tvq
