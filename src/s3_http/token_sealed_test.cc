// Tokens of ofi1s: their bytes move sealed, or not at all. The wire belongs to an attacker, who sees and changes what
// the server writes into the client's memory and what it reads from there.
#include <fmt/format.h>

#include "auth/network_rules.h"
#include "base/metrics.h"
#include "fabric/sealed/transfer.h"
#include "memory/budget.h"
#include "rdma/sealing.h"
#include "s3_http/test_rig.h"

namespace verbena::s3::test {
namespace {

using fabric::sealed::Direction;
using fabric::sealed::trailer_size;
using fabric::sealed::Transfer;

class WireWindow final : public fabric::Window {
 public:
  WireWindow(std::string& memory, const std::function<void(uint64_t, MutableBytes)>& on_wire, int& operations)
      : memory_(memory), on_wire_(on_wire), operations_(operations) {}
  uint64_t size() const override { return memory_.size(); }
  Task<Result<void>> write(Bytes from, uint64_t at, Deadline) override {
    ++operations_;
    if (at + from.size() > memory_.size()) co_return fail(Errc::rdma_transfer_failed, "wire");
    std::memcpy(memory_.data() + at, from.data(), from.size());
    if (on_wire_) on_wire_(at, MutableBytes(as_writable(memory_)).subspan(at, from.size()));
    co_return Result<void>();
  }
  Task<Result<void>> read(MutableBytes into, uint64_t at, Deadline) override {
    ++operations_;
    if (at + into.size() > memory_.size()) co_return fail(Errc::rdma_transfer_failed, "wire");
    std::memcpy(into.data(), memory_.data() + at, into.size());
    if (on_wire_) on_wire_(at, into);
    co_return Result<void>();
  }

 private:
  static MutableBytes as_writable(std::string& text) { return std::as_writable_bytes(std::span(text)); }
  std::string& memory_;
  const std::function<void(uint64_t, MutableBytes)>& on_wire_;
  int& operations_;
};

class SealedTokens : public Rig, public rdma::Dialect {
 protected:
  void SetUp() override {
    make_bucket();
    windows = this;
    key.sealing = fabric::Sealing::aes_256_gcm;
    fill_random(key.bytes);
  }
  bool serves(rdma::TokenForm form) const override {
    return form == rdma::TokenForm::ofi1 || form == rdma::TokenForm::ofi1_sealed;
  }
  Task<Result<std::unique_ptr<fabric::Window>>> open(const rdma::Token&, rdma::TokenClient, fabric::Access) override {
    co_return std::make_unique<WireWindow>(memory, on_wire, operations);
  }

  fabric::WindowDescriptor window() const { return {.base = 0x1000, .size = memory.size(), .key = 7}; }
  std::string token(const char* dialect = "ofi1s") const {
    return fmt::format("1000:{:x}:{}:tcp:0200aabb7f000001:7", memory.size(), dialect);
  }
  Reply send(const std::string& method, const std::string& target, Headers more = {}) {
    TestCall c{.method = method, .target = target, .headers = std::move(more)};
    c.headers.emplace_back("x-amz-rdma-token", token());
    c.headers.emplace_back("x-verbena-rdma-sealing", rdma::format_sealing(key));
    return send(std::move(c));
  }
  Reply send(TestCall c) {
    c.secure = secure;
    c.signed_headers += ";x-verbena-rdma-sealing";
    return call(std::move(c));
  }
  Reply get(Headers more = {}) { return send("GET", "/bucket/k", std::move(more)); }

