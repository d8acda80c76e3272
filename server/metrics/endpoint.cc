#include "server/metrics/endpoint.h"

#include <prometheus/collectable.h>
#include <prometheus/exposer.h>

#include <exception>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/ipv6.h"
#include "server/metrics/families.h"

namespace tvq {
namespace {

class Collector : public prometheus::Collectable {
 public:
  explicit Collector(std::function<MetricsSnapshot()> snapshot) : snapshot_(std::move(snapshot)) {}

  std::vector<prometheus::MetricFamily> Collect() const override { return ToFamilies(snapshot_()); }

 private:
  const std::function<MetricsSnapshot()> snapshot_;
};

}  // namespace

class MetricsEndpoint::Impl {
 public:
  // Throws what the exposer throws.
  Impl(const std::string& address, std::function<MetricsSnapshot()> snapshot)
      : collector_(std::make_shared<Collector>(std::move(snapshot))), exposer_(address) {
    exposer_.RegisterCollectable(collector_);
  }

 private:
  const std::shared_ptr<Collector> collector_;
  prometheus::Exposer exposer_;  // its destructor ends the threads
};

MetricsEndpoint::MetricsEndpoint(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

MetricsEndpoint::~MetricsEndpoint() = default;

absl::StatusOr<std::unique_ptr<MetricsEndpoint>> MetricsEndpoint::Start(
    const std::string& address, std::function<MetricsSnapshot()> snapshot) {
  try {
    return std::unique_ptr<MetricsEndpoint>(
        new MetricsEndpoint(std::make_unique<Impl>(address, std::move(snapshot))));
  } catch (const std::exception&) {  // "null context when constructing CivetServer..."
    const bool no_ipv6 = address.starts_with('[') && !HasIpv6();
    return absl::UnavailableError(absl::StrCat(
        "cannot listen on ", address, " for metrics: ",
        no_ipv6 ? kNoIpv6 : "the port is in use, or the host is no address of this machine"));
  }
}

}  // namespace tvq
