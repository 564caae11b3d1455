// Requests of other vendors' clients, as their public source sends them: each is served, or declined in the words after
// which that client does not take the bytes for moved. docs/dialects.md names what each makes of the answer.
#include "base/metrics.h"
#include "s3_http/test_rig.h"

namespace verbena::s3::test {
namespace {

constexpr char descriptor[] =  // cuObject's, of a host with a ConnectX
    "00007f1200001000:0000000a:00181c00:0000:000c1d:1:00000000000000000000ffff0a4d0002";
const std::string queue_pair = "01" + std::string(86, '3');  // hipObject's, on the object itself

enum class Answer : uint8_t {
  body,          // GET: the object in the body, x-amz-rdma-reply 501
  send_again,    // PUT: 200, x-amz-rdma-reply 501, RDMANotSupported; nothing stored
  error,         // 501 RDMANotSupported; nothing stored or sent
  denied,        // 403 AccessDenied, as without the header; not counted as declined
  other_status,  // hipObject: 501, x-amz-rdma-reply 501, and x-amz-rdma-protocol-status, at which it looks
  plain,         // no RDMA is asked for: as S3
};

struct Row {
  const char* client;  // repository, file and commit of its source
  const char* method;
  Headers headers;
  Answer answer;
  const char* part = "";  // of an upload
};

const Headers unsigned_payload{{"x-amz-content-sha256", "UNSIGNED-PAYLOAD"}};

Headers operator+(Headers base, const Headers& more) {
  base.insert(base.end(), more.begin(), more.end());
  return base;
}

std::vector<Row> rows() {
  const Headers cuobject = unsigned_payload + Headers{{"x-amz-rdma-token", descriptor}};
  const Headers range{{"range", "bytes=0-9"}};
  const Headers octets{{"content-type", "application/octet-stream"}};
  const Headers hipobj = unsigned_payload + Headers{{"x-amz-rdma-token", queue_pair + ":7f1200001000:a"}};
  return {
      {"cloudian/aws-sdk-cpp S3ClientRDMA.cpp 50d888fd", "GET", cuobject + range, Answer::body},
      {"cloudian/aws-sdk-cpp PutObjectRDMARequest.cpp 0440af32", "PUT",
       cuobject + octets + Headers{{"x-amz-checksum-crc64nvme", "rosUhgp5mIg="}}, Answer::send_again},
      {"cloudian/aws-sdk-cpp UploadPartRDMARequest.cpp 50d888fd", "PUT", cuobject, Answer::send_again, "part"},
      {"minio/minio-cpp rdma.h ff2189b1", "GET", cuobject, Answer::body},
      {"minio/minio-cpp rdma.h ff2189b1, of a range", "GET", cuobject + range, Answer::body},
      {"minio/minio-cpp rdma.h ff2189b1", "PUT",
       cuobject + octets + Headers{{"x-amz-checksum-crc64nvme", "rosUhgp5mIg="}}, Answer::send_again},
      {"minio/minio-rs protocol.rs 700b9f75", "GET", cuobject, Answer::body},
      {"minio/minio-rs protocol.rs 700b9f75", "PUT", cuobject + octets, Answer::send_again, "part"},
      {"ai-dynamo/nixl s3_accel/everpure/client.cpp 1c556a96", "GET", cuobject + range, Answer::body},
      {"ai-dynamo/nixl s3_accel/everpure/client.cpp 1c556a96", "PUT", cuobject, Answer::send_again},
      {"ai-dynamo/nixl s3_accel/dell/client.cpp 8770b655", "GET", range + Headers{{"x-rdma-info", descriptor}},
       Answer::error},
      {"ai-dynamo/nixl s3_accel/dell/client.cpp 8770b655", "PUT", {{"x-rdma-info", descriptor}}, Answer::error},
      {"ai-dynamo/nixl s3_accel/dell/client.cpp 8770b655", "PUT", {{"x-rdma-info", descriptor}}, Answer::error, "part"},
      {"ai-dynamo/nixl rest_accel/scality_ai_connector/client.cpp 042a601a, if it signed", "GET",
       range + Headers{{"x-scal-rdma", descriptor}}, Answer::error},
      {"ai-dynamo/nixl rest_accel/scality_ai_connector/client.cpp 042a601a, if it signed",
       "PUT",
       {{"x-scal-rdma", descriptor}},
       Answer::error},
      {"ai-dynamo/nixl rest_accel/scality_ai_connector/client.cpp 042a601a, which does not sign", "GET",
       range + Headers{{"x-scal-rdma", descriptor}}, Answer::denied},
      {"ai-dynamo/nixl rest_accel/scality_ai_connector/client.cpp 042a601a, which does not sign",
       "PUT",
       {{"x-scal-rdma", descriptor}},
       Answer::denied},
      {"ai-dynamo/nixl s3_accel/dell/client.cpp 8770b655, if it did not sign",
       "PUT",
       {{"x-rdma-info", descriptor}},
       Answer::denied,
       "part"},
      {"ROCm/hipObject examples/s3_curl_ops.cpp 2b16289a", "GET", hipobj, Answer::body},
      {"ROCm/hipObject examples/s3_curl_ops.cpp 2b16289a", "PUT", hipobj, Answer::other_status},
      {"noobaa/noobaa-core src/tools/s3perf.js 6db404da", "GET", {{"range", "bytes=0-1048576"}}, Answer::plain},
      {"noobaa/noobaa-core src/tools/s3perf.js 6db404da", "PUT", unsigned_payload, Answer::plain},
  };
}

class Replays : public Rig {
 protected:
  void SetUp() override {
    make_bucket();
    windows = &none;
  }
  Reply send(const Row& row) {
    TestCall sent{.method = row.method, .headers = row.headers, .anonymous = row.answer == Answer::denied};
    sent.target = std::string("/bucket/") + row.method;
    if (*row.part == '\0') return call(sent);
    const std::string id = call("POST", "/bucket/part?uploads").element("UploadId");
    sent.target = "/bucket/part?partNumber=1&uploadId=" + id;
    const Reply reply = call(sent);
    EXPECT_EQ(call("GET", "/bucket/part?uploadId=" + id).count("<Part>"), 0u) << "a part of no bytes";
    return reply;
  }
  rdma::Dialects none;
};

TEST_F(Replays, AreServedOrDeclinedInTheClientsOwnWords) {
  for (const Row& row : rows()) {
    SCOPED_TRACE(std::string(row.client) + ", " + row.method + row.part);
    const bool get = std::string_view(row.method) == "GET";
    if (get) ASSERT_EQ(call("PUT", "/bucket/GET", {}, "0123456789").status, 200);
    const metrics::Counter& declined =
        metrics::counter("verbena_rdma_dialect_tokens_total", "", {{"dialect", "unknown"}, {"outcome", "declined"}});
    const uint64_t before = declined.value();
    const Reply reply = send(row);
    EXPECT_EQ(declined.value() - before, row.answer == Answer::error ? 1u : 0u);
    const bool ranged = std::ranges::any_of(row.headers, [](const auto& one) { return one.first == "range"; });
    if (row.answer == Answer::plain) {
      EXPECT_EQ(reply.status, ranged ? 206 : 200);
      EXPECT_FALSE(reply.has("x-amz-rdma-reply"));
      EXPECT_EQ(reply.body, get ? "0123456789" : "");
      if (!get) EXPECT_TRUE(reply.has("etag"));
      if (!get) EXPECT_EQ(call("DELETE", "/bucket/PUT").status, 204);
      continue;
    }
    const bool says_nothing = row.answer == Answer::error || row.answer == Answer::denied;
    EXPECT_EQ(reply.header("x-amz-rdma-reply"), says_nothing ? "(none)" : "501");
    EXPECT_FALSE(reply.has("x-amz-rdma-bytes-transferred"));
    if (row.answer == Answer::body) {
      EXPECT_EQ(reply.status, ranged ? 206 : 200);
      EXPECT_EQ(reply.body, "0123456789");
      EXPECT_TRUE(reply.has("etag"));
      continue;
    }
    const bool denied = row.answer == Answer::denied;
    EXPECT_EQ(reply.status, row.answer == Answer::send_again ? 200 : denied ? 403 : 501);
    EXPECT_FALSE(reply.has("etag"));
    EXPECT_EQ(reply.element("Code"), denied ? "AccessDenied" : "RDMANotSupported");
    if (row.answer == Answer::other_status) EXPECT_EQ(reply.header("x-amz-rdma-protocol-status"), "unsupported");
    if (!get) EXPECT_EQ(call("HEAD", "/bucket/PUT").status, 404) << "nothing was sent, so nothing is stored";
  }
}

}  // namespace
}  // namespace verbena::s3::test
