// x-amz-rdma-token with cuObject's own descriptors, over a double of a device with dynamically connected queue pairs.
#include "base/metrics.h"
#include "memory/budget.h"
#include "rdma/dc/descriptors.h"
#include "rdma/dc/test_fabric.h"
#include "s3_http/test_rig.h"

namespace verbena::s3::test {
namespace {

constexpr uint32_t dc_target = 0xc1d, dc_key = 0x181c00;

class DescriptorRig : public Rig {
 protected:
  void SetUp() override {
    make_bucket();
    const auto open = [this](std::string_view but, const rdma::dc::Device::MakeRoom& room) {
      return rdma::dc::Device::open(fabric.verbs(), {}, *arena, but, room);
    };
    descriptors = std::move(*rdma::dc::Descriptors::create({"127.0.0.0/8"}, open, {}));
    dialects.add(*descriptors);
    windows = &dialects;
  }
  void TearDown() override {
    descriptors.reset();
    EXPECT_EQ(fabric.objects(), 0u);
    EXPECT_EQ(fabric.lies, 0u);
    EXPECT_EQ(arena->leased_bytes(), 0u);
  }
  void lend(std::string bytes) {
    memory = std::move(bytes);
    fabric.clients[dc_target].lent[dc_key] = {as_writable(memory)};
  }
  static MutableBytes as_writable(std::string& text) {
    return {reinterpret_cast<std::byte*>(text.data()), text.size()};
  }
  std::string token(uint32_t key = dc_key) const {
    return rdma::dc::test::descriptor(reinterpret_cast<uintptr_t>(memory.data()), memory.size(), key, dc_target,
                                      "127.0.0.1");
  }
  Reply ask(const char* method, Headers headers = {}, const std::string& target = "/bucket/k") {
    headers.emplace_back("x-amz-rdma-token", token());
    return call(method, target, std::move(headers));
  }
  static uint64_t counted(const char* outcome) {
    return metrics::counter("verbena_rdma_dialect_tokens_total", "", {{"dialect", "cuobject"}, {"outcome", outcome}})
        .value();
  }

