#ifndef TVQ_SERVER_RPC_TRANSPORT_WAKEFUL_POLLERS_H_
#define TVQ_SERVER_RPC_TRANSPORT_WAKEFUL_POLLERS_H_

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/support/byte_buffer.h>

#include <memory>
#include <optional>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "base/ticker.h"

namespace tvq {

// Keeps one of gRPC's threads awake that serve calls with callbacks.
//
// gRPC 1.51 has two of them or more (src/cpp/common/completion_queue_cc.cc, nexting_threads). One
// that was given nothing for a second sleeps for 100 ms, deaf to what comes; after a quiet second
// all do so in step, and the next call waits for them. Here calls that fail at once, on a channel
// that leads nowhere, pass through their queue every quarter of a second: whichever thread had the
// last one stays awake for a second from then.
class WakefulPollers {
 public:
  WakefulPollers();
  ~WakefulPollers();
  WakefulPollers(const WakefulPollers&) = delete;

 private:
  void Call();

  grpc::GenericStub nowhere_;
  const grpc::ByteBuffer request_;
  grpc::ByteBuffer response_;
  absl::Mutex mutex_;
  bool called_ ABSL_GUARDED_BY(mutex_) = false;  // and gRPC has not come back
  // Of the last call; it holds the channel, which must not end on a thread of gRPC.
  std::optional<grpc::ClientContext> context_;
  std::optional<Ticker> ticker_;
};

}  // namespace tvq

#endif  // TVQ_SERVER_RPC_TRANSPORT_WAKEFUL_POLLERS_H_
