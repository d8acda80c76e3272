// From a snapshot to Prometheus' families; docs/metrics.md lists them.
#ifndef TVQ_SERVER_METRICS_FAMILIES_H_
#define TVQ_SERVER_METRICS_FAMILIES_H_

#include <prometheus/metric_family.h>

#include <vector>

#include "server/metrics/snapshot.h"

namespace tvq {

std::vector<prometheus::MetricFamily> ToFamilies(const MetricsSnapshot& snapshot);

}  // namespace tvq

#endif  // TVQ_SERVER_METRICS_FAMILIES_H_
