// From flags to models ready to serve.
#ifndef TVQ_SERVER_STARTUP_LOAD_MODELS_H_
#define TVQ_SERVER_STARTUP_LOAD_MODELS_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/device/device.h"
#include "server/engine/engine.h"
#include "server/startup/flags.h"

namespace tvq {

// Loads the models one after the other, with a progress bar where stderr is a terminal. Errors name
// the model, file, tensor and offset.
absl::StatusOr<std::vector<ServedModel>> LoadModels(const Flags& flags,
                                                    const std::shared_ptr<Device>& device);

// A line for people: name, family, size, bytes a session takes and how many fit.
std::string Describe(const ServedModel& model, const ModelCapacity& capacity);

}  // namespace tvq

#endif  // TVQ_SERVER_STARTUP_LOAD_MODELS_H_
