// The environment variables of the programs.
#ifndef TVQ_BASE_VARIABLES_H_
#define TVQ_BASE_VARIABLES_H_

#include <string>
#include <string_view>
#include <vector>

namespace tvq {

// What to tell of the variables named TVQ_... that no program of the project reads, one text for
// each: its name, and the one that was probably meant. Not of those that Kubernetes sets for
// services. `environment` is as environ: NAME=VALUE, then null.
std::vector<std::string> UnknownVariables(const char* const* environment);

// Says it on stderr of this process's environment, each behind "PROGRAM: ".
void WarnOfUnknownVariables(std::string_view program);

// Whether it is what Kubernetes says of a service in variables that end with _PORT: a URL, such as
// tcp://10.0.0.1:50051.
bool IsServiceUrl(std::string_view value);

}  // namespace tvq

#endif  // TVQ_BASE_VARIABLES_H_
