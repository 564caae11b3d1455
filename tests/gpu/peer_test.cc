// RDMA devices that reach a GPU's memory themselves: libfabric's tcp under the name of verbs registers the descriptors
// that the driver double exports. Any touch of the window's own addresses by a CPU ends this program.
#include <gtest/gtest.h>
#include <rdma/fi_errno.h>
#include <spawn.h>
#include <sys/wait.h>

#include <thread>

#include "client/api/client_impl.h"
#include "fabric/device.h"
#include "fabric/ofi/testing.h"
#include "memory/cuda_peer.h"
#include "peer_world.h"

namespace verbena::matrix {
namespace {

const char* flush() { return own("cuFlushGPUDirectRDMAWrites", "hipDeviceFlushGPUDirectRDMAWrites"); }
// Whether a window's export has tried a flush: HIP says in no other way that there is one.
unsigned tried() { return is_hip() ? 1 : 0; }

TEST_F(Peer, EveryByteOfEverySizeAtOddPlacesOfALargerAllocation) {
  constexpr size_t whole = 12 * mib, at = 77'777;
  OnDevice memory(whole);
  for (const Way& way : {native, token}) {
    SCOPED_TRACE(way.name());
    const Client c = client(way);
    for (const size_t size : {size_t{1}, size_t{255}, size_t{4096}, size_t{300'003}, 4 * mib + 1, 9 * mib + 13}) {
      SCOPED_TRACE(size);
      const DeviceBuffer part = memory.part(at, size);
      const Buffer window = *c.register_memory(part);
      const auto before = random_bytes(whole, size), bytes = random_bytes(size, size + 1);
      memory.set(before);
      ASSERT_TRUE(http().put("bucket", "key", bytes));
      const unsigned copies = double_calls("cuMemcpyHtoDAsync_v2") + double_calls("cuMemcpyDtoHAsync_v2");
      const auto got = c.get("bucket", "key", window);
      ASSERT_TRUE(got) << got.error().message;
      EXPECT_EQ(got->bytes, size);
      EXPECT_EQ(got->info.size, size);
      EXPECT_EQ(got->transfer.door, way.via);
      EXPECT_EQ(got->transfer.device_path, DevicePath::peer) << got->transfer.fell_back_reason;
      auto wanted = before;
      std::ranges::copy(bytes, wanted.begin() + at);
      EXPECT_TRUE(same(memory.bytes(0, whole), wanted)) << "and nothing beside the window";

      const auto put = c.put("bucket", "from-device", window);
      ASSERT_TRUE(put) << put.error().message;
      EXPECT_EQ(put->transfer.device_path, DevicePath::peer) << put->transfer.fell_back_reason;
      EXPECT_EQ(put->transfer.door, way.via);
      EXPECT_TRUE(same(stored("from-device", size), bytes));
      EXPECT_EQ(double_calls("cuMemcpyHtoDAsync_v2") + double_calls("cuMemcpyDtoHAsync_v2"), copies) << "no copies";
    }
    EXPECT_EQ(to_string(DevicePath::peer), "peer");
  }
}

TEST_F(Peer, RangesConditionsAndObjectsThatDoNotFit) {
  const auto bytes = random_bytes(3 * mib, 7);
  ASSERT_TRUE(http().put("bucket", "key", bytes));
  ASSERT_TRUE(http().put("bucket", "empty", std::span<const std::byte>()));
  OnDevice memory(4 * mib);
  for (const Way& way : {native, token}) {
    SCOPED_TRACE(way.name());
    const Client c = client(way);
    const Buffer window = *c.register_memory(memory.all());
    const std::pair<Range, size_t> ranges[] = {
        {{5, 100}, 100}, {{mib - 3, mib + 9}, mib + 9}, {{mib, 0}, 2 * mib}, {{3 * mib - 1, 2 * mib}, 1}};
    for (const auto& [range, size] : ranges) {
      const auto got = c.get("bucket", "key", window, {.range = range});
      ASSERT_TRUE(got) << got.error().message;
      EXPECT_EQ(got->bytes, size);
      EXPECT_EQ(got->transfer.device_path, DevicePath::peer) << got->transfer.fell_back_reason;
      EXPECT_TRUE(same(memory.bytes(0, size), std::span(bytes).subspan(range.offset, size)));
    }
    const Range two[] = {{10, 20}, {2 * mib, 1000}};
    const auto packed = c.get_ranges("bucket", "key", two, window);
    ASSERT_TRUE(packed) << packed.error().message;
    EXPECT_EQ(packed->transfer.device_path, DevicePath::peer);
    EXPECT_TRUE(same(memory.bytes(0, 20), std::span(bytes).subspan(10, 20)));
    EXPECT_TRUE(same(memory.bytes(20, 1000), std::span(bytes).subspan(2 * mib, 1000)));
    const auto empty = c.get("bucket", "empty", window);
    ASSERT_TRUE(empty) << empty.error().message;
    EXPECT_EQ(empty->bytes, 0u);
    const auto kept = memory.bytes(0, mib);
    const auto small = c.get("bucket", "key", window.slice(0, mib));
    ASSERT_FALSE(small);
    EXPECT_EQ(small.error().code, ErrorCode::buffer_too_small);
    EXPECT_TRUE(same(memory.bytes(0, mib), kept));
    const auto missing = c.get("bucket", "none", window);
    ASSERT_FALSE(missing);
    EXPECT_EQ(missing.error().code, ErrorCode::no_such_key);
    const auto refused = c.put("bucket", "key", window.slice(0, 10), {.if_none_match = "*"});
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ErrorCode::precondition_failed);
    const auto sum = c.put("bucket", "sum", window.slice(0, 10), {.checksum = "CRC32C:AAAAAA=="});
    ASSERT_FALSE(sum);
    EXPECT_EQ(sum.error().code, ErrorCode::checksum_mismatch);
  }
}

TEST_F(Peer, BatchesScatterAndGather) {
  constexpr size_t count = 120, size = 80'000;
  OnDevice memory(count * size);
  const Client c = client(native);
  const Buffer windows[] = {*c.register_memory(memory.all()), *c.allocate(size)};
  std::vector<std::string> keys;
  for (size_t i = 0; i < count; ++i) keys.push_back("item/" + std::to_string(i));
  std::vector<BatchItem> items;
  for (size_t i = 0; i < count; ++i) {
    items.push_back({.bucket = "bucket", .key = keys[i], .offset = (count - 1 - i) * size, .size = size - i});
  }
  items[8].window = 1;  // host memory
  items[8].offset = 0;
  items[9].size = 10;  // no byte in messages
  std::ranges::copy(random_bytes(size, 8), windows[1].bytes().begin());
  memory.set(random_bytes(count * size, 9));
  std::vector<BatchResult> results(count);
  const auto put = c.put_many(items, windows, results);
  ASSERT_TRUE(put) << put.error().message;
  EXPECT_EQ(put->device_path, DevicePath::peer) << put->fell_back_reason;
  const auto wanted = memory.bytes(0, count * size);

  memory.set(std::vector<std::byte>(count * size));
  items[20].key = "missing";
  items[21].size -= 1;  // does not fit
  size_t told = 0;
  BatchOptions options;
  options.in_order = [&](size_t leading) {
    for (size_t i = told; i < leading; ++i) {
      if (i == 8 || i == 20 || i == 21) continue;
      EXPECT_TRUE(same(memory.bytes(items[i].offset, items[i].size),
                       std::span(wanted).subspan(items[i].offset, items[i].size)));
    }
    told = leading;
  };
  double_peer_writes(0, 1);
  const auto got = c.get_many(items, windows, results, options);
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_EQ(told, count);
  EXPECT_EQ(got->device_path, DevicePath::peer) << got->fell_back_reason;
  for (size_t i = 0; i < count; ++i) {
    SCOPED_TRACE(i);
    if (i == 20 || i == 21) {
      EXPECT_EQ(results[i].error, i == 20 ? ErrorCode::no_such_key : ErrorCode::buffer_too_small);
      continue;
    }
    EXPECT_FALSE(results[i].error);
    if (i != 8) {
      EXPECT_TRUE(same(memory.bytes(items[i].offset, items[i].size),
                       std::span(wanted).subspan(items[i].offset, items[i].size)));
    }
  }
  EXPECT_TRUE(same(windows[1].bytes(), random_bytes(size, 8)));
  const auto untouched = memory.bytes(items[20].offset, size);
  EXPECT_TRUE(std::ranges::all_of(untouched, [](std::byte b) { return b == std::byte{0}; }));
}

TEST_F(Peer, ADriverThatExportsNothingMakesItStaged) {
  OnDevice memory(mib);
  double_fail("cuMemGetHandleForAddressRange", 801, 0);
  for (const Way& way : {native, token}) {
    SCOPED_TRACE(way.name());
    moves(client(way), memory, DevicePath::staged,
          own("peer: cuMemGetHandleForAddressRange: CUDA_ERROR_NOT_SUPPORTED",
              "peer: hsa_amd_portable_export_dmabuf: HSA_STATUS_ERROR_INVALID_ALLOCATION"));
  }
  EXPECT_EQ(nic_registered(), 0u);
}

TEST_F(Peer, TheKernelsPeerMemoryServesWhereNothingIsExported) {
  OnDevice memory(mib);
  double_fail("cuMemGetHandleForAddressRange", 801, 0);
  ::setenv("TEST_VERBENA_PEER_MODULE", "1", 1);
  const unsigned before = nic_by_address();
  for (const Way& way : {native, token}) moves(client(way), memory, DevicePath::peer);
  EXPECT_EQ(nic_by_address(), before + 4);
  // And where the device's driver refuses a dma-buf.
  double_fail("cuMemGetHandleForAddressRange", 0, 0);
  nic_refuses(FI_EOPNOTSUPP);
  moves(client(native), memory, DevicePath::peer);
  EXPECT_EQ(nic_by_address(), before + 6);
}

TEST_F(Peer, ARegistrationThatIsRefusedMakesItStagedAndIsNotTriedAgainAtOnce) {
  for (const Way& way : {native, token}) {
    SCOPED_TRACE(way.name());
    OnDevice memory(mib);
    nic_refuses(FI_EOPNOTSUPP);
    const Client c = client(way);
    ASSERT_TRUE(http().put("bucket", "key", random_bytes(1000, 1)));
    const Buffer window = *c.register_memory(memory.all());
    const auto began = SteadyClock::now();
    const auto got = c.get("bucket", "key", window);
    ASSERT_TRUE(got) << got.error().message;
    EXPECT_EQ(got->transfer.device_path, DevicePath::staged);
    EXPECT_NE(got->transfer.fell_back_reason.find("fi_mr_regattr"), std::string::npos)
        << got->transfer.fell_back_reason;
    EXPECT_NE(got->transfer.fell_back_reason.find(::strerror(EOPNOTSUPP)), std::string::npos)
        << got->transfer.fell_back_reason;
    EXPECT_TRUE(same(memory.bytes(0, 1000), random_bytes(1000, 1)));
    nic_refuses(0);
    const auto again = c.get("bucket", "key", window);
    ASSERT_TRUE(again);
    // A call without a registered window makes one of its own.
    const unsigned exports = double_calls("cuMemGetHandleForAddressRange");
    const auto another = c.get("bucket", "key", *c.register_memory(memory.part(100, 2000)));
    ASSERT_TRUE(another);
    const bool rested = SteadyClock::now() - began < std::chrono::seconds(8);  // on a machine that is not stopped
    if (rested) {
      EXPECT_EQ(again->transfer.device_path, DevicePath::staged);
      EXPECT_EQ(another->transfer.device_path, DevicePath::staged);
      EXPECT_EQ(double_calls("cuMemGetHandleForAddressRange"), exports);
    }
    moves(client(way), OnDevice(mib), DevicePath::peer);  // another allocation is tried
  }
  OnDevice memory(mib);
  nic_refuses(FI_EOPNOTSUPP);
  const Client c = client(native);
  const Buffer window = *c.register_memory(memory.all());
  const BatchItem items[] = {{.bucket = "bucket", .key = "one", .size = 9000},
                             {.bucket = "bucket", .key = "two", .offset = 10'000, .size = 7}};
  BatchResult results[2];
  memory.set(random_bytes(mib, 5));
  const auto stored_many = c.put_many(items, std::span(&window, 1), results);
  ASSERT_TRUE(stored_many) << stored_many.error().message;
  EXPECT_EQ(stored_many->device_path, DevicePath::staged);
  EXPECT_NE(stored_many->fell_back_reason.find("fi_mr_regattr"), std::string::npos) << stored_many->fell_back_reason;
  EXPECT_FALSE(results[0].error || results[1].error);
  EXPECT_TRUE(same(stored("one", 9000), memory.bytes(0, 9000)));
}

TEST_F(Peer, AProviderWithoutMemoryOfDevicesIsStaged) {
  OnDevice memory(mib);
  nic_offers_device_memory(false);
  moves(client(native), memory, DevicePath::staged, "reaches no memory of GPUs");
  moves(client(token), memory, DevicePath::staged, "reaches no memory of GPUs");
  EXPECT_EQ(double_calls("cuMemGetHandleForAddressRange"), 0u);
  nic_offers_device_memory(true);
  moves(client({Via::native, "tcp"}), memory, DevicePath::staged);
  moves(client({Via::native, "local"}), memory, DevicePath::shared);
  moves(client({Via::http, "auto"}), memory, DevicePath::staged);
  EXPECT_EQ(double_calls("cuMemGetHandleForAddressRange"), 0u);
}

TEST_F(Peer, ATokenThatTheServerDeclinesIsStaged) {
  Config config = test_config();
  config.rdma.token_provider = {"tcp"};
  World other(config);
  ClientOptions there = options({Via::automatic, "verbs"});
  there.endpoint = other.server.http();
  there.native_endpoint = "127.0.0.1:1";  // no native door
  const Client c = *Client::connect(there);
  ASSERT_TRUE(c.make_bucket("bucket"));
  OnDevice memory(mib);
  const Buffer window = *c.register_memory(memory.all());
  const auto bytes = random_bytes(300'000, 1), other_bytes = random_bytes(300'000, 2);
  memory.set(bytes);
  const auto put = c.put("bucket", "key", window.slice(0, bytes.size()));
  ASSERT_TRUE(put) << put.error().message;
  EXPECT_EQ(put->transfer.device_path, DevicePath::staged);
  EXPECT_EQ(put->transfer.door, Via::http);
  EXPECT_NE(put->transfer.fell_back_reason.find("declined"), std::string::npos) << put->transfer.fell_back_reason;
  std::vector<std::byte> back(bytes.size());
  ASSERT_TRUE(c.get("bucket", "key", back));
  EXPECT_TRUE(same(back, bytes));
  ASSERT_TRUE(c.put("bucket", "other", other_bytes));
  const unsigned lent = nic_dma_bufs();
  const Client fresh = *Client::connect(there);  // whose token door does not rest
  const auto got = fresh.get("bucket", "other", window);
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_EQ(nic_dma_bufs(), lent + 1);
  EXPECT_EQ(got->transfer.device_path, DevicePath::staged);
  EXPECT_EQ(got->transfer.door, Via::http);
  EXPECT_NE(got->transfer.fell_back_reason.find("token"), std::string::npos) << got->transfer.fell_back_reason;
  EXPECT_TRUE(same(memory.bytes(0, other_bytes.size()), other_bytes));
}

TEST_F(Peer, WhatIsSealedPassesAProcessor) {
  OnDevice memory(mib);
  ClientOptions sealed = options(native);
  sealed.encryption = "required";
  moves(*Client::connect(sealed), memory, DevicePath::staged, "or the session is sealed");
  EXPECT_EQ(double_calls("cuMemGetHandleForAddressRange"), 0u);
}

TEST_F(Peer, ALibfabricThatKnowsSuchMemoryIsToldOfIt) {
  OnDevice memory(mib);
  nic_knows_devices(true);
  const unsigned before = nic_dma_bufs();
  moves(client(native), memory, DevicePath::peer);
  EXPECT_EQ(nic_dma_bufs(), before + 2);
}

TEST_F(Peer, AMappingOverPcieIsAskedForFirst) {
  if (is_hip()) GTEST_SKIP() << "its export is of the one kind";
  OnDevice memory(mib);
  const Client c = client(native);
  moves(c, memory, DevicePath::peer);
  EXPECT_EQ(double_calls("cuMemGetHandleForAddressRange"), 2u);  // most platforms refuse the first
  double_over_pcie(true);
  moves(c, memory, DevicePath::peer);
  EXPECT_EQ(double_calls("cuMemGetHandleForAddressRange"), 3u);
  // Exported once for a window, whatever it is used for.
  const Buffer window = *c.register_memory(memory.all());
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(c.get("bucket", "moved", window));
  EXPECT_EQ(double_calls("cuMemGetHandleForAddressRange"), 4u);
}

TEST_F(Peer, FreedMemoryIsNotServedAlsoIfItsAddressIsUsedAgain) {
  ASSERT_TRUE(http().put("bucket", "key", random_bytes(1000, 1)));
  for (const Way& way : {native, token}) {
    SCOPED_TRACE(way.name());
    const Client c = client(way);
    const uint64_t address = double_allocate(0, mib);
    const Buffer window = *c.register_memory(DeviceBuffer{.kind = kind(), .address = address, .size = mib});
    ASSERT_TRUE(c.get("bucket", "key", window));
    double_free(address);
    const auto freed = c.get("bucket", "key", window);
    ASSERT_FALSE(freed);
    EXPECT_EQ(freed.error().code, ErrorCode::invalid_argument);
    ASSERT_EQ(double_allocate_at(0, address, mib), address);
    const auto reused = c.get("bucket", "key", window);
    ASSERT_FALSE(reused);
    EXPECT_EQ(reused.error().code, ErrorCode::invalid_argument);
    std::vector<std::byte> bytes(1000);
    double_peek(bytes.data(), address, bytes.size());
    EXPECT_TRUE(same(bytes, std::vector<std::byte>(1000))) << "the new allocation was written";
    // Registered anew, it is the new allocation that is served.
    const Buffer anew = *c.register_memory(DeviceBuffer{.kind = kind(), .address = address, .size = mib});
    const auto got = c.get("bucket", "key", anew);
    ASSERT_TRUE(got) << got.error().message;
    EXPECT_EQ(got->transfer.device_path, DevicePath::peer) << got->transfer.fell_back_reason;
    double_peek(bytes.data(), address, bytes.size());
    EXPECT_TRUE(same(bytes, random_bytes(1000, 1)));
    double_free(address);
  }
}

TEST_F(Peer, MappedPiecesThatAreReplacedAreNotServed) {
  const Client c = client(native);
  const auto bytes = random_bytes(mib + 3, 1);
  ASSERT_TRUE(http().put("bucket", "key", bytes));
  InPieces memory({2 * mib, 4 * mib});
  const Buffer window = *c.register_memory(memory.part(2 * mib + 99, 3 * mib));  // inside the second piece
  auto got = c.get("bucket", "key", window);
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_EQ(got->transfer.device_path, DevicePath::peer) << got->transfer.fell_back_reason;
  EXPECT_TRUE(same(memory.bytes(2 * mib + 99, bytes.size()), bytes));
  double_blind_ids(true);
  const Buffer blind = *c.register_memory(memory.part(2 * mib + 99, 3 * mib));
  ASSERT_TRUE(c.get("bucket", "key", blind));
  memory.replace(1);
  got = c.get("bucket", "key", blind);
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_EQ(got->transfer.device_path, DevicePath::staged);
  EXPECT_NE(got->transfer.fell_back_reason.find("other memory was mapped there"), std::string::npos);
  EXPECT_TRUE(same(memory.bytes(2 * mib + 99, bytes.size()), bytes)) << "in the memory that is there now";
}

TEST_F(Peer, WritesOfOthersAreFlushedWhereTheDeviceDoesNotOrderThem) {
  OnDevice memory(mib);
  const Client c = client(native);
  if (!is_hip()) {  // HIP's devices never do
    moves(c, memory, DevicePath::peer);
    EXPECT_EQ(double_calls("cuFlushGPUDirectRDMAWrites"), 0u);
  }
  double_peer_writes(0, 1);
  moves(c, memory, DevicePath::peer);
  EXPECT_EQ(double_calls("cuFlushGPUDirectRDMAWrites"), 1 + tried()) << "after the GET, and not after the PUT";
  // A flush that fails: the bytes come again, through the client.
  double_fail("cuFlushGPUDirectRDMAWrites", 999, tried());
  const Buffer window = *c.register_memory(memory.all());
  const auto got = c.get("bucket", "moved", window);
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_EQ(got->transfer.device_path, DevicePath::staged);
  EXPECT_NE(got->transfer.fell_back_reason.find(flush()), std::string::npos) << got->transfer.fell_back_reason;
  EXPECT_TRUE(same(memory.bytes(0, got->bytes), random_bytes(300'001, 11)));
  const BatchItem item{.bucket = "bucket", .key = "moved", .size = mib};
  BatchResult result;
  for (const bool in_order : {false, true}) {
    size_t told = 0;
    BatchOptions options;
    if (in_order) options.in_order = [&](size_t leading) { told = leading; };
    const auto many = c.get_many(std::span(&item, 1), std::span(&window, 1), std::span(&result, 1), options);
    ASSERT_TRUE(many) << many.error().message;
    EXPECT_EQ(many->device_path, DevicePath::staged);
    EXPECT_NE(many->fell_back_reason.find(flush()), std::string::npos) << many->fell_back_reason;
    EXPECT_FALSE(result.error);
    EXPECT_EQ(told, in_order ? 1u : 0u);
  }
}

// A flush that fails made a stored item conflict with itself.
TEST_F(Peer, ABatchOfPutsIsNeitherFlushedNorRepeated) {
  OnDevice memory(mib);
  const Client c = client(native);
  double_peer_writes(0, 1);
  double_fail("cuFlushGPUDirectRDMAWrites", 999, tried());
  const Buffer window = *c.register_memory(memory.all());
  const BatchItem items[] = {{.bucket = "bucket", .key = "new", .size = mib / 2, .if_none_match = "*"},
                             {.bucket = "bucket", .key = "any", .offset = mib / 2, .size = mib / 2}};
  BatchResult results[2];
  BatchOptions options;
  options.in_order = [](size_t) {};
  using Impl = Client::Inside::Impl;  // no public call has PUTs in order
  const auto put = Client::Inside::impl(c).many(Impl::Many::put, items, std::span(&window, 1), results, options);
  ASSERT_TRUE(put) << put.error().message;
  EXPECT_EQ(put->device_path, DevicePath::peer) << put->fell_back_reason;
  EXPECT_FALSE(results[0].error) << to_string(*results[0].error);
  EXPECT_FALSE(results[1].error);
  EXPECT_EQ(double_calls("cuFlushGPUDirectRDMAWrites"), tried());
}

TEST_F(Peer, WhereNeitherOrdersThemItIsStaged) {
  OnDevice memory(mib);
  double_peer_writes(0, 0);
  moves(client(native), memory, DevicePath::staged, "does not order writes of other devices");
}

TEST_F(Peer, CallsComeAfterTheWorkOfTheirStream) {
  OnDevice memory(mib);
  DeviceBuffer given = memory.all();
  given.stream = double_stream(0);
  for (const Way& way : {native, token}) {
    SCOPED_TRACE(way.name());
    const Client c = client(way);
    const Buffer window = *c.register_memory(given);
    for (const bool puts : {true, false}) {
      double_hold(*given.stream, true);
      double_fill(*given.stream, memory.address(), puts ? 0x55 : 0x66, mib);
      std::jthread letting([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(30));
        double_hold(*given.stream, false);
      });
      const auto path = puts ? c.put("bucket", "filled", window)->transfer.device_path
                             : c.get("bucket", "filled", window)->transfer.device_path;
      EXPECT_EQ(path, DevicePath::peer);
    }
    EXPECT_TRUE(same(memory.bytes(0, mib), std::vector<std::byte>(mib, std::byte{0x55})));
  }
}

TEST_F(Peer, ReadOnlyWindowsAndManyCallersAtOnce) {
  OnDevice memory(8 * mib);
  const Client c = client(native);
  DeviceBuffer fixed = memory.all();
  fixed.read_only = true;
  memory.set(random_bytes(8 * mib, 3));
  const Buffer read_only = *c.register_memory(fixed);
  const auto refused = c.get("bucket", "key", read_only);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::invalid_argument);
  const auto put = c.put("bucket", "fixed", read_only);
  ASSERT_TRUE(put);
  EXPECT_EQ(put->transfer.device_path, DevicePath::peer);

  const Buffer window = *c.register_memory(memory.all());
  std::vector<std::thread> callers;
  for (size_t i = 0; i < 8; ++i) {
    callers.emplace_back([&, i] {
      const auto bytes = random_bytes(mib, i);
      const std::string key = "caller/" + std::to_string(i);
      ASSERT_TRUE(http().put("bucket", key, bytes));
      const Client own = client(i % 2 == 0 ? native : token);
      for (int turn = 0; turn < 10; ++turn) {
        const auto got = own.get("bucket", key, window.slice(i * mib, mib));
        ASSERT_TRUE(got) << got.error().message;
        ASSERT_EQ(got->transfer.device_path, DevicePath::peer) << got->transfer.fell_back_reason;
        ASSERT_TRUE(same(memory.bytes(i * mib, mib), bytes));
      }
    });
  }
  for (auto& caller : callers) caller.join();
}

// Runs in a process of its own, which the test below starts and kills: transfers without an end, each of them told.
TEST(PeerElsewhere, IsTheClient) {
  const char* const given = std::getenv("TEST_PEER_SERVER");
  if (given == nullptr) GTEST_SKIP() << "started by Peer";
  const std::string servers = given;
  ClientOptions options;
  options.endpoint = servers.substr(0, servers.find(','));
  options.native_endpoint = servers.substr(servers.find(',') + 1);
  options.access_key = server::TestServer::access_key;
  options.secret_key = server::TestServer::secret_key;
  options.via = *parse_via(std::getenv("TEST_PEER_VIA"));
  options.provider = "verbs";
  options.token_size_min = 0;
  const auto c = Client::connect(options);
  ASSERT_TRUE(c) << c.error().message;
  OnDevice memory(8 * mib);
  const Buffer window = *c->register_memory(memory.all());
  for (;;) {
    const auto got = c->get("bucket", "large", window);
    ASSERT_TRUE(got) << got.error().message;
    const auto put = c->put("bucket", "child", window);
    ASSERT_TRUE(put) << put.error().message;
    const bool peer = got->transfer.device_path == DevicePath::peer && put->transfer.device_path == DevicePath::peer;
    ASSERT_EQ(::write(STDERR_FILENO, peer ? "+" : "-", 1), 1);
  }
}

TEST_F(Peer, AClientThatIsKilledDuringTransfersHarmsNoOther) {
  const auto bytes = random_bytes(8 * mib, 1);
  ASSERT_TRUE(http().put("bucket", "large", bytes));
  OnDevice memory(8 * mib);
  for (int round = 0; round < 4; ++round) {
    SCOPED_TRACE(round);
    int told[2];
    ASSERT_EQ(::pipe2(told, O_CLOEXEC), 0);
    std::string servers = "TEST_PEER_SERVER=" + world.server.http() + "," + world.server.native();
    std::string via = round % 2 == 0 ? "TEST_PEER_VIA=native" : "TEST_PEER_VIA=token";
    std::vector<char*> environment{servers.data(), via.data()};
    for (char** at = environ; *at != nullptr; ++at) environment.push_back(*at);
    environment.push_back(nullptr);
    std::string program = "/proc/self/exe", filter = "--gtest_filter=PeerElsewhere.IsTheClient";
    char* const arguments[] = {program.data(), filter.data(), nullptr};
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_adddup2(&actions, told[1], STDERR_FILENO);
    pid_t child = -1;
    ASSERT_EQ(::posix_spawn(&child, program.c_str(), &actions, nullptr, arguments, environment.data()), 0);
    ::posix_spawn_file_actions_destroy(&actions);
    ::close(told[1]);
    std::string said;
    while (std::ranges::count(said, '+') < 3) {
      char text[256];
      const ssize_t n = ::read(told[0], text, sizeof text);
      ASSERT_GT(n, 0) << said;
      said.append(text, static_cast<size_t>(n));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(3 * round));
    ::kill(child, SIGKILL);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFSIGNALED(status));
    ::close(told[0]);
    EXPECT_EQ(said.find('-'), std::string::npos) << said;
    moves(client(native), memory, DevicePath::peer);
    EXPECT_TRUE(same(stored("large", 8 * mib), bytes));
  }
}

}  // namespace

// What is lent, on its own: after its end nothing lands there.
namespace {

using fabric::Access;
using fabric::ofi::testing::TestClient;
using fabric::ofi::testing::TestServer;

Task<Result<void>> write_once(fabric::Window* window, Bytes from) {
  co_return co_await window->write(from, 0, deadline_in(std::chrono::seconds(10)));
}

class PeerWindows : public testing::Test {
 protected:
  static void SetUpTestSuite() { use_the_doubles(); }
  void SetUp() override { reset_doubles(); }
  void TearDown() override { reset_doubles(); }

  static fabric::ofi::Options options() {
    fabric::ofi::Options options = fabric::ofi::testing::test_options();
    options.provider = "verbs";
    options.device_memory = true;
    return options;
  }
  std::shared_ptr<const memory::cuda::PeerMemory> exported(uint64_t address, uint64_t size) {
    const auto driver = memory::cuda::Driver::get(platform());
    auto made = memory::cuda::PeerMemory::of(**driver, *(*driver)->cover(address, size), address, size);
    EXPECT_TRUE(made) << made.error().text;
    return made ? *made : nullptr;
  }
  bool writes(TestServer& server, const fabric::WindowDescriptor& lent, const TestClient& client, std::byte value) {
    auto window =
        server.call([&] { return server.fabric->open_window(client.link->address(), lent, Access::server_writes); });
    if (!window) return false;
    const auto lease = server.lease(lent.size, value);
    const auto done = server.spawn(write_once(window->get(), Bytes(lease.data(), lent.size))).get();
    server.call([&] { window->reset(); });
    return done.has_value();
  }
};

TEST_F(PeerWindows, EndWithTheirRequest) {
  TestServer server(options());
  ASSERT_TRUE(server.fabric) << describe(server.error);
  OnDevice memory(mib);
  constexpr size_t at = 12'345, size = 100'000;
  const auto peer = exported(memory.address() + at, size);
  const fabric::PeerLoan loan{.address = memory.address() + at,
                              .size = size,
                              .maker = is_hip() ? fabric::DeviceMaker::amd : fabric::DeviceMaker::nvidia,
                              .device = 0,
                              .descriptor = peer->descriptor(),
                              .begin = peer->begin()};
  for (const bool revoked : {false, true}) {
    TestClient client(nullptr, options());
    auto* const link = dynamic_cast<fabric::PeerLink*>(client.link.get());
    ASSERT_NE(link, nullptr);
    ASSERT_TRUE(link->reaches_devices());
    auto lent = link->lend_peer(loan, Access::server_writes);
    ASSERT_TRUE(lent) << describe(lent.error());
    EXPECT_TRUE((*lent)->bytes().empty());
    const fabric::WindowDescriptor descriptor = (*lent)->descriptor();
    EXPECT_EQ(descriptor.size, size);
    EXPECT_EQ(descriptor.base, loan.address);
    EXPECT_TRUE(writes(server, descriptor, client, std::byte{1}));
    EXPECT_TRUE(same(memory.bytes(at, size), std::vector<std::byte>(size, std::byte{1})));
    if (revoked) (*lent)->revoke();
    if (!revoked) lent->reset();
    EXPECT_EQ(nic_registered(), 0u);
    EXPECT_FALSE(writes(server, descriptor, client, std::byte{2}));
    EXPECT_TRUE(same(memory.bytes(at, size), std::vector<std::byte>(size, std::byte{1})));
    // What was lent for reading is not written.
    auto readable = link->lend_peer(loan, Access::server_reads);
    ASSERT_TRUE(readable);
    EXPECT_FALSE(writes(server, (*readable)->descriptor(), client, std::byte{3}));
    EXPECT_TRUE(same(memory.bytes(at, size), std::vector<std::byte>(size, std::byte{1})));
    double_poke(memory.address() + at, std::vector<std::byte>(size).data(), size);
  }
}

TEST_F(PeerWindows, AreExportedWithWholePagesOfTheirAllocation) {
  OnDevice memory(200'000);  // no multiple of 64 KiB
  constexpr uint64_t device_page = 64 * 1024;
  const uint64_t place = memory.address() + 70'000;
  const auto small = exported(place, 10);
  // HIP's dma-buf is of the whole buffer.
  EXPECT_EQ(small->begin(),
            is_hip() ? memory.address() : std::max(place / device_page * device_page, memory.address()));
  const auto last = exported(memory.address() + 199'999, 1);
  EXPECT_GE(last->begin(), memory.address());
  const auto all = exported(memory.address(), 200'000);
  EXPECT_EQ(all->begin(), memory.address());
  EXPECT_GE(all->descriptor(), 0);
}

// A refusal once kept the memory from every provider for a while.
TEST_F(PeerWindows, ThatAProvidersDeviceHasRefusedAreStillExportedForOthers) {
  constexpr size_t size = 100'000;
  OnDevice memory(size);
  const auto driver = memory::cuda::Driver::get(platform());
  const auto allocations = *(*driver)->cover(memory.address(), size);
  const MutableBytes bytes(reinterpret_cast<std::byte*>(memory.address()), size);
  const client::PeerWindow window(exported(memory.address(), size), bytes,
                                  client::PeerPlace::of(platform(), allocations));
  TestClient client(nullptr, options());
  nic_refuses(FI_EOPNOTSUPP);
  const auto lent = window.lend(*client.link, bytes, Access::server_writes);
  ASSERT_FALSE(lent);
  EXPECT_EQ(lent.error(), Errc::unsupported);
  std::string why;
  EXPECT_EQ(client::DevicePeer().find(platform(), allocations, bytes, client.link->provider(), why), nullptr);
  EXPECT_NE(why.find("has refused this memory"), std::string::npos) << why;
  client::DevicePeer others;
  EXPECT_NE(others.find(platform(), allocations, bytes, "efa", why), nullptr) << why;
}

TEST_F(PeerWindows, AreNotLentByALinkThatWasNotAskedForThem) {
  fabric::ofi::Options without = options();
  without.device_memory = false;
  TestClient client(nullptr, without);
  auto* const link = dynamic_cast<fabric::PeerLink*>(client.link.get());
  ASSERT_NE(link, nullptr);
  EXPECT_FALSE(link->reaches_devices());
  const auto lent = link->lend_peer({.address = 4096, .size = 4096}, Access::server_writes);
  ASSERT_FALSE(lent);
  EXPECT_EQ(lent.error(), Errc::unsupported);
}

}  // namespace
}  // namespace verbena::matrix
