#ifndef TVQ_TESTS_BASE_WITHOUT_IPV6_H_
#define TVQ_TESTS_BASE_WITHOUT_IPV6_H_

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <functional>
#include <thread>

namespace tvq {

// Calls `run` on a thread to which the system refuses sockets of IPv6, as one without it does.
// False where no thread can be had that is so.
inline bool WithoutIpv6(const std::function<void()>& run) {
  bool refused = false;
  std::thread([&] {
    std::array<sock_filter, 6> filter = {{
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_socket, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args)),  // the family
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AF_INET6, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EAFNOSUPPORT),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    }};
    const sock_fprog program{.len = filter.size(), .filter = filter.data()};
    refused = prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
              prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
    if (refused) run();
  }).join();
  return refused;
}

}  // namespace tvq

#endif  // TVQ_TESTS_BASE_WITHOUT_IPV6_H_
