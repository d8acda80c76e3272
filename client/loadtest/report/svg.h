#ifndef TVQ_CLIENT_LOADTEST_REPORT_SVG_H_
#define TVQ_CLIENT_LOADTEST_REPORT_SVG_H_

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tvq::loadtest {

struct Curve {
  std::string name;
  std::vector<std::pair<double, double>> points;  // finite; by x
};

struct Plot {
  std::string title, x_label, y_label;
  bool log_x = false, log_y = false;  // then points at or below 0 are left out
  std::vector<Curve> curves;
};

// An SVG element whose colours come from the page: classes c0 to c7 for curves, `axis`, `grid`.
std::string Svg(const Plot& plot);

// With &, <, > and quotes as entities.
std::string Escaped(std::string_view text);

// Values for the marks of an axis from `low` to `high`: 1, 2 and 5 times powers of ten, of which
// about `count` fit; with `log` those of every power, or only powers of ten where there are many.
std::vector<double> Marks(double low, double high, bool log, int count);

}  // namespace tvq::loadtest

#endif  // TVQ_CLIENT_LOADTEST_REPORT_SVG_H_
