// x-amz-rdma-token, case by case.
#include <fmt/core.h>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <thread>

#include "auth/network_rules.h"
#include "base/metrics.h"
#include "memory/budget.h"
#include "s3_http/test_rig.h"

namespace verbena::s3::test {
namespace {

// A client's memory, which fails when told to.
struct ClientMemory {
  std::string bytes;
  std::optional<uint64_t> fail_at;  // operations that touch this offset fail
  int operations = 0;
  bool refuses_reads = false;  // a failing read is refused, not late
  std::chrono::milliseconds write_takes{0}, read_takes{0};
  bool by_device = false;
  std::vector<size_t> reads;  // their sizes, as they begin
  int reads_under_way = 0;    // of a device
  std::function<void()> on_read;
  int writing = 0, writing_max = 0;  // at once
};

class FakeWindow : public fabric::Window {
 public:
  explicit FakeWindow(ClientMemory& memory) : memory_(memory) {}
  uint64_t size() const override { return memory_.bytes.size(); }
  bool by_device() const override { return memory_.by_device; }
  Task<Result<void>> write(Bytes from, uint64_t at, Deadline) override {
    ++memory_.operations;
    if (fails(at, from.size())) co_return fail(Errc::rdma_transfer_failed, "fake");
    if (memory_.write_takes.count() != 0) {
      memory_.writing_max = std::max(memory_.writing_max, ++memory_.writing);
      boost::asio::steady_timer pause(co_await boost::asio::this_coro::executor, memory_.write_takes);
      co_await pause.async_wait(boost::asio::as_tuple(boost::asio::use_awaitable));
      --memory_.writing;
    }
    std::memcpy(memory_.bytes.data() + at, from.data(), from.size());
    co_return Result<void>();
  }
  Task<Result<void>> read(MutableBytes into, uint64_t at, Deadline) override {
    ++memory_.operations;
    memory_.reads.push_back(into.size());
    if (memory_.on_read) memory_.on_read();
    if (memory_.by_device) {
      boost::asio::steady_timer pause(co_await boost::asio::this_coro::executor, memory_.read_takes);
      ++memory_.reads_under_way;
      co_await pause.async_wait(boost::asio::as_tuple(boost::asio::use_awaitable));
      --memory_.reads_under_way;
    }
    if (fails(at, into.size())) {
      co_return fail(memory_.refuses_reads ? Errc::rdma_transfer_failed : Errc::timed_out, "fake");
    }
    if (!memory_.by_device) std::this_thread::sleep_for(memory_.read_takes);
    std::memcpy(into.data(), memory_.bytes.data() + at, into.size());
    co_return Result<void>();
  }

 private:
  bool fails(uint64_t at, size_t length) const {
    return at + length > memory_.bytes.size() ||
           (memory_.fail_at && *memory_.fail_at >= at && *memory_.fail_at < at + length);
  }
  ClientMemory& memory_;
};

class FakeWindows : public rdma::Dialect {
 public:
  explicit FakeWindows(ClientMemory& memory) : memory_(memory) {}
  Task<Result<std::unique_ptr<fabric::Window>>> open(const rdma::Token&, rdma::TokenClient client,
                                                     fabric::Access) override {
    EXPECT_EQ(client.address, "127.0.0.1");
    if (refuse) co_return fail(*refuse, "fake");
    std::this_thread::sleep_for(open_takes);
    co_return std::make_unique<FakeWindow>(memory_);
  }
  bool serves(rdma::TokenForm form) const override { return form == rdma::TokenForm::ofi1; }
  std::optional<Errc> refuse;
  std::chrono::milliseconds open_takes{0};

 private:
  ClientMemory& memory_;
};

class Tokens : public Rig {
 protected:
  void SetUp() override {
    make_bucket();
    windows = &windows_;
  }
  std::string token() const { return fmt::format("1000:{:x}:ofi1:tcp:0200aabb7f000001:7", memory.bytes.size()); }
  Reply get(Headers headers = {}) {
    headers.emplace_back("x-amz-rdma-token", token());
    return call("GET", "/bucket/k", std::move(headers));
  }
  Reply put_token(Headers headers = {}, const std::string& target = "/bucket/k") {
    headers.emplace_back("x-amz-rdma-token", token());
    return call("PUT", target, std::move(headers));
  }

