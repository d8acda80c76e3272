#include "kernels/cuda/cuda_device.h"

#include "absl/strings/str_cat.h"

namespace tvq::TVQ_CUDA {

namespace {

absl::Status NoMemory(size_t bytes, cudaError_t error) {
  size_t free = 0, total = 0;
  cudaMemGetInfo(&free, &total);
  return ToStatus(error, absl::StrCat("cannot allocate ", bytes, " bytes on the GPU, where ", free,
                                      " of ", total, " are free")
                             .c_str());
}

// A freed block can be used again at once: what gets it next writes it on the stream, behind what
// still reads it.
BlockSource DeviceMemory() {
  return {.map = [](size_t size) -> void* {
            void* data = nullptr;
            return cudaMalloc(&data, size) == cudaSuccess ? data : nullptr;
          },
          .unmap = [](void* data, size_t) { cudaFree(data); },
          .rest = {},
          .wake = {}};
}

class GraphRecording : public Recording {
 public:
  GraphRecording(cudaGraphExec_t graph, cudaStream_t stream) : graph_(graph), stream_(stream) {}
  GraphRecording(const GraphRecording&) = delete;
  GraphRecording& operator=(const GraphRecording&) = delete;
  ~GraphRecording() override { cudaGraphExecDestroy(graph_); }

  absl::Status Run() override {
    return ToStatus(cudaGraphLaunch(graph_, stream_), "a recorded step");
  }

 private:
  const cudaGraphExec_t graph_;
  const cudaStream_t stream_;
};

class EventTime : public DeviceTime {
 public:
  EventTime() = default;
  EventTime(const EventTime&) = delete;
  EventTime& operator=(const EventTime&) = delete;
  ~EventTime() override {
    if (event_ != nullptr) cudaEventDestroy(event_);
  }
  absl::Status Record(cudaStream_t stream) {
    const absl::Status status = ToStatus(cudaEventCreateWithFlags(&event_, 0), "an event");
    return status.ok() ? ToStatus(cudaEventRecord(event_, stream), "an event") : status;
  }
  absl::StatusOr<double> SecondsSince(const DeviceTime& earlier) const override {
    const auto& from = static_cast<const EventTime&>(earlier);
    float milliseconds = 0;
    absl::Status status = ToStatus(cudaEventSynchronize(event_), "an event");
    if (status.ok()) {
      status = ToStatus(cudaEventElapsedTime(&milliseconds, from.event_, event_), "an event");
    }
    if (!status.ok()) return status;
    return milliseconds * 1e-3;
  }

 private:
  cudaEvent_t event_ = nullptr;
};

}  // namespace

absl::StatusOr<std::unique_ptr<CudaDevice>> CudaDevice::Create(cudaStream_t stream,
                                                               std::string_view gpu,
                                                               const CudaOptions& options,
                                                               bool overlaps) {
  std::string description =
      absl::StrCat("cuda (", std::string(gpu), options.tf32 ? ", tf32" : "",
                   options.serial ? ", serial" : (overlaps ? ", overlapping" : ""), ")");
  std::unique_ptr<CudaDevice> device(
      new CudaDevice(stream, std::move(description), overlaps && !options.serial));
  absl::Status status = device->lanes_.Create();
  if (status.ok()) status = device->ordered_.Create();
  if (!status.ok()) return status;
  absl::StatusOr<Buffer> workspace = device->Allocate(Gemm::kWorkspaceBytes);
  if (!workspace.ok()) return workspace.status();
  absl::StatusOr<Gemm> gemm = Gemm::Create(stream, *std::move(workspace), options.tf32);
  if (!gemm.ok()) return gemm.status();
  device->gemm_ = *std::move(gemm);
  return device;
}

CudaDevice::CudaDevice(cudaStream_t stream, std::string description, bool overlaps)
    : Device(&CudaBackend()),
      stream_(stream),
      description_(std::move(description)),
      overlaps_(overlaps),
      lanes_(stream),
      ordered_(stream),
      reusable_(std::make_shared<BlockPool>(DeviceMemory())) {}

CudaDevice::~CudaDevice() {
  cudaStreamSynchronize(stream_);
  gemm_.reset();
  cudaStreamDestroy(stream_);
}

// An error of a kernel or of the hardware stays: from then on every call returns it.
absl::Status CudaDevice::Health() const {
  const cudaError_t error = cudaStreamQuery(stream_);
  if (error == cudaSuccess || error == cudaErrorNotReady) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("the device ", description_,
                                             " has failed: ", cudaGetErrorString(error),
                                             "; the server must be started again"));
}

