// Open files, sockets among them, of which a process may have so many.
#ifndef TVQ_BASE_DESCRIPTORS_H_
#define TVQ_BASE_DESCRIPTORS_H_

#include <unistd.h>

#include <utility>

namespace tvq {

// Owns a descriptor; -1 is none.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() { Reset(); }
  Descriptor(Descriptor&& other) noexcept : fd_(other.Release()) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    Reset();
    fd_ = other.Release();
    return *this;
  }

  int get() const { return fd_; }
  bool ok() const { return fd_ >= 0; }
  int Release() { return std::exchange(fd_, -1); }

 private:
  void Reset() {
    if (fd_ >= 0) close(fd_);
  }

  int fd_ = -1;
};

// Raises this process's limit of open descriptors as far as it may go without rights. Returns it.
int RaiseDescriptorLimit();

}  // namespace tvq

#endif  // TVQ_BASE_DESCRIPTORS_H_
