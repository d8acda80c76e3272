#include <list>
#include <map>
#include <unordered_map>

#include "server/engine/scheduling/owner_order.h"

namespace tvq {
namespace {

class RowOrder : public OwnerOrder {
 public:
  void Add(const Asking& request) override {
    Line& line = lines_[request.priority];
    Entry& entry = entries_[request.id];
    entry = {.id = request.id, .priority = request.priority, .line = &line};
    entry.in_all = all_.rest.insert(all_.rest.end(), &entry);
    entry.in_line = line.rest.insert(line.rest.end(), &entry);
  }

  void Remove(uint64_t id) override {
    const auto it = entries_.find(id);
    const Entry& entry = it->second;
    Line& line = *entry.line;
    (entry.rests ? all_.rest : all_.ready).erase(entry.in_all);
    (entry.rests ? line.rest : line.ready).erase(entry.in_line);
    if (line.ready.empty() && line.rest.empty()) lines_.erase(entry.priority);
    entries_.erase(it);
  }

  bool empty() const override { return entries_.empty(); }

  void BeginStep() override {
    for (Entry* const entry : all_.rest) {
      entry->rests = false;
      entry->line->ready.splice(entry->line->ready.end(), entry->line->rest);
    }
    all_.ready.splice(all_.ready.end(), all_.rest);
  }

  std::optional<uint64_t> Next() const override {
    const Entry* const first = First();
    return first == nullptr ? std::nullopt : std::optional(first->id);
  }

  void Take(int64_t /*cost*/, Then then) override {
    Entry& entry = *First();
    by_priority_ = !by_priority_;
    entry.rests = then == Then::kRest;
    all_.PutLast(entry.in_all, entry.rests);
    entry.line->PutLast(entry.in_line, entry.rests);
  }

 private:
  struct Entry;
  using Entries = std::list<Entry*>;

  // In the order of their last turns.
  struct Line {
    Entries ready;
    Entries rest;  // until the next step; after those in `ready`

    // Of one that is ready.
    void PutLast(Entries::iterator at, bool rests) {
      Entries& target = rests ? rest : ready;
      target.splice(target.end(), ready, at);
    }
  };

  struct Entry {
    uint64_t id = 0;
    int32_t priority = 0;
    Line* line = nullptr;  // of its priority
    bool rests = true;
    Entries::iterator in_all;
    Entries::iterator in_line;
  };

  Entry* First() const {
    if (all_.ready.empty()) return nullptr;
    if (!by_priority_) return all_.ready.front();
    auto line = lines_.begin();
    while (line->second.ready.empty()) ++line;
    return line->second.ready.front();
  }

  std::unordered_map<uint64_t, Entry> entries_;
  Line all_;
  std::map<int32_t, Line> lines_;  // by priority
  bool by_priority_ = true;        // the next turn goes by it
};

}  // namespace

std::unique_ptr<OwnerOrder> NewRowOrder() { return std::make_unique<RowOrder>(); }

}  // namespace tvq