  // Memory for `length` bytes and their tags.
  void make_room(size_t length) { memory.assign(length + trailer_size(length), '.'); }
  // The memory of a PUT: sealed bytes, and their tags.
  void seal(std::string_view plain) {
    Transfer transfer(key, {}, Direction::to_server, {.base = 0x1000, .size = 0, .key = 7}, plain.size());
    make_room(plain.size());
    const MutableBytes out = std::as_writable_bytes(std::span(memory));
    transfer.keep_tags_in(out.subspan(plain.size()));
    transfer.seal(as_bytes(plain), out.data());
  }
  Reply put(std::string_view plain, const std::string& target = "/bucket/k") {
    seal(plain);
    return put_sealed(plain.size(), target);
  }
  Reply put_sealed(size_t size, const std::string& target = "/bucket/k") {
    return send("PUT", target, {{"x-amz-rdma-bytes", std::to_string(size)}});
  }
  // What a client makes of the reply and its memory. nullopt: a tag was wrong.
  std::optional<std::string> opened(const Reply& reply, size_t length) {
    const auto salt = rdma::parse_sealed(reply.header("x-verbena-rdma-sealed"));
    if (!salt) return std::nullopt;
    Transfer transfer(key, *salt, Direction::to_client, window(), length);
    const MutableBytes all = std::as_writable_bytes(std::span(memory));
    transfer.keep_tags_in(all.subspan(length, trailer_size(length)));
    std::string plain(length, '\0');
    auto* const out = reinterpret_cast<std::byte*>(plain.data());
    for (size_t i = 0, at = 0; i < transfer.records(); at += transfer.size_of(i++)) {
      if (!transfer.open(i, all.subspan(at, transfer.size_of(i)), out + at)) return std::nullopt;
    }
    return plain;
  }

