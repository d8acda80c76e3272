// A program that links this takes descriptors 0, 1 and 2 before its libraries run, where what
// started it has closed them: else a library's descriptor gets such a number, and is read and
// written as a standard file. To read from them, and to write to them, fails as before.
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace tvq {
namespace {

// By the kernel's own names: neither the C library nor a sanitizer need be ready.
__attribute__((no_sanitize("address", "undefined", "thread"))) void Hold(int, char**, char**) {
  for (int file = STDIN_FILENO; file <= STDERR_FILENO; ++file) {
    if (syscall(SYS_fcntl, file, F_GETFD) >= 0) continue;
    // The lowest number that is free. Opened for the direction that is not used.
    syscall(SYS_openat, AT_FDCWD, "/dev/null", file == STDIN_FILENO ? O_WRONLY : O_RDONLY);
  }
}

// What the dynamic linker calls first of all.
[[gnu::section(".preinit_array"), gnu::used]] void (*const kHold)(int, char**, char**) = Hold;

}  // namespace
}  // namespace tvq