absl::StatusOr<Buffer> CudaDevice::AllocateUnwritten(size_t bytes) {
  if (bytes == 0) return Buffer();
  void* data = nullptr;
  if (const cudaError_t error = cudaMalloc(&data, bytes); error != cudaSuccess) {
    return NoMemory(bytes, error);
  }
  return Buffer(data, bytes, [](void* memory) { cudaFree(memory); });
}

absl::StatusOr<Buffer> CudaDevice::Allocate(size_t bytes) {
  absl::StatusOr<Buffer> buffer = AllocateUnwritten(bytes);
  if (!buffer.ok() || bytes == 0) return buffer;
  absl::Status status = Zero(buffer->data(), bytes);
  if (status.ok()) status = Synchronize();
  if (!status.ok()) return status;
  return buffer;
}

absl::StatusOr<Device::Reusable> CudaDevice::AllocateReusable(size_t bytes) {
  if (bytes == 0) return Reusable();
  if (reserved_ != nullptr) {
    if (const std::optional<size_t> place = reserved_->places.Take(bytes)) {
      const auto give = [reserved = reserved_, place = *place, bytes](void*) {
        reserved->places.Give(place, bytes);
      };
      return Reusable{Buffer(reserved_->memory.as<std::byte>() + *place, bytes, give), false};
    }
  }
  void* data = reusable_->Take(bytes).data;
  if (data == nullptr) return NoMemory(bytes, cudaErrorMemoryAllocation);
  const auto give = [pool = reusable_, bytes](void* block) { pool->Give(block, bytes); };
  return Reusable{Buffer(data, bytes, give), false};
}

absl::Status CudaDevice::Reserve(size_t bytes) {
  if (reserved_ != nullptr) return absl::FailedPreconditionError("memory is reserved already");
  void* data = nullptr;
  if (const cudaError_t error = cudaMalloc(&data, bytes); error != cudaSuccess) {
    return NoMemory(bytes, error);
  }
  // Not zeroed: what gets a part of it zeroes that part.
  reserved_ =
      std::make_shared<Reserved>(Buffer(data, bytes, [](void* memory) { cudaFree(memory); }));
  return absl::OkStatus();
}

std::optional<int64_t> CudaDevice::FreeMemory() const {
  size_t free = 0, total = 0;
  if (cudaMemGetInfo(&free, &total) != cudaSuccess) return 0;
  return static_cast<int64_t>(free);
}

absl::Status CudaDevice::Zero(void* device, size_t bytes) {
  return ToStatus(cudaMemsetAsync(device, 0, bytes, stream_), "clear memory");
}

absl::Status CudaDevice::CopyToHost(void* host, const void* device, size_t bytes) {
  return bytes == 0 ? absl::OkStatus() : lanes_.ToHost(host, device, bytes);
}

absl::Status CudaDevice::CopyFromHost(void* device, const void* host, size_t bytes) {
  return bytes == 0 ? absl::OkStatus() : lanes_.FromHost(device, host, bytes);
}

absl::Status CudaDevice::CopyWithin(void* to, const void* from, size_t bytes) {
  if (bytes == 0) return absl::OkStatus();
  return ToStatus(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream_),
                  "copy on the GPU");
}

