#include "client/loadtest/report/svg.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tvq::loadtest {
namespace {

using testing::DoubleNear;
using testing::HasSubstr;
using testing::Not;
using testing::Pointwise;

TEST(Svg, MarksAreRound) {
  EXPECT_THAT(Marks(0, 10, false, 5), Pointwise(testing::DoubleEq(), {0., 2., 4., 6., 8., 10.}));
  EXPECT_THAT(Marks(0, 0.9, false, 5), Pointwise(DoubleNear(1e-12), {0., 0.2, 0.4, 0.6, 0.8}));
  EXPECT_THAT(Marks(3, 60, true, 6), Pointwise(DoubleNear(1e-9), {5., 10., 20., 50.}));
  EXPECT_THAT(Marks(0.5, 20'000, true, 6),
              Pointwise(DoubleNear(1e-9), {1., 10., 100., 1'000., 10'000.}));
}

TEST(Svg, DrawsWithinTheFrame) {
  const std::string svg =
      Svg({.title = "a < b", .log_x = true, .curves = {{"one", {{0, 1}, {1, 5}, {100, 10}}}}});
  EXPECT_THAT(svg, HasSubstr("a &lt; b"));
  // The point at 0 has no place on a logarithmic axis; the others span the frame.
  EXPECT_THAT(svg, HasSubstr(R"(points="64.0,)"));
  EXPECT_THAT(svg, HasSubstr(R"(548.0,30.0 "/>)"));
}

TEST(Svg, NothingAndOnePointAreNoTrouble) {
  for (const bool log : {false, true}) {
    for (const std::vector<std::pair<double, double>>& points :
         {std::vector<std::pair<double, double>>{}, {{0, 0}}, {{5, 5}}}) {
      const std::string svg = Svg({.log_x = log, .log_y = log, .curves = {{"", points}}});
      EXPECT_THAT(svg, Not(HasSubstr("nan")));
      EXPECT_THAT(svg, Not(HasSubstr("inf")));
    }
  }
}

}  // namespace
}  // namespace tvq::loadtest
