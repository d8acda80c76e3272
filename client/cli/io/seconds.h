// Seconds as the value of an option.
#ifndef TVQ_CLIENT_CLI_IO_SECONDS_H_
#define TVQ_CLIENT_CLI_IO_SECONDS_H_

#include <google/protobuf/duration.pb.h>

#include <CLI/CLI.hpp>

namespace tvq::cli {

// Has the option take a number of seconds from 0 on, such as 1.5.
CLI::Option* AsSeconds(CLI::Option* option);

google::protobuf::Duration ToDuration(double seconds);

}  // namespace tvq::cli

#endif  // TVQ_CLIENT_CLI_IO_SECONDS_H_
