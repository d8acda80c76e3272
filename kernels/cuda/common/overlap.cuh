// Kernels that begin while the one before them ends (CUDA's programmatic dependent launch; compute
// capability 9.0 and later, elsewhere nothing of this does anything).
//
// A step of decode is hundreds of kernels of a few microseconds each. Launched in the ordinary way
// each begins when the last block of the one before has ended and its memory is in order, and
// starts by waiting for weights. A kernel launched with LaunchShape::overlaps may begin as soon as
// every block of the one before runs and has called LetSuccessorBegin: its blocks take the room
// that becomes free, have their first weights under way, and wait.
//
// The rule: every thread of such a kernel calls WaitForPredecessor, all threads of a block outside
// of any branch on what they hold, before it touches memory that some kernel writes, before it
// writes any but shared memory, and before it ends. Ahead of that it may compute and read what no
// kernel ever writes: weights, codebooks, position keys.
//
// Why that is enough: the wait ends when the kernel before has completed and what it wrote can be
// seen (PTX, griddepcontrol.wait). That kernel has completed when all its threads have ended, each
// of which had waited for the kernel before it, and so on: behind the wait everything is done that
// was launched earlier on the stream, as if kernels ran one by one. A copy, a fill or a graph ahead
// of the chain is waited for in the ordinary way, and so is a chain by those. An ordinary kernel
// ahead of it is not: the first of the chain may begin when that one's threads have ended but what
// they wrote cannot be seen yet, and needs its wait as any other. No kernel starves: it begins
// when all blocks before it have their places, so that blocks which wait hold only places that
// those do not need.
//
// The stand-in of the tests fails where a thread ends without the wait, and can be told to run what
// lies ahead of it with all that kernels have written hidden
// (tests/kernels/cuda/stand_in/overlap.h).
#ifndef TVQ_KERNELS_CUDA_COMMON_OVERLAP_CUH_
#define TVQ_KERNELS_CUDA_COMMON_OVERLAP_CUH_

#include "kernels/cuda/platform.h"

namespace tvq::TVQ_CUDA {

// For the compiler and the assembler, too, no ordinary load or store moves across it. Those of the
// non-coherent path (ld.global.nc: __ldg, and what const __restrict__ allows) do, either way, since
// they promise that what they read is not written: ahead of the wait they would read what a kernel
// is still writing, and weights that were to be under way would be asked for behind it.
__device__ inline void WaitForPredecessor() {
#if defined(TVQ_CUDA_STAND_IN)
  WaitForGrid();
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// As early as can be: the successor waits for all of this kernel anyway.
__device__ inline void LetSuccessorBegin() {
#if !defined(TVQ_CUDA_STAND_IN) && defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
#endif
}

// Brings what lies at `address` on its way to the second cache. No read in the sense of the rule,
// as nothing comes to the thread: memory that kernels write may be asked for ahead of the wait.
__device__ inline void AskFor([[maybe_unused]] const void* address) {
#if !defined(TVQ_CUDA_STAND_IN) && defined(__CUDA_ARCH__)
  asm volatile("prefetch.L2 [%0];" ::"l"(address));
#endif
}

}  // namespace tvq::TVQ_CUDA

#endif  // TVQ_KERNELS_CUDA_COMMON_OVERLAP_CUH_
