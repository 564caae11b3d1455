// Device memory as a window, over the driver double: any touch of it by the CPU ends this program.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <thread>

#include "gpu_world.h"

namespace verbena::matrix {
namespace {

constexpr size_t half = 4u << 20;  // of a lane's ring

class Gpu : public testing::Test {
 protected:
  static void SetUpTestSuite() { use_the_double(); }
  void SetUp() override {
    double_reset_counts();
    double_delay(50);
    ASSERT_TRUE(http().make_bucket("bucket"));
  }
  void TearDown() override {
    EXPECT_EQ(double_misuse(), 0u);
    double_reset_counts();
  }

  Client client(const Way& way, std::chrono::milliseconds limit = std::chrono::seconds(60)) {
    ClientOptions options;
    options.endpoint = world.server.http();
    options.native_endpoint = world.server.native();
    options.access_key = server::TestServer::access_key;
    options.secret_key = server::TestServer::secret_key;
    options.via = way.via;
    options.provider = way.provider;
    options.token_size_min = 0;
    options.operation_timeout = limit;
    options.multipart_threshold = 20u << 20;
    auto made = Client::connect(options);
    EXPECT_TRUE(made) << way.name();
    return *made;
  }
  Client http() { return client({Via::http, "auto"}); }
  Client local(std::chrono::milliseconds limit = std::chrono::seconds(60)) {
    return client({Via::native, "local"}, limit);
  }
  static DevicePath path(const Way& way) {
    return way.via == Via::native && way.provider == "local" ? DevicePath::shared : DevicePath::staged;
  }
  // What is said of why it was no better way: this server's GPUs copy for none, and no device here reaches a GPU. Of a
  // caller that asked for HTTP nothing is to be said.
  static void expect_why(const Way& way, const Transfer& transfer) {
    std::string why;
    if (way.via != Via::http) why = way.provider == "local" ? "direct: no GPU of " : "peer: ";
    EXPECT_TRUE(why.empty() ? transfer.fell_back_reason.empty() : transfer.fell_back_reason.starts_with(why))
        << transfer.fell_back_reason;
  }

