// The way `direct` over the driver double: the server lets the device copy into memory that a client shares with it.
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#include <cstdio>
#include <filesystem>
#include <thread>

#include "client/native/device_memory.h"
#include "client/native/streams.h"
#include "direct_world.h"

extern char** environ;

namespace verbena::matrix {
namespace {

TEST_F(Direct, EveryByteMovesAndNoCpuCopiesOne) {
  const size_t sizes[] = {1, 4097, 300'000, 4 * mib, 4 * mib + 1, 13 * mib + 7};
  const auto old = random_bytes(16 * mib, 1);
  OnDevice memory(16 * mib);
  {
    const Client c = local();
    const Buffer window = *c.register_memory(memory.all());
    for (const size_t size : sizes) {
      SCOPED_TRACE(size);
      const auto bytes = random_bytes(size, size);
      ASSERT_TRUE(http().put("bucket", "from-host", bytes));
      memory.set(old);
      const auto got = c.get("bucket", "from-host", window);
      ASSERT_TRUE(got) << got.error().message;
      EXPECT_EQ(got->transfer.device_path, DevicePath::direct) << got->transfer.fell_back_reason;
      EXPECT_EQ(got->bytes, size);
      EXPECT_EQ(got->info.size, size);
      EXPECT_TRUE(same(memory.bytes(0, size), bytes));
      EXPECT_TRUE(same(memory.bytes(size, 1000), std::span(old).subspan(size, 1000)));

      memory.set(random_bytes(size, size + 1));
      const auto put = c.put("bucket", "from-device", window.slice(0, size));
      ASSERT_TRUE(put) << put.error().message;
      EXPECT_EQ(put->transfer.device_path, DevicePath::direct) << put->transfer.fell_back_reason;
      EXPECT_TRUE(same(stored("from-device", size), random_bytes(size, size + 1)));
    }
    EXPECT_EQ(double_mapped() - before.in_driver, 16 * mib);
  }
  EXPECT_EQ(double_mapped(), before.in_driver);
  EXPECT_EQ(double_pageable(), 0u);
}

TEST_F(Direct, RangesEmptyObjectsAndErrorsOfObjects) {
  const auto bytes = random_bytes(9 * mib, 7);
  ASSERT_TRUE(http().put("bucket", "key", bytes));
  ASSERT_TRUE(http().put("bucket", "empty", std::span<const std::byte>()));
  OnDevice memory(10 * mib);
  const Client c = local();
  const Buffer window = *c.register_memory(memory.all());
  const std::pair<Range, size_t> ranges[] = {{{5, 100}, 100}, {{mib - 3, 5 * mib}, 5 * mib}, {{8 * mib, 0}, mib}};
  for (const auto& [range, size] : ranges) {
    const auto got = c.get("bucket", "key", window, {.range = range});
    ASSERT_TRUE(got) << got.error().message;
    EXPECT_EQ(got->bytes, size);
    EXPECT_EQ(got->transfer.device_path, DevicePath::direct);
    EXPECT_TRUE(same(memory.bytes(0, size), std::span(bytes).subspan(range.offset, size)));
  }
  EXPECT_EQ(c.get("bucket", "empty", window)->bytes, 0u);
  EXPECT_EQ(c.get("bucket", "none", window).error().code, ErrorCode::no_such_key);
  EXPECT_EQ(c.get("bucket", "key", window.slice(0, mib)).error().code, ErrorCode::buffer_too_small);
  EXPECT_EQ(c.get("bucket", "key", window, {.if_match = "other"}).error().code, ErrorCode::precondition_failed);
  EXPECT_EQ(c.put("bucket", "key", window, {.if_none_match = "*"}).error().code, ErrorCode::precondition_failed);
  EXPECT_EQ(c.put("no-such", "key", window).error().code, ErrorCode::no_such_bucket);
}

TEST_F(Direct, AViewIntoALargerAllocationTouchesNothingBesideIt) {
  constexpr size_t begin = mib + 123, size = 2 * mib + 7, all = 5 * mib;
  OnDevice memory(all);
  const auto around = random_bytes(all, 1), bytes = random_bytes(size, 2);
  ASSERT_TRUE(http().put("bucket", "key", bytes));
  const Client c = local();
  const Buffer window = *c.register_memory(memory.part(begin, size));
  memory.set(around);
  const auto put = c.put("bucket", "view", window);
  ASSERT_TRUE(put);
  EXPECT_EQ(put->transfer.device_path, DevicePath::direct);
  ASSERT_TRUE(c.get("bucket", "key", window));
  EXPECT_TRUE(same(memory.bytes(0, begin), std::span(around).first(begin)));
  EXPECT_TRUE(same(memory.bytes(begin, size), bytes));
  EXPECT_TRUE(same(memory.bytes(begin + size, all - begin - size), std::span(around).subspan(begin + size)));
  EXPECT_TRUE(same(stored("view", size), std::span(around).subspan(begin, size)));
}

TEST_F(Direct, ManyThreadsAndTwoDevices) {
  constexpr size_t size = 3 * mib + 999;
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
        EXPECT_EQ(got->transfer.device_path, DevicePath::direct) << got->transfer.fell_back_reason;
        EXPECT_TRUE(same(memory.bytes(0, size), bytes));
      }
    });
  }
}

