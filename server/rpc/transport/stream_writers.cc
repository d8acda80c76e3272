#include "server/rpc/transport/stream_writers.h"

namespace tvq {

void StreamWriters::AddTo(grpc::ServerBuilder* builder, int writers) {
  for (int i = 0; i < writers; ++i) {
    writers_.push_back(std::make_unique<StreamWriter>(builder->AddCompletionQueue()));
  }
}

void StreamWriters::Start() {
  for (const auto& writer : writers_) writer->Start();
}

void StreamWriters::Take(const QueuedMethod::Request& request, const QueuedMethod::Begin& begin) {
  for (const auto& writer : writers_) {
    methods_.push_back(std::make_unique<QueuedMethod>(writer.get(), request, begin));
  }
}

void StreamWriters::Stop(OpenCalls* open) {
  for (const auto& method : methods_) method->WaitForLast();
  open->WaitForNone();
  for (const auto& writer : writers_) writer->Stop();
}

}  // namespace tvq