absl::Status CudaDevice::Send(void* device, const void* host, size_t bytes) {
  return ordered_.Send(device, host, bytes);
}

absl::Status CudaDevice::Receive(void* host, const void* device, size_t bytes) {
  return ordered_.Receive(host, device, bytes);
}

// The capture is thread-local: what other threads do with other devices and libraries does not end
// it.
absl::StatusOr<std::unique_ptr<Recording>> CudaDevice::Record(
    const std::function<absl::Status()>& work) {
  absl::Status status = ToStatus(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal),
                                 "begin a recording");
  if (!status.ok()) return status;
  recorded_ = true;
  status = work();
  cudaGraph_t graph = nullptr;
  status.Update(ToStatus(cudaStreamEndCapture(stream_, &graph), "end a recording"));
  cudaGraphExec_t run = nullptr;
  if (status.ok()) status = ToStatus(cudaGraphInstantiate(&run, graph, 0), "make a graph");
  if (graph != nullptr) cudaGraphDestroy(graph);
  if (!status.ok()) return status;
  auto recording = std::make_unique<GraphRecording>(run, stream_);
  status = ToStatus(cudaGraphUpload(run, stream_), "load a graph");
  if (!status.ok()) return status;
  return recording;
}

absl::Status CudaDevice::Synchronize() {
  return ToStatus(cudaStreamSynchronize(stream_), "the GPU's work");
}

absl::StatusOr<std::unique_ptr<DeviceTime>> CudaDevice::Now() {
  auto moment = std::make_unique<EventTime>();
  if (absl::Status status = moment->Record(stream_); !status.ok()) return status;
  return moment;
}

absl::Status CudaDevice::Grow(Buffer& memory, size_t bytes, bool zeroed) {
  if (memory.bytes() >= bytes) return absl::OkStatus();
  if (absl::Status status = Synchronize(); !status.ok()) return status;
  if (recorded_) outgrown_.push_back(std::move(memory));
  memory = Buffer();
  const size_t wanted = bytes + bytes / 2;
  absl::StatusOr<Buffer> grown = zeroed ? Allocate(wanted) : AllocateUnwritten(wanted);
  if (!grown.ok()) return grown.status();
  memory = *std::move(grown);
  return absl::OkStatus();
}

absl::StatusOr<void*> CudaDevice::ScratchBytes(size_t slot, size_t bytes) {
  if (slot >= scratch_.size()) scratch_.resize(slot + 1);
  Buffer& memory = scratch_[slot];
  absl::Status status = Grow(memory, bytes, false);
#if defined(TVQ_CUDA_STAND_IN)
  if (status.ok() && bytes > 0) {
    status = ToStatus(cudaMemsetAsync(memory.data(), 0xff, bytes, stream_), "spoil scratch");
  }
#endif
  if (!status.ok()) return status;
  return memory.data();
}

absl::StatusOr<uint32_t*> CudaDevice::Tickets(int64_t count) {
  const absl::Status status = Grow(tickets_, static_cast<size_t>(count) * sizeof(uint32_t), true);
  if (!status.ok()) return status;
  return tickets_.as<uint32_t>();
}

// Without permission the limit is 48 KiB, including what a kernel declares. So every kernel that
// takes shared memory at its launch is permitted to take the most there is, once.
cudaError_t CudaDevice::AllowShared(const void* kernel, int bytes) {
  if (bytes == 0 || may_share_.contains(kernel)) return cudaSuccess;
  cudaFuncAttributes attributes{};
  cudaError_t error = cudaFuncGetAttributes(&attributes, kernel);
  if (error != cudaSuccess) return error;
  const int most = kMostSharedBytes - static_cast<int>(attributes.sharedSizeBytes);
  error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, most);
  if (error == cudaSuccess) may_share_.insert(kernel);
  return error;
}

}  // namespace tvq::TVQ_CUDA
