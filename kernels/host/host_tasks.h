// Work of the host that can be shared by threads.
#ifndef TVQ_KERNELS_HOST_HOST_TASKS_H_
#define TVQ_KERNELS_HOST_HOST_TASKS_H_

#include <cstdint>
#include <functional>

namespace tvq {

// Calls task(0) .. task(n - 1), in any order and several at once; returns when all are done.
using HostTasks = std::function<void(int64_t n, const std::function<void(int64_t)>& task)>;

inline void OneByOne(int64_t n, const std::function<void(int64_t)>& task) {
  for (int64_t i = 0; i < n; ++i) task(i);
}

}  // namespace tvq

#endif  // TVQ_KERNELS_HOST_HOST_TASKS_H_
