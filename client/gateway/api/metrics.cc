#include "client/gateway/api/metrics.h"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <array>

namespace tvq::gateway {
namespace {

double Seconds(Metrics::Duration duration) {
  return std::chrono::duration<double>(duration).count();
}

// Each twice to three times the one before; a request that streams may take minutes.
const prometheus::Histogram::BucketBoundaries kBuckets = {
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300};

// What a client may make up must not make a new series each time.
std::string Known(std::string_view method) {
  constexpr std::array<std::string_view, 5> kMethods = {"GET", "HEAD", "POST", "DELETE", "OPTIONS"};
  const bool known = std::find(kMethods.begin(), kMethods.end(), method) != kMethods.end();
  return known ? std::string(method) : "other";
}

}  // namespace

class Metrics::Impl {
 public:
  explicit Impl(const std::string& version) {
    prometheus::BuildGauge()
        .Name("tvq_gateway_build_info")
        .Help("Always 1")
        .Register(registry_)
        .Add({{"version", version}})
        .Set(1);
  }

  prometheus::Gauge& Gauge(const char* name, const char* help) {
    return prometheus::BuildGauge().Name(name).Help(help).Register(registry_).Add({});
  }

  prometheus::Registry registry_;
  prometheus::Family<prometheus::Counter>& requests =
      prometheus::BuildCounter()
          .Name("tvq_gateway_requests_total")
          .Help("Requests that ended, by route, method and status; 499: the client was gone first")
          .Register(registry_);
  prometheus::Family<prometheus::Histogram>& seconds =
      prometheus::BuildHistogram()
          .Name("tvq_gateway_request_seconds")
          .Help("From the first byte of a request to the last of its answer")
          .Register(registry_);
  prometheus::Counter& bytes = prometheus::BuildCounter()
                                   .Name("tvq_gateway_sent_bytes_total")
                                   .Help("Bytes of answers")
                                   .Register(registry_)
                                   .Add({});
  prometheus::Histogram& first = prometheus::BuildHistogram()
                                     .Name("tvq_gateway_time_to_first_event_seconds")
                                     .Help("From the first byte of a request to its first event")
                                     .Register(registry_)
                                     .Add({}, kBuckets);
  prometheus::Gauge& streams = Gauge("tvq_gateway_streams", "Streams that are being answered");
  prometheus::Gauge& connections = Gauge("tvq_gateway_connections", "Open connections");
};

Metrics::Metrics(const std::string& version) : impl_(std::make_unique<Impl>(version)) {}

Metrics::~Metrics() = default;

void Metrics::Request(std::string_view route, std::string_view method, int status, Duration took,
                      uint64_t bytes_sent) {
  const std::string name(route.empty() ? "none" : route);
  impl_->requests
      .Add({{"route", name}, {"method", Known(method)}, {"code", std::to_string(status)}})
      .Increment();
  impl_->seconds.Add({{"route", name}}, kBuckets).Observe(Seconds(took));
  impl_->bytes.Increment(static_cast<double>(bytes_sent));
}

void Metrics::StreamBegan() { impl_->streams.Increment(); }

void Metrics::StreamEnded() { impl_->streams.Decrement(); }

void Metrics::FirstEvent(Duration took) { impl_->first.Observe(Seconds(took)); }

void Metrics::Connections(int64_t count) { impl_->connections.Set(static_cast<double>(count)); }

std::string Metrics::Text() const {
  return prometheus::TextSerializer().Serialize(impl_->registry_.Collect());
}

}  // namespace tvq::gateway
