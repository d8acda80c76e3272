// Whose task begins next, where several threads work for many. No threads.
#ifndef TVQ_BASE_TASK_TURNS_H_
#define TVQ_BASE_TASK_TURNS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

namespace tvq {

// Owners take turns: next is a task of the owner that has the fewest running. Among several such
// owners, self-clocked fair queueing decides (Golestani, "A Self-Clocked Fair Queueing Scheme for
// Broadband Applications", 1994). So before the only task of an owner begins, each other owner
// begins tasks that together cost as much as that one, and one more, however many of its tasks
// wait.
//
// Tasks that are short may have threads of their own. Every operation takes logarithmic time. Not
// thread-safe.
template <typename Owner, typename Task>
class TaskTurns {
 public:
  enum class Order {
    // All tasks cost the same, and those of an owner begin as they came.
    kArrival,
    // A task costs its bytes. It overtakes larger tasks of its owner that wait, unless the bytes
    // begun since those came make up the difference: large ones wait, but not for ever.
    kShortFirst,
  };

  // `most_of_owner`: tasks that run of one owner; 0: any number.
  explicit TaskTurns(Order order, int most_of_owner = 0)
      : order_(order), most_of_owner_(most_of_owner) {}
  // Owners are pointed at.
  TaskTurns(const TaskTurns&) = delete;
  TaskTurns& operator=(const TaskTurns&) = delete;

  void Add(const Owner& owner, size_t bytes, bool is_short, Task task) {
    const auto entry = lines_.try_emplace(owner).first;
    Line& line = entry->second;
    // If nothing of it waited, it begins at the present time, however long its last task runs.
    if (line.idle()) line.time = time_;
    TakeOut(line);
    const uint64_t due = order_ == Order::kArrival ? 0 : line.begun_bytes + bytes;
    std::vector<Waiting>& tasks = is_short ? line.short_tasks : line.other_tasks;
    tasks.push_back({due, ++number_, bytes, std::move(task)});
    std::push_heap(tasks.begin(), tasks.end());
    PutBack(*entry);
  }

  // Of all tasks that wait, or with `short_only` of the short ones.
  bool empty(bool short_only) const { return TurnsOf(short_only).empty(); }
  bool MayBegin(bool short_only) const {
    const std::set<Turn>& turns = TurnsOf(short_only);
    return !turns.empty() && (most_of_owner_ == 0 || turns.begin()->running < most_of_owner_);
  }

  // If one may begin. The pointer to its owner is for End.
  std::pair<const Owner*, Task> Begin(bool short_only) {
    const Turn turn = *TurnsOf(short_only).begin();
    Line& line = turn.entry->second;
    TakeOut(line);
    std::vector<Waiting>& tasks = line.Next(short_only);
    std::pop_heap(tasks.begin(), tasks.end());
    Waiting next = std::move(tasks.back());
    tasks.pop_back();
    line.begun_bytes += next.bytes;
    line.time = turn.end;
    time_ = std::max(time_, turn.end);
    ++line.running;
    PutBack(*turn.entry);
    return {&turn.entry->first, std::move(next.task)};
  }
  // A task of this owner that was begun has ended.
  void End(const Owner* owner) {
    const auto it = lines_.find(*owner);
    Line& line = it->second;
    TakeOut(line);
    --line.running;
    PutBack(*it);
    if (line.running == 0 && line.idle()) lines_.erase(it);
  }

 private:
  struct Waiting {
    uint64_t due;     // the owner's begun_bytes by which it is to begin; 0 in the order of arrival
    uint64_t number;  // in the order of arrival
    size_t bytes;
    Task task;
    // Of a heap whose top begins first.
    bool operator<(const Waiting& other) const {
      return std::pair(due, number) > std::pair(other.due, other.number);
    }
  };
  struct Line;
  using Entry = typename std::map<Owner, Line>::value_type;
  struct Turn {
    int running;
    uint64_t end;     // of its next task, in virtual time
    uint64_t number;  // of that task
    Entry* entry;
    auto operator<=>(const Turn&) const = default;
  };
  struct Line {
    // Heaps.
    std::vector<Waiting> short_tasks;
    std::vector<Waiting> other_tasks;
    int running = 0;
    uint64_t time = 0;  // where its last task ends, or when it came
    uint64_t begun_bytes = 0;
    // As the sets have them, if they do.
    Turn turn{}, short_turn{};

    bool idle() const { return short_tasks.empty() && other_tasks.empty(); }
    // The heap of the task that begins next; not empty if there is one.
    std::vector<Waiting>& Next(bool short_only) {
      if (short_only || other_tasks.empty()) return short_tasks;
      if (short_tasks.empty()) return other_tasks;
      return other_tasks.front() < short_tasks.front() ? short_tasks : other_tasks;
    }
  };

  const std::set<Turn>& TurnsOf(bool short_only) const {
    return short_only ? short_turns_ : turns_;
  }
  Turn TurnOf(Entry& entry, bool short_only) {
    const Waiting& next = entry.second.Next(short_only).front();
    const uint64_t cost = order_ == Order::kArrival ? 1 : std::max<uint64_t>(1, next.bytes);
    return {entry.second.running, entry.second.time + cost, next.number, &entry};
  }
  // Out of the order, before anything of the owner changes, and back.
  void TakeOut(Line& line) {
    turns_.erase(line.turn);
    short_turns_.erase(line.short_turn);
  }
  void PutBack(Entry& entry) {
    Line& line = entry.second;
    if (!line.idle()) turns_.insert(line.turn = TurnOf(entry, false));
    if (!line.short_tasks.empty()) short_turns_.insert(line.short_turn = TurnOf(entry, true));
  }

  const Order order_;
  const int most_of_owner_;
  std::map<Owner, Line> lines_;  // of owners whose tasks wait or run
  std::set<Turn> turns_;         // of those whose tasks wait
  std::set<Turn> short_turns_;   // of those whose short tasks wait
  uint64_t time_ = 0;            // virtual: where the last task ends that has begun
  uint64_t number_ = 0;          // of the last task
};

}  // namespace tvq

#endif  // TVQ_BASE_TASK_TURNS_H_
