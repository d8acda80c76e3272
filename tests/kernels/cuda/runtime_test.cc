// The runtime that stands in for CUDA's: it must be at least as strict.
#include "tests/kernels/cuda/stand_in/runtime.h"

#include <functional>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "tests/kernels/cuda/stand_in/cuda_runtime.h"
#include "tests/kernels/test_devices.h"

namespace tvq::cuda_stand_in {
namespace {

class CudaRuntimeTest : public testing::Test {
 protected:
  CudaRuntimeTest() {
    EXPECT_EQ(cudaMalloc(&memory_, 2 * sizeof(int)), cudaSuccess);
    EXPECT_EQ(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), cudaSuccess);
    EXPECT_EQ(cudaMemsetAsync(memory_, 0, 2 * sizeof(int), stream_), cudaSuccess);
  }
  ~CudaRuntimeTest() override {
    cudaStreamDestroy(stream_);
    cudaFree(memory_);
  }
  int* ints() const { return static_cast<int*>(memory_); }
  // Adds to the first element by a kernel.
  cudaError_t Add(int value) {
    return LaunchGrid("Add", {1}, {1}, 0, [at = ints(), value] { *at += value; }, stream_);
  }
  int Read() {
    int value = 0;
    cudaMemcpyAsync(&value, memory_, sizeof(int), cudaMemcpyDeviceToHost, stream_);
    cudaStreamSynchronize(stream_);
    return value;
  }

  void* memory_ = nullptr;
  cudaStream_t stream_ = nullptr;
};

TEST_F(CudaRuntimeTest, ACopyThatNobodyWaitsForHasNotHappened) {
  cudaEvent_t first = nullptr;
  ASSERT_EQ(cudaEventCreateWithFlags(&first, cudaEventDisableTiming), cudaSuccess);
  const int in[] = {5, 6};
  int out[] = {0, 0};
  cudaMemcpyAsync(memory_, in, sizeof(in), cudaMemcpyHostToDevice, stream_);
  cudaMemcpyAsync(&out[0], memory_, sizeof(int), cudaMemcpyDeviceToHost, stream_);
  cudaEventRecord(first, stream_);
  cudaMemcpyAsync(&out[1], ints() + 1, sizeof(int), cudaMemcpyDeviceToHost, stream_);
  EXPECT_EQ(out[0], 0);
  cudaEventSynchronize(first);
  EXPECT_EQ(out[0], 5);
  EXPECT_EQ(out[1], 0) << "it comes after the event";
  cudaStreamSynchronize(stream_);
  EXPECT_EQ(out[1], 6);
  cudaEventDestroy(first);
}

// Work that was queued before is done before; what is captured is done when the graph is launched,
// as often as it is.
TEST_F(CudaRuntimeTest, ACaptureWritesDownAndALaunchDoes) {
  ASSERT_EQ(Add(1), cudaSuccess);
  ASSERT_EQ(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), cudaSuccess);
  ASSERT_EQ(Add(10), cudaSuccess);
  ASSERT_EQ(cudaMemcpyAsync(ints() + 1, ints(), sizeof(int), cudaMemcpyDeviceToDevice, stream_),
            cudaSuccess);
  ASSERT_EQ(Add(100), cudaSuccess);
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t run = nullptr;
  ASSERT_EQ(cudaStreamEndCapture(stream_, &graph), cudaSuccess);
  ASSERT_EQ(cudaGraphInstantiate(&run, graph, 0), cudaSuccess);
  cudaGraphDestroy(graph);
  EXPECT_EQ(Read(), 1);
  EXPECT_EQ(cudaGraphLaunch(run, stream_), cudaSuccess);
  EXPECT_EQ(cudaGraphLaunch(run, stream_), cudaSuccess);
  EXPECT_EQ(Read(), 221);
  int second = 0;
  cudaMemcpyAsync(&second, ints() + 1, sizeof(int), cudaMemcpyDeviceToHost, stream_);
  cudaStreamSynchronize(stream_);
  EXPECT_EQ(second, 121);
  cudaGraphExecDestroy(run);
}