TEST_F(Direct, CallsComeAfterTheWorkOfTheirStream) {
  const Client c = local();
  OnDevice memory(mib);
  DeviceBuffer given = memory.all();
  given.stream = double_stream(0);
  const Buffer window = *c.register_memory(given);
  for (const bool puts : {true, false}) {
    double_hold(*given.stream, true);
    double_fill(*given.stream, memory.address(), puts ? 0x55 : 0x66, mib);
    std::jthread letting([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(30));
      double_hold(*given.stream, false);
    });
    if (puts) {
      ASSERT_EQ(c.put("bucket", "filled", window)->transfer.device_path, DevicePath::direct);
    } else {
      ASSERT_EQ(c.get("bucket", "filled", window)->transfer.device_path, DevicePath::direct);
    }
  }
  EXPECT_TRUE(same(memory.bytes(0, mib), std::vector<std::byte>(mib, std::byte{0x55})));
}

TEST_F(Direct, OtherFabricsAndMemoryThatTheDriverDoesNotShareGoTheirOwnWay) {
  const auto bytes = random_bytes(mib, 1);
  ASSERT_TRUE(http().put("bucket", "key", bytes));
  OnDevice memory(mib);
  const Client tcp = client(Via::native, "tcp"), c = local();
  const Buffer staged = *tcp.register_memory(memory.all());
  EXPECT_EQ(tcp.get("bucket", "key", staged)->transfer.device_path, DevicePath::staged);
  double_fail("cuIpcGetMemHandle", 801, 0);
  const Buffer window = *c.register_memory(memory.all());
  EXPECT_EQ(c.get("bucket", "key", window)->transfer.device_path, DevicePath::shared);
  EXPECT_EQ(c.put("bucket", "other", window)->transfer.device_path, DevicePath::shared);
  EXPECT_TRUE(same(memory.bytes(0, mib), bytes));
  // Shared by this driver, and not taken by the server's.
  double_fail("cuIpcGetMemHandle", 0, 0);
  double_fail("cuIpcOpenMemHandle_v2", 2, 0);
  const Buffer refused = *c.register_memory(memory.all());
  const auto got = c.get("bucket", "key", refused);
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_EQ(got->transfer.device_path, DevicePath::shared);
  EXPECT_NE(got->transfer.fell_back_reason.find("direct"), std::string::npos);
}

