// Whose turn it is among the requests of one owner. No threads, no clock.
#ifndef TVQ_SERVER_ENGINE_SCHEDULING_OWNER_ORDER_H_
#define TVQ_SERVER_ENGINE_SCHEDULING_OWNER_ORDER_H_

#include <cstdint>
#include <memory>
#include <optional>

namespace tvq {

// A request that asks for turns. Of two the older one has the lower id.
struct Asking {
  uint64_t id = 0;
  int32_t priority = 0;  // lower first
  int64_t left = 0;      // tokens of its prompt that are still to be fed
};

// What a request does after its turn.
enum class Then {
  kAgain,  // it may have another turn in this step
  kRest,   // its next turn is in the next step
};

// Every other turn of an owner goes by priority, the lower value first; the turns between have no
// regard to it. So a priority puts off an owner's other requests by twice their time at most, or
// three times in prompts, and starves none. Not thread-safe.
class OwnerOrder {
 public:
  virtual ~OwnerOrder() = default;

  // A request that comes during a step has turns from the next one on.
  virtual void Add(const Asking& request) = 0;
  // Of one that was added.
  virtual void Remove(uint64_t id) = 0;
  virtual bool empty() const = 0;

  // Every request may have turns again.
  virtual void BeginStep() = 0;
  // Whose turn it is; nothing when none may have another in this step. The same until Take or
  // BeginStep is called, or the request is removed.
  virtual std::optional<uint64_t> Next() const = 0;
  // The request that Next returns has its turn; there must be one. It has `cost` less left then.
  virtual void Take(int64_t cost, Then then) = 0;
};

// For rows: the request that has waited longest for a turn goes first. Only Add allocates; the
// others take time by the turns that were given, not by the requests that ask.
std::unique_ptr<OwnerOrder> NewRowOrder();

// For prompts: the one with the least left goes first, the older one of equals, and in every fourth
// turn the oldest. So a short prompt does not wait for long ones, and a long one does not wait for
// ever (Schrage and Miller, "The Queue M/G/1 with the Shortest Remaining Processing Time
// Discipline", 1966). Takes time that is logarithmic in the number of requests.
std::unique_ptr<OwnerOrder> NewPromptOrder();

}  // namespace tvq

#endif  // TVQ_SERVER_ENGINE_SCHEDULING_OWNER_ORDER_H_
