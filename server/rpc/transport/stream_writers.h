#ifndef TVQ_SERVER_RPC_TRANSPORT_STREAM_WRITERS_H_
#define TVQ_SERVER_RPC_TRANSPORT_STREAM_WRITERS_H_

#include <grpcpp/server_builder.h>

#include <atomic>
#include <cstddef>
#include <memory>
#include <vector>

#include "server/rpc/transport/open_calls.h"
#include "server/rpc/transport/queued_method.h"
#include "server/rpc/transport/stream_writer.h"

namespace tvq {

// All writers of a server, and the methods whose calls they take.
class StreamWriters {
 public:
  StreamWriters() = default;
  StreamWriters(const StreamWriters&) = delete;
  StreamWriters& operator=(const StreamWriters&) = delete;

  // Once, before the server starts; and Start when it has, or could not.
  void AddTo(grpc::ServerBuilder* builder, int writers);
  void Start();
  // Between Start and Stop.
  void Take(const QueuedMethod::Request& request, const QueuedMethod::Begin& begin);
  // When the server was shut down: returns when every call that came has ended. `open` are the
  // server's. Once more does nothing.
  void Stop(OpenCalls* open);

  // For a call that does not come over a writer's queue. Any thread, between AddTo and Stop.
  StreamWriter* Next() { return writers_[next_++ % writers_.size()].get(); }

 private:
  std::vector<std::unique_ptr<StreamWriter>> writers_;
  std::vector<std::unique_ptr<QueuedMethod>> methods_;
  std::atomic<size_t> next_ = 0;
};

}  // namespace tvq

#endif  // TVQ_SERVER_RPC_TRANSPORT_STREAM_WRITERS_H_