  World world;
};

TEST_F(Gpu, EveryWayMovesEveryByte) {
  const size_t sizes[] = {1, 4097, 300'000, half, half + 1, 3 * half + 7, 21u << 20};
  OnDevice memory(24u << 20);
  for (const Way& way : every_way()) {
    SCOPED_TRACE(way.name());
    const Client c = client(way);
    const Buffer window = *c.register_memory(memory.all());
    EXPECT_TRUE(window.on_device());
    for (const size_t size : sizes) {
      SCOPED_TRACE(size);
      const auto bytes = random_bytes(size, size);
      ASSERT_TRUE(http().put("bucket", "from-host", bytes));
      const auto got = c.get("bucket", "from-host", window);
      ASSERT_TRUE(got) << got.error().message;
      EXPECT_EQ(got->bytes, size);
      EXPECT_EQ(got->info.size, size);
      EXPECT_EQ(got->transfer.bytes, size);
      EXPECT_EQ(got->transfer.device_path, path(way));
      expect_why(way, got->transfer);
      EXPECT_TRUE(same(memory.bytes(0, size), bytes));

      memory.set(random_bytes(size, size + 1));
      const auto put = c.put("bucket", "from-device", window.slice(0, size));
      ASSERT_TRUE(put) << put.error().message;
      EXPECT_EQ(put->transfer.device_path, path(way));
      expect_why(way, put->transfer);
      std::vector<std::byte> back(size);
      ASSERT_TRUE(http().get("bucket", "from-device", back));
      EXPECT_TRUE(same(back, random_bytes(size, size + 1)));
    }
  }
  EXPECT_EQ(double_pageable(), 0u);
}

TEST_F(Gpu, RangesEmptyObjectsAndObjectsThatDoNotFit) {
  const auto bytes = random_bytes(3 * half, 7);
  ASSERT_TRUE(http().put("bucket", "key", bytes));
  ASSERT_TRUE(http().put("bucket", "empty", std::span<const std::byte>()));
  OnDevice memory(4 * half);
  for (const Way& way : every_way()) {
    SCOPED_TRACE(way.name());
    const Client c = client(way);
    const Buffer window = *c.register_memory(memory.all());
    const std::pair<Range, size_t> ranges[] = {
        {{5, 100}, 100}, {{half - 3, half + 9}, half + 9}, {{half, 0}, 2 * half}, {{3 * half - 1, 2 * half}, 1}};
    for (const auto& [range, size] : ranges) {
      const auto got = c.get("bucket", "key", window, {.range = range});
      ASSERT_TRUE(got) << got.error().message;
      EXPECT_EQ(got->bytes, size);
      EXPECT_TRUE(same(memory.bytes(0, size), std::span(bytes).subspan(range.offset, size)));
    }
    const Range two[] = {{10, 20}, {2 * half, half}};
    const auto packed = c.get_ranges("bucket", "key", two, window);
    ASSERT_TRUE(packed) << packed.error().message;
    EXPECT_EQ(packed->bytes, 20 + half);
    EXPECT_TRUE(same(memory.bytes(0, 20), std::span(bytes).subspan(10, 20)));
    EXPECT_TRUE(same(memory.bytes(20, half), std::span(bytes).subspan(2 * half, half)));
    const auto empty = c.get("bucket", "empty", window);
    ASSERT_TRUE(empty) << empty.error().message;
    EXPECT_EQ(empty->bytes, 0u);
    const auto small = c.get("bucket", "key", window.slice(0, 2 * half));
    ASSERT_FALSE(small);
    EXPECT_EQ(small.error().code, ErrorCode::buffer_too_small);
    const auto missing = c.get("bucket", "none", window);
    ASSERT_FALSE(missing);
    EXPECT_EQ(missing.error().code, ErrorCode::no_such_key);
  }
}

TEST_F(Gpu, BatchesScatterAndGather) {
  constexpr size_t count = 120, size = 80'000, large = half + 5000;
  OnDevice memory(count * size + large + (1u << 20));
  for (const Way& way : every_way()) {
    SCOPED_TRACE(way.name());
    const Client c = client(way);
    const Buffer windows[] = {*c.register_memory(memory.all()), *c.allocate(size)};
    std::vector<std::string> keys;
    for (size_t i = 0; i < count; ++i) keys.push_back("item/" + std::to_string(i));
    std::vector<BatchItem> items;
    for (size_t i = 0; i < count; ++i) {
      items.push_back({.bucket = "bucket", .key = keys[i], .offset = (count - 1 - i) * size, .size = size - i});
    }
    items[7].size = large;  // more than a half of the ring
    items[7].offset = count * size;
    items[8].window = 1;  // host memory
    items[8].offset = 0;
    std::ranges::copy(random_bytes(size, 8), windows[1].bytes().begin());
    memory.set(random_bytes(count * size + large, 9));
    std::vector<BatchResult> results(count);
    const auto stored = c.put_many(items, windows, results);
    ASSERT_TRUE(stored) << stored.error().message;
    EXPECT_EQ(stored->device_path, path(way));
    if (way.via == Via::native) expect_why(way, *stored);
    const auto wanted = memory.bytes(0, count * size + large);

    memory.set(std::vector<std::byte>(count * size + large));
    items[20].key = "missing";
    items[21].size -= 1;  // does not fit
    size_t told = 0;
    BatchOptions options;
    options.in_order = [&](size_t leading) {
      EXPECT_GE(leading, told);
      for (size_t i = told; i < leading; ++i) {
        if (i == 8 || i == 20 || i == 21) continue;
        EXPECT_TRUE(same(memory.bytes(items[i].offset, items[i].size),
                         std::span(wanted).subspan(items[i].offset, items[i].size)));
      }
      told = leading;
    };
    const auto got = c.get_many(items, windows, results, options);
    ASSERT_TRUE(got) << got.error().message;
    EXPECT_EQ(told, count);
    EXPECT_EQ(got->device_path, path(way));
    for (size_t i = 0; i < count; ++i) {
      SCOPED_TRACE(i);
      if (i == 20 || i == 21) {
        EXPECT_EQ(results[i].error, i == 20 ? ErrorCode::no_such_key : ErrorCode::buffer_too_small);
        continue;
      }
      EXPECT_FALSE(results[i].error);
      EXPECT_EQ(results[i].bytes, items[i].size);
    }
    EXPECT_TRUE(same(windows[1].bytes(), random_bytes(size, 8)));
    const auto untouched = memory.bytes(items[20].offset, size);
    EXPECT_TRUE(std::ranges::all_of(untouched, [](std::byte b) { return b == std::byte{0}; }));
  }
  EXPECT_EQ(double_pageable(), 0u);
}

TEST_F(Gpu, AsynchronousCallsToo) {
  const Client c = local();
  OnDevice memory(2 * half);
  const Buffer window = *c.register_memory(memory.all());
  const auto bytes = random_bytes(2 * half, 3);
  memory.set(bytes);
  ASSERT_TRUE(c.put_async("bucket", "key", window).get());
  memory.set(random_bytes(2 * half, 4));
  const auto got = c.get_async("bucket", "key", window).get();
  ASSERT_TRUE(got);
  EXPECT_EQ(got->transfer.device_path, DevicePath::shared);
  EXPECT_TRUE(same(memory.bytes(0, 2 * half), bytes));
  const BatchItem items[] = {{.bucket = "bucket", .key = "key", .size = half * 2}};
  BatchResult results[1];
  BatchLease lease{.time = std::chrono::seconds(1)};
  const auto leased = c.get_many(items, std::span(&window, 1), results, {.in_order = {}, .lease = 0, .take = &lease});
  ASSERT_FALSE(leased);
  EXPECT_EQ(leased.error().code, ErrorCode::unsupported);
  const auto listed = c.list_values("bucket", window);
  ASSERT_FALSE(listed);
  EXPECT_EQ(listed.error().code, ErrorCode::unsupported);
}

TEST_F(Gpu, CallsComeAfterTheWorkOfTheirStream) {
  const Client c = local();
  OnDevice memory(half);
  DeviceBuffer given = memory.all();
  given.stream = double_stream(0);
  const Buffer window = *c.register_memory(given);
  for (const bool puts : {true, false}) {
    double_hold(*given.stream, true);
    double_fill(*given.stream, memory.address(), puts ? 0x55 : 0x66, half);
    std::jthread letting([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(30));
      double_hold(*given.stream, false);
    });
    if (puts) {
      ASSERT_TRUE(c.put("bucket", "filled", window));
    } else {
      ASSERT_TRUE(c.get("bucket", "filled", window));
    }
  }
  const std::vector<std::byte> wanted(half, std::byte{0x55});
  EXPECT_TRUE(same(memory.bytes(0, half), wanted));
}

TEST_F(Gpu, AStreamThatNeverFinishesIsTimedOutAndNothingIsWritten) {
  const Client c = local(std::chrono::milliseconds(300));
  ASSERT_TRUE(http().put("bucket", "key", random_bytes(1000, 1)));
  OnDevice memory(half);
  DeviceBuffer given = memory.all();
  given.stream = double_stream(0);
  double_hold(*given.stream, true);
  double_fill(*given.stream, memory.address(), 1, half);
  const Buffer window = *c.register_memory(given);
  const auto got = c.get("bucket", "key", window);
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().code, ErrorCode::timed_out);
  const auto put = c.put("bucket", "other", window);
  ASSERT_FALSE(put);
  EXPECT_EQ(put.error().code, ErrorCode::timed_out);
  std::stop_source stop;
  stop.request_stop();
  const auto cancelled = c.put("bucket", "other", window, {.cancel = stop.get_token()});
  ASSERT_FALSE(cancelled);
  EXPECT_EQ(cancelled.error().code, ErrorCode::cancelled);
  EXPECT_TRUE(same(memory.bytes(0, 1000), std::vector<std::byte>(1000)));
  double_hold(*given.stream, false);
  ASSERT_TRUE(c.get("bucket", "key", window));
  EXPECT_TRUE(same(memory.bytes(0, 1000), random_bytes(1000, 1)));
  double_capture(*given.stream, true);
  const auto captured = c.get("bucket", "key", window);
  ASSERT_FALSE(captured);
  EXPECT_EQ(captured.error().code, ErrorCode::invalid_argument);
}

TEST_F(Gpu, MemoryThatIsNotTheDevicesIsRefused) {
  const Client c = local();
  const auto code = [&](DeviceBuffer given) {
    given.kind = kind();
    const auto made = c.register_memory(given);
    return made ? ErrorCode{} : made.error().code;
  };
  std::vector<std::byte> host(4096);
  EXPECT_EQ(code({.address = reinterpret_cast<uintptr_t>(host.data()), .size = 10}), ErrorCode::invalid_argument);
  EXPECT_EQ(code({.address = 0, .size = 10}), ErrorCode::invalid_argument);
  OnDevice memory(10'000), other(10'000, 1);
  EXPECT_EQ(code({.address = memory.address(), .size = 0}), ErrorCode::invalid_argument);
  EXPECT_EQ(code({.address = memory.address() + 9'999, .size = 2}), ErrorCode::invalid_argument);
  EXPECT_EQ(code({.address = memory.address(), .size = SIZE_MAX}), ErrorCode::invalid_argument);
  EXPECT_EQ(code({.address = memory.address(), .size = 10, .device = 1}), ErrorCode::invalid_argument);
  EXPECT_EQ(code({.address = memory.address() + 5'000, .size = 5'000, .device = 0}), ErrorCode{});
  EXPECT_EQ(code({.address = other.address(), .size = 10, .device = 1}), ErrorCode{});
  const uint64_t managed = double_allocate_managed(4096);
  EXPECT_EQ(code({.address = managed, .size = 10}), ErrorCode::invalid_argument);
  double_free(managed);

  DeviceBuffer read_only = memory.all();
  read_only.read_only = true;
  const Buffer sealed = *c.register_memory(read_only);
  ASSERT_TRUE(c.put("bucket", "key", sealed));
  const auto into = c.get("bucket", "key", sealed);
  ASSERT_FALSE(into);
  EXPECT_EQ(into.error().code, ErrorCode::invalid_argument);
  const Buffer windows[] = {sealed, *c.register_memory(other.all())};
  const BatchItem items[] = {{.bucket = "bucket", .key = "key", .size = 10'000}};
  BatchResult results[1];
  EXPECT_FALSE(c.get_many(items, std::span(windows).first(1), results));
  const auto two = c.put_many(items, windows, results);  // windows of two devices
  ASSERT_FALSE(two);
  EXPECT_EQ(two.error().code, ErrorCode::invalid_argument);
}

TEST_F(Gpu, FreedMemoryIsRefusedAlsoWhereItsAddressIsUsedAgain) {
  const Client c = local();
  ASSERT_TRUE(http().put("bucket", "key", random_bytes(100, 1)));
  OnDevice memory(half);
  const Buffer window = *c.register_memory(memory.all());
  ASSERT_TRUE(c.get("bucket", "key", window));
  const uint64_t address = memory.address();
  memory.free();
  for (const bool again : {false, true}) {
    if (again) {
      ASSERT_EQ(double_allocate_at(0, address, half), address);
    }
    const auto got = c.get("bucket", "key", window);
    ASSERT_FALSE(got);
    EXPECT_EQ(got.error().code, ErrorCode::invalid_argument);
    EXPECT_NE(got.error().message.find("freed"), std::string::npos) << got.error().message;
  }
  double_free(address);
}

// Returns when the driver has been given one copy of this direction, the first since `before`.
void wait_for_copy(const char* call, unsigned before) {
  while (double_calls(call) == before) std::this_thread::yield();
}

TEST_F(Gpu, MemoryThatIsFreedDuringATransferIsAnErrorAndNoObject) {
  const Client c = local();
  ASSERT_TRUE(http().put("bucket", "key", random_bytes(4 * half, 1)));
  for (const char* call : {"cuMemcpyHtoDAsync_v2", "cuMemcpyDtoHAsync_v2"}) {
    SCOPED_TRACE(call);
    OnDevice memory(4 * half);
    const Buffer window = *c.register_memory(memory.all());
    double_delay(100'000);  // later halves come after the free
    const unsigned before = double_calls(call);
    std::jthread freeing([&] {
      wait_for_copy(call, before);
      memory.free();
    });
    ClientError error;
    if (std::string(call).find("HtoD") != std::string::npos) {
      const auto got = c.get("bucket", "key", window);
      ASSERT_FALSE(got);
      error = got.error();
    } else {
      const auto put = c.put("bucket", "other", window);
      ASSERT_FALSE(put);
      error = put.error();
    }
    EXPECT_EQ(error.code, ErrorCode::local_error);
    const char* const told = own("CUDA_ERROR_INVALID_VALUE", "hipErrorInvalidValue");
    EXPECT_NE(error.message.find(told), std::string::npos) << error.message;
    double_delay(50);
  }
  std::vector<std::byte> host(4 * half);
  EXPECT_FALSE(c.get("bucket", "other", host));
  ASSERT_TRUE(c.get("bucket", "key", host));
  EXPECT_TRUE(same(host, random_bytes(4 * half, 1)));
}

TEST_F(Gpu, AViewIntoALargerAllocationTouchesNothingBesideIt) {
  constexpr size_t begin = half + 123, size = 2 * half + 7, all = 4 * half;
  OnDevice memory(all);
  const auto around = random_bytes(all, 1), bytes = random_bytes(size, 2);
  ASSERT_TRUE(http().put("bucket", "key", bytes));
  for (const Way& way : every_way()) {
    SCOPED_TRACE(way.name());
    const Client c = client(way);
    const Buffer window = *c.register_memory(memory.part(begin, size));
    memory.set(around);
    ASSERT_TRUE(c.put("bucket", "view", window));
    ASSERT_TRUE(c.get("bucket", "key", window));
    EXPECT_TRUE(same(memory.bytes(0, begin), std::span(around).first(begin)));
    EXPECT_TRUE(same(memory.bytes(begin, size), bytes));
    EXPECT_TRUE(same(memory.bytes(begin + size, all - begin - size), std::span(around).subspan(begin + size)));
    std::vector<std::byte> back(size);
    ASSERT_TRUE(http().get("bucket", "view", back));
    EXPECT_TRUE(same(back, std::span(around).subspan(begin, size)));
  }
}

TEST_F(Gpu, TwoDevicesAtOnceEachGetTheirOwnBytes) {
  constexpr size_t size = half + 999;
  const Client c = local();
  std::vector<std::jthread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      const std::string key = "key/" + std::to_string(i);
      OnDevice memory(size, i % 2);
      const auto window = c.register_memory(memory.all());
      ASSERT_TRUE(window) << window.error().message;
      for (unsigned k = 0; k < 5; ++k) {
        const auto bytes = random_bytes(size, static_cast<unsigned>(i) * 100 + k);
        memory.set(bytes);
        ASSERT_TRUE(c.put("bucket", key, *window));
        memory.set(std::vector<std::byte>(size));
        const auto got = c.get("bucket", key, *window);
        ASSERT_TRUE(got) << got.error().message;
        EXPECT_TRUE(same(memory.bytes(0, size), bytes));
      }
    });
  }
}

TEST_F(Gpu, AStreamOfAnotherDeviceIsAnErrorAndNothingIsWritten) {
  const Client c = local();
  ASSERT_TRUE(http().put("bucket", "key", random_bytes(1000, 1)));
  OnDevice memory(1000);
  DeviceBuffer given = memory.all();
  given.stream = double_stream(1);
  const Buffer window = *c.register_memory(given);
  const auto got = c.get("bucket", "key", window);
  ASSERT_FALSE(got);
  const char* const told = own("CUDA_ERROR_INVALID_HANDLE", "hipErrorInvalidHandle");
  EXPECT_NE(got.error().message.find(told), std::string::npos) << got.error().message;
  EXPECT_FALSE(c.put("bucket", "other", window));
  EXPECT_TRUE(same(memory.bytes(0, 1000), std::vector<std::byte>(1000)));
}

TEST_F(Gpu, AWindowMayReachOverAdjacentAllocations) {
  const Client c = local();
  OnDevice reserved(4u << 20);  // addresses that are free afterwards
  const uint64_t address = reserved.address();
  reserved.free();
  ASSERT_NE(double_allocate_at(0, address, 2u << 20), 0u);
  ASSERT_NE(double_allocate_at(0, address + (2u << 20), 2u << 20), 0u);
  const auto bytes = random_bytes(4u << 20, 5);
  ASSERT_TRUE(http().put("bucket", "key", bytes));
  const Buffer window = *c.register_memory(DeviceBuffer{.kind = kind(), .address = address, .size = 4u << 20});
  const auto got = c.get("bucket", "key", window);
  if (is_hip()) {  // which copies within one allocation
    ASSERT_FALSE(got);
    EXPECT_EQ(got.error().code, ErrorCode::local_error);
    EXPECT_NE(got.error().message.find("hipErrorInvalidValue"), std::string::npos) << got.error().message;
  } else {
    ASSERT_TRUE(got) << got.error().message;
    std::vector<std::byte> back(4u << 20);
    double_peek(back.data(), address, back.size());
    EXPECT_TRUE(same(back, bytes));
  }
  double_free(address + (2u << 20));
  EXPECT_FALSE(c.get("bucket", "key", window));
  double_free(address);
}

TEST_F(Gpu, TheDriversErrorsHaveItsNames) {
  ASSERT_TRUE(http().put("bucket", "key", random_bytes(3 * half, 1)));
  OnDevice memory(3 * half);
  const std::tuple<const char*, const char*, const char*> calls[] = {
      {"cuMemcpyHtoDAsync_v2", own("cuMemcpyHtoDAsync", "hipMemcpyHtoDAsync"), "get"},
      {"cuMemcpyDtoHAsync_v2", own("cuMemcpyDtoHAsync", "hipMemcpyDtoHAsync"), "put"},
      {"cuStreamCreate", own("cuStreamCreate", "hipStreamCreateWithFlags"), "get"},
      {"cuEventRecord", own("cuEventRecord", "hipEventRecord"), "get"},
      {"cuPointerGetAttribute", own("cuPointerGetAttribute", "hipPointerGetAttribute"), "get"},
      {own("cuDevicePrimaryCtxRetain", "hipDeviceGet"), own("cuDevicePrimaryCtxRetain", "hipDeviceGet"), "get"}};
  const std::string status = own(": CUDA_ERROR_OUT_OF_MEMORY", ": hipErrorOutOfMemory");
  for (const auto& [call, name, verb] : calls) {
    for (const unsigned after : {0u, 1u}) {
      SCOPED_TRACE(call);
      if (after == 1 && std::string(call).find("cuMemcpy") == std::string::npos) continue;
      const std::string told = name + status;
      const Client c = local();
      const Buffer window = *c.register_memory(memory.all());
      double_fail(call, 2, after);
      std::string message;
      if (std::string(verb) == "get") {
        const auto got = c.get("bucket", "key", window);
        ASSERT_FALSE(got);
        EXPECT_EQ(got.error().code, ErrorCode::local_error);
        message = got.error().message;
      } else {
        const auto put = c.put("bucket", "other", window);
        ASSERT_FALSE(put);
        EXPECT_EQ(put.error().code, ErrorCode::local_error);
        message = put.error().message;
      }
      EXPECT_NE(message.find(told), std::string::npos) << message;
      double_fail(call, 0, 0);
      ASSERT_TRUE(c.get("bucket", "key", window));
      EXPECT_TRUE(same(memory.bytes(0, 3 * half), random_bytes(3 * half, 1)));
    }
  }
}

TEST_F(Gpu, WithoutPageLockedMemoryItIsSlowerAndAsRight) {
  double_fail("cuMemHostRegister_v2", 800, 0);
  const Client c = local();
  OnDevice memory(3 * half);
  const Buffer window = *c.register_memory(memory.all());
  const auto bytes = random_bytes(3 * half, 2);
  ASSERT_TRUE(http().put("bucket", "key", bytes));
  ASSERT_TRUE(c.get("bucket", "key", window));
  EXPECT_TRUE(same(memory.bytes(0, 3 * half), bytes));
  EXPECT_GE(double_pageable(), 3u);
}

TEST_F(Gpu, ALostDeviceIsAnErrorAndTheServerGoesOn) {
  const Client c = local();
  ASSERT_TRUE(http().put("bucket", "key", random_bytes(3 * half, 1)));
  OnDevice memory(3 * half);
  const Buffer window = *c.register_memory(memory.all());
  ASSERT_TRUE(c.get("bucket", "key", window));
  double_delay(3000);
  std::jthread losing([] {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    double_lose(0, true);
  });
  const auto got = c.get("bucket", "key", window);
  losing.join();
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().code, ErrorCode::local_error);
  const char* const told = own("CUDA_ERROR_ECC_UNCORRECTABLE", "hipErrorECCNotCorrectable");
  EXPECT_NE(got.error().message.find(told), std::string::npos) << got.error().message;
  for (int i = 0; i < 20; ++i) EXPECT_FALSE(c.put("bucket", "other", window));
  std::vector<std::byte> host(3 * half);
  ASSERT_TRUE(c.get("bucket", "key", host));
  EXPECT_TRUE(same(host, random_bytes(3 * half, 1)));
  double_lose(0, false);
  double_delay(50);
  ASSERT_TRUE(c.get("bucket", "key", window));
}

TEST_F(Gpu, ADeviceThatStopsCostsABoundedAmountOfMemory) {
  {
    const Client c = local(std::chrono::milliseconds(100));
    ASSERT_TRUE(http().put("bucket", "key", random_bytes(1000, 1)));
    OnDevice memory(half);
    const Buffer window = *c.register_memory(memory.all());
    const unsigned before = double_locked();
    double_hold_all(true);
    for (int i = 0; i < 20; ++i) {
      const auto got = c.get("bucket", "key", window);
      ASSERT_FALSE(got);
      EXPECT_EQ(got.error().code, i < 8 ? ErrorCode::timed_out : ErrorCode::local_error) << got.error().message;
    }
    EXPECT_LE(double_locked() - before, 8u);
    double_hold_all(false);  // the copies run now, and their memory is still there
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

TEST_F(Gpu, AnObjectThatIsReplacedMeanwhileIsReadWholeOrNotAtAll) {
  constexpr size_t size = 3 * half;
  const Client c = local();
  OnDevice memory(size);
  const Buffer window = *c.register_memory(memory.all());
  ASSERT_TRUE(http().put("bucket", "key", std::vector<std::byte>(size)));
  std::jthread writing([&](const std::stop_token& stop) {
    const Client w = local();
    for (int i = 1; !stop.stop_requested(); ++i) {
      EXPECT_TRUE(w.put("bucket", "key", std::vector<std::byte>(size, static_cast<std::byte>(i))));
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  });
  unsigned whole = 0;
  for (int i = 0; i < 40; ++i) {
    const auto got = c.get("bucket", "key", window);
    if (!got) {
      EXPECT_EQ(got.error().code, ErrorCode::slow_down) << got.error().message;
      continue;
    }
    const auto bytes = memory.bytes(0, size);
    EXPECT_TRUE(std::ranges::all_of(bytes, [&](std::byte b) { return b == bytes[0]; }));
    ++whole;
  }
  EXPECT_GT(whole, 0u);
}

TEST_F(Gpu, TheChildOfAForkGetsAnError) {
  const Client c = local();
  OnDevice memory(half);
  const Buffer window = *c.register_memory(memory.all());
  const pid_t child = ::fork();
  if (child == 0) {
    const auto old = c.get("bucket", "key", window);
    const auto made = c.register_memory(memory.all());
    if (old || old.error().code != ErrorCode::forked || made || made.error().code != ErrorCode::forked) ::_exit(1);
    // A client of the child's own has no driver: it was initialized before the fork.
    const auto other = http().register_memory(memory.all());
    ::_exit(!other && other.error().code == ErrorCode::unsupported ? 0 : 2);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST_F(Gpu, NothingIsLeftBehind) {
  const unsigned before = double_locked();
  {
    const Client c = local();
    ASSERT_TRUE(http().put("bucket", "key", random_bytes(1000, 1)));
    OnDevice memory(half);
    const Buffer window = *c.register_memory(memory.all());
    std::vector<std::jthread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&, i] {
        for (int k = 0; k < 10; ++k) EXPECT_TRUE(c.get("bucket", "key", window.slice(i * 1000u, 1000)));
      });
    }
    threads.clear();
    EXPECT_LE(double_locked() - before, 4u);  // rings are used again
    for (int i = 0; i < 4; ++i) EXPECT_TRUE(same(memory.bytes(i * 1000u, 1000), random_bytes(1000, 1)));
  }
  EXPECT_EQ(double_locked(), before);
}

}  // namespace
}  // namespace verbena::matrix
