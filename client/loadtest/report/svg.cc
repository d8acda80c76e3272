#include "client/loadtest/report/svg.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"

namespace tvq::loadtest {
namespace {

// Pixels.
constexpr double kWidth = 560, kHeight = 300, kLeft = 64, kRight = 12, kTop = 30, kBottom = 44;
constexpr int kColours = 8;

// One axis: from values to pixels.
class Axis {
 public:
  Axis(bool log, double begin, double end) : log_(log), begin_(begin), end_(end) {}

  bool Shows(double value) const { return !log_ || value > 0; }
  void Cover(double value) {
    low_ = std::min(low_, value);
    high_ = std::max(high_, value);
  }
  // After everything was covered.
  void Settle() {
    if (low_ > high_) low_ = log_ ? 1 : 0, high_ = log_ ? 10 : 1;
    if (!log_) low_ = std::min(low_, 0.0);
    if (low_ == high_) high_ = log_ ? low_ * 10 : low_ + 1;
  }
  double Pixel(double value) const {
    return begin_ + (end_ - begin_) * (Scale(value) - Scale(low_)) / (Scale(high_) - Scale(low_));
  }
  std::vector<double> AllMarks(int count) const { return Marks(low_, high_, log_, count); }

 private:
  double Scale(double value) const { return log_ ? std::log10(value) : value; }

  const bool log_;
  const double begin_, end_;
  double low_ = std::numeric_limits<double>::infinity();
  double high_ = -std::numeric_limits<double>::infinity();
};

std::string Text(double x, double y, const char* anchor, std::string_view text) {
  return absl::StrFormat(R"(<text x="%.1f" y="%.1f" text-anchor="%s">%s</text>)", x, y, anchor,
                         Escaped(text)) +
         "\n";
}

std::string Line(const char* kind, double x1, double y1, double x2, double y2) {
  return absl::StrFormat(R"(<line class="%s" x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f"/>)", kind, x1,
                         y1, x2, y2) +
         "\n";
}

std::string Frame(const Plot& plot, const Axis& x, const Axis& y) {
  const double bottom = kHeight - kBottom, right = kWidth - kRight;
  std::string svg;
  for (const double mark : x.AllMarks(6)) {
    svg += Line("grid", x.Pixel(mark), kTop, x.Pixel(mark), bottom);
    svg += Text(x.Pixel(mark), bottom + 15, "middle", absl::StrFormat("%.4g", mark));
  }
  for (const double mark : y.AllMarks(5)) {
    svg += Line("grid", kLeft, y.Pixel(mark), right, y.Pixel(mark));
    svg += Text(kLeft - 6, y.Pixel(mark) + 4, "end", absl::StrFormat("%.4g", mark));
  }
  svg += Line("axis", kLeft, bottom, right, bottom) + Line("axis", kLeft, kTop, kLeft, bottom);
  svg += Text((kLeft + right) / 2, kHeight - 8, "middle", plot.x_label);
  svg += Text(4, 16, "start", plot.y_label);
  return svg;
}

std::string Drawn(const Curve& curve, size_t number, const Axis& x, const Axis& y) {
  std::string points;
  for (const auto& [px, py] : curve.points) {
    if (x.Shows(px) && y.Shows(py)) {
      absl::StrAppendFormat(&points, "%.1f,%.1f ", x.Pixel(px), y.Pixel(py));
    }
  }
  return absl::StrCat("<polyline class=\"c", number % kColours, "\" points=\"", points, "\"/>\n");
}

}  // namespace

std::string Escaped(std::string_view text) {
  return absl::StrReplaceAll(
      std::string(text),
      {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}, {"\"", "&quot;"}, {"'", "&#39;"}});
}

std::vector<double> Marks(double low, double high, bool log, int count) {
  std::vector<double> marks;
  if (log) {
    const bool many = std::log10(high / low) > count / 2.0;
    for (double power = std::pow(10, std::floor(std::log10(low))); power <= high; power *= 10) {
      for (const double step : {1.0, 2.0, 5.0}) {
        const double mark = power * step;
        if (mark >= low && mark <= high && (step == 1 || !many)) marks.push_back(mark);
      }
    }
    return marks;
  }
  const double power = std::pow(10, std::floor(std::log10((high - low) / count)));
  double step = power;
  for (const double factor : {1.0, 2.0, 5.0, 10.0}) {
    step = power * factor;
    if ((high - low) / step <= count) break;
  }
  for (double i = std::ceil(low / step); i * step <= high * (1 + 1e-9); ++i)
    marks.push_back(i * step);
  return marks;
}

std::string Svg(const Plot& plot) {
  Axis x(plot.log_x, kLeft, kWidth - kRight), y(plot.log_y, kHeight - kBottom, kTop);
  for (const Curve& curve : plot.curves) {
    for (const auto& [px, py] : curve.points) {
      if (!x.Shows(px) || !y.Shows(py)) continue;
      x.Cover(px);
      y.Cover(py);
    }
  }
  x.Settle();
  y.Settle();
  std::string svg = absl::StrFormat(
      R"(<svg viewBox="0 0 %.0f %.0f" role="img" aria-label="%s" xmlns="http://www.w3.org/2000/svg">)",
      kWidth, kHeight, Escaped(plot.title));
  absl::StrAppend(&svg, "\n", Frame(plot, x, y));
  for (size_t i = 0; i < plot.curves.size(); ++i) svg += Drawn(plot.curves[i], i, x, y);
  return svg + "</svg>\n";
}

}  // namespace tvq::loadtest
