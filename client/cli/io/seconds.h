// Seconds as the value of an option.
#ifndef TVQ_CLIENT_CLI_IO_SECONDS_H_
#define TVQ_CLIENT_CLI_IO_SECONDS_H_

#include <google/protobuf/duration.pb.h>

#include "base/flags.h"

namespace tvq::cli {

// Has the option take a number of seconds from 0 on, such as 1.5.
flags::Option AsSeconds(flags::Option option);

google::protobuf::Duration ToDuration(double seconds);

}  // namespace tvq::cli

#endif  // TVQ_CLIENT_CLI_IO_SECONDS_H_