// Beyond 48 KiB a kernel has as much shared memory as it was given leave to.
TEST_F(CudaRuntimeTest, MuchSharedMemoryIsByLeave) {
  const int mine = 0, others = 0;
  const auto launch = [this](const int* function, size_t shared_bytes) {
    return LaunchGrid("Shared", {1}, {1}, shared_bytes, [] {}, stream_, false, function);
  };
  const auto allow = [](const int* function, int bytes) {
    return cudaFuncSetAttribute(function, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
  };
  const auto allowed = [](const int* function) {
    cudaFuncAttributes attributes;
    EXPECT_EQ(cudaFuncGetAttributes(&attributes, function), cudaSuccess);
    return attributes.maxDynamicSharedSizeBytes;
  };
  EXPECT_EQ(allowed(&mine), 48 << 10);
  EXPECT_EQ(launch(&mine, 48 << 10), cudaSuccess);
  EXPECT_EQ(launch(&mine, (48 << 10) + 1), cudaErrorInvalidValue);
  EXPECT_EQ(allow(&mine, (99 << 10) + 1), cudaErrorInvalidValue);
  EXPECT_EQ(allow(&mine, 60 << 10), cudaSuccess);
  EXPECT_EQ(allowed(&mine), 60 << 10);
  EXPECT_EQ(launch(&mine, 60 << 10), cudaSuccess);
  EXPECT_EQ(launch(&mine, (60 << 10) + 1), cudaErrorInvalidValue);
  EXPECT_EQ(launch(&others, 60 << 10), cudaErrorInvalidValue);
}

using CudaRuntimeDeathTest = CudaRuntimeTest;

TEST_F(CudaRuntimeDeathTest, AGraphWhoseLeaveWasTakenBack) {
  const int function = 0;
  const auto allow = [&](int bytes) {
    cudaFuncSetAttribute(&function, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
  };
  allow(60 << 10);
  ASSERT_EQ(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), cudaSuccess);
  EXPECT_EQ(
      LaunchGrid("Shared", {1}, {1}, 60 << 10, [] {}, stream_, false, &function), cudaSuccess);
  cudaGraph_t graph = nullptr;
  ASSERT_EQ(cudaStreamEndCapture(stream_, &graph), cudaSuccess);
  EXPECT_EQ(cudaGraphLaunch(graph, stream_), cudaSuccess);
  allow(59 << 10);
  EXPECT_DEATH(cudaGraphLaunch(graph, stream_), "kernel Shared: more shared memory than it may");
  cudaGraphDestroy(graph);
}

TEST_F(CudaRuntimeTest, WhatACaptureForbidsSpoilsIt) {
  cudaEvent_t event = nullptr;
  ASSERT_EQ(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), cudaSuccess);
  const std::function<cudaError_t()> forbidden[] = {
      [] {
        void* memory = nullptr;
        return cudaMalloc(&memory, 8);
      },
      [] {
        void* memory = nullptr;
        return cudaMallocHost(&memory, 8);
      },
      [this] { return cudaStreamSynchronize(stream_); },
      [this] { return cudaStreamQuery(stream_); },
      [event] { return cudaEventSynchronize(event); },
      [this] {
        const int in = 1;
        return cudaMemcpyAsync(memory_, &in, sizeof(in), cudaMemcpyHostToDevice, stream_);
      },
  };
  for (const auto& call : forbidden) {
    ASSERT_EQ(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), cudaSuccess);
    EXPECT_EQ(call(), cudaErrorStreamCaptureUnsupported);
    EXPECT_EQ(Add(1), cudaErrorStreamCaptureInvalidated);
    cudaGraph_t graph = nullptr;
    EXPECT_EQ(cudaStreamEndCapture(stream_, &graph), cudaErrorStreamCaptureInvalidated);
    EXPECT_EQ(graph, nullptr);
    EXPECT_EQ(Read(), 0);
  }
  cudaEventDestroy(event);
}

TEST_F(CudaRuntimeTest, OtherThreadsMayAllocateDuringACapture) {
  ASSERT_EQ(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), cudaSuccess);
  std::thread([] {
    void* memory = nullptr;
    EXPECT_EQ(cudaMalloc(&memory, 8), cudaSuccess);
    cudaFree(memory);
  }).join();
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaStreamEndCapture(stream_, &graph), cudaSuccess);
  cudaGraphDestroy(graph);
}

// On a GPU their work would be written down, and done again with every launch.
TEST_F(CudaRuntimeTest, OtherThreadsMayNotUseTheStreamOfACapture) {
  cudaEvent_t event = nullptr;
  ASSERT_EQ(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), cudaSuccess);
  const std::function<cudaError_t()> forbidden[] = {
      [this] { return Add(1); },
      [this] { return cudaMemsetAsync(memory_, 0, sizeof(int), stream_); },
      [this] { return cudaStreamSynchronize(stream_); },
      [this] { return cudaStreamQuery(stream_); },
      [this, event] { return cudaEventRecord(event, stream_); },
      [this] {
        const int in = 1;
        return cudaMemcpyAsync(memory_, &in, sizeof(in), cudaMemcpyHostToDevice, stream_);
      },
      [this] { return cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal); },
  };
  for (const auto& call : forbidden) {
    ASSERT_EQ(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), cudaSuccess);
    std::thread([&] { EXPECT_EQ(call(), cudaErrorStreamCaptureUnsupported); }).join();
    EXPECT_EQ(Add(1), cudaErrorStreamCaptureInvalidated);
    cudaGraph_t graph = nullptr;
    EXPECT_EQ(cudaStreamEndCapture(stream_, &graph), cudaErrorStreamCaptureInvalidated);
    EXPECT_EQ(Read(), 0);
  }
  cudaEventDestroy(event);
}