  rdma::dc::test::Fabric fabric;
  std::unique_ptr<rdma::dc::Descriptors> descriptors;
  rdma::Dialects dialects;
  std::string memory;
};

// What cuObject's clients check: the reply, the bytes that it tells, an empty body.
TEST_F(DescriptorRig, AGetLandsInTheClientsMemoryWithCuObjectsHeaders) {
  const std::string data = pattern(3 * MiB + 9);
  put("k", data);
  lend(std::string(4 * MiB, '.'));
  const uint64_t moved = counted("moved");
  const Reply whole = ask("GET");
  EXPECT_EQ(whole.status, 200);
  EXPECT_EQ(whole.body, "");
  EXPECT_EQ(whole.header("x-amz-rdma-reply"), "200");
  EXPECT_EQ(whole.header("x-amz-rdma-bytes-transferred"), std::to_string(data.size()));
  EXPECT_EQ(whole.header("etag"), "\"" + hex_md5(data) + "\"");
  EXPECT_TRUE(memory.substr(0, data.size()) == data);
  EXPECT_EQ(memory.find_first_not_of('.', data.size()), std::string::npos);
  const Reply range = ask("GET", {{"range", "bytes=100-3000099"}});
  EXPECT_EQ(range.status, 206);
  EXPECT_EQ(range.header("x-amz-rdma-reply"), "206");
  EXPECT_EQ(range.header("x-amz-rdma-bytes-transferred"), "3000000");
  EXPECT_EQ(range.header("content-range"), "bytes 100-3000099/" + std::to_string(data.size()));
  EXPECT_TRUE(memory.substr(0, 3'000'000) == data.substr(100, 3'000'000));
  EXPECT_EQ(counted("moved") - moved, 2u);
}

TEST_F(DescriptorRig, APutAndAPartAreReadFromTheClientsMemory) {
  const std::string data = pattern(5 * MiB + 7);
  lend(data);
  const Reply stored = ask("PUT");
  EXPECT_EQ(stored.status, 200) << stored.body;
  EXPECT_EQ(stored.header("x-amz-rdma-reply"), "200");
  EXPECT_EQ(stored.header("x-amz-rdma-bytes-transferred"), std::to_string(data.size()));
  EXPECT_TRUE(stored.has("etag"));
  EXPECT_TRUE(call("GET", "/bucket/k").body == data);
  const std::string id = call("POST", "/bucket/parts?uploads").element("UploadId");
  const Reply part = ask("PUT", {}, "/bucket/parts?partNumber=1&uploadId=" + id);
  EXPECT_EQ(part.status, 200);
  EXPECT_EQ(part.header("x-amz-rdma-reply"), "200");
  EXPECT_EQ(call("GET", "/bucket/parts?uploadId=" + id).count("<Part>"), 1u);
}

TEST_F(DescriptorRig, ATransferThatFailsFallsBackToABody) {
  put("k", "0123456789");
  lend(std::string(10, '.'));
  fabric.clients[dc_target].key = 1;  // another access key than cuObject's
  const uint64_t failed = counted("failed");
  const Reply got = ask("GET");
  EXPECT_EQ(got.status, 200);
  EXPECT_EQ(got.body, "0123456789");
  EXPECT_EQ(got.header("x-amz-rdma-reply"), "501");
  EXPECT_EQ(got.header("x-verbena-rdma-declined"), "token: the transfer failed");
  const Reply sent = ask("PUT", {}, "/bucket/new");
  EXPECT_EQ(sent.status, 200) << "its clients send a body only after a 2xx";
  EXPECT_EQ(sent.header("x-amz-rdma-reply"), "501");
  EXPECT_EQ(sent.element("Code"), "RDMANotSupported");
  EXPECT_FALSE(sent.has("etag"));
  EXPECT_EQ(call("HEAD", "/bucket/new").status, 404);
  EXPECT_EQ(memory, "..........");
  EXPECT_EQ(counted("failed") - failed, 2u);
}

TEST_F(DescriptorRig, WhatCannotBeServedIsDeclinedWithItsReasonAndCounted) {
  put("k", "0123456789");
  lend(std::string(10, '.'));
  const std::string sound = token();
  const std::string base = "00007f1200001000:0000000a:00181c00:0000:000c1d:", gid = "00000000000000000000ffff7f000001";
  struct Case {
    std::string text;
    const char* why;
  };
  const Case cases[] = {
      {"ffffffffffffffff:0000000a:00181c00:0000:000c1d:1:" + gid, "token: base + size overflows"},
      {"0:7fffffffffffffff:00181c00:0000:000c1d:1:" + gid, "token: size"},
      {base + "1:7f000001", "token: its GID has not 32 digits"},
      {base + "2:" + gid, "token: whether it has a GID"},
      {base + "0:0", "token: it has no GID"},
      {"00007f1200001000:0000000a:00181c00:0000:000001:1:" + gid, "token: its DC target is a port's own queue pair"},
      {base + "1:" + gid + ":00007f1200001000:000000000000000b",
       "token: fields behind the descriptor's that are not its window"},
      {base + "1:" + gid + ":00007f1200001001:000000000000000a",
       "token: fields behind the descriptor's that are not its window"},
      {base + "1:" + gid + ":1", "token: fields behind the descriptor's that are not its window"},
      {"00007f1200001000:00000009:00181c00:0000:000c1d:1:" + gid, "token: the object is larger than the window"},
      {base + "1:00000000000000000000ffff0a4d0002", "peer: neither the HTTP peer's address nor in rdma.token_networks"},
  };
  for (const auto& [text, why] : cases) {
    SCOPED_TRACE(text);
    const uint64_t declined = counted("declined");
    const Reply got = call("GET", "/bucket/k", {{"x-amz-rdma-token", text}});
    EXPECT_EQ(got.status, 200);
    EXPECT_EQ(got.body, "0123456789");
    EXPECT_EQ(got.header("x-amz-rdma-reply"), "501");
    EXPECT_EQ(got.header("x-verbena-rdma-declined"), why);
    EXPECT_EQ(counted("declined") - declined, 1u);
    const Reply sent = call("PUT", "/bucket/new", {{"x-amz-rdma-token", text}});
    EXPECT_EQ(sent.status, 200);
    EXPECT_EQ(sent.header("x-amz-rdma-reply"), "501");
    EXPECT_FALSE(sent.has("etag"));
  }
  EXPECT_EQ(call("HEAD", "/bucket/new").status, 404);
  EXPECT_EQ(memory, "..........");
  const std::string again = sound + ':' + sound.substr(0, 16) + ":000000000000000a;";
  EXPECT_EQ(call("GET", "/bucket/k", {{"x-amz-rdma-token", again}}).header("x-amz-rdma-reply"), "200");
  EXPECT_EQ(memory, "0123456789");
}

TEST_F(DescriptorRig, AServerWithoutSuchADeviceSaysSo) {
  fabric.hosts = {{.name = "rxe0", .mlx5 = false}};
  put("k", "0123456789");
  lend(std::string(10, '.'));
  const uint64_t declined = counted("declined");
  for (int i = 0; i < 2; ++i) {
    const Reply got = ask("GET");
    EXPECT_EQ(got.body, "0123456789");
    EXPECT_EQ(got.header("x-verbena-rdma-declined"),
              "token: no RDMA device of this server has dynamically connected queue pairs (mlx5)");
  }
  const Reply sent = ask("PUT", {}, "/bucket/new");
  EXPECT_EQ(sent.status, 200);
  EXPECT_EQ(sent.element("Code"), "RDMANotSupported");
  EXPECT_EQ(counted("declined") - declined, 3u);
}

}  // namespace
}  // namespace verbena::s3::test
