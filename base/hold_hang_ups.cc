#include "base/hold_hang_ups.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>

namespace tvq {
namespace {

// The kernel's set of signals: a bit of each.
constexpr uint64_t kHangUp = uint64_t{1} << (SIGHUP - 1);

// By the kernel's own name: neither the C library nor a sanitizer need be ready.
__attribute__((no_sanitize("address", "undefined", "thread"))) void Change(int how) {
  syscall(SYS_rt_sigprocmask, how, &kHangUp, nullptr, sizeof(kHangUp));
}

__attribute__((no_sanitize("address", "undefined", "thread"))) void Hold(int, char**, char**) {
  Change(SIG_BLOCK);
}

// What the dynamic linker calls first of all.
[[gnu::section(".preinit_array"), gnu::used]] void (*const kHold)(int, char**, char**) = Hold;

}  // namespace

void ReleaseHangUps() { Change(SIG_UNBLOCK); }

}  // namespace tvq