  ClientMemory memory;
  FakeWindows windows_{memory};
};

TEST_F(Tokens, ThePutsEtagIsAnMd5WhereTheClientAsksForIt) {
  memory.bytes = pattern(100'000);
  EXPECT_NE(put_token().header("etag").find('-'), std::string::npos);
  const std::string md5 = "\"" + hex_md5(memory.bytes) + "\"";
  EXPECT_EQ(put_token({{"x-verbena-etag", "MD5"}}).header("etag"), md5);
  EXPECT_EQ(call("HEAD", "/bucket/k").header("etag"), md5);
  EXPECT_EQ(put_token({{"x-verbena-etag", "SHA1"}}).code, "InvalidArgument");
  const std::string id = call("POST", "/bucket/parts?uploads").element("UploadId");
  EXPECT_EQ(put_token({{"x-verbena-etag", "md5"}}, "/bucket/parts?partNumber=1&uploadId=" + id).header("etag"), md5);
}

// The bytes that are leased as each read begins: with those of the piece before, which is stored meanwhile.
TEST_F(Tokens, APutsNextPieceIsOnItsWayWhileADevicesLastOneIsStored) {
  const std::string data = pattern(4 * MiB);
  arena->budget().set_limits({.total_max = 256 * MiB, .peer_max = 256 * MiB, .small_max = 0});  // whole pieces
  for (const bool by_device : {false, true}) {
    memory = {};
    memory.bytes = data;
    memory.by_device = by_device;
    std::vector<size_t> leased;
    memory.on_read = [&] { leased.push_back(arena->leased_bytes()); };
    ASSERT_EQ(put_token().status, 200);
    constexpr size_t piece = 1 * MiB;
    const std::vector<size_t> pieces(4, piece), ahead{piece, 2 * piece, 2 * piece, 2 * piece};
    EXPECT_EQ(memory.reads, pieces);
    EXPECT_EQ(leased, by_device ? ahead : pieces);
    EXPECT_TRUE(call("GET", "/bucket/k").body == data);
    EXPECT_EQ(arena->leased_bytes(), 0u);
  }
  memory.on_read = nullptr;
  memory.bytes = pattern(5 * MiB + 77);
  ASSERT_EQ(put_token().status, 200);
  EXPECT_TRUE(call("GET", "/bucket/k").body == memory.bytes);
}

TEST_F(Tokens, APutThatEndsInTheMiddleReadsNoPieceAfterItsAnswer) {
  memory.bytes = pattern(2 * MiB);
  memory.by_device = true;
  memory.read_takes = std::chrono::milliseconds(5);
  memory.fail_at = 1 * MiB;
  EXPECT_EQ(put_token().code, "RDMATransferFailed");
  const size_t failed = memory.reads.size();
  // The store is full: the read that is under way ends before the answer, and no other begins. Whether it fails, too,
  // is nothing to the client.
  memory.bytes = pattern(4 * MiB);
  for (const bool read_fails : {false, true}) {
    // Where the second piece begins.
    memory.fail_at = read_fails ? std::optional<uint64_t>(memory.reads.at(0)) : std::nullopt;
    memory.reads.clear();
    store.append_error = Errc::insufficient_storage;
    EXPECT_EQ(put_token().code, "InsufficientStorage");
    EXPECT_EQ(memory.reads.size(), 2u);
    EXPECT_EQ(memory.reads_under_way, 0);
  }
  EXPECT_GE(failed, 2u);
  EXPECT_EQ(call("GET", "/bucket/k").status, 404);
  EXPECT_EQ(arena->leased_bytes(), 0u);
}

// A body that waits for more memory while it holds some could wait for others that do the same.
TEST_F(Tokens, APutReadsAheadIntoFreeMemoryAlone) {
  memory.bytes = pattern(2 * MiB);
  memory.by_device = true;
  memory::Budget::Limits small{.total_max = 256 * KiB, .peer_max = 256 * KiB, .small_max = 0};
  arena->budget().set_limits(small);
  size_t most = 0;
  memory.on_read = [&] { most = std::max(most, arena->leased_bytes()); };
  ASSERT_EQ(put_token().status, 200);
  EXPECT_LE(most, 256 * KiB);
  EXPECT_TRUE(call("GET", "/bucket/k").body == memory.bytes);
}

TEST_F(Tokens, AGetLandsInTheWindowAndLeavesTheBodyEmpty) {
  const std::string data = pattern(3 * MiB + 9);
  put("k", data, {{"content-type", "x/y"}});
  memory.bytes.assign(4 * MiB, '.');
  const Reply r = get();
  EXPECT_EQ(r.status, 200);
  EXPECT_EQ(r.body, "");
  EXPECT_FALSE(r.no_body);
  EXPECT_EQ(r.header("x-amz-rdma-reply"), "200");
  EXPECT_EQ(r.header("x-amz-rdma-bytes-transferred"), std::to_string(data.size()));
  EXPECT_EQ(r.header("etag"), "\"" + hex_md5(data) + "\"");
  EXPECT_EQ(r.header("content-type"), "x/y");
  EXPECT_EQ(r.rdma_bytes, data.size());
  EXPECT_TRUE(memory.bytes.substr(0, data.size()) == data);
  EXPECT_EQ(memory.bytes.find_first_not_of('.', data.size()), std::string::npos);
  EXPECT_EQ(arena->leased_bytes(), 0u);
}

TEST_F(Tokens, ARangedGetIs206) {
  put("k", "0123456789");
  memory.bytes.assign(4, '.');
  const Reply r = get({{"range", "bytes=2-5"}});
  EXPECT_EQ(r.status, 206);
  EXPECT_EQ(r.header("x-amz-rdma-reply"), "206");
  EXPECT_EQ(r.header("x-amz-rdma-bytes-transferred"), "4");
  EXPECT_EQ(r.header("content-range"), "bytes 2-5/10");
  EXPECT_EQ(memory.bytes, "2345");
}

TEST_F(Tokens, AGetThatDoesNotFitIsDeclinedWithTheBody) {
  put("k", "0123456789");
  memory.bytes.assign(9, '.');
  const Reply r = get();
  EXPECT_EQ(r.status, 200);
  EXPECT_EQ(r.header("x-amz-rdma-reply"), "501");
  EXPECT_FALSE(r.has("x-amz-rdma-bytes-transferred"));
  EXPECT_EQ(r.body, "0123456789");
  EXPECT_EQ(memory.operations, 0);
}

TEST_F(Tokens, AGetIsDeclinedWithoutRdmaOrWithAnotherDialect) {
  put("k", "data");
  memory.bytes.assign(100, '.');
  windows_.refuse = Errc::rdma_not_supported;
  EXPECT_EQ(get().header("x-amz-rdma-reply"), "501");
  EXPECT_EQ(get({{"range", "bytes=0-1"}}).status, 206);
  windows = nullptr;
  EXPECT_EQ(get().body, "data");
  windows = &windows_;
  windows_.refuse = {};
  const Reply r = call("GET", "/bucket/k",
                       {{"x-amz-rdma-token",
                         "0123456789abcdef00001000deadbeef0001abcdef1"
                         "00000000000000000000ffff0a000001000000"}});
  EXPECT_EQ(r.body, "data");
}

TEST_F(Tokens, WhereEncryptionIsRequiredTheyAreDeclined) {
  put("k", "0123456789");
  memory.bytes.assign(10, '.');
  const auto rules = [](const char* network) {
    return *auth::NetworkRules::make({{.networks = {network}, .encryption = RdmaEncryption::required}},
                                     RdmaEncryption::preferred);
  };
  const auth::NetworkRules here = rules("127.0.0.0/8"), elsewhere = rules("10.0.0.0/8");
  options.networks = &here;
  const Reply r = get();
  EXPECT_EQ(r.header("x-amz-rdma-reply"), "501");
  EXPECT_EQ(r.header("x-verbena-rdma-declined"), "token: its payload is not encrypted, as this network requires");
  EXPECT_EQ(r.body, "0123456789");
  EXPECT_EQ(put_token().element("Code"), "RDMANotSupported");
  EXPECT_EQ(memory.operations, 0);
  options.networks = &elsewhere;
  EXPECT_EQ(get().header("x-amz-rdma-reply"), "200");
}

TEST_F(Tokens, AFailedTransferFallsBackToTheBody) {
  const std::string data = pattern(3 * MiB);
  put("k", data);
  memory.bytes.assign(4 * MiB, '.');
  memory.fail_at = 2 * MiB;
  const Reply r = get();
  EXPECT_EQ(r.status, 200);
  EXPECT_EQ(r.header("x-amz-rdma-reply"), "501");
  EXPECT_EQ(r.header("x-verbena-rdma-declined"), "token: the transfer failed");
  EXPECT_TRUE(r.body == data);
  EXPECT_EQ(r.rdma_bytes, 0u);
  EXPECT_EQ(arena->leased_bytes(), 0u);
}

// A client that is slow to take what is written must not hold what others wait for.
TEST_F(Tokens, AGetHoldsOnePieceAtATimeWhereMemoryIsScarce) {
  const std::string data = pattern(1 * MiB);
  put("k", data);
  memory.bytes.assign(data.size(), '.');
  memory.write_takes = std::chrono::milliseconds(2);
  EXPECT_EQ(get().header("x-amz-rdma-reply"), "200");
  const int plenty = memory.writing_max;
  arena->budget().set_limits({.total_max = 4 * MiB, .peer_max = 2 * MiB, .small_max = 1 * MiB});
  memory.writing_max = 0;
  memory.bytes.assign(data.size(), '.');
  EXPECT_EQ(get().header("x-amz-rdma-reply"), "200");
  EXPECT_EQ(memory.writing_max, 1) << plenty << " where there was plenty";
  EXPECT_TRUE(memory.bytes == data);
}

TEST_F(Tokens, NothingIsPostedWhenTheTimeIsOver) {
  put("k", "data");
  memory.bytes.assign(4, '.');
  options.rdma_deadline = std::chrono::milliseconds(0);
  const Reply r = get();
  EXPECT_EQ(r.header("x-amz-rdma-reply"), "501");
  EXPECT_EQ(r.body, "data");
  EXPECT_EQ(memory.bytes, "....");
  EXPECT_EQ(put_token().status, 501) << "it can still send a body";
  EXPECT_EQ(memory.operations, 0);
  EXPECT_EQ(call("GET", "/bucket/k").body, "data");
}

TEST_F(Tokens, APutHasItsSizeAtTheSlowestRateBesides) {
  memory.bytes = pattern(3 * MiB);
  options.rdma_deadline = std::chrono::milliseconds(0);
  options.rdma_rate_min = 10'000;  // bytes per second: 5 minutes
  EXPECT_EQ(put_token().status, 200);
  EXPECT_TRUE(call("GET", "/bucket/k").body == memory.bytes);
  options.rdma_rate_min = uint64_t{1} << 50;
  EXPECT_EQ(put_token().status, 501);
}

// The first request after a start registers the arena with a device, which may take longer than a client has.
TEST_F(Tokens, APutWhoseWindowOpensTooLateIsDeclined) {
  memory.bytes = "data";
  options.rdma_deadline = std::chrono::milliseconds(200);
  windows_.open_takes = std::chrono::milliseconds(150);
  const Reply r = put_token();
  EXPECT_EQ(r.status, 501);
  EXPECT_EQ(r.header("x-amz-rdma-reply"), "501");
  EXPECT_EQ(r.header("x-verbena-rdma-declined"), "token: its window was not open in time");
  EXPECT_EQ(r.element("Code"), "RDMANotSupported");
  EXPECT_EQ(memory.operations, 0);
  EXPECT_EQ(call("GET", "/bucket/k").status, 404);
}

TEST_F(Tokens, APutThatWasReadInTimeIsStoredHoweverLongTheStoreTakes) {
  const auto slowly = [] { std::this_thread::sleep_for(std::chrono::milliseconds(600)); };
  options.rdma_deadline = std::chrono::milliseconds(1000);
  memory.bytes = pattern(64 * KiB);
  store.while_written = slowly;
  const Reply stored = put_token();
  EXPECT_EQ(stored.status, 200) << stored.body;
  EXPECT_TRUE(call("GET", "/bucket/k").body == memory.bytes);
  // If more was to be read, the server is too busy, and the transfer has not failed.
  memory.bytes = pattern(3 * MiB);
  store.while_written = slowly;
  const Reply refused = put_token();
  EXPECT_EQ(refused.status, 503);
  EXPECT_EQ(refused.code, "SlowDown");
  EXPECT_EQ(call("GET", "/bucket/k").body.size(), 64 * KiB);
  memory.read_takes = std::chrono::milliseconds(600);
  EXPECT_EQ(put_token().code, "RDMATransferFailed") << "it was the client that took long";
}

TEST_F(Tokens, AStoreErrorDuringATransferIsAPlainError) {
  put("k", pattern(3 * MiB));
  memory.bytes.assign(4 * MiB, '.');
  store.rot_at = 2 * MiB;
  const Reply r = get();
  EXPECT_EQ(r.status, 500);
  EXPECT_FALSE(r.has("x-amz-rdma-reply"));
  EXPECT_FALSE(r.has("etag"));
}

TEST_F(Tokens, AnEmptyObjectMovesNothing) {
  put("k", "");
  memory.bytes.assign(1, '.');
  const Reply r = get();
  EXPECT_EQ(r.header("x-amz-rdma-reply"), "200");
  EXPECT_EQ(r.header("x-amz-rdma-bytes-transferred"), "0");
  EXPECT_EQ(memory.operations, 0);
}

TEST_F(Tokens, OtherErrorsArePlain) {
  memory.bytes.assign(10, '.');
  EXPECT_EQ(get().code, "NoSuchKey");
  EXPECT_FALSE(get().has("x-amz-rdma-reply"));
  const std::string etag = put("k", "data").header("etag");
  EXPECT_EQ(get({{"if-none-match", etag}}).status, 304);
  EXPECT_FALSE(get({{"if-none-match", etag}}).has("x-amz-rdma-reply"));
  EXPECT_EQ(get({{"range", "bytes=50-"}}).status, 416);
  EXPECT_EQ(memory.operations, 0);
}

TEST_F(Tokens, ABadTokenIs400WithoutAReplyHeader) {
  put("k", "data");
  for (const std::string& bad : {std::string("0:4:ofi1:tcp"), std::string("0:4:ofi1:t cp:00:1"),
                                 "0:4:ofi1:tcp:" + std::string(5000, 'a') + ":1"}) {
    for (const char* method : {"GET", "PUT"}) {
      const Reply r = call(method, "/bucket/k", {{"x-amz-rdma-token", bad}});
      EXPECT_EQ(r.status, 400);
      EXPECT_EQ(r.code, "InvalidRDMAToken");
      EXPECT_FALSE(r.has("x-amz-rdma-reply"));
    }
  }
  memory.bytes.assign(10, '.');
  windows_.refuse = Errc::invalid_rdma_token;
  EXPECT_EQ(get().code, "InvalidRDMAToken");
  EXPECT_EQ(put_token().code, "InvalidRDMAToken");
  EXPECT_EQ(call("GET", "/bucket/k").body, "data");
}

// After a 400 a client has no fallback.
TEST_F(Tokens, OfUnknownDialectsAreDeclinedAndAPutByTheStatusThatItsClientsTake) {
  put("k", "data");
  const std::string dc = "00007f0000001000:00100000:00001234:0001:00002a:1:fe80000000000000000000000000000f";
  struct Case {
    std::string text;
    rdma::TokenForm form;
    int status;
  };
  using enum rdma::TokenForm;
  const std::string connection = "00112233445566778899aabbccddeeff";
  const Case cases[] = {
      {dc, cuobject, 200},
      {dc + ";", cuobject, 200},
      {dc + ":00007f0000001000:0000000000100000", cuobject, 200},
      {"7f0000001000:100000:1234:1:2a:1:fe80", cuobject, 200},
      {"rc:" + connection + ":7f0000001000:100000:1234", cuobject_rc, 501},
      {std::string(88, 'c'), hipobj, 501},
      {"hipobj-rc-v2:1234", unknown, 501},
      {std::string(128, 'c'), unknown, 501},
      {"0:4:ofi2:tcp:00:1", unknown, 501},
      {"0:4:ofi1:tcp:00:00112233445566778899", ofi1_raw, 501},
      {"nonsense", unknown, 501},
      {std::string(5000, 'a'), unknown, 501},
  };
  for (const auto& [text, form, status] : cases) {
    SCOPED_TRACE(text);
    const rdma::FormTraits& traits = rdma::traits_of(form);
    const metrics::Counter& declined = metrics::counter(
        "verbena_rdma_dialect_tokens_total", "", {{"dialect", std::string(traits.name)}, {"outcome", "declined"}});
    const uint64_t before = declined.value();
    const Reply got = call("GET", "/bucket/k", {{"x-amz-rdma-token", text}});
    EXPECT_EQ(got.status, 200);
    EXPECT_EQ(got.body, "data");
    EXPECT_EQ(got.header("x-amz-rdma-reply"), "501");
    EXPECT_EQ(got.header("x-verbena-rdma-declined"), traits.unserved);
    EXPECT_EQ(got.header("x-amz-rdma-protocol-status"), form == hipobj ? "unsupported" : "(none)");
    const Reply sent = call("PUT", "/bucket/new", {{"x-amz-rdma-token", text}, {"x-amz-rdma-bytes", "3"}});
    EXPECT_EQ(sent.status, status);
    EXPECT_EQ(sent.header("x-amz-rdma-reply"), "501");
    EXPECT_EQ(sent.element("Code"), "RDMANotSupported");
    EXPECT_FALSE(sent.has("etag"));
    EXPECT_EQ(declined.value() - before, 2u);
  }
  EXPECT_EQ(call("GET", "/bucket/new").status, 404);
  EXPECT_EQ(memory.operations, 0);
}

TEST_F(Tokens, TellTheBytesAndTheChecksumOfWhatMoved) {
  const std::string data = pattern(700'000);
  put("k", data);
  memory.bytes.assign(data.size(), '.');
  const auto check = [](const Reply& r, const std::string& moved, const Headers& asked) {
    const bool crc32c = !asked.empty();
    EXPECT_EQ(r.header("x-amz-rdma-bytes-transferred"), std::to_string(moved.size()));
    EXPECT_EQ(r.header("x-amz-rdma-checksum-crc64nvme"),
              crc32c ? "(none)" : base64_digest(Algorithm::crc64nvme, moved));
    EXPECT_EQ(r.header("x-amz-rdma-checksum-crc32c"), crc32c ? base64_digest(Algorithm::crc32c, moved) : "(none)");
  };
  for (const Headers& asked : {Headers{}, Headers{{"x-amz-rdma-checksum-algorithm", "CRC32C"}}}) {
    check(get(asked), data, asked);
    Headers range = asked;
    range.emplace_back("range", "bytes=1000-400000");
    const Reply part = get(range);
    EXPECT_EQ(part.status, 206);
    check(part, data.substr(1000, 399'001), asked);
    memory.bytes = pattern(300'000);
    check(put_token(asked), memory.bytes, asked);
    const std::string id = call("POST", "/bucket/k2?uploads").element("UploadId");
    check(put_token(asked, "/bucket/k2?partNumber=1&uploadId=" + id), memory.bytes, asked);
    Headers announced = asked;
    announced.emplace_back("x-amz-checksum-crc32c", base64_digest(Algorithm::crc32c, memory.bytes));
    check(put_token(announced), memory.bytes, asked);
    put("k", "");
    check(get(asked), "", asked);
    put("k", data);
    memory.bytes.assign(data.size(), '.');
  }
}

TEST_F(Tokens, AnObjectHasTheChecksumThatItsPutTold) {
  const Headers enabled{{"x-amz-checksum-mode", "ENABLED"}};
  memory.bytes = pattern(300'000);
  const std::string crc64 = base64_digest(Algorithm::crc64nvme, memory.bytes);
  EXPECT_EQ(put_token().header("x-amz-checksum-crc64nvme"), crc64);
  EXPECT_EQ(call("HEAD", "/bucket/k", enabled).header("x-amz-checksum-crc64nvme"), crc64);
  put_token({{"x-amz-rdma-checksum-algorithm", "CRC32C"}});
  const std::string crc32c = base64_digest(Algorithm::crc32c, memory.bytes);
  EXPECT_EQ(call("HEAD", "/bucket/k", enabled).header("x-amz-checksum-crc32c"), crc32c);
  // What the client has asked for, and no other.
  put_token({{"x-amz-checksum-algorithm", "SHA256"}});
  const Reply head = call("HEAD", "/bucket/k", enabled);
  EXPECT_EQ(head.header("x-amz-checksum-sha256"), base64_digest(Algorithm::sha256, memory.bytes));
  EXPECT_FALSE(head.has("x-amz-checksum-crc64nvme"));
}

TEST_F(Tokens, OfAWindowThatCannotBeReadAreDeclined) {
  memory.bytes = pattern(1000);
  memory.fail_at = 0;
  memory.refuses_reads = true;
  const Reply r = put_token();
  EXPECT_EQ(r.status, 501);
  EXPECT_EQ(r.header("x-amz-rdma-reply"), "501");
  EXPECT_EQ(r.element("Code"), "RDMANotSupported");
  EXPECT_FALSE(r.has("etag"));
  EXPECT_EQ(call("GET", "/bucket/k").status, 404);
}

TEST_F(Tokens, ATokenThatIsNotSignedIsRefused) {
  put("k", "data");
  memory.bytes.assign(10, '.');
  for (const char* method : {"GET", "PUT"}) {
    TestCall c;
    c.method = method;
    c.target = "/bucket/k";
    c.headers = {{"x-amz-rdma-token", token()}};
    c.signed_headers = "host";
    EXPECT_EQ(call(c).code, "AccessDenied");
  }
  EXPECT_EQ(memory.operations, 0);
}

TEST_F(Tokens, HeadIgnoresTheToken) {
  put("k", "data");
  const Reply r = call("HEAD", "/bucket/k", {{"x-amz-rdma-token", "nonsense"}});
  EXPECT_EQ(r.status, 200);
  EXPECT_EQ(r.content_length, 4u);
  EXPECT_FALSE(r.has("x-amz-rdma-reply"));
}

TEST_F(Tokens, APutIsReadOutOfTheWindow) {
  memory.bytes = pattern(2 * MiB + 77);
  const std::string crc = base64_digest(Algorithm::crc64nvme, memory.bytes);
  const Reply r = put_token(
      {{"x-amz-checksum-crc64nvme", crc}, {"x-amz-meta-a", "1"}, {"x-amz-content-sha256", "UNSIGNED-PAYLOAD"}});
  ASSERT_EQ(r.status, 200) << r.body;
  EXPECT_EQ(r.header("x-amz-rdma-reply"), "200");
  EXPECT_EQ(r.body, "");
  EXPECT_EQ(r.rdma_bytes, memory.bytes.size());
  EXPECT_NE(r.header("etag").find('-'), std::string::npos);
  EXPECT_EQ(r.header("x-amz-checksum-crc64nvme"), crc);
  const Reply got = call("GET", "/bucket/k");
  EXPECT_TRUE(got.body == memory.bytes);
  EXPECT_EQ(got.header("etag"), r.header("etag"));
  EXPECT_EQ(got.header("x-amz-meta-a"), "1");
}

TEST_F(Tokens, ASignedSmallerCountIsHonoured) {
  memory.bytes = "0123456789";
  ASSERT_EQ(put_token({{"x-amz-rdma-bytes", "4"}}).status, 200);
  EXPECT_EQ(call("GET", "/bucket/k").body, "0123");
  EXPECT_EQ(put_token({{"x-amz-rdma-bytes", "11"}}).code, "InvalidArgument");
  EXPECT_EQ(put_token({{"x-amz-rdma-bytes", "-1"}}).code, "InvalidArgument");
  const int before = memory.operations;
  ASSERT_EQ(put_token({{"x-amz-rdma-bytes", "0"}}).status, 200);
  EXPECT_EQ(memory.operations, before);
  EXPECT_EQ(call("GET", "/bucket/k").body, "");
  TestCall c;
  c.method = "PUT";
  c.target = "/bucket/k";
  c.headers = {{"x-amz-rdma-token", token()}, {"x-amz-rdma-bytes", "4"}};
  c.signed_headers = "host;x-amz-rdma-token";
  EXPECT_EQ(call(c).code, "AccessDenied");
}

TEST_F(Tokens, AWrongChecksumStoresNothing) {
  memory.bytes = "data";
  const Reply r = put_token({{"x-amz-checksum-crc32", base64_digest(Algorithm::crc32, "other")}});
  EXPECT_EQ(r.code, "BadDigest");
  EXPECT_FALSE(r.has("x-amz-rdma-reply"));
  EXPECT_EQ(call("GET", "/bucket/k").status, 404);
}

TEST_F(Tokens, ADeclinedPutLooksLikeNoPut) {
  memory.bytes = "data";
  windows_.refuse = Errc::rdma_not_supported;
  for (int i = 0; i < 2; ++i) {
    const Reply r = put_token();
    EXPECT_EQ(r.status, 501);
    EXPECT_EQ(r.header("x-amz-rdma-reply"), "501");
    EXPECT_EQ(r.element("Code"), "RDMANotSupported");
    EXPECT_FALSE(r.has("etag"));
    EXPECT_EQ(call("GET", "/bucket/k").status, 404);
    windows = nullptr;
  }
}

TEST_F(Tokens, AFailedPutStoresNothing) {
  memory.bytes = pattern(3 * MiB);
  memory.fail_at = 2 * MiB;
  const Reply r = put_token();
  EXPECT_EQ(r.status, 500);
  EXPECT_EQ(r.code, "RDMATransferFailed");
  EXPECT_FALSE(r.has("x-amz-rdma-reply"));
  EXPECT_EQ(call("GET", "/bucket/k").status, 404);
  EXPECT_EQ(arena->leased_bytes(), 0u);
}

TEST_F(Tokens, APutWithABodyOrItsHeadersIsRefused) {
  memory.bytes = "data";
  const Headers with_token = {{"x-amz-rdma-token", token()}};
  EXPECT_EQ(call("PUT", "/bucket/k", with_token, "body").code, "InvalidRequest");
  for (const auto& header : Headers{{"content-md5", base64_digest(Algorithm::md5, "")},
                                    {"x-amz-trailer", "x-amz-checksum-crc32"},
                                    {"x-amz-decoded-content-length", "0"},
                                    {"x-amz-content-sha256", "STREAMING-UNSIGNED-PAYLOAD-TRAILER"}}) {
    EXPECT_EQ(put_token({header}).code, "InvalidRequest") << header.first;
  }
  TestCall c;
  c.method = "PUT";
  c.target = "/bucket/k";
  c.headers = with_token;
  c.declare_length = false;
  EXPECT_EQ(call(c).code, "InvalidRequest");
  EXPECT_EQ(memory.operations, 0);
  EXPECT_EQ(call("GET", "/bucket/k").status, 404);
}

TEST_F(Tokens, PartsMixRdmaAndHttp) {
  const std::string id = call("POST", "/bucket/k?uploads").element("UploadId");
  memory.bytes = pattern(5 * MiB);
  const Reply one = put_token({}, "/bucket/k?partNumber=1&uploadId=" + id);
  ASSERT_EQ(one.status, 200) << one.body;
  EXPECT_EQ(one.header("x-amz-rdma-reply"), "200");
  const Reply two = call("PUT", "/bucket/k?partNumber=2&uploadId=" + id, {}, "tail");
  const auto part = [](int n, const Reply& r) {
    return fmt::format("<Part><PartNumber>{}</PartNumber><ETag>{}</ETag></Part>", n, r.header("etag"));
  };
  const Reply done = call("POST", "/bucket/k?uploadId=" + id, {},
                          "<CompleteMultipartUpload>" + part(1, one) + part(2, two) + "</CompleteMultipartUpload>");
  ASSERT_EQ(done.status, 200) << done.body;
  EXPECT_TRUE(call("GET", "/bucket/k").body == memory.bytes + "tail");
}

}  // namespace
}  // namespace verbena::s3::test
