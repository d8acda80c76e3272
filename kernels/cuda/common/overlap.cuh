// Kernels that begin while the one before them ends (CUDA's programmatic dependent launch; compute
// capability 9.0 and later, elsewhere nothing of this does anything).
//
// A step of decode is hundreds of kernels of a few microseconds each. Launched in the ordinary way,
// each begins when the last block of the one before has ended and its writes can be seen, and then
// first waits for weights. A kernel launched with LaunchShape::overlaps may begin as soon as every
// block of the one before runs and has called LetSuccessorBegin: its blocks take the room that
// becomes free, start to load their first weights, and wait.
//
// The rule: every thread of such a kernel calls WaitForPredecessor before it touches memory that
// some kernel writes, before it writes any but shared memory, and before it ends. All threads of a
// block call it, outside of any branch on their data. Before the call a thread may compute, and
// read what no kernel ever writes: weights, codebooks, position keys.
//
// Why that is enough: the wait ends when the kernel before has completed and what it wrote can be
// seen (PTX, griddepcontrol.wait). That kernel has completed when all its threads have ended, each
// of which had waited for the kernel before it, and so on. So after the wait everything is done
// that was launched earlier on the stream, as if kernels ran one by one. A chain of such kernels
// waits in the ordinary way for a copy, a fill or a graph before it, and these wait for a chain
// before them. For an ordinary kernel before it this is not so: the first kernel of the chain may
// begin when the threads of that kernel have ended but what they wrote cannot be seen yet, so it
// needs its wait like any other. No kernel starves: it begins when all blocks before it have their
// places, so blocks that wait hold only places that those blocks do not need.
//
// The stand-in of the tests fails where a thread ends without the wait, and can be told to run what
// lies ahead of it with all that kernels have written hidden
// (tests/kernels/cuda/stand_in/overlap.h).
#ifndef TVQ_KERNELS_CUDA_COMMON_OVERLAP_CUH_
#define TVQ_KERNELS_CUDA_COMMON_OVERLAP_CUH_

#include "kernels/cuda/platform.h"

namespace tvq::TVQ_CUDA {

// The compiler and the assembler, too, move no ordinary load or store across it. They do move loads
// of the non-coherent path (ld.global.nc: __ldg, and what const __restrict__ allows), in both
// directions, since these promise that nothing writes what they read. Moved ahead of the wait, such
// a load would read what a kernel is still writing; moved behind it, weights would be loaded too
// late.
__device__ inline void WaitForPredecessor() {
#if defined(TVQ_CUDA_STAND_IN)
  WaitForGrid();
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// Called as early as possible: the successor waits for all of this kernel anyway.
__device__ inline void LetSuccessorBegin() {
#if !defined(TVQ_CUDA_STAND_IN) && defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
#endif
}

// Prefetches what lies at `address` into the L2 cache. This is no read in the sense of the rule, as
// nothing comes to the thread: memory that kernels write may be prefetched ahead of the wait.
__device__ inline void AskFor([[maybe_unused]] const void* address) {
#if !defined(TVQ_CUDA_STAND_IN) && defined(__CUDA_ARCH__)
  asm volatile("prefetch.L2 [%0];" ::"l"(address));
#endif
}

}  // namespace tvq::TVQ_CUDA

#endif  // TVQ_KERNELS_CUDA_COMMON_OVERLAP_CUH_