  fabric::ConnectionKey key;
  std::string memory;
  std::function<void(uint64_t, MutableBytes)> on_wire;  // the place in the window, and the bytes on their way
  int operations = 0;
  bool secure = true;
};

uint64_t forged() { return metrics::counter("verbena_sealed_refused_total", "", {{"what", "record"}}).value(); }

TEST_F(SealedTokens, AGetOfAnySizeArrivesSealedAndOpens) {
  for (const size_t size : {size_t{1}, 64 * KiB, 64 * KiB + 1, 700 * KiB, 3 * MiB + 9}) {
    const std::string data = pattern(size);
    Rig::put("k", data);
    make_room(size + 1000);
    const Reply r = get();
    ASSERT_EQ(r.status, 200) << r.body;
    EXPECT_EQ(r.header("x-amz-rdma-reply"), "200");
    EXPECT_EQ(r.header("x-amz-rdma-bytes-transferred"), std::to_string(size));
    EXPECT_TRUE(opened(r, size) == data) << size;
    EXPECT_TRUE(size == 1 || memory.find(data.substr(0, 16)) == std::string::npos) << "plain bytes on the wire";
    EXPECT_EQ(arena->leased_bytes(), 0u);
  }
}

TEST_F(SealedTokens, ARangeThatBeginsAnywhereOpens) {
  const std::string data = pattern(3 * MiB + 9);
  Rig::put("k", data);
  for (const size_t from : {size_t{1}, size_t{65'537}, size_t{1'048'575}}) {
    const size_t size = 1'500'000;
    make_room(size);
    const Reply r = get({{"range", fmt::format("bytes={}-{}", from, from + size - 1)}});
    EXPECT_EQ(r.status, 206);
    EXPECT_EQ(r.header("x-amz-rdma-reply"), "206");
    EXPECT_TRUE(opened(r, size) == data.substr(from, size)) << from;
  }
}

TEST_F(SealedTokens, AnEmptyObjectSaysThatItWasSealed) {
  Rig::put("k", "");
  make_room(10);
  const Reply r = get();
  EXPECT_EQ(r.header("x-amz-rdma-reply"), "200");
  EXPECT_TRUE(opened(r, 0) == "");
  EXPECT_EQ(put("", "/bucket/new").status, 200);
  EXPECT_EQ(operations, 0);
}

TEST_F(SealedTokens, APutOfAnySizeIsOpenedAndStored) {
  for (const size_t size : {size_t{1}, 64 * KiB, 64 * KiB + 1, 700'000ul, 3 * MiB + 9}) {
    const std::string data = pattern(size);
    const Reply r = put(data);
    ASSERT_EQ(r.status, 200) << r.body;
    EXPECT_EQ(r.header("x-amz-rdma-reply"), "200");
    EXPECT_TRUE(r.has("x-verbena-rdma-sealed"));
    EXPECT_TRUE(call("GET", "/bucket/k").body == data) << size;
    EXPECT_EQ(arena->leased_bytes(), 0u);
  }
}

TEST_F(SealedTokens, APartIsSealedToo) {
  const std::string id = call("POST", "/bucket/k?uploads").element("UploadId");
  const std::string data = pattern(5 * MiB + 3);
  const Reply one = put(data, "/bucket/k?partNumber=1&uploadId=" + id);
  ASSERT_EQ(one.status, 200) << one.body;
  EXPECT_TRUE(one.has("x-verbena-rdma-sealed"));
  const Reply done = call("POST", "/bucket/k?uploadId=" + id, {},
                          "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>" + one.header("etag") +
                              "</ETag></Part></CompleteMultipartUpload>");
  ASSERT_EQ(done.status, 200) << done.body;
  EXPECT_TRUE(call("GET", "/bucket/k").body == data);
}

TEST_F(SealedTokens, AChangedBitOfAPutStoresNothing) {
  const size_t size = 200'000;
  const std::string data = pattern(size);
  const size_t places[] = {0, 65'536, 199'999, size, size + 16, size + trailer_size(size) - 1};  // bytes, and tags
  for (const size_t place : places) {
    const uint64_t before = forged();
    on_wire = [&](uint64_t at, MutableBytes bytes) {
      if (place >= at && place - at < bytes.size()) bytes[place - at] ^= std::byte{0x10};
    };
    const Reply r = put(data);
    EXPECT_EQ(r.code, "RDMATransferFailed") << place;
    EXPECT_FALSE(r.has("etag"));
    EXPECT_FALSE(r.has("x-verbena-rdma-sealed"));
    EXPECT_EQ(forged() - before, 1u);
    on_wire = nullptr;
    EXPECT_EQ(call("GET", "/bucket/k").status, 404);
    EXPECT_EQ(arena->leased_bytes(), 0u);
  }
}

TEST_F(SealedTokens, AChangedBitOfAGetDoesNotOpen) {
  const size_t size = 200'000;
  Rig::put("k", pattern(size));
  for (const size_t place : {size_t{0}, size_t{65'536}, size_t{199'999}, size, size + trailer_size(size) - 1}) {
    make_room(size);
    on_wire = [&](uint64_t at, MutableBytes bytes) {
      if (place >= at && place - at < bytes.size()) bytes[place - at] ^= std::byte{1};
    };
    const Reply r = get();
    EXPECT_EQ(r.status, 200);
    EXPECT_FALSE(opened(r, size)) << place;
  }
}

// What was recorded of one transfer is put back into the next one, with the same key even.
TEST_F(SealedTokens, RecordsOfAnEarlierRequestDoNotOpen) {
  const std::string data = pattern(150'000);
  Rig::put("k", data);
  make_room(data.size());
  ASSERT_TRUE(opened(get(), data.size()) == data);
  const std::string recorded = memory;
  const Reply again = get();
  ASSERT_TRUE(opened(again, data.size()) == data);
  EXPECT_TRUE(memory != recorded) << "the same key with the same numbers would give bytes away";
  memory = recorded;
  EXPECT_FALSE(opened(again, data.size()));

  ASSERT_EQ(put(data, "/bucket/new").status, 200);
  const std::string of_put = memory;
  fill_random(key.bytes);
  seal(data);
  memory = of_put;
  EXPECT_EQ(put_sealed(data.size()).code, "RDMATransferFailed");
}

// A request that waited for the tags' memory with a chunk in hand could wait for others that do the same.
TEST_F(SealedTokens, TagsAreReadBeforeAChunkIsLeased) {
  const std::string data = pattern(3 * MiB + 9);
  std::vector<std::pair<uint64_t, size_t>> reads;  // the place, and the bytes that are leased then
  on_wire = [&](uint64_t at, MutableBytes) { reads.emplace_back(at, arena->leased_bytes()); };
  ASSERT_EQ(put(data).status, 200);
  ASSERT_GT(reads.size(), 1u);
  EXPECT_EQ(reads[0].first, data.size()) << "the tags come first";
  EXPECT_EQ(reads[0].second, memory::Arena::class_size(trailer_size(data.size()))) << "and hold nothing but theirs";
  EXPECT_EQ(std::ranges::count(reads, data.size(), [](const auto& read) { return read.first; }), 1);
}

TEST_F(SealedTokens, TagsAreChargedFromTheBeginningToTheEnd) {
  const std::string data = pattern(3 * MiB + 9);
  const size_t tags = memory::Arena::class_size(trailer_size(data.size()));
  const memory::Budget& budget = arena->budget();
  size_t operations_seen = 0;
  on_wire = [&](uint64_t, MutableBytes bytes) {
    ++operations_seen;
    if (bytes.size() < 64 * KiB) return;  // the tags themselves, or the last record
    EXPECT_GE(budget.charged_bytes(), tags + bytes.size());
    EXPECT_EQ(budget.charged_bytes(), arena->leased_bytes()) << "no memory without a charge";
  };
  ASSERT_EQ(put(data).status, 200);
  EXPECT_EQ(budget.charged_bytes(), 0u);
  make_room(data.size());
  EXPECT_EQ(get().header("x-amz-rdma-reply"), "200");
  EXPECT_EQ(budget.charged_bytes(), 0u);
  EXPECT_GT(operations_seen, 4u);
  // Paths that end early give it back, too.
  on_wire = [&](uint64_t, MutableBytes bytes) { bytes[0] ^= std::byte{1}; };
  EXPECT_EQ(put(data, "/bucket/new").code, "RDMATransferFailed");
  EXPECT_EQ(budget.charged_bytes(), 0u);
  memory.resize(data.size() / 2);
  EXPECT_EQ(get().header("x-amz-rdma-reply"), "501") << "no room in the window";
  EXPECT_EQ(budget.charged_bytes(), 0u);
}

TEST_F(SealedTokens, WithoutMemoryForTagsTheAnswerIsSlowDown) {
  const std::string data = pattern(1 * MiB);
  Rig::put("k", data);
  memory::Budget::Limits none{.total_max = 4096, .peer_max = 4096, .small_max = 0};
  none.wait_max = std::chrono::milliseconds(20);
  arena->budget().set_limits(none);
  memory::Share other(*arena, "192.0.2.7", std::nullopt);
  const auto held = other.try_whole(4096);
  ASSERT_TRUE(held);
  make_room(data.size());
  EXPECT_EQ(get().code, "SlowDown");
  EXPECT_EQ(put(data, "/bucket/new").code, "SlowDown");
  EXPECT_EQ(operations, 0) << "no byte has moved";
  EXPECT_EQ(arena->leased_bytes(), 0u);
  EXPECT_EQ(arena->budget().charged_bytes(), 4096u);
}

TEST_F(SealedTokens, ACutOrMovedPutStoresNothing) {
  const std::string data = pattern(128 * KiB);
  seal(data);
  // The first record alone, with its own tag: the client's request said 128 KiB, an attacker cannot say less.
  const std::string first = memory.substr(0, 64 * KiB) + memory.substr(128 * KiB, 16);
  memory = first;
  EXPECT_EQ(put_sealed(64 * KiB).code, "RDMATransferFailed");
  // Two records change places, tags and all.
  seal(data);
  std::swap_ranges(memory.begin(), memory.begin() + 64 * KiB, memory.begin() + 64 * KiB);
  std::swap_ranges(memory.begin() + 128 * KiB, memory.begin() + 128 * KiB + 16, memory.begin() + 128 * KiB + 16);
  EXPECT_EQ(put_sealed(data.size()).code, "RDMATransferFailed");
  EXPECT_EQ(call("GET", "/bucket/k").status, 404);
}

TEST_F(SealedTokens, AWindowWithoutRoomForTagsIsNotUsed) {
  const std::string data = pattern(100'000);
  Rig::put("k", data);
  memory.assign(data.size() + trailer_size(data.size()) - 1, '.');
  const Reply r = get();
  EXPECT_EQ(r.header("x-amz-rdma-reply"), "501");
  EXPECT_EQ(r.header("x-verbena-rdma-declined"), "token: the object and its tags are larger than the window");
  EXPECT_TRUE(r.body == data) << "by https";
  seal(data);
  memory.pop_back();  // the trailer is cut
  EXPECT_EQ(put_sealed(data.size(), "/bucket/new").code, "InvalidArgument");
  seal(data);
  EXPECT_EQ(send("PUT", "/bucket/new").code, "InvalidArgument") << "without x-amz-rdma-bytes";
  EXPECT_EQ(operations, 0);
  EXPECT_EQ(call("GET", "/bucket/new").status, 404);
}

// Neither header does anything without the other, TLS and a signature.
TEST_F(SealedTokens, ADowngradeIsRefused) {
  Rig::put("k", "0123456789");
  make_room(10);
  const std::pair<std::string, std::string> sealing{"x-verbena-rdma-sealing", rdma::format_sealing(key)};
  const auto ask = [&](Headers headers, bool signs = true) {
    TestCall c{.method = "GET", .target = "/bucket/k", .headers = std::move(headers)};
    c.secure = secure;
    if (signs) c.signed_headers += ";x-verbena-rdma-sealing";
    return call(std::move(c)).code;
  };
  EXPECT_EQ(ask({{"x-amz-rdma-token", token("ofi1")}, sealing}), "InvalidRDMAToken");
  EXPECT_EQ(ask({{"x-amz-rdma-token", token()}}), "InvalidRDMAToken");
  EXPECT_EQ(ask({sealing}), "InvalidRDMAToken");
  EXPECT_EQ(ask({{"x-amz-rdma-token", token()}, sealing}, false), "AccessDenied");
  EXPECT_EQ(ask({{"x-amz-rdma-token", token()}, {"x-verbena-rdma-sealing", "none:00"}}), "InvalidRDMAToken");
  secure = false;
  EXPECT_EQ(get().code, "InvalidRequest") << "the key would be read by whatever reads the wire";
  EXPECT_EQ(put("data", "/bucket/new").code, "InvalidRequest");
  EXPECT_EQ(operations, 0);
}

TEST_F(SealedTokens, WhereEncryptionIsRequiredTheyAloneAreServed) {
  const std::string data = pattern(1000);
  Rig::put("k", data);
  options.encryption = RdmaEncryption::required;
  make_room(data.size());
  EXPECT_TRUE(opened(get(), data.size()) == data);
  TestCall plain{.method = "GET", .target = "/bucket/k", .headers = {{"x-amz-rdma-token", token("ofi1")}}};
  plain.secure = true;
  Reply r = call(plain);
  EXPECT_EQ(r.header("x-amz-rdma-reply"), "501");
  EXPECT_EQ(r.header("x-verbena-rdma-declined"), "token: its payload is not encrypted, as rdma.encryption requires");
  EXPECT_TRUE(r.body == data);
  const auto rules = *auth::NetworkRules::make({{.networks = {"127.0.0.0/8"}, .encryption = RdmaEncryption::required}},
                                               RdmaEncryption::preferred);
  options = {};
  options.networks = &rules;
  EXPECT_TRUE(opened(get(), data.size()) == data);
  EXPECT_EQ(call(plain).header("x-amz-rdma-reply"), "501");
  options = {};
  options.encryption = RdmaEncryption::off;
  r = get();
  EXPECT_EQ(r.header("x-amz-rdma-reply"), "501");
  EXPECT_TRUE(r.body == data);
}

TEST_F(SealedTokens, ACipherThatThisMachineForbidsIsDeclined) {
  const std::string data = pattern(1000);
  Rig::put("k", data);
  options.has_aead = [](AeadKind kind) { return kind == AeadKind::aes_256_gcm; };
  make_room(data.size());
  EXPECT_TRUE(opened(get(), data.size()) == data);
  key.sealing = fabric::Sealing::chacha20_poly1305;
  operations = 0;
  const Reply r = get();
  EXPECT_EQ(r.header("x-amz-rdma-reply"), "501");
  EXPECT_EQ(r.header("x-verbena-rdma-declined"), "token: this server does not have its cipher");
  EXPECT_TRUE(r.body == data);
  EXPECT_EQ(put("data", "/bucket/new").code, "RDMANotSupported");
  EXPECT_EQ(operations, 0);
}

TEST_F(SealedTokens, PoliciesSeeASecureTransport) {
  const std::string data = pattern(1000);
  Rig::put("k", data);
  const std::string policy =
      R"({"Version":"2012-10-17","Statement":[{"Effect":"Deny","Principal":"*","Action":"s3:GetObject",)"
      R"("Resource":"arn:aws:s3:::bucket/*","Condition":{"Bool":{"aws:SecureTransport":"false"}}}]})";
  ASSERT_EQ(call("PUT", "/bucket?policy", {}, policy).status, 204);
  make_room(data.size());
  EXPECT_TRUE(opened(get(), data.size()) == data);
  TestCall plain{.method = "GET", .target = "/bucket/k", .headers = {{"x-amz-rdma-token", token("ofi1")}}};
  plain.secure = true;
  EXPECT_EQ(call(plain).code, "AccessDenied");
}

}  // namespace
}  // namespace verbena::s3::test
