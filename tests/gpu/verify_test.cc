// What is in a device's memory, checked after it has landed there, or before it is sent (verify_device).
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <system_error>

#include "base/checksum.h"
#include "direct_world.h"

namespace verbena::matrix {
namespace {

const Way straight{Via::native, "local"}, staged{Via::native, "tcp"}, by_http{Via::http, "auto"};

std::string checksum(Algorithm algorithm, Bytes bytes) {
  Digest digest(algorithm);
  digest.update(bytes);
  return std::string(to_string(algorithm)) + ":" + digest.finish_base64();
}

class Verify : public Direct {
 protected:
  Client by(const Way& way) { return client(way.via, way.provider); }
  // Whose calls may take so long.
  Client with_limit(std::chrono::milliseconds most) {
    ClientOptions given = options(Via::native, "local");
    given.operation_timeout = most;
    return *Client::connect(given);
  }
  void store(const std::string& key, const std::vector<std::byte>& bytes, Algorithm algorithm) {
    const auto put = http().put("bucket", key, bytes, {.checksum = checksum(algorithm, bytes)});
    ASSERT_TRUE(put) << put.error().message;
  }
  // An object that the server knows no checksum of.
  void store_without(const std::string& key, const std::vector<std::byte>& bytes) {
    ASSERT_TRUE(local().put("bucket", key, bytes));
    ASSERT_EQ(local().head("bucket", key)->checksum, "");
  }
  // One bit of the bytes there is another when they are read to be checked.
  static void spoil(uint64_t address, DeviceVerified by) {
    double_flip_at(by == DeviceVerified::kernel ? "cuLaunchKernel" : "cuMemcpyDtoHAsync_v2", address, 0);
  }
  // A GET is checked, and one whose last byte is not as it was stored is refused.
  void checks(const Client& c, const OnDevice& memory, const std::string& key, const std::vector<std::byte>& bytes,
              DeviceVerified verified, size_t offset = 0) {
    const Buffer window = *c.register_memory(memory.part(offset, bytes.size()));
    const auto got = c.get("bucket", key, window, {.verify_device = true});
    ASSERT_TRUE(got) << got.error().message;
    EXPECT_EQ(got->transfer.device_verified, verified);
    EXPECT_TRUE(same(memory.bytes(offset, bytes.size()), bytes));
    spoil(memory.address() + offset + bytes.size() - 1, verified);
    const auto other = c.get("bucket", key, window, {.verify_device = true});
    ASSERT_FALSE(other);
    EXPECT_EQ(other.error().code, ErrorCode::checksum_mismatch) << other.error().message;
    EXPECT_FALSE(same(memory.bytes(offset, bytes.size()), bytes));
  }
};

TEST_F(Verify, EveryWaysBytesAreCheckedWhereTheyLanded) {
  OnDevice memory(6 * mib);
  for (const Way& way : {straight, staged, by_http}) {
    SCOPED_TRACE(way.name());
    const Client c = by(way);
    for (const size_t size : {size_t{1}, size_t{4097}, size_t{150'001}, 4 * mib + 100'003}) {
      SCOPED_TRACE(size);
      const auto bytes = random_bytes(size, size);
      for (const Algorithm algorithm : {Algorithm::crc32c, Algorithm::crc32, Algorithm::crc64nvme}) {
        if (size > mib && algorithm != Algorithm::crc32c) continue;  // the interpreter takes its time
        store("key", bytes, algorithm);
        checks(c, memory, "key", bytes, best_check(), size % 9);
      }
    }
  }
}

TEST_F(Verify, OtherAlgorithmsAndDriversWithoutKernelsReadBack) {
  OnDevice memory(10 * mib);
  const auto small = random_bytes(70'000, 1), large = random_bytes(9 * mib + 5, 2);
  const Client c = by(straight);
  for (const Algorithm algorithm : {Algorithm::sha256, Algorithm::xxhash3}) {
    store("key", small, algorithm);
    checks(c, memory, "key", small, DeviceVerified::read_back);
  }
  store("small", small, Algorithm::crc32c);
  store("large", large, Algorithm::crc32c);
  const uint64_t before = c.device_counters().read_back_bytes;
  for (const char* call : {"cuModuleLoadData", "cuLaunchKernel"}) {
    const Client other = by(straight);  // whose lanes have loaded none yet
    double_fail(call, 218, 0);
    checks(other, memory, "small", small, DeviceVerified::read_back);
    checks(other, memory, "large", large, DeviceVerified::read_back);
    EXPECT_EQ(other.device_counters().read_back_bytes, 2 * (small.size() + large.size()));
    double_fail(call, 0, 0);
  }
  EXPECT_EQ(before, 4 * small.size());
}

TEST_F(Verify, WhatTheServerTellsNoChecksumOfIsNotCalledChecked) {
  OnDevice memory(mib);
  const auto bytes = random_bytes(200'000, 3);
  store("with", bytes, Algorithm::crc32c);
  store("empty", {}, Algorithm::crc32c);
  store_without("without", bytes);
  for (const Way& way : {straight, staged, by_http}) {
    SCOPED_TRACE(way.name());
    const Client c = by(way);
    const Buffer window = *c.register_memory(memory.all());
    const auto verified = [&](const std::string& key, std::optional<Range> range) {
      const auto got = c.get("bucket", key, window, {.range = range, .verify_device = true});
      EXPECT_TRUE(got) << got.error().message;
      return got ? got->transfer.device_verified : DeviceVerified::none;
    };
    EXPECT_EQ(verified("without", {}), DeviceVerified::no_checksum);
    EXPECT_EQ(verified("empty", {}), best_check());
    EXPECT_EQ(verified("with", Range{1, 100}), DeviceVerified::no_checksum);
    EXPECT_EQ(verified("with", Range{0, 100}), DeviceVerified::no_checksum);
    EXPECT_EQ(verified("with", Range{0, 0}), best_check());
    EXPECT_EQ(verified("with", Range{0, 1u << 20}), best_check());
    EXPECT_EQ(c.get("bucket", "with", window)->transfer.device_verified, DeviceVerified::none);
    std::vector<std::byte> host(bytes.size());
    EXPECT_EQ(c.get("bucket", "with", host, {.verify_device = true})->transfer.device_verified, DeviceVerified::none);
    const Range two[] = {{0, 0}, {5, 10}};
    EXPECT_EQ(c.get_ranges("bucket", "with", two, window, {.verify_device = true})->transfer.device_verified,
              DeviceVerified::no_checksum);
  }
}

TEST_F(Verify, APutIsComparedByTheServerWithWhatTheDeviceHad) {
  const auto bytes = random_bytes(300'001, 4);
  for (const Way& way : {straight, staged, by_http}) {
    SCOPED_TRACE(way.name());
    OnDevice memory(bytes.size());
    memory.set(bytes);
    const Client c = by(way);
    const Buffer window = *c.register_memory(memory.all());
    const auto put = c.put("bucket", "key", window, {.verify_device = true});
    ASSERT_TRUE(put) << put.error().message;
    EXPECT_EQ(put->transfer.device_verified, best_check());
    EXPECT_EQ(http().head("bucket", "key")->checksum, checksum(Algorithm::crc32c, bytes));
    // What is copied is not what was read before: nothing is stored.
    double_flip_at("cuMemcpyDtoHAsync_v2", memory.address() + 77, 1);
    const auto other = c.put("bucket", "other", window, {.verify_device = true});
    ASSERT_FALSE(other);
    EXPECT_EQ(other.error().code, ErrorCode::checksum_mismatch) << other.error().message;
    EXPECT_EQ(http().head("bucket", "other").error().code, ErrorCode::no_such_key);
    EXPECT_EQ(c.device_counters().mismatches, 1u);
    // The caller's own checksum is the one that counts.
    const auto own =
        c.put("bucket", "key", window, {.checksum = checksum(Algorithm::crc32c, bytes), .verify_device = true});
    EXPECT_EQ(own.error().code, ErrorCode::checksum_mismatch);
  }
}

TEST_F(Verify, APutsChecksumIsOfWhatItsStreamHasWrittenByThen) {
  OnDevice memory(200'000);
  const uint64_t stream = double_stream(0);
  DeviceBuffer given = memory.all();
  given.stream = stream;
  const Client c = by(straight);
  const Buffer window = *c.register_memory(given);
  double_hold(stream, true);
  double_fill(stream, memory.address(), 0x41, 200'000);
  std::thread later([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    double_hold(stream, false);
  });
  const auto put = c.put("bucket", "key", window, {.verify_device = true});
  later.join();
  ASSERT_TRUE(put) << put.error().message;
  EXPECT_EQ(http().head("bucket", "key")->checksum,
            checksum(Algorithm::crc32c, std::vector<std::byte>(200'000, std::byte{0x41})));
}

TEST_F(Verify, EachItemOfABatchHasItsOwnCheck) {
  const auto bytes = random_bytes(10'000, 5);
  store("crc32c", bytes, Algorithm::crc32c);
  store("crc64", bytes, Algorithm::crc64nvme);
  store("sha", bytes, Algorithm::sha256);
  store_without("without", bytes);
  const char* keys[] = {"crc32c", "crc64", "sha", "without", "crc32c", "absent", "crc32c"};
  const DeviceVerified expected[] = {best_check(), best_check(), DeviceVerified::read_back, DeviceVerified::no_checksum,
                                     DeviceVerified::no_checksum};
  for (const Way& way : {straight, staged, by_http}) {
    SCOPED_TRACE(way.name());
    OnDevice memory(mib);
    const Client c = by(way);
    const Buffer window = *c.register_memory(memory.all());
    std::vector<BatchItem> items;
    for (const char* key : keys) {
      items.push_back({.bucket = "bucket", .key = key, .offset = items.size() * 10'001, .size = 10'000});
    }
    items[4].range = Range{10, 20};
    std::vector<BatchResult> results(items.size());
    const auto many = c.get_many(items, {&window, 1}, results, {.verify_device = true});
    ASSERT_TRUE(many) << many.error().message;
    EXPECT_EQ(many->device_verified, DeviceVerified::no_checksum);
    for (size_t i = 0; i < std::size(expected); ++i) {
      EXPECT_FALSE(results[i].error) << i;
      EXPECT_EQ(results[i].device_verified, expected[i]) << i;
    }
    EXPECT_EQ(results[5].error, ErrorCode::no_such_key);
    EXPECT_EQ(results[6].device_verified, best_check());
    EXPECT_EQ(results[0].checksum, checksum(Algorithm::crc32c, bytes));

    // The last byte of the last item.
    std::vector<BatchItem> plain{items[0], items[6]};
    double_flip_at(is_hip() ? "cuMemcpyDtoHAsync_v2" : "cuLaunchKernel", memory.address() + 6 * 10'001 + 9'999, 0);
    const auto spoilt = c.get_many(plain, {&window, 1}, results, {.verify_device = true});
    ASSERT_TRUE(spoilt) << spoilt.error().message;
    EXPECT_EQ(spoilt->bytes, 10'000u);
    EXPECT_FALSE(results[0].error);
    EXPECT_EQ(results[1].error, ErrorCode::checksum_mismatch);
    // Without being asked nothing is told, also where results are used again.
    ASSERT_TRUE(c.get_many(plain, {&window, 1}, results));
    EXPECT_EQ(results[0].device_verified, DeviceVerified::none);
    EXPECT_EQ(results[0].checksum, "");
    EXPECT_FALSE(results[1].error);
  }
}

TEST_F(Verify, ADeviceThatFailsOrStopsDuringTheCheckEndsTheCall) {
  OnDevice memory(mib);
  const auto bytes = random_bytes(mib, 6);
  store("key", bytes, Algorithm::crc32c);
  const Client c = by(straight);
  const Buffer window = *c.register_memory(memory.all());
  ASSERT_TRUE(c.get("bucket", "key", window));
  double_fail("cuMemcpyDtoHAsync_v2", 214, 0);
  const auto failed = c.get("bucket", "key", window, {.verify_device = true});
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().code, ErrorCode::local_error) << failed.error().message;
  double_fail("cuMemcpyDtoHAsync_v2", 0, 0);
  std::stop_source stop;
  stop.request_stop();
  const auto put = c.put("bucket", "other", window, {.verify_device = true, .cancel = stop.get_token()});
  ASSERT_FALSE(put);
  EXPECT_EQ(put.error().code, ErrorCode::cancelled) << put.error().message;
  EXPECT_EQ(c.device_counters().failed, 2u);
}

// The driver waits for what the device is doing, for as long as that lasts.
TEST_F(Verify, AKernelThatIsNotLoadedInTimeIsNotWaitedFor) {
  if (is_hip()) GTEST_SKIP() << "which takes no text of a kernel";
  OnDevice memory(mib);
  const auto bytes = random_bytes(mib, 8);
  store("key", bytes, Algorithm::crc32c);
  const Client c = with_limit(std::chrono::milliseconds(500));
  const Buffer window = *c.register_memory(memory.all());
  const auto verified_by = [&] {
    memory.set(std::vector<std::byte>(mib));
    const auto got = c.get("bucket", "key", window, {.verify_device = true});
    EXPECT_TRUE(got) << got.error().message;
    EXPECT_TRUE(same(memory.bytes(0, mib), bytes));
    return got ? got->transfer.device_verified : DeviceVerified::none;
  };
  double_block("cuModuleLoadData", true);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(verified_by(), DeviceVerified::read_back);
  EXPECT_TRUE(eventually([] { return double_blocked() == 1; }));  // one thread waits, whatever is asked
  double_block("cuModuleLoadData", false);
  EXPECT_TRUE(eventually([&] { return verified_by() == DeviceVerified::kernel; }));
  EXPECT_EQ(double_calls("cuModuleLoadData"), 1u) << "what came too late is what is used then";
  EXPECT_EQ(double_calls("cuModuleUnload"), 0u);
}

// A driver that takes longer than any call may last had its kernel unloaded each time, and each call had waited.
TEST_F(Verify, AKernelIsWaitedForShortlyHoweverLongTheCallMayTake) {
  if (is_hip()) GTEST_SKIP() << "which takes no text of a kernel";
  OnDevice memory(mib);
  const auto bytes = random_bytes(mib, 10);
  store("key", bytes, Algorithm::crc32c);
  const Client c = with_limit(std::chrono::hours(1));
  const Buffer window = *c.register_memory(memory.all());
  double_block("cuModuleLoadData", true);
  std::stop_source stop;
  std::jthread giving_up([&](const std::stop_token& over) {
    for (int i = 0; i < 400 && !over.stop_requested(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(50));
    if (!over.stop_requested()) stop.request_stop();
  });
  const auto got = c.get("bucket", "key", window, {.verify_device = true, .cancel = stop.get_token()});
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_EQ(got->transfer.device_verified, DeviceVerified::read_back);
  double_block("cuModuleLoadData", false);
  EXPECT_TRUE(eventually([&] {
    return c.get("bucket", "key", window, {.verify_device = true})->transfer.device_verified == DeviceVerified::kernel;
  }));
}

// It held up the checks on every other device.
TEST_F(Verify, ADeviceWhoseDriverLoadsNoKernelConcernsNoOther) {
  if (is_hip()) GTEST_SKIP() << "which takes no text of a kernel";
  OnDevice one(mib, 0), other(mib, 1);
  store("key", random_bytes(mib, 11), Algorithm::crc32c);
  const Client c = with_limit(std::chrono::milliseconds(500));
  const Buffer first = *c.register_memory(one.all()), second = *c.register_memory(other.all());
  const auto verified_by = [&](const Buffer& window) {
    const auto got = c.get("bucket", "key", window, {.verify_device = true});
    EXPECT_TRUE(got) << got.error().message;
    return got ? got->transfer.device_verified : DeviceVerified::none;
  };
  double_block("cuModuleLoadData", true);
  EXPECT_EQ(verified_by(first), DeviceVerified::read_back);
  EXPECT_EQ(verified_by(first), DeviceVerified::read_back);
  EXPECT_TRUE(eventually([] { return double_blocked() == 1; }));
  EXPECT_EQ(verified_by(second), DeviceVerified::read_back);
  EXPECT_TRUE(eventually([] { return double_blocked() == 2; }));  // it was tried
  double_block("cuModuleLoadData", false);
  for (const Buffer* window : {&first, &second}) {
    EXPECT_TRUE(eventually([&] { return verified_by(*window) == DeviceVerified::kernel; }));
  }
}

// std::system_error came out of a call that throws nothing.
TEST(VerifyWithoutThreads, ReadsBack) {
  if (is_hip()) GTEST_SKIP() << "which takes no text of a kernel";
  EXPECT_EQ(run_this_program("TEST_WITHOUT_THREADS=1", "VerifyElsewhere.*"), 0);
}

using VerifyElsewhere = Verify;

// The process may start no thread while this lives, where that can be had.
class NoMoreThreads {
 public:
  NoMoreThreads() {
    ::getrlimit(RLIMIT_NPROC, &before_);
    const rlimit none{0, before_.rlim_max};
    ::setrlimit(RLIMIT_NPROC, &none);
    constexpr uid_t nobody_here = 64'321;  // the limit does not hold for root
    if (is_root_ && ::setresuid(nobody_here, nobody_here, 0) != 0) ADD_FAILURE();
  }
  ~NoMoreThreads() {
    if (is_root_ && ::setresuid(0, 0, 0) != 0) ADD_FAILURE();
    ::setrlimit(RLIMIT_NPROC, &before_);
  }
  bool holds() const {
    try {
      std::jthread([] {});
      return false;
    } catch (const std::system_error&) {
      return true;
    }
  }

 private:
  const bool is_root_ = ::getuid() == 0;
  rlimit before_{};
};

TEST_F(VerifyElsewhere, IsWithoutThreads) {
  if (std::getenv("TEST_WITHOUT_THREADS") == nullptr) GTEST_SKIP() << "started by VerifyWithoutThreads";
  OnDevice memory(mib);
  const auto bytes = random_bytes(mib, 12);
  store("key", bytes, Algorithm::crc32c);
  const Client c = by(straight);
  const Buffer window = *c.register_memory(memory.all());
  ASSERT_TRUE(c.get("bucket", "key", window));
  const auto verified_by = [&] {
    const auto got = c.get("bucket", "key", window, {.verify_device = true});
    EXPECT_TRUE(got) << got.error().message;
    return got ? got->transfer.device_verified : DeviceVerified::none;
  };
  {
    const NoMoreThreads none;
    if (!none.holds()) GTEST_SKIP() << "threads cannot be forbidden here";
    EXPECT_EQ(verified_by(), DeviceVerified::read_back);
  }
  EXPECT_EQ(verified_by(), DeviceVerified::kernel) << "it is tried again";
}

TEST_F(Verify, LoadingAKernelEndsWithItsCall) {
  if (is_hip()) GTEST_SKIP() << "which takes no text of a kernel";
  OnDevice memory(mib);
  const auto bytes = random_bytes(mib, 9);
  store("key", bytes, Algorithm::crc32c);
  const Client c = with_limit(std::chrono::hours(1));
  const Buffer window = *c.register_memory(memory.all());
  double_block("cuModuleLoadData", true);
  std::stop_source stop;
  std::jthread stopping([&] {
    EXPECT_TRUE(eventually([] { return double_blocked() == 1; }));
    stop.request_stop();
  });
  const auto got = c.get("bucket", "key", window, {.verify_device = true, .cancel = stop.get_token()});
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().code, ErrorCode::cancelled) << got.error().message;
  double_block("cuModuleLoadData", false);
  EXPECT_TRUE(eventually([&] {
    return c.get("bucket", "key", window, {.verify_device = true})->transfer.device_verified == DeviceVerified::kernel;
  }));
  EXPECT_EQ(double_calls("cuModuleLoadData"), 1u) << "that call's is what is used then";
}

TEST_F(Verify, CountersHaveEachCallByItsWay) {
  OnDevice memory(mib);
  const auto bytes = random_bytes(100'000, 7);
  store("key", bytes, Algorithm::crc32c);
  const Client c = by(straight);
  const Buffer window = *c.register_memory(memory.part(0, bytes.size()));
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(c.get("bucket", "key", window, {.verify_device = i == 0}));
  ASSERT_TRUE(c.put("bucket", "other", window));
  EXPECT_FALSE(c.get("bucket", "absent", window));
  DeviceCounters now = c.device_counters();
  EXPECT_EQ(now.direct.transfers, 4u);
  EXPECT_EQ(now.direct.bytes, 400'000u);
  EXPECT_EQ(now.shared.transfers + now.staged.transfers + now.peer.transfers, 0u);
  EXPECT_EQ(now.not_direct + now.not_peer + now.other_door, 0u);
  EXPECT_EQ(now.failed, 1u);
  EXPECT_EQ(is_hip() ? now.verified_read_back : now.verified_kernel, 1u);
  // The device fails for the server, and then the driver shares no memory at all.
  double_fail_some("cuIpcOpenMemHandle_v2", 201, 0, 1000);
  const Buffer other = *c.register_memory(memory.part(500'000, bytes.size()));
  const auto shared = c.get("bucket", "key", other);
  ASSERT_TRUE(shared) << shared.error().message;
  double_reset_counts();
  now = c.device_counters();
  EXPECT_EQ(shared->transfer.device_path, DevicePath::shared);
  EXPECT_EQ(now.shared.bytes, 100'000u);
  EXPECT_EQ(now.not_direct, 1u);
  EXPECT_EQ(now.direct_failed, 1u) << shared->transfer.fell_back_reason;
  const Client plain = by(by_http);
  ASSERT_TRUE(plain.get("bucket", "key", *plain.register_memory(memory.all())));
  EXPECT_EQ(plain.device_counters().staged.transfers, 1u);
  EXPECT_EQ(c.device_counters().staged.transfers, 0u) << "each client has its own";
}

}  // namespace
}  // namespace verbena::matrix
