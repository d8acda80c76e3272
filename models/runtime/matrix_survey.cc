#include "models/runtime/matrix_survey.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "kernels/numbers/int4.h"
#include "kernels/numbers/int8.h"

namespace tvq {
namespace {

// Values that one task surveys: a few microseconds of work.
constexpr int64_t kTaskValues = 1 << 16;

struct RowSurvey {
  float largest = 0;
  float scale = 0;
  RoundingBound rounding;
};

RowSurvey SurveyInt4(std::span<const float> values) {
  RowSurvey survey;
  for (size_t begin = 0; begin < values.size(); begin += kInt4Group) {
    const auto group =
        values.subspan(begin, std::min(static_cast<size_t>(kInt4Group), values.size() - begin));
    const float largest = LargestMagnitude(group);
    survey.largest = LargerMagnitude(survey.largest, largest);
    survey.rounding.Add(Int4Rounding(group, largest));
  }
  return survey;
}

RowSurvey SurveyRow(const HostMatrix& matrix, int64_t row, DType dtype, std::span<float> values) {
  ReadValues(matrix, row, 0, matrix.in, values.data());
  if (dtype == DType::kInt4) return SurveyInt4(values);
  RowSurvey survey{.largest = LargestMagnitude(values)};
  if (dtype == DType::kInt8 && std::isfinite(survey.largest)) {
    survey.scale = matrix.scales != nullptr ? matrix.scales[row] : Int8Scale(survey.largest);
    survey.rounding = Int8Rounding(values, survey.scale);
  }
  return survey;
}

}  // namespace

MatrixSurvey SurveyMatrix(Device& device, const HostMatrix& matrix, DType dtype) {
  std::vector<RowSurvey> rows(static_cast<size_t>(matrix.out));
  const int64_t task_rows = std::max<int64_t>(1, kTaskValues / matrix.in);
  device.RunOnHost((matrix.out + task_rows - 1) / task_rows, [&](int64_t task) {
    std::vector<float> values(static_cast<size_t>(matrix.in));
    const int64_t end = std::min(matrix.out, (task + 1) * task_rows);
    for (int64_t row = task * task_rows; row < end; ++row) {
      rows[static_cast<size_t>(row)] = SurveyRow(matrix, row, dtype, values);
    }
  });
  MatrixSurvey survey;
  for (const RowSurvey& row : rows) {
    survey.largest = LargerMagnitude(survey.largest, row.largest);
    survey.rounding.Add(row.rounding);
    if (dtype == DType::kInt8) survey.scales.push_back(row.scale);
  }
  return survey;
}

}  // namespace tvq
