// Streams, events and graphs of the runtime that runs on the CPU (runtime.h).
#ifndef TVQ_TESTS_KERNELS_CUDA_STAND_IN_STREAM_H_
#define TVQ_TESTS_KERNELS_CUDA_STAND_IN_STREAM_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "tests/kernels/cuda/stand_in/runtime.h"

namespace tvq::cuda_stand_in {

using Work = std::function<void()>;

// A place in a stream.
struct Event {
  Stream* stream = nullptr;
  int64_t count = 0;
};

// Work that a captured stream wrote down.
struct Graph {
  std::vector<Work> work;
};

// Work that waits, in its order. Any thread, but while it is captured only the thread that began
// that: on a GPU the work of others would land in the graph, so here it is an error and spoils the
// capture.
class Stream {
 public:
  // What the GPU does by itself, as kernels: carried out at once, behind all that waits, or written
  // down.
  cudaError_t Do(Work work);
  // What may happen any time until somebody waits for it; an error in a capture.
  cudaError_t Queue(Work work);
  cudaError_t Record(Event* event);
  // Until `count` pieces of work are done: no wait of a captured stream's owner.
  void Run(int64_t count);
  // A wait for all there is, and whether there is anything; errors in a capture.
  cudaError_t Synchronize();
  cudaError_t Query();

  cudaError_t BeginCapture();
  // What was done since then; an error when the capture was spoilt.
  cudaError_t EndCapture(Graph** graph);
  // The capture, if there is one, ends with an error.
  void Spoil();

 private:
  // These need mutex_.
  int64_t Last() const { return done_ + static_cast<int64_t>(waiting_.size()); }
  void RunLocked(int64_t count);
  // Of what no capture takes, whoever asks for it.
  cudaError_t ForbidWhileCaptured();

  std::mutex mutex_;
  std::deque<Work> waiting_;
  int64_t done_ = 0;
  std::unique_ptr<Graph> capture_;  // null unless captured
  std::thread::id capturing_;       // the thread
  bool spoilt_ = false;
};

// Of what is not allowed while this thread captures a stream, and does nothing but spoil that:
// cudaSuccess where it captures none.
cudaError_t ForbidInCapture();

}  // namespace tvq::cuda_stand_in

#endif  // TVQ_TESTS_KERNELS_CUDA_STAND_IN_STREAM_H_
