#include "server/rpc/wire/request_hash.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <string>

namespace tvq {

void RequestHash::Add(const google::protobuf::Message& message) {
  std::string bytes = message.GetTypeName() + '\0';
  {
    google::protobuf::io::StringOutputStream stream(&bytes);
    google::protobuf::io::CodedOutputStream coded(&stream);
    coded.SetSerializationDeterministic(true);  // maps have no order of their own
    message.SerializeToCodedStream(&coded);
  }
  Add(std::string_view(bytes));
}

RequestHash HashOfCreation(v1::CreateSessionRequest asked) {
  asked.clear_idempotency_key();
  asked.clear_durability();
  RequestHash hash;
  hash.Add(asked);
  return hash;
}

}  // namespace tvq
