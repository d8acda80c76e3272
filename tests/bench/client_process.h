// The client of `tvq-bench serve`, in a process of its own, as clients are: in one process gRPC's
// threads would do each other's work.
#ifndef TVQ_TESTS_BENCH_CLIENT_PROCESS_H_
#define TVQ_TESTS_BENCH_CLIENT_PROCESS_H_

#include <sys/types.h>

#include <cstdio>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "tests/bench/asks.h"

namespace tvq::bench {

enum class ClientKind {
  kQueue,    // one thread reads all streams, from a completion queue: what costs least
  kThreads,  // a thread for each stream, which gRPC wakes for each message
};

class ClientProcess {
 public:
  // This program again, as a client of the server at `address`.
  static absl::StatusOr<std::unique_ptr<ClientProcess>> Start(const std::string& address);
  // Ends the process.
  ~ClientProcess();
  ClientProcess(const ClientProcess&) = delete;
  ClientProcess& operator=(const ClientProcess&) = delete;

  // INTERNAL with the error of a request that failed.
  absl::StatusOr<Together> Do(ClientKind kind, const Ask& ask);
  // The processor time that it took for that, in milliseconds.
  double processor_ms() const { return processor_ms_; }

 private:
  ClientProcess(pid_t process, FILE* in, FILE* out) : process_(process), in_(in), out_(out) {}

  const pid_t process_;
  FILE* const in_;
  FILE* const out_;
  double processor_ms_ = 0;
};

// How the program is told to be one: this word, the address, the number of a socket.
inline constexpr char kClientWord[] = "client-of-serve";

// What such a process does: answers what comes over the socket until that is closed.
void RunClient(const std::string& address, int socket);

}  // namespace tvq::bench

#endif  // TVQ_TESTS_BENCH_CLIENT_PROCESS_H_
