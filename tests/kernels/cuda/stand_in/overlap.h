// Whether kernels that may begin while the one before them ends keep the rule for it
// (kernels/cuda/common/overlap.cuh).
#ifndef TVQ_TESTS_KERNELS_CUDA_STAND_IN_OVERLAP_H_
#define TVQ_TESTS_KERNELS_CUDA_STAND_IN_OVERLAP_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace tvq::cuda_stand_in {

// Off at first. While it is on, what such a kernel does ahead of its wait is done with NaN in place
// of all that any kernel has written: what it reads too early shows in its results. Before, that
// part is carried out alone, for all blocks, and ends the process, naming the kernel, if it writes
// anything. Every kernel then costs several copies of all device memory. For the whole process.
void SetOverlapCheck(bool on);
bool OverlapCheck();

// One run of a kernel while the check is on; the caller has access to device memory.
class OverlapWatch {
 public:
  OverlapWatch();
  // Takes away, and gives back, what kernels have written so far.
  void Hide();
  void Show();
  // Shows, and tells whether memory is as it was when the watch began.
  bool ShowUnchanged();
  // What has changed since it began was written by this kernel.
  void NoteWritten();

 private:
  std::vector<std::span<std::byte>> hidden_;   // runs of bytes that kernels have written
  std::vector<std::byte> behind_;              // what is there, one run after the other
  std::vector<std::vector<std::byte>> image_;  // of all blocks, as they were
};

}  // namespace tvq::cuda_stand_in

#endif  // TVQ_TESTS_KERNELS_CUDA_STAND_IN_OVERLAP_H_
