// What must be known of all of a matrix before it is packed, in one pass over it.
#ifndef TVQ_MODELS_RUNTIME_MATRIX_SURVEY_H_
#define TVQ_MODELS_RUNTIME_MATRIX_SURVEY_H_

#include <vector>

#include "kernels/device/device.h"
#include "kernels/numbers/host_matrix.h"
#include "kernels/numbers/quantize.h"

namespace tvq {

struct MatrixSurvey {
  float largest = 0;          // |value|; infinity or NaN where one of them is not finite
  std::vector<float> scales;  // [out], of int8 alone: the matrix's own, or those to quantize it by
  RoundingBound rounding;     // of int8 and int4, if all values are finite and fit
};

// Of a matrix that becomes `dtype`, on the host's threads of `device`.
MatrixSurvey SurveyMatrix(Device& device, const HostMatrix& matrix, DType dtype);

}  // namespace tvq

#endif  // TVQ_MODELS_RUNTIME_MATRIX_SURVEY_H_
