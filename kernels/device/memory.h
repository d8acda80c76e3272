// Owning buffers of device memory.
#ifndef TVQ_KERNELS_DEVICE_MEMORY_H_
#define TVQ_KERNELS_DEVICE_MEMORY_H_

#include <cstddef>
#include <functional>
#include <utility>

namespace tvq {

// A move-only block of device memory, aligned to at least 64 bytes. Freed by the function its
// device gave it.
class Buffer {
 public:
  using Deleter = std::function<void(void*)>;

  Buffer() = default;
  Buffer(void* data, size_t bytes, Deleter deleter)
      : data_(data), bytes_(bytes), deleter_(std::move(deleter)) {}
  Buffer(Buffer&& other) noexcept { *this = std::move(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    std::swap(deleter_, other.deleter_);
    return *this;
  }
  ~Buffer() {
    if (data_ != nullptr) deleter_(data_);
  }

  void* data() const { return data_; }
  size_t bytes() const { return bytes_; }
  template <typename T>
  T* as() const {
    return static_cast<T*>(data_);
  }

 private:
  void* data_ = nullptr;
  size_t bytes_ = 0;
  Deleter deleter_;
};

}  // namespace tvq

#endif  // TVQ_KERNELS_DEVICE_MEMORY_H_