// A capture waits for nothing: a copy before it that nobody waits for has still not happened.
TEST_F(CudaRuntimeTest, ACaptureLeavesWhatWaits) {
  const int in = 5;
  int out = 0;
  cudaMemcpyAsync(memory_, &in, sizeof(in), cudaMemcpyHostToDevice, stream_);
  cudaMemcpyAsync(&out, memory_, sizeof(out), cudaMemcpyDeviceToHost, stream_);
  ASSERT_EQ(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), cudaSuccess);
  cudaGraph_t graph = nullptr;
  ASSERT_EQ(cudaStreamEndCapture(stream_, &graph), cudaSuccess);
  cudaGraphDestroy(graph);
  EXPECT_EQ(out, 0);
  cudaStreamSynchronize(stream_);
  EXPECT_EQ(out, 5);
}

TEST_F(CudaRuntimeTest, CopiesOnTheGpuWantItsMemory) {
  int host[2] = {};
  const auto within = [this](void* to, const void* from, size_t bytes) {
    return cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream_);
  };
  EXPECT_EQ(within(host, memory_, sizeof(int)), cudaErrorInvalidValue);
  EXPECT_EQ(within(memory_, host, sizeof(int)), cudaErrorInvalidValue);
  EXPECT_EQ(within(memory_, ints() + 1, 2 * sizeof(int)), cudaErrorInvalidValue);
  EXPECT_EQ(within(memory_, ints() + 1, sizeof(int)), cudaSuccess);
  EXPECT_EQ(cudaMemsetAsync(host, 0, sizeof(int), stream_), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpyAsync(host, host + 1, sizeof(int), cudaMemcpyDeviceToHost, stream_),
            cudaErrorInvalidValue);
}

// The device tells whoever records what it must not do, and goes on working.
TEST(CudaRecordTest, NamesWhatARecordingMustNotDo) {
  const std::unique_ptr<Device> device = MakeTestDevice("cuda_stand_in", "forwards");
  const Buffer memory = device->Allocate(64).value();
  std::byte host[64] = {};
  const std::function<absl::Status()> forbidden[] = {
      [&] { return device->Allocate(8).status(); },
      [&] { return device->Synchronize(); },
      [&] { return device->Send(memory.data(), host, 64); },
      [&] { return device->Receive(host, memory.data(), 64); },
      [&] { return device->CopyToHost(host, memory.data(), 64); },
      [&] { return device->CopyFromHost(memory.data(), host, 64); },
  };
  for (const auto& work : forbidden) {
    const auto recording = device->Record(work);
    EXPECT_EQ(recording.status().code(), absl::StatusCode::kInternal);
    EXPECT_NE(recording.status().message().find("stream is capturing"), absl::string_view::npos)
        << recording.status();
    EXPECT_TRUE(device->CopyFromHost(memory.data(), host, 64).ok());
  }
  // A work that swallows the error gets no recording either.
  EXPECT_FALSE(device
                   ->Record([&] {
                     device->Synchronize().IgnoreError();
                     return absl::OkStatus();
                   })
                   .ok());
  // Nor one beside which another thread uses the device.
  for (const auto& call : std::vector<std::function<absl::Status()>>{
           [&] { return device->Allocate(8).status(); },
           [&] { return device->CopyWithin(memory.data(), memory.as<std::byte>() + 32, 32); },
           [&] { return device->CopyToHost(host, memory.data(), 64); },
           [&] { return device->Health(); },
       }) {
    const auto recording = device->Record([&] {
      std::thread([&] { EXPECT_FALSE(call().ok()); }).join();
      return absl::OkStatus();
    });
    EXPECT_EQ(recording.status().code(), absl::StatusCode::kInternal);
  }
  const auto recording = device->Record([&] { return device->Zero(memory.data(), 64); });
  ASSERT_TRUE(recording.ok()) << recording.status();
  const std::vector<std::byte> ones(64, std::byte{1});
  ASSERT_TRUE(device->Send(memory.data(), ones.data(), 64).ok());
  ASSERT_TRUE((*recording)->Run().ok());
  ASSERT_TRUE(device->Receive(host, memory.data(), 64).ok());
  EXPECT_EQ(host[63], std::byte{0});
}

TEST(CudaRecordTest, TheCpuRecordsNothing) {
  const std::unique_ptr<Device> device = MakeTestDevice("cpu");
  EXPECT_FALSE(device->records());
  EXPECT_EQ(device->Record([] { return absl::OkStatus(); }).status().code(),
            absl::StatusCode::kUnimplemented);
}

}  // namespace
}  // namespace tvq::cuda_stand_in