TEST_F(Direct, FalseHandlesAndPlacesBeyondAreRefused) {
  OnDevice memory(mib);
  const auto driver = memory::cuda::Driver::get(platform());
  ASSERT_TRUE(driver);
  const auto allocation = (*driver)->allocation(memory.address());
  ASSERT_TRUE(allocation);
  const auto exported = (*driver)->share(*allocation);
  ASSERT_TRUE(exported) << exported.error().text;
  const auto session = this->session();
  ASSERT_TRUE(session->shares_devices(platform()));
  const auto bytes = random_bytes(1000, 3);
  ASSERT_TRUE(http().put("bucket", "key", bytes));
  const auto get = [&](const client::NativeDevice& device, size_t at, size_t size) {
    const MutableBytes into(reinterpret_cast<std::byte*>(reinterpret_cast<uintptr_t>(device.bytes().data()) + at),
                            size);
    return session->get({.bucket = "bucket", .key = "key", .into = into, .memory = &device});
  };
  const auto refused = [&](memory::cuda::Exported forged) {
    const client::NativeDevice device(forged, memory.address());
    return !get(device, 0, 2000);
  };
  auto forged = *exported;
  forged.size = mib + 1;  // more than there is
  EXPECT_TRUE(refused(forged));
  forged.size = 0;
  EXPECT_TRUE(refused(forged));
  forged.size = UINT64_MAX;  // more than the limits allow
  EXPECT_TRUE(refused(forged));
  forged = *exported;
  forged.device[0] ^= std::byte{1};  // no such device
  EXPECT_TRUE(refused(forged));
  for (unsigned i = 0; i < 64; ++i) {
    forged = *exported;
    const auto garbage = random_bytes(64, i);
    std::ranges::copy(garbage, forged.handle.begin());
    if (i % 2 == 0) std::copy_n(exported->handle.begin(), 8, forged.handle.begin());
    EXPECT_TRUE(refused(forged));
  }
  EXPECT_EQ(double_mapped(), before.in_driver);
  EXPECT_TRUE(same(memory.bytes(0, mib), std::vector<std::byte>(mib)));

  const client::NativeDevice device(*exported, memory.address());
  ASSERT_TRUE(get(device, mib - 1000, 1000));
  EXPECT_TRUE(same(memory.bytes(mib - 1000, 1000), bytes));
  EXPECT_FALSE(get(device, mib - 999, 1000));  // one byte beyond
  EXPECT_FALSE(get(device, 2 * mib, 1000));
  EXPECT_FALSE(get(device, UINT64_MAX - 500, 1000));
  ASSERT_TRUE(get(device, 0, 1000));  // the session is as good as before
  EXPECT_TRUE(same(memory.bytes(0, 1000), bytes));
}

TEST_F(Direct, AWindowsEndUnmapsItBeforeItsMemoryIsFreed) {
  const Client c = local();
  ASSERT_TRUE(http().put("bucket", "key", random_bytes(1000, 1)));
  OnDevice memory(mib);
  for (int i = 0; i < 5; ++i) {
    {
      const Buffer window = *c.register_memory(memory.all());
      ASSERT_EQ(c.get("bucket", "key", window)->transfer.device_path, DevicePath::direct);
      EXPECT_EQ(double_mapped() - before.in_driver, mib);
    }
    EXPECT_EQ(double_mapped(), before.in_driver);
  }
  EXPECT_EQ(Kept().mapped, before.mapped);
}

