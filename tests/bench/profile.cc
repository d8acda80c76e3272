#include "tests/bench/profile.h"

#include <utility>

#include "kernels/ops/backend.h"

namespace tvq::bench {
namespace {

struct Call {
  std::unique_ptr<DeviceTime> begin, end;
};

// A table of functions holds plain pointers, so what they note lies here; devices are used by one
// thread at a time.
template <auto function>
std::vector<Call> calls;

struct Op {
  const char* name;
  std::vector<Call>* calls;
};
std::vector<Op> ops;  // that are timed, in the backend's order

// The device's own functions.
Backend own;

// Calls the device's own `function` and notes when it begins and ends there.
template <auto function, typename Args>
absl::Status Timed(Device& device, const Args& args) {
  auto begin = device.Now();
  if (!begin.ok()) return begin.status();
  if (absl::Status s = (own.*function)(device, args); !s.ok()) return s;
  auto end = device.Now();
  if (!end.ok()) return end.status();
  calls<function>.push_back({*std::move(begin), *std::move(end)});
  return absl::OkStatus();
}

// What the device lacks stays missing.
Backend TimedBackend(Backend b) {
#define TVQ_TIME(entry, Name, ...)                    \
  if (b.entry != nullptr) {                           \
    b.entry = Timed<&Backend::entry, Name##Args>;     \
    ops.push_back({#entry, &calls<&Backend::entry>}); \
  }
  TVQ_OPS(TVQ_TIME, )
#undef TVQ_TIME
  return b;
}

}  // namespace

void TimeEveryOp(Device& device) {
  struct Access : Device {
    static const Backend*& BackendOf(Device& device) { return device.*(&Access::backend_); }
  };
  static const Backend timed = TimedBackend(device.backend());
  if (&device.backend() == &timed) return;  // its ops would call themselves
  own = device.backend();
  Access::BackendOf(device) = &timed;
}

absl::StatusOr<std::vector<OpTime>> TakeOpTimes() {
  std::vector<OpTime> times;
  for (const Op& op : ops) {
    OpTime time{op.name};
    for (const Call& call : std::exchange(*op.calls, {})) {
      const absl::StatusOr<double> seconds = call.end->SecondsSince(*call.begin);
      if (!seconds.ok()) return seconds.status();
      time.seconds += *seconds;
      ++time.calls;
    }
    if (time.calls > 0) times.push_back(std::move(time));
  }
  return times;
}

}  // namespace tvq::bench
