// What must be known of all of a matrix before it is packed, in one pass over it.
#ifndef TVQ_MODELS_RUNTIME_MATRIX_SURVEY_H_
#define TVQ_MODELS_RUNTIME_MATRIX_SURVEY_H_

#include <vector>

#include "kernels/device/device.h"
#include "kernels/numbers/host_matrix.h"
#include "kernels/numbers/quantize.h"

namespace tvq {

struct MatrixSurvey {
  float largest = 0;          // largest |value|; infinity or NaN if a value is not finite
  std::vector<float> scales;  // [out], int8 only: the matrix's own, or those to quantize it by
  RoundingBound rounding;     // int8 and int4 only, if all values are finite and fit
};

// Surveys a matrix that will be stored as `dtype`, on the host threads of `device`.
MatrixSurvey SurveyMatrix(Device& device, const HostMatrix& matrix, DType dtype);

}  // namespace tvq

#endif  // TVQ_MODELS_RUNTIME_MATRIX_SURVEY_H_