// Its client had given up waiting for the answer, and never learned the number by which to end it.
TEST_F(Direct, MemoryThatTheServerMapsTooLateIsUnmappedBeforeItIsFreed) {
  OnDevice memory(mib);
  const auto driver = memory::cuda::Driver::get(platform());
  ASSERT_TRUE(driver);
  const auto allocation = (*driver)->allocation(memory.address());
  ASSERT_TRUE(allocation);
  const auto exported = (*driver)->share(*allocation);
  ASSERT_TRUE(exported) << exported.error().text;
  ASSERT_TRUE(http().put("bucket", "key", random_bytes(1000, 3)));
  const auto session = this->session();
  const auto get = [&](const client::NativeDevice& device, std::chrono::milliseconds timeout) {
    const MutableBytes into = device.bytes().first(1000);
    return session->get({.bucket = "bucket", .key = "key", .into = into, .memory = &device, .timeout = timeout});
  };
  for (const bool asks_again : {false, true}) {
    SCOPED_TRACE(asks_again);
    {
      const client::NativeDevice device(*exported, memory.address());
      double_slow("cuIpcOpenMemHandle_v2", 600'000);
      EXPECT_FALSE(get(device, std::chrono::milliseconds(200)));
      double_slow("cuIpcOpenMemHandle_v2", 0);
      if (asks_again) {
        EXPECT_TRUE(eventually([&] { return session->ping() && get(device, std::chrono::seconds(5)).has_value(); }));
        EXPECT_EQ(double_mapped() - before.in_driver, mib) << "mapped twice";
      }
    }
    EXPECT_EQ(double_mapped(), before.in_driver);
    std::this_thread::sleep_for(std::chrono::milliseconds(800));  // in which the server has mapped it
    EXPECT_EQ(double_mapped(), before.in_driver);
  }
}

TEST_F(Direct, BatchesScatterAndGather) {
  constexpr size_t count = 300, size = 80'000, large = 5 * mib;
  OnDevice memory(count * size + large);
  const Client c = local();
  const Buffer windows[] = {*c.register_memory(memory.all()), *c.allocate(size)};
  std::vector<std::string> keys;
  for (size_t i = 0; i < count; ++i) keys.push_back("item/" + std::to_string(i));
  std::vector<BatchItem> items;
  for (size_t i = 0; i < count; ++i) {
    const size_t part = i < 20 ? i : size - i;  // also sizes that would fit a message
    items.push_back({.bucket = "bucket", .key = keys[i], .offset = (count - 1 - i) * size, .size = part});
  }
  items[57].size = large;
  items[57].offset = count * size;
  items[58].window = 1;  // host memory
  items[58].offset = 0;
  items[5].window = 1;
  items[5].offset = size - 5;
  const auto in_host = random_bytes(size, 8);
  std::ranges::copy(in_host, windows[1].bytes().begin());
  memory.set(random_bytes(count * size + large, 9));
  std::vector<BatchResult> results(count);
  const auto stored = c.put_many(items, windows, results);
  ASSERT_TRUE(stored) << stored.error().message;
  EXPECT_EQ(stored->device_path, DevicePath::direct) << stored->fell_back_reason;
  EXPECT_EQ(stored->fell_back_reason, "");
  const auto wanted = memory.bytes(0, count * size + large);
  EXPECT_TRUE(same(this->stored("item/57", large), std::span(wanted).subspan(count * size)));

  for (const bool ordered : {false, true}) {
    SCOPED_TRACE(ordered);
    memory.set(std::vector<std::byte>(count * size + large));
    std::ranges::fill(windows[1].bytes(), std::byte{});
    items[70].key = "missing";
    items[71].size = size - 71 - 1;  // does not fit
    size_t told = 0;
    BatchOptions options;
    if (ordered) {
      options.in_order = [&](size_t leading) {
        EXPECT_GE(leading, told);
        for (size_t i = told; i < leading; ++i) {
          if (i == 5 || i == 58 || i == 70 || i == 71) continue;
          EXPECT_TRUE(same(memory.bytes(items[i].offset, items[i].size),
                           std::span(wanted).subspan(items[i].offset, items[i].size)));
        }
        told = leading;
      };
    }
    const auto got = c.get_many(items, windows, results, options);
    ASSERT_TRUE(got) << got.error().message;
    EXPECT_EQ(told, ordered ? count : 0);
    EXPECT_EQ(got->device_path, DevicePath::direct) << got->fell_back_reason;
    for (size_t i = 0; i < count; ++i) {
      SCOPED_TRACE(i);
      if (i == 70 || i == 71) {
        EXPECT_EQ(results[i].error, i == 70 ? ErrorCode::no_such_key : ErrorCode::buffer_too_small);
        continue;
      }
      EXPECT_FALSE(results[i].error);
      EXPECT_EQ(results[i].bytes, items[i].size);
      if (i == 58 || i == 5) continue;
      EXPECT_TRUE(same(memory.bytes(items[i].offset, items[i].size),
                       std::span(wanted).subspan(items[i].offset, items[i].size)));
    }
    EXPECT_TRUE(same(windows[1].bytes().first(size - 58), std::span(in_host).first(size - 58)));
    const auto untouched = memory.bytes(items[70].offset, size - 80);
    EXPECT_TRUE(std::ranges::all_of(untouched, [](std::byte b) { return b == std::byte{0}; }));
  }
  EXPECT_EQ(double_pageable(), 0u);
}

TEST_F(Direct, ABatchGoesItsOwnWayWhereTheDeviceFailsForTheServer) {
  constexpr size_t count = 20, size = 100'000;
  OnDevice memory(count * size);
  const Client c = local();
  const Buffer window = *c.register_memory(memory.all());
  std::vector<std::string> keys;
  for (size_t i = 0; i < count; ++i) keys.push_back("item/" + std::to_string(i));
  std::vector<BatchItem> items;
  for (size_t i = 0; i < count; ++i) {
    items.push_back({.bucket = "bucket", .key = keys[i], .offset = i * size, .size = size});
  }
  std::vector<BatchResult> results(count);
  memory.set(random_bytes(count * size, 9));
  ASSERT_EQ(c.put_many(items, std::span(&window, 1), results)->device_path, DevicePath::direct);
  memory.set(std::vector<std::byte>(count * size));
  double_fail_some("cuMemcpyHtoDAsync_v2", 2, count / 2, 5);
  const auto got = c.get_many(items, std::span(&window, 1), results);
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_NE(got->fell_back_reason.find("direct"), std::string::npos);
  for (const BatchResult& result : results) EXPECT_FALSE(result.error);
  EXPECT_TRUE(same(memory.bytes(0, count * size), random_bytes(count * size, 9)));
}

// Breaks this process's links by shared memory.
void break_local_links() {
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    const int fd = std::stoi(entry.path().filename());
    sockaddr_un peer{};
    socklen_t size = sizeof peer;
    const bool has_peer = ::getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &size) == 0;
    if (has_peer && peer.sun_family == AF_UNIX && size > sizeof peer.sun_family) ::shutdown(fd, SHUT_RDWR);
  }
}

