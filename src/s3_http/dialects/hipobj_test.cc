// hipobj-rc-v2 and cuObject over reliable connections, over a double of a device.
#include <thread>

#include "auth/network_rules.h"
#include "base/hex.h"
#include "base/metrics.h"
#include "memory/budget.h"
#include "rdma/rc/test_device.h"
#include "s3_http/dialects/routes.h"
#include "s3_http/test_rig.h"

namespace verbena::s3::test {
namespace {

using rdma::rc::Peer;
using DeviceDouble = rdma::rc::test::Fabric;

constexpr char rdma_headers_signed[] =
    "host;x-amz-date;x-amz-rdma-protocol;x-amz-rdma-token;x-amz-rdma-psn;x-amz-rdma-cookie;x-amz-rdma-op;"
    "x-amz-rdma-target;x-amz-rdma-size;x-amz-rdma-offset;x-amz-rdma-session;x-amz-rdma-qpn;x-amz-rdma-mr-addr;"
    "x-amz-rdma-mr-rkey;x-amz-rdma-checksum-algorithm";

class DialectRig : public Rig {
 protected:
  void SetUp() override {
    make_bucket();
    auto endpoint =
        rdma::rc::Endpoint::create(*arena, {"127.0.0.1"}, [this]() -> Result<std::unique_ptr<rdma::rc::Device>> {
          if (!has_device) return fail(Errc::unsupported, "none");
          return device.open();
        });
    connections = std::make_unique<rdma::rc::ReliableConnections>(std::move(*endpoint));
    options.connections = connections.get();
    dialects.add(connections->connections);
    windows = &dialects;
  }
  void TearDown() override {
    EXPECT_EQ(connections->sessions.count(), 0u);
    const metrics::Gauge& sessions = metrics::gauge("verbena_rdma_rc_sessions", "");
    const auto left = [&] {
      return sessions.value() != 0 || device.pairs() != 0 || arena->budget().charged_bytes() != 0;
    };
    for (int i = 0; i < 5000 && left(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    EXPECT_EQ(device.pairs(), 0u);
    EXPECT_EQ(device.remote_regions(), 0u);
    EXPECT_EQ(arena->budget().charged_bytes(), 0u);
  }
  static Headers with(Headers base, const Headers& changes) {
    for (const auto& [name, value] : changes) {
      std::erase_if(base, [&](const auto& one) { return one.first == name; });
      if (value != "-") base.emplace_back(name, value);
    }
    return base;
  }
  Reply post(const std::string& route, const Headers& headers) {
    TestCall c;
    c.method = "POST";
    c.target = route;
    c.headers = headers;
    c.signed_headers = signed_headers;
    c.anonymous = anonymous;
    c.principal = principal;
    return call(std::move(c));
  }
  static std::string client_token() {
    rdma::rc::PeerToken own{.queue_pair = 42, .gid = DeviceDouble::gid_of("127.0.0.1")};
    return rdma::rc::format_peer_token(own);
  }
  Reply prepare(const std::string& op, const std::string& target, uint64_t size, const Headers& changes = {}) {
    const Headers usual{{"x-amz-rdma-protocol", "hipobj-rc-v2"},
                        {"x-amz-rdma-token", client_token()},
                        {"x-amz-rdma-psn", "0a1b2c"},
                        {"x-amz-rdma-cookie", "01020304"},
                        {"x-amz-rdma-op", op},
                        {"x-amz-rdma-target", target},
                        {"x-amz-rdma-size", std::to_string(size)}};
    return post("/.hipobj-rc/prepare", with(usual, changes));
  }
  Reply ready(const Reply& prepared, const Headers& changes = {}) {
    const Headers usual{{"x-amz-rdma-protocol", "hipobj-rc-v2"},
                        {"x-amz-rdma-session", prepared.header("x-amz-rdma-session")},
                        {"x-amz-rdma-cookie", "01020304"},
                        {"x-amz-rdma-qpn", "2a"},
                        {"x-amz-rdma-mr-addr", hex_text(device.address(), 16)},
                        {"x-amz-rdma-mr-rkey", hex_text(DeviceDouble::client_key, 8)}};
    return post("/.hipobj-rc/ready", with(usual, changes));
  }
  Reply cancel(const Reply& prepared) {
    return post("/.hipobj-rc/cancel", {{"x-amz-rdma-protocol", "hipobj-rc-v2"},
                                       {"x-amz-rdma-session", prepared.header("x-amz-rdma-session")}});
  }
  // A client's write into the server's memory, before its READY: PREPARE has connected the server.
  bool write(const Reply& prepared, std::string_view data, uint32_t cookie = 0x01020304) {
    const auto pair = static_cast<uint32_t>(*parse_hex(prepared.header("x-amz-rdma-qpn")));
    const uint64_t at = *parse_hex(prepared.header("x-amz-rdma-mr-addr"));
    const auto key = static_cast<uint32_t>(*parse_hex(prepared.header("x-amz-rdma-mr-rkey")));
    return device.client_writes(pair, at, key, as_bytes(data), cookie);
  }
  std::string memory() const { return std::string(as_text(device.memory)); }

  DeviceDouble device;
  bool has_device = true, anonymous = false;
  std::string signed_headers = rdma_headers_signed;
  auth::PrincipalPtr principal;
  std::unique_ptr<rdma::rc::ReliableConnections> connections;
  rdma::Dialects dialects;
};

TEST_F(DialectRig, AGetLandsInTheClientsMemoryAndTheLastWriteTellsIt) {
  const std::string data = pattern(3 * MiB + 9);
  put("k", data, {{"content-type", "x/y"}});
  device.memory.resize(data.size());
  const Reply prepared = prepare("GET", "/bucket/k", data.size());
  ASSERT_EQ(prepared.status, 200) << prepared.body;
  EXPECT_EQ(prepared.header("x-amz-rdma-protocol"), "hipobj-rc-v2");
  EXPECT_TRUE(prepared.header("x-amz-rdma-reply").starts_with("200:01"));
  EXPECT_EQ(prepared.header("x-amz-rdma-psn").size(), 6u);
  EXPECT_FALSE(prepared.has("x-amz-rdma-mr-addr"));
  EXPECT_FALSE(prepared.has("etag"));
  const Reply r = ready(prepared);
  ASSERT_EQ(r.status, 200) << r.body;
  EXPECT_EQ(r.body, "");
  EXPECT_EQ(r.header("x-amz-rdma-bytes-transferred"), std::to_string(data.size()));
  EXPECT_EQ(r.header("x-amz-rdma-cookie"), "01020304");
  EXPECT_EQ(r.header("x-amz-rdma-etag"), hex_md5(data));
  EXPECT_EQ(r.header("x-amz-rdma-checksum"), "CRC64NVME " + base64_digest(Algorithm::crc64nvme, data));
  EXPECT_EQ(r.header("content-type"), "x/y");
  EXPECT_EQ(r.rdma_bytes, data.size());
  EXPECT_TRUE(memory() == data);
  EXPECT_EQ(device.immediates, std::vector<uint32_t>{0x01020304});
  EXPECT_EQ(ready(prepared).status, 404) << "a session serves one transfer";
  for (int i = 0; i < 5000 && device.pairs() != 0; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_NE(device.pair_ended_in, std::thread::id());
  EXPECT_NE(device.pair_ended_in, std::this_thread::get_id()) << "a loop waited for the device";
}

TEST_F(DialectRig, AGetMovesItsRangeAndWhatThereIsOfIt) {
  put("k", "0123456789");
  device.memory.resize(4);
  EXPECT_EQ(ready(prepare("GET", "/bucket/k", 4, {{"x-amz-rdma-offset", "3"}})).status, 200);
  EXPECT_EQ(memory(), "3456");
  device.memory.assign(4, std::byte{'.'});
  const Reply r = ready(prepare("GET", "/bucket/k", 4, {{"x-amz-rdma-offset", "8"}}));
  EXPECT_EQ(r.header("x-amz-rdma-bytes-transferred"), "2");
  EXPECT_EQ(memory(), "89..");
  const std::string larger = pattern(700);  // size 2000 of an object of 700: 100 bytes from offset 600
  put("larger", larger);
  device.memory.assign(2000, std::byte{'.'});
  const Reply end = ready(prepare("GET", "/bucket/larger", 2000, {{"x-amz-rdma-offset", "600"}}));
  EXPECT_EQ(end.header("x-amz-rdma-bytes-transferred"), "100");
  EXPECT_EQ(memory(), larger.substr(600) + std::string(1900, '.'));
  EXPECT_EQ(prepare("GET", "/bucket/k", 4, {{"x-amz-rdma-offset", "10"}}).status, 416);
  EXPECT_EQ(prepare("GET", "/bucket/absent", 4).status, 404);
  EXPECT_EQ(prepare("GET", "/nowhere/k", 4).status, 404);
}

TEST_F(DialectRig, APutIsStoredFromItsStagingMemoryLikeAnyOther) {
  const std::string data = pattern(1 * MiB + 5);
  const Reply prepared = prepare("PUT", "/bucket/k", data.size());
  ASSERT_EQ(prepared.status, 200) << prepared.body;
  EXPECT_EQ(device.remote_regions(), 1u);
  EXPECT_TRUE(write(prepared, data));
  const Reply r = ready(prepared, {{"x-amz-meta-a", "b"}, {"content-type", "x/y"}});
  ASSERT_EQ(r.status, 200) << r.body;
  EXPECT_EQ(device.remote_regions(), 0u);
  EXPECT_NE(device.ended_in, std::thread::id());
  EXPECT_NE(device.ended_in, std::this_thread::get_id()) << "a loop waited for the device";
  EXPECT_EQ(r.header("x-amz-rdma-bytes-transferred"), std::to_string(data.size()));
  EXPECT_EQ(r.header("x-amz-rdma-checksum-crc64nvme"), base64_digest(Algorithm::crc64nvme, data));
  EXPECT_EQ("\"" + r.header("x-amz-rdma-etag") + "\"", r.header("etag"));
  EXPECT_EQ(r.rdma_bytes, data.size());
  const Reply got = call("GET", "/bucket/k");
  EXPECT_TRUE(got.body == data);
  EXPECT_EQ(got.header("x-amz-meta-a"), "b");
  EXPECT_EQ(got.header("content-type"), "x/y");
}

// Below a lease's size, at it, and above, where memory of its own is mapped.
TEST_F(DialectRig, APutOfAnySizeIsStoredWholeWithTheChecksumThatWasTold) {
  for (const size_t size : {size_t{1}, 4096 * size_t{10} + 1, 1 * MiB, 1 * MiB + 1, 4 * MiB, 4 * MiB + 1}) {
    const std::string data = pattern(size);
    const Reply prepared = prepare("PUT", "/bucket/k", size);
    ASSERT_EQ(prepared.status, 200) << prepared.body;
    EXPECT_TRUE(write(prepared, data));
    const Reply r = ready(prepared);
    ASSERT_EQ(r.status, 200) << r.body;
    const std::string crc = base64_digest(Algorithm::crc64nvme, data);
    EXPECT_EQ(r.header("x-amz-rdma-checksum"), "CRC64NVME " + crc);
    const Reply got = call("GET", "/bucket/k", {{"x-amz-checksum-mode", "ENABLED"}});
    EXPECT_TRUE(got.body == data) << size;
    EXPECT_EQ(got.header("x-amz-checksum-crc64nvme"), crc);
  }
  EXPECT_EQ(arena->leased_bytes(), 0u);
}

TEST_F(DialectRig, TheChecksumOfWhatMovedIsToldWhateverTheObjects) {
  const std::string data = pattern(300'000);
  const std::string crc64 = base64_digest(Algorithm::crc64nvme, data), crc32c = base64_digest(Algorithm::crc32c, data);
  const auto put_with = [&](const Headers& headers) {
    const Reply prepared = prepare("PUT", "/bucket/k", data.size());
    EXPECT_TRUE(write(prepared, data));
    return ready(prepared, headers);
  };
  const auto get_with = [&](const Headers& headers) {
    device.memory.assign(data.size(), std::byte{0});
    const Reply r = ready(prepare("GET", "/bucket/k", data.size()), headers);
    EXPECT_TRUE(memory() == data);
    return r;
  };
  const Headers crc32c_asked{{"x-amz-rdma-checksum-algorithm", "CRC32C"}};
  EXPECT_EQ(put_with(crc32c_asked).header("x-amz-rdma-checksum"), "CRC32C " + crc32c);
  EXPECT_EQ(get_with(crc32c_asked).header("x-amz-rdma-checksum"), "CRC32C " + crc32c);
  EXPECT_EQ(get_with({}).header("x-amz-rdma-checksum"), "CRC64NVME " + crc64) << "the object has another";
  const Reply r = put_with({{"x-amz-checksum-crc32c", crc32c}});
  EXPECT_EQ(r.header("x-amz-rdma-checksum"), "CRC64NVME " + crc64);
  EXPECT_EQ(r.header("x-amz-checksum-crc32c"), crc32c);
  const std::string id =
      call("POST", "/bucket/parts?uploads", {{"x-amz-checksum-algorithm", "SHA256"}}).element("UploadId");
  const Reply prepared = prepare("PUT", "/bucket/parts?partNumber=1&uploadId=" + id, data.size());
  EXPECT_TRUE(write(prepared, data));
  const Reply part = ready(prepared);
  EXPECT_EQ(part.status, 200) << part.body;
  EXPECT_EQ(part.header("x-amz-rdma-checksum"), "CRC64NVME " + crc64);
  EXPECT_EQ(part.header("x-amz-checksum-sha256"), base64_digest(Algorithm::sha256, data));
}

TEST_F(DialectRig, ThePutsEtagIsAnMd5WhereTheClientAsksForIt) {
  const auto etag_with = [&](const Headers& headers) {
    const Reply prepared = prepare("PUT", "/bucket/k", 4);
    EXPECT_TRUE(write(prepared, "data"));
    return ready(prepared, headers).header("x-amz-rdma-etag");
  };
  EXPECT_NE(etag_with({}).find('-'), std::string::npos);
  EXPECT_EQ(etag_with({{"x-verbena-etag", "MD5"}}), hex_md5("data"));
}

TEST_F(DialectRig, AnUploadPartIsATransferToo) {
  const std::string id = call("POST", "/bucket/k?uploads").element("UploadId");
  const Reply prepared = prepare("PUT", "/bucket/k?partNumber=1&uploadId=" + id, 10);
  EXPECT_TRUE(write(prepared, "0123456789"));
  const Reply r = ready(prepared);
  ASSERT_EQ(r.status, 200) << r.body;
  const std::string body = "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>" + r.header("etag") +
                           "</ETag></Part></CompleteMultipartUpload>";
  EXPECT_EQ(call("POST", "/bucket/k?uploadId=" + id, {}, body).status, 200);
  EXPECT_EQ(call("GET", "/bucket/k").body, "0123456789");
}

TEST_F(DialectRig, ConditionsAndChecksumsOfReadyCount) {
  const std::string etag = put("k", "old").header("etag");
  device.memory.resize(3);
  EXPECT_EQ(ready(prepare("GET", "/bucket/k", 3), {{"if-match", "\"x\""}}).status, 412);
  Reply prepared = prepare("PUT", "/bucket/k", 3);
  EXPECT_TRUE(write(prepared, "new"));
  EXPECT_EQ(ready(prepared, {{"if-none-match", "*"}}).status, 412);
  prepared = prepare("PUT", "/bucket/k", 3);
  EXPECT_TRUE(write(prepared, "new"));
  EXPECT_EQ(ready(prepared, {{"x-amz-checksum-crc32c", base64_digest(Algorithm::crc32c, "other")}}).code, "BadDigest");
  EXPECT_EQ(call("GET", "/bucket/k").body, "old");
  EXPECT_EQ(device.immediates.size(), 0u);
}

TEST_F(DialectRig, APutIsStoredOnlyWithItsCookieAndItsSize) {
  Reply prepared = prepare("PUT", "/bucket/k", 10);
  EXPECT_TRUE(write(prepared, "0123456789", 9));
  EXPECT_EQ(ready(prepared).code, "RDMATransferFailed");
  prepared = prepare("PUT", "/bucket/k", 10);
  EXPECT_TRUE(write(prepared, "012345678"));
  EXPECT_EQ(ready(prepared).status, 500);
  EXPECT_EQ(call("GET", "/bucket/k").status, 404);
}

TEST_F(DialectRig, TheStagingMemoryIsTheSessionsAloneAndEndsWithIt) {
  const Reply prepared = prepare("PUT", "/bucket/k", 10);
  const auto pair = static_cast<uint32_t>(*parse_hex(prepared.header("x-amz-rdma-qpn")));
  const uint64_t at = *parse_hex(prepared.header("x-amz-rdma-mr-addr"));
  const auto key = static_cast<uint32_t>(*parse_hex(prepared.header("x-amz-rdma-mr-rkey")));
  EXPECT_FALSE(device.client_writes(pair, at + 1, key, as_bytes("0123456789"), 1)) << "beyond its end";
  EXPECT_FALSE(device.client_writes(pair, at, key + 1, as_bytes("0123456789"), 1));
  EXPECT_TRUE(write(prepared, "0123456789"));
  EXPECT_EQ(ready(prepared).status, 200);
  EXPECT_FALSE(write(prepared, "0123456789"));
}

TEST_F(DialectRig, PrepareConnectsToTheQueuePairOfItsTokenAndReadyToItsOwnOnlyWithoutOne) {
  std::vector<uint32_t> connected;
  const auto note = [&](uint32_t, const Peer& peer) {
    EXPECT_EQ(peer.sequence, 0x0a1b2cu);
    connected.push_back(peer.queue_pair);
  };
  device.on_connect = note;
  Reply prepared = prepare("PUT", "/bucket/k", 4);
  EXPECT_EQ(connected, std::vector<uint32_t>{42});
  EXPECT_TRUE(write(prepared, "data"));
  const Reply other = ready(prepared, {{"x-amz-rdma-qpn", "2b"}});
  EXPECT_EQ(other.status, 400) << "a client that changes its mind about its queue pair";
  for (int i = 0; i < 5000 && device.pairs() != 0; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_EQ(device.pairs(), 0u) << "its session has ended";
  EXPECT_EQ(call("GET", "/bucket/k").status, 404);
  rdma::rc::PeerToken without{.queue_pair = 0, .gid = DeviceDouble::gid_of("127.0.0.1")};
  device.on_connect = note;
  prepared = prepare("PUT", "/bucket/k", 4, {{"x-amz-rdma-token", rdma::rc::format_peer_token(without)}});
  ASSERT_EQ(prepared.status, 200);
  EXPECT_EQ(connected.size(), 1u);
  EXPECT_TRUE(write(prepared, "data"));
  EXPECT_EQ(ready(prepared).status, 200);
  EXPECT_EQ(connected, (std::vector<uint32_t>{42, 42}));
}

TEST_F(DialectRig, AFailedGetIsAnErrorWithoutTheObjectsHeaders) {
  put("k", "0123456789");
  device.memory.resize(10);
  device.fail_status = 10;
  Reply r = ready(prepare("GET", "/bucket/k", 10));
  EXPECT_EQ(r.status, 500);
  EXPECT_EQ(r.code, "RDMATransferFailed");
  EXPECT_FALSE(r.has("etag"));
  EXPECT_FALSE(r.has("x-amz-rdma-bytes-transferred"));
  device.fail_status = 0;
  r = ready(prepare("GET", "/bucket/k", 10), {{"x-amz-rdma-mr-rkey", "99"}});
  EXPECT_EQ(r.code, "RDMATransferFailed") << "another key than its memory's";
  EXPECT_EQ(r.rdma_bytes, 0u);
}

TEST_F(DialectRig, AServerWhoseAddressHasChangedSendsItsClientToHttpOnce) {
  put("k", "data");
  device.memory.resize(4);
  const Reply prepared = prepare("GET", "/bucket/k", 4);
  ASSERT_EQ(prepared.status, 200);
  device.own_address = "127.0.0.9";
  std::this_thread::sleep_for(std::chrono::milliseconds(1100));  // its port is read again after a second
  const Reply r = ready(prepared);
  EXPECT_EQ(r.status, 501) << r.body;
  EXPECT_EQ(r.header("x-amz-rdma-protocol-status"), "unsupported");
  EXPECT_EQ(ready(prepare("GET", "/bucket/k", 4)).status, 200);
  EXPECT_EQ(memory(), "data");
}

TEST_F(DialectRig, StrangersAndUnsignedHeadersAreRefused) {
  put("k", "data");
  device.memory.resize(4);
  anonymous = true;
  EXPECT_EQ(prepare("GET", "/bucket/k", 4).status, 403);
  anonymous = false;
  signed_headers = "host;x-amz-date";
  EXPECT_EQ(prepare("GET", "/bucket/k", 4).status, 403);
  signed_headers = rdma_headers_signed;
  const Reply prepared = prepare("GET", "/bucket/k", 4);
  ASSERT_EQ(prepared.status, 200);
  auto other = std::make_shared<auth::Principal>();
  other->account = auth::root_account();
  other->superuser = true;
  other->arn = "arn:aws:iam::000000000000:user/mallory";
  principal = other;
  EXPECT_EQ(ready(prepared).status, 404) << "another caller's session";
  EXPECT_EQ(cancel(prepared).status, 204);
  principal = nullptr;
  EXPECT_EQ(ready(prepared).status, 200);
}

TEST_F(DialectRig, ACallerWithoutTheRightHoldsNoMemory) {
  auto nothing = std::make_shared<auth::Principal>();
  nothing->kind = auth::Principal::Kind::user;
  nothing->account = std::make_shared<auth::Account>(auth::Account{"000000000009", "someone", "someone", ""});
  nothing->arn = "arn:aws:iam::000000000009:user/nothing";
  put("k", "data");
  principal = nothing;
  EXPECT_EQ(prepare("GET", "/bucket/k", 4).status, 403);
  EXPECT_EQ(prepare("PUT", "/bucket/k", 4).status, 403);
  EXPECT_EQ(device.remote_regions(), 0u);
}

TEST_F(DialectRig, MalformedCallsAre400AndHugeOnes413) {
  put("k", "data");
  const Headers bad[] = {{{"x-amz-rdma-op", "DELETE"}},
                         {{"x-amz-rdma-token", std::string(88, '1')}},
                         {{"x-amz-rdma-psn", "000000"}},
                         {{"x-amz-rdma-psn", "1234567"}},
                         {{"x-amz-rdma-cookie", "x"}},
                         {{"x-amz-rdma-size", "0"}},
                         {{"x-amz-rdma-size", "-1"}},
                         {{"x-amz-rdma-target", "bucket/k"}},
                         {{"x-amz-rdma-target", "/.hipobj-rc/ready"}},
                         {{"x-amz-rdma-target", "/bucket/k?acl"}},
                         {{"x-amz-rdma-target", "/bucket"}},
                         {{"x-amz-rdma-offset", "1"}},
                         {{"x-amz-rdma-cookie", "-"}}};
  for (const Headers& changes : bad) {
    EXPECT_EQ(prepare("PUT", "/bucket/k", 4, changes).status, 400) << changes[0].first << ": " << changes[0].second;
  }
  EXPECT_EQ(prepare("GET", "/bucket", 4).status, 400) << "a listing is no object";
  EXPECT_EQ(prepare("PUT", "/bucket/k", 64 * MiB + 1).status, 413);
  EXPECT_EQ(prepare("GET", "/bucket/k", uint64_t{1} << 31).status, 413);
  const Reply prepared = prepare("GET", "/bucket/k", 4);
  for (const Headers& changes : {Headers{{"x-amz-rdma-qpn", "0"}}, Headers{{"x-amz-rdma-qpn", "1000000"}},
                                 Headers{{"x-amz-rdma-session", "zz"}}}) {
    EXPECT_EQ(ready(prepared, changes).status, 400);
  }
  EXPECT_EQ(ready(prepared, {{"x-amz-rdma-cookie", "99"}}).status, 403);
  EXPECT_EQ(ready(prepare("GET", "/bucket/k", 4), {{"x-amz-rdma-mr-addr", "-"}}).status, 400);
}

TEST_F(DialectRig, WithoutADeviceOrTheSettingClientsAreToldToUseHttp) {
  has_device = false;
  Reply r = prepare("PUT", "/bucket/k", 4);
  EXPECT_EQ(r.status, 501);
  EXPECT_EQ(r.header("x-amz-rdma-protocol-status"), "unsupported");
  options.connections = nullptr;
  r = prepare("PUT", "/bucket/k", 4);
  EXPECT_EQ(r.status, 501);
  EXPECT_EQ(r.header("x-amz-rdma-protocol-status"), "unsupported");
  options.connections = connections.get();
  EXPECT_EQ(prepare("PUT", "/bucket/k", 4, {{"x-amz-rdma-protocol", "hipobj-rc-v3"}}).status, 501);
  EXPECT_EQ(call("POST", "/.hipobj-rc/other").status, 501) << "no call of the dialect";
}

TEST_F(DialectRig, ANetworksRuleHoldsForThemToo) {
  put("k", "data");
  device.memory.resize(4);
  const auto rules = [](auth::NetworkEntry entry) {
    entry.networks = {"127.0.0.1"};
    return *auth::NetworkRules::make({entry}, RdmaEncryption::preferred);
  };
  const auth::NetworkRules sealed = rules({.encryption = RdmaEncryption::required});
  const auth::NetworkRules another_account = rules({.accounts = {{"123456789012"}}});
  const auth::NetworkRules root = rules({.accounts = {{std::string(auth::root_account_id)}}});
  options.networks = &sealed;
  const Reply r = prepare("PUT", "/bucket/k", 4);
  EXPECT_EQ(r.status, 501);
  EXPECT_EQ(r.header("x-amz-rdma-protocol-status"), "unsupported");
  options.networks = &another_account;
  EXPECT_EQ(prepare("GET", "/bucket/k", 4).status, 403);
  options.networks = &root;
  TestCall connect{.method = "POST", .target = "/.s3rdma-rc/connect"};
  connect.anonymous = true;
  EXPECT_EQ(call(connect).status, 403) << "elsewhere it may be unsigned";
  EXPECT_EQ(ready(prepare("GET", "/bucket/k", 4)).status, 200);
}

TEST_F(DialectRig, ACallOutsideOfItsTurnFindsNothing) {
  put("k", "data");
  const Reply prepared = prepare("GET", "/bucket/k", 4);
  EXPECT_EQ(cancel(prepared).status, 204);
  EXPECT_EQ(cancel(prepared).status, 204);
  EXPECT_EQ(ready(prepared).status, 404);
}

TEST_F(DialectRig, CuObjectsTokensUseTheirConnectionBothWays) {
  const auto connect = [&] {
    return post("/.s3rdma-rc/connect", {{"x-amz-rdma-token", client_token()}, {"x-amz-rdma-psn", "0a1b2c"}});
  };
  for (const bool stranger : {false, true}) {  // its clients do not sign these calls
    anonymous = stranger;
    const Reply connected = connect();
    ASSERT_EQ(connected.status, 200) << connected.body;
    const std::string id = connected.header("x-amz-rdma-session");
    const std::string data = pattern(300'000);
    device.memory.assign(data.size(), std::byte{});
    std::memcpy(device.memory.data(), data.data(), data.size());
    const std::string token = "rc:" + id + ":" + hex_text(device.address(), 1) + ":" + hex_text(data.size(), 1) + ":77";
    const Reply stored = call("PUT", "/bucket/rc", {{"x-amz-rdma-token", token}});
    EXPECT_EQ(stored.status, 200) << stored.body;
    EXPECT_EQ(stored.header("x-amz-rdma-reply"), "200");
    EXPECT_TRUE(call("GET", "/bucket/rc").body == data);
    device.memory.assign(data.size(), std::byte{});
    const Reply got = call("GET", "/bucket/rc", {{"x-amz-rdma-token", token}});
    EXPECT_EQ(got.header("x-amz-rdma-reply"), "200");
    EXPECT_EQ(got.body, "");
    EXPECT_TRUE(memory() == data);
    EXPECT_EQ(post("/.s3rdma-rc/disconnect", {{"x-amz-rdma-session", id}}).status, 204);
    const Reply late = call("GET", "/bucket/rc", {{"x-amz-rdma-token", token}});
    EXPECT_EQ(late.header("x-amz-rdma-reply"), "501");
    EXPECT_TRUE(late.body == data);
  }
}

}  // namespace
}  // namespace verbena::s3::test
