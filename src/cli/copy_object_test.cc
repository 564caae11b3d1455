// Copies between buckets, over a scripted server.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "base/checksum.h"
#include "cli/tree_copy.h"
#include "client/http/object_headers.h"
#include "client/testing/scripted_client.h"

namespace verbena::cli {
namespace {

using net::ScriptedRequest;

constexpr uint64_t object_bytes = 65 * MiB, changed_byte = 20 * MiB;

// Of an object of zeros, of which one byte comes as another one if it is told so.
std::string answer(const ScriptedRequest& request, bool changes_a_byte) {
  if (request.head.starts_with("HEAD ")) {
    const std::vector<std::byte> zeros(object_bytes);
    return "HTTP/1.1 200 OK\r\ncontent-length: " + std::to_string(object_bytes) +
           "\r\netag: \"e\"\r\ncache-control: no-cache\r\nx-verbena-ttl: 60\r\nx-amz-checksum-crc32c: " +
           client::crc32c_base64(crc32c(Bytes(zeros))) + "\r\n\r\n";
  }
  if (request.head.starts_with("GET ")) {
    constexpr std::string_view name = "range: bytes=";
    const char* const range = request.head.c_str() + request.head.find(name) + name.size();
    const uint64_t first = std::strtoull(range, nullptr, 10);
    const uint64_t last = std::strtoull(std::strchr(range, '-') + 1, nullptr, 10);
    std::string body(last - first + 1, '\0');
    if (changes_a_byte && first <= changed_byte && changed_byte <= last) body[changed_byte - first] = 1;
    return net::http_reply(206, "etag: \"e\"\r\n", body);
  }
  if (request.has("?uploads")) {
    return net::http_reply(200, "",
                           "<InitiateMultipartUploadResult><UploadId>u</UploadId></InitiateMultipartUploadResult>");
  }
  if (request.head.starts_with("POST ")) {
    return net::http_reply(200, "", "<CompleteMultipartUploadResult><ETag>e</ETag></CompleteMultipartUploadResult>");
  }
  return net::http_reply(200, "etag: \"e\"\r\n", "");
}

// The copy had a checksum of its own for each part, made of the bytes that had arrived.
TEST(CopyObject, ALargeObjectIsComparedWithItsChecksum) {
  for (const bool changes : {false, true}) {
    net::ScriptedServer server([changes](const ScriptedRequest& request, int) { return answer(request, changes); });
    const Client client = *Client::connect(client::http_options(server));
    const auto copied = copy_object(client, {"from", "k"}, {"to", "k"});
    if (changes) {
      ASSERT_FALSE(copied);
      EXPECT_EQ(copied.error().code, ErrorCode::checksum_mismatch) << copied.error().message;
    }
    const auto requests = server.requests();
    const auto completes = [](const ScriptedRequest& request) {
      return request.head.starts_with("POST /to/k?uploadId");
    };
    EXPECT_EQ(std::ranges::count_if(requests, completes), changes ? 0 : 1);
    const auto begun = std::ranges::find_if(requests, [](const ScriptedRequest& one) { return one.has("?uploads"); });
    ASSERT_NE(begun, requests.end());
    EXPECT_TRUE(begun->has("cache-control: no-cache\r\n")) << begun->head;
    EXPECT_FALSE(begun->has("x-verbena-ttl")) << "a copy has no end";
  }
}

}  // namespace
}  // namespace verbena::cli