// Copies stand still from the first report on, and the session breaks: of what was reported no answer comes. Such items
// were said to be successes of no bytes, or to be what a batch before had found.
TEST_F(Direct, ItemsThatWereReportedHaveTheirResultsAlsoWhenTheirAnswerIsLost) {
  constexpr size_t count = 20, size = 100'000;  // five are the first message's
  OnDevice memory(count * size);
  std::vector<std::string> keys, etags;
  for (size_t i = 0; i < count; ++i) keys.push_back("item/" + std::to_string(i));
  for (size_t i = 0; i < count; ++i) {
    const auto put = http().put("bucket", keys[i], random_bytes(size, static_cast<unsigned>(i)));
    ASSERT_TRUE(put) << put.error().message;
    etags.push_back(put->etag);
  }
  for (const bool named : {true, false}) {  // named: whichever answer comes is of the bytes that came
    SCOPED_TRACE(named);
    const Client c = local();
    const Buffer window = *c.register_memory(memory.all());
    std::vector<BatchItem> items;
    for (size_t i = 0; i < count; ++i) {
      items.push_back({.bucket = "bucket", .key = keys[i], .offset = i * size, .size = size});
      if (named) items.back().if_match = etags[i];
    }
    std::vector<BatchResult> results(count);
    size_t first = 0;
    std::jthread released;
    double_delay(50'000);
    BatchOptions options;
    options.in_order = [&](size_t leading) {
      if (first != 0) return;
      first = leading;
      double_hold_all(true);
      break_local_links();
      released = std::jthread([] {
        std::this_thread::sleep_for(std::chrono::seconds(2));  // less than the server waits for a copy
        double_delay(50);
        double_hold_all(false);
      });
    };
    const auto got = c.get_many(items, std::span(&window, 1), results, options);
    released.join();
    ASSERT_TRUE(got) << got.error().message;
    ASSERT_GT(first, 0U);
    for (size_t i = 0; i < count; ++i) {
      SCOPED_TRACE(i);
      if (!named && i < first) {
        EXPECT_EQ(results[i].error, ErrorCode::connection_failed) << "what names its bytes was lost";
        continue;
      }
      EXPECT_FALSE(results[i].error);
      EXPECT_EQ(results[i].bytes, size);
      EXPECT_EQ(results[i].etag, etags[i]);
      EXPECT_TRUE(same(memory.bytes(i * size, size), random_bytes(size, static_cast<unsigned>(i))));
    }
  }
}

class DirectInAShortTime : public Direct {
 protected:
  DirectInAShortTime() : Direct(std::chrono::milliseconds(300)) {}
};

TEST_F(DirectInAShortTime, StuckCopiesAreAnErrorAndTheirMemoryWaitsForTheirEnd) {
  const Client c = local();
  const auto bytes = random_bytes(3 * mib, 1);
  ASSERT_TRUE(http().put("bucket", "key", bytes));
  OnDevice memory(3 * mib);
  const Buffer window = *c.register_memory(memory.all());
  ASSERT_TRUE(c.get("bucket", "key", window));
  for (const bool puts : {false, true}) {
    SCOPED_TRACE(puts);
    double_hold_all(true);
    const auto error =
        puts ? c.put("bucket", "stuck", window).error().code : c.get("bucket", "key", window).error().code;
    EXPECT_EQ(error, ErrorCode::timed_out);
    EXPECT_GT(Kept().aside, before.aside);
    std::vector<std::byte> host(3 * mib);
    for (unsigned i = 0; i < 20; ++i) {  // memory that the stuck copies use is not used by others
      const auto other = random_bytes(3 * mib, 100 + i);
      ASSERT_TRUE(http().put("bucket", "other", other));
      ASSERT_TRUE(c.get("bucket", "other", host));
      EXPECT_TRUE(same(host, other));
    }
    double_hold_all(false);
    EXPECT_TRUE(eventually([&] { return Kept().aside == before.aside; }));
    if (!puts) {  // what was late had the right bytes
      EXPECT_TRUE(same(memory.bytes(0, 3 * mib), bytes));
    }
    EXPECT_TRUE(eventually([&] { return Kept().lost == before.lost; }));
    const auto again = c.get("bucket", "key", window);
    ASSERT_TRUE(again) << again.error().message;
    EXPECT_EQ(again->transfer.device_path, DevicePath::direct) << again->transfer.fell_back_reason;
  }
  EXPECT_FALSE(c.get("bucket", "stuck", std::span<std::byte>()));
}

TEST_F(DirectInAShortTime, AServerEndsAlsoWithCopiesThatDoNot) {
  std::optional<Client> c = local();
  ASSERT_TRUE(http().put("bucket", "key", random_bytes(mib, 1)));
  OnDevice memory(mib);
  std::optional<Buffer> window = *c->register_memory(memory.all());
  ASSERT_TRUE(c->get("bucket", "key", *window));
  double_hold_all(true);
  EXPECT_FALSE(c->get("bucket", "key", *window));
  world.server.stop();
  double_hold_all(false);  // the copy runs now, and its memory is still there
  EXPECT_TRUE(eventually([&] { return Kept().aside == before.aside; }));
}

// --- A client in another process -------------------------------------------------------------------------------------

template <class Memory>
void move_bytes(const Client& c, Memory& memory) {
  const Buffer window = *c.register_memory(memory.all());
  const auto got = c.get("bucket", "key", window);
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_EQ(got->transfer.device_path, DevicePath::direct) << got->transfer.fell_back_reason;
  EXPECT_TRUE(same(memory.bytes(0, got->bytes), random_bytes(3 * mib, 1)));
  memory.set(random_bytes(4 * mib, 2));
  const auto put = c.put("bucket", "from-other", window);
  ASSERT_TRUE(put) << put.error().message;
  EXPECT_EQ(put->transfer.device_path, DevicePath::direct) << put->transfer.fell_back_reason;
  EXPECT_EQ(double_calls("cuMemcpyHtoDAsync_v2") + double_calls("cuMemcpyDtoHAsync_v2"), 0u);  // not one here
  while (std::getenv("TEST_GPU_FOR_EVER") != nullptr) static_cast<void>(c.get("bucket", "key", window));
}

// Runs in a process of its own: the tests below start it with the server's addresses.
TEST(DirectElsewhere, IsTheClient) {
  const char* const given = std::getenv("TEST_GPU_SERVER");
  if (given == nullptr) GTEST_SKIP() << "started by DirectOfTwo";
  const std::string servers = given;
  ClientOptions options;
  options.endpoint = servers.substr(0, servers.find(','));
  options.native_endpoint = servers.substr(servers.find(',') + 1);
  options.access_key = server::TestServer::access_key;
  options.secret_key = server::TestServer::secret_key;
  options.via = Via::native;
  options.provider = "local";
  const auto c = Client::connect(options);
  ASSERT_TRUE(c) << c.error().message;
  if (std::getenv("TEST_GPU_PIECES") != nullptr) {
    InPieces memory({2 * mib, 2 * mib});
    move_bytes(*c, memory);
  } else {
    OnDevice memory(4 * mib);
    move_bytes(*c, memory);
  }
}

class DirectOfTwo : public Direct {
 protected:
  pid_t start(bool for_ever, bool in_pieces) {
    const std::string servers = "TEST_GPU_SERVER=" + world.server.http() + "," + world.server.native();
    std::vector<std::string> variables{servers};
    if (for_ever) variables.emplace_back("TEST_GPU_FOR_EVER=1");
    if (in_pieces) variables.emplace_back("TEST_GPU_PIECES=1");
    std::vector<char*> environment;
    for (std::string& variable : variables) environment.push_back(variable.data());
    for (char** at = environ; *at != nullptr; ++at) environment.push_back(*at);
    environment.push_back(nullptr);
    std::string program = "/proc/self/exe", filter = "--gtest_filter=DirectElsewhere.IsTheClient";
    char* const arguments[] = {program.data(), filter.data(), nullptr};
    pid_t child = -1;
    EXPECT_EQ(::posix_spawn(&child, program.c_str(), nullptr, nullptr, arguments, environment.data()), 0);
    return child;
  }
};

TEST_F(DirectOfTwo, ProcessesExchangeEveryByte) {
  ASSERT_TRUE(http().put("bucket", "key", random_bytes(3 * mib, 1)));
  for (const bool in_pieces : {false, true}) {
    if (in_pieces && is_hip()) continue;  // which shares none
    SCOPED_TRACE(in_pieces);
    const pid_t child = start(false, in_pieces);
    int status = -1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    EXPECT_TRUE(same(stored("from-other", 4 * mib), random_bytes(4 * mib, 2)));
    ASSERT_TRUE(http().put("bucket", "from-other", random_bytes(10, 1)));
    EXPECT_TRUE(eventually([&] { return double_mapped() == before.in_driver; }));
  }
}

TEST_F(DirectOfTwo, AClientThatIsKilledDuringCopiesIsUnmapped) {
  ASSERT_TRUE(http().put("bucket", "key", random_bytes(3 * mib, 1)));
  for (int round = 0; round < 4; ++round) {
    double_delay(5'000);
    const unsigned calls = double_calls("cuMemcpyHtoDAsync_v2");
    const pid_t child = start(true, round % 2 == 1 && !is_hip());
    ASSERT_TRUE(eventually([&] { return double_calls("cuMemcpyHtoDAsync_v2") > calls + 5; }));
    std::this_thread::sleep_for(std::chrono::milliseconds(7 * round));
    ::kill(child, SIGKILL);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(eventually([&] { return double_mapped() == before.in_driver; }));
    EXPECT_EQ(Kept().mapped, before.mapped);
    double_delay(50);
    OnDevice memory(3 * mib);
    const Client c = local();
    const Buffer window = *c.register_memory(memory.all());
    const auto got = c.get("bucket", "key", window);
    ASSERT_TRUE(got) << got.error().message;
    EXPECT_EQ(got->transfer.device_path, DevicePath::direct);
    EXPECT_TRUE(same(memory.bytes(0, 3 * mib), random_bytes(3 * mib, 1)));
  }
}

}  // namespace
}  // namespace verbena::matrix
