#include "client/gateway/http/accept_encoding.h"

#include <gtest/gtest.h>

namespace tvq::gateway {
namespace {

TEST(AcceptEncodingTest, Gzip) {
  EXPECT_FALSE(AcceptsGzip({}));
  for (const char* header :
       {"gzip", "GZip", "x-gzip", "*", "br, gzip", " gzip ; q=1.0", "gzip;Q=0.001",
        "identity;q=0.5,*;q=0.1", "*;q=0, gzip", "deflate,,gzip"}) {
    EXPECT_TRUE(AcceptsGzip({.headers = {{"Accept-Encoding", header}}})) << header;
  }
  for (const char* header :
       {"", "identity", "br", "gzip;q=0", "gzip; q=0.000", "*, gzip;q=0", "*;q=0",
        "gzip;q=", "gzip;q=x", "gzip;q=nan", "gzip;q=-1", "gzipped", "gzip;level=9"}) {
    EXPECT_FALSE(AcceptsGzip({.headers = {{"Accept-Encoding", header}}})) << header;
  }
  EXPECT_TRUE(AcceptsGzip({.headers = {{"accept-encoding", "br"}, {"Accept-Encoding", "gzip"}}}));
  EXPECT_FALSE(AcceptsGzip({.headers = {{"Accept", "gzip"}}}));
}

}  // namespace
}  // namespace tvq::gateway
