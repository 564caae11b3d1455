// The way `direct` into memory of the driver's virtual memory API: pieces of physical memory, mapped side by side,
// which the client shares with the server by file descriptors.
#include <fcntl.h>
#include <sys/mman.h>

#include <filesystem>
#include <future>
#include <thread>

#include "base/fd.h"
#include "client/native/device_memory.h"
#include "memory/cuda_devices.h"
#include "raw_session.h"

namespace verbena::matrix {
namespace {

using memory::cuda::Allocation;
using memory::cuda::Driver;
using memory::cuda::Physical;

constexpr size_t least = 2 * mib;  // the driver's granularity

size_t open_descriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return static_cast<size_t>(std::distance(begin(all), end(all)));
}

class DirectPieces : public Direct {
 protected:
  void TearDown() override {
    double_blind_ids(false);
    EXPECT_TRUE(eventually([&] { return double_mapped() == before.in_driver; }));
    EXPECT_EQ(Kept().mapped, before.mapped);
    EXPECT_EQ(double_handles(), handles_);
    EXPECT_EQ(double_reserved(), reserved_);
    Direct::TearDown();
  }
  const Driver& driver() { return **Driver::get(platform()); }
  std::shared_ptr<const Physical> piece(Allocation at) {
    auto found = Physical::behind(driver(), at);
    EXPECT_TRUE(found) << found.error().text;
    return std::move(*found);
  }

  const unsigned handles_ = double_handles(), reserved_ = double_reserved();
};

TEST_F(DirectPieces, EveryByteMovesAcrossPiecesAndNoCpuCopiesOne) {
  InPieces memory({2 * mib, 4 * mib, 2 * mib, 6 * mib});
  const auto old = random_bytes(memory.size(), 1);
  {
    const Client c = local();
    const Buffer window = *c.register_memory(memory.all());
    for (const size_t size : {size_t{1}, 2 * mib, 2 * mib + 1, 7 * mib + 333, 14 * mib}) {
      SCOPED_TRACE(size);
      const auto bytes = random_bytes(size, size);
      ASSERT_TRUE(http().put("bucket", "from-host", bytes));
      memory.set(old);
      const auto got = c.get("bucket", "from-host", window);
      ASSERT_TRUE(got) << got.error().message;
      EXPECT_EQ(got->transfer.device_path, DevicePath::direct) << got->transfer.fell_back_reason;
      EXPECT_EQ(got->transfer.fell_back_reason, "");
      EXPECT_TRUE(same(memory.bytes(0, size), bytes));
      EXPECT_TRUE(same(memory.bytes(size, memory.size() - size), std::span(old).subspan(size)));

      memory.set(random_bytes(size, size + 1));
      const auto put = c.put("bucket", "from-device", window.slice(0, size));
      ASSERT_TRUE(put) << put.error().message;
      EXPECT_EQ(put->transfer.device_path, DevicePath::direct) << put->transfer.fell_back_reason;
      EXPECT_TRUE(same(stored("from-device", size), random_bytes(size, size + 1)));
    }
    // Once for each core of the server that it is used with.
    EXPECT_GE(double_mapped() - before.in_driver, memory.size());
    EXPECT_EQ((double_mapped() - before.in_driver) % memory.size(), 0u);
  }
  EXPECT_EQ(double_pageable(), 0u);
}

TEST_F(DirectPieces, AWindowSharesThePiecesThatItIsInAlone) {
  InPieces memory({2 * mib, 2 * mib, 2 * mib, 2 * mib}, 1);
  const auto around = random_bytes(memory.size(), 1);
  constexpr size_t begin = 3 * mib + 5, size = 2 * mib + 100;  // in the second piece and the third
  const auto bytes = random_bytes(size, 2);
  ASSERT_TRUE(http().put("bucket", "key", bytes));
  const Client c = local();
  const Buffer window = *c.register_memory(memory.part(begin, size));
  memory.set(around);
  const auto put = c.put("bucket", "view", window);
  ASSERT_TRUE(put) << put.error().message;
  EXPECT_EQ(put->transfer.device_path, DevicePath::direct) << put->transfer.fell_back_reason;
  const auto got = c.get("bucket", "key", window);
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_EQ(got->transfer.device_path, DevicePath::direct) << got->transfer.fell_back_reason;
  EXPECT_EQ(double_mapped() - before.in_driver, 4 * mib);
  EXPECT_TRUE(same(memory.bytes(0, begin), std::span(around).first(begin)));
  EXPECT_TRUE(same(memory.bytes(begin, size), bytes));
  EXPECT_TRUE(same(memory.bytes(begin + size, memory.size() - begin - size), std::span(around).subspan(begin + size)));
  EXPECT_TRUE(same(stored("view", size), std::span(around).subspan(begin, size)));
}

TEST_F(DirectPieces, BatchesScatterAndGatherAcrossPieces) {
  constexpr size_t count = 100, size = 80'000;  // 8,000,000 bytes in four pieces
  InPieces memory({2 * mib, 2 * mib, 2 * mib, 2 * mib});
  const Client c = local();
  const Buffer window = *c.register_memory(memory.all());
  std::vector<std::string> keys;
  for (size_t i = 0; i < count; ++i) keys.push_back("item/" + std::to_string(i));
  std::vector<BatchItem> items;
  for (size_t i = 0; i < count; ++i) {
    items.push_back({.bucket = "bucket", .key = keys[i], .offset = (count - 1 - i) * size, .size = size - i});
  }
  const auto wanted = random_bytes(memory.size(), 9);
  memory.set(wanted);
  std::vector<BatchResult> results(count);
  const auto put = c.put_many(items, std::span(&window, 1), results);
  ASSERT_TRUE(put) << put.error().message;
  EXPECT_EQ(put->device_path, DevicePath::direct) << put->fell_back_reason;
  memory.set(std::vector<std::byte>(memory.size()));
  const auto got = c.get_many(items, std::span(&window, 1), results);
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_EQ(got->device_path, DevicePath::direct) << got->fell_back_reason;
  for (const BatchItem& item : items) {
    EXPECT_TRUE(same(memory.bytes(item.offset, item.size), std::span(wanted).subspan(item.offset, item.size)));
  }
}

TEST_F(DirectPieces, DescriptorsAreClosedAndMemoryIsUnmappedEachTime) {
  InPieces memory(std::vector<size_t>(20, least));
  const auto bytes = random_bytes(3 * mib, 1);
  ASSERT_TRUE(http().put("bucket", "key", bytes));
  const Client c = local();
  const auto use = [&] {
    const Buffer window = *c.register_memory(memory.all());
    ASSERT_EQ(c.get("bucket", "key", window)->transfer.device_path, DevicePath::direct);
  };
  use();
  const size_t files = open_descriptors();
  for (int i = 0; i < 20; ++i) {
    use();
    EXPECT_EQ(double_mapped(), before.in_driver);  // when a window's end has returned
  }
  EXPECT_TRUE(eventually([&] { return open_descriptors() <= files; })) << open_descriptors() - files;
  const Buffer window = *c.register_memory(memory.all());
  ASSERT_EQ(c.get("bucket", "key", window)->transfer.device_path, DevicePath::direct);
  // None stays open with the memory, on neither side: but the double keeps its files for physical memory that it
  // opened.
  EXPECT_TRUE(eventually([&] { return open_descriptors() <= files + 20; })) << open_descriptors() - files;
}

TEST_F(DirectPieces, OtherMemoryAtTheSameAddressIsNotServedByTheOldMapping) {
  InPieces memory({2 * mib, 2 * mib, 2 * mib});
  const auto bytes = random_bytes(memory.size(), 1);
  ASSERT_TRUE(http().put("bucket", "key", bytes));
  const Client c = local();
  const Buffer window = *c.register_memory(memory.all());
  ASSERT_EQ(c.get("bucket", "key", window)->transfer.device_path, DevicePath::direct);
  memory.replace(1);
  EXPECT_EQ(c.get("bucket", "key", window).error().code, ErrorCode::invalid_argument);
  EXPECT_EQ(c.put("bucket", "other", window).error().code, ErrorCode::invalid_argument);
  const auto first = c.get("bucket", "key", window.slice(0, 100), {.range = Range{0, 100}});  // beside it
  ASSERT_TRUE(first) << first.error().message;
  EXPECT_EQ(first->transfer.device_path, DevicePath::direct);
}

TEST_F(DirectPieces, NeitherWhereTheDriversNumbersDoNotTellItApart) {
  InPieces memory({2 * mib, 2 * mib, 2 * mib});
  const auto bytes = random_bytes(memory.size(), 1), own = random_bytes(memory.size(), 2);
  ASSERT_TRUE(http().put("bucket", "key", bytes));
  double_blind_ids(true);
  const Client c = local();
  const Buffer window = *c.register_memory(memory.all());
  ASSERT_EQ(c.get("bucket", "key", window)->transfer.device_path, DevicePath::direct);
  memory.replace(2);
  memory.set(std::vector<std::byte>(memory.size()));
  const auto got = c.get("bucket", "key", window);
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_EQ(got->transfer.device_path, DevicePath::shared);
  EXPECT_NE(got->transfer.fell_back_reason.find("other memory was mapped"), std::string::npos);
  EXPECT_TRUE(same(memory.bytes(0, memory.size()), bytes));
  memory.set(own);
  ASSERT_TRUE(c.put("bucket", "own", window));
  EXPECT_TRUE(same(stored("own", memory.size()), own));
  BatchItem item{.bucket = "bucket", .key = "key", .offset = 0, .size = memory.size()};
  BatchResult result;
  const auto batch = c.get_many(std::span(&item, 1), std::span(&window, 1), std::span(&result, 1));
  ASSERT_TRUE(batch) << batch.error().message;
  EXPECT_EQ(batch->device_path, DevicePath::shared);
  EXPECT_TRUE(same(memory.bytes(0, memory.size()), bytes));
}

TEST_F(DirectPieces, MemoryThatMayNotBeSharedGoesItsOwnWayAndSaysWhy) {
  InPieces memory({2 * mib, 2 * mib}, 0, false);
  const auto bytes = random_bytes(3 * mib, 1);
  ASSERT_TRUE(http().put("bucket", "key", bytes));
  const Client c = local();
  const Buffer window = *c.register_memory(memory.all());
  const auto got = c.get("bucket", "key", window);
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_EQ(got->transfer.device_path, DevicePath::shared);
  EXPECT_NE(got->transfer.fell_back_reason.find(own("cuMemExportToShareableHandle", "hipMemExportToShareableHandle")),
            std::string::npos)
      << got->transfer.fell_back_reason;
  EXPECT_TRUE(same(memory.bytes(0, bytes.size()), bytes));
}

TEST_F(DirectPieces, AsManyPiecesAsAMessageHas) {
  constexpr size_t most = client::NativeDevice::pieces_max;
  InPieces memory(std::vector<size_t>(most + 1, least));
  const auto bytes = random_bytes(3 * mib, 1);
  ASSERT_TRUE(http().put("bucket", "key", bytes));
  const Client c = local();
  const Buffer window = *c.register_memory(memory.part(0, most * least));
  const auto got = c.get("bucket", "key", window.slice((most - 2) * least, 2 * least));
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_EQ(got->transfer.device_path, DevicePath::direct) << got->transfer.fell_back_reason;
  EXPECT_TRUE(same(memory.bytes((most - 2) * least, bytes.size()), bytes));
  const Buffer more = *c.register_memory(memory.all());
  const auto other = c.get("bucket", "key", more);
  ASSERT_TRUE(other) << other.error().message;
  EXPECT_EQ(other->transfer.device_path, DevicePath::shared);
  EXPECT_NE(other->transfer.fell_back_reason.find("128 allocations"), std::string::npos);
  EXPECT_TRUE(same(memory.bytes(0, bytes.size()), bytes));
}

TEST_F(DirectPieces, WhatTheServersDriverDoesNotMapGoesTheClientsOwnWay) {
  InPieces memory({2 * mib, 2 * mib});
  const auto bytes = random_bytes(3 * mib, 1);
  ASSERT_TRUE(http().put("bucket", "key", bytes));
  const Client c = local();
  for (const char* call : {"cuMemImportFromShareableHandle", "cuMemAddressReserve", "cuMemMap", "cuMemSetAccess",
                           "cuMemGetAllocationPropertiesFromHandle"}) {
    SCOPED_TRACE(call);
    memory.set(std::vector<std::byte>(memory.size()));
    double_fail_some(call, 2, 0, 100);
    const Buffer window = *c.register_memory(memory.all());
    const auto got = c.get("bucket", "key", window);
    ASSERT_TRUE(got) << got.error().message;
    EXPECT_EQ(got->transfer.device_path, DevicePath::shared);
    EXPECT_NE(got->transfer.fell_back_reason.find("direct"), std::string::npos);
    EXPECT_TRUE(same(memory.bytes(0, bytes.size()), bytes));
    double_fail(call, 0, 0);
    EXPECT_EQ(double_mapped(), before.in_driver);
  }
}

TEST_F(DirectPieces, FalseSizesAndDevicesAreRefused) {
  InPieces memory({2 * mib, 2 * mib}), other({2 * mib}, 1);
  const auto session = this->session();
  ASSERT_TRUE(session->shares_devices(platform()));
  const auto bytes = random_bytes(1000, 3);
  ASSERT_TRUE(http().put("bucket", "key", bytes));
  const auto name = driver().name_of(0);
  ASSERT_TRUE(name);
  const auto get = [&](const client::NativeDevice& device, size_t at, size_t size) {
    const MutableBytes into(device.bytes().data() + at, size);
    client::NativeGet request;
    request.bucket = "bucket";
    request.key = "key";
    request.into = into;
    request.memory = &device;
    return session->get(request);
  };
  const auto refused = [&](const memory::cuda::DeviceName& device, client::NativeDevice::Pieces pieces) {
    const client::NativeDevice forged(device, std::move(pieces), platform());
    return !get(forged, 0, 2000);
  };
  const Allocation first{.device = 0, .begin = memory.address(), .size = least};
  Allocation larger = first, odd = first, none = first, most = first;
  larger.size = 2 * least;  // more than there is
  odd.size = least - 4096;  // not as the driver maps it
  none.size = 0;
  most.size = UINT64_MAX - least + 1;
  EXPECT_TRUE(refused(*name, {piece(larger)}));
  EXPECT_TRUE(refused(*name, {piece(first), piece(larger)}));
  EXPECT_TRUE(refused(*name, {piece(odd)}));
  EXPECT_TRUE(refused(*name, {piece(first), piece(none)}));
  EXPECT_TRUE(refused(*name, {piece(first), piece(most)}));  // the sum is beyond all numbers
  EXPECT_TRUE(refused(*name, {piece({.device = 1, .begin = other.address(), .size = least})}));
  auto unknown = *name;
  unknown[0] ^= std::byte{1};
  EXPECT_TRUE(refused(unknown, {piece(first)}));
  EXPECT_EQ(double_mapped(), before.in_driver);
  EXPECT_TRUE(same(memory.bytes(0, memory.size()), std::vector<std::byte>(memory.size())));

  const client::NativeDevice device(*name, {piece(first)}, platform());
  ASSERT_TRUE(get(device, least - 1000, 1000));
  EXPECT_TRUE(same(memory.bytes(least - 1000, 1000), bytes));
  EXPECT_FALSE(get(device, least - 999, 1000));  // one byte beyond
  EXPECT_FALSE(get(device, least, 1000));        // in the next piece, which was not shared
  ASSERT_TRUE(get(device, 0, 1000));
}

// What no client of ours sends.
TEST_F(DirectPieces, ForeignFilesAreNoMemory) {
  auto arena = memory::Arena::create(64 * mib);
  ASSERT_TRUE(arena);
  auto devices = memory::cuda::Devices::open(**arena, {});
  ASSERT_TRUE(devices) << devices.error().text;
  ASSERT_TRUE((*devices)->maps_pieces(platform()));
  int pipe[2];
  ASSERT_EQ(::pipe2(pipe, O_CLOEXEC), 0);
  const Fd reads(pipe[0]), writes(pipe[1]), null(::open("/dev/null", O_RDWR | O_CLOEXEC)),
      folder(::open("/", O_RDONLY | O_CLOEXEC)), file(::memfd_create("foreign", MFD_CLOEXEC));
  ASSERT_EQ(::ftruncate(file.get(), 2 * least), 0);
  InPieces memory({2 * mib});
  const auto own = piece({.device = 0, .begin = memory.address(), .size = least})->descriptor();
  ASSERT_TRUE(own);
  const auto map = [&](std::vector<memory::cuda::Pieces::Piece> pieces) {
    std::promise<bool> mapped;
    (*devices)->map({.device = *driver().name_of(0), .pieces = std::move(pieces), .platform = platform()},
                    [&](auto outcome) { mapped.set_value(outcome.has_value()); });
    return mapped.get_future().get();
  };
  for (const int foreign : {reads.get(), writes.get(), null.get(), folder.get(), file.get(), -1, 1'000'000}) {
    SCOPED_TRACE(foreign);
    EXPECT_FALSE(map({{foreign, least}}));
    EXPECT_FALSE(map({{own->get(), least}, {foreign, least}}));
  }
  EXPECT_FALSE(map({}));
  EXPECT_FALSE(map({{own->get(), 0}}));
  EXPECT_TRUE(map({{own->get(), least}}));
  EXPECT_TRUE(map({{own->get(), least}, {own->get(), least}}));  // twice the same: its owner's affair
  EXPECT_TRUE(eventually([&] { return double_mapped() == before.in_driver; }));
  EXPECT_TRUE((*devices)->stop());
}

// What a client says in DEVICE, whatever it has handed over before.
class Hostile {
 public:
  Hostile(client::NativeSession& session, const Physical& piece) : raw_(session), piece_(piece) {}
  // The number of `count` descriptors of the piece.
  uint32_t hand_over(size_t count) {
    std::vector<Fd> files;
    std::vector<int> numbers;
    while (files.size() < count) files.push_back(*piece_.descriptor());
    for (const Fd& file : files) numbers.push_back(file.get());
    const auto given = raw_.hand_over(numbers);
    EXPECT_TRUE(given) << describe(given.error());
    return given.value_or(0);
  }
  Errc share(uint32_t number, size_t count) {
    return raw_
        .share({.kind = is_hip() ? native::wire::device_by_hip_pieces : native::wire::device_by_pieces,
                .device = *(*Driver::get(platform()))->name_of(0),
                .size = count * least,
                .handle = {},
                .handed_over = number,
                .pieces = std::vector<uint64_t>(count, least)})
        .code;
  }

 private:
  RawSession raw_;
  const Physical& piece_;
};

TEST_F(DirectPieces, OnlyWhatThisClientHasHandedOverIsMappedOnceAndInItsNumber) {
  InPieces memory({2 * mib});
  const auto one = piece({.device = 0, .begin = memory.address(), .size = least});
  auto session = this->session(), other = this->session();
  Hostile hostile(*session, *one), foreign(*other, *one);
  ASSERT_EQ(hostile.share(hostile.hand_over(1), 1), Errc::ok);
  ASSERT_EQ(foreign.share(foreign.hand_over(1), 1), Errc::ok);
  const uint64_t mapped = double_mapped();
  const size_t files = open_descriptors();
  const auto settled = [&] {
    return eventually([&] { return open_descriptors() <= files; }) && double_mapped() == mapped;
  };
  EXPECT_EQ(hostile.share(hostile.hand_over(3), 2), Errc::invalid_argument);
  EXPECT_EQ(hostile.share(hostile.hand_over(2), 3), Errc::invalid_argument);
  EXPECT_EQ(hostile.share(hostile.hand_over(1), 128), Errc::invalid_argument);
  EXPECT_EQ(hostile.share(hostile.hand_over(128), 1), Errc::invalid_argument);
  EXPECT_TRUE(settled());
  for (const uint32_t number : {0u, 1u, 1000u, UINT32_MAX}) {  // 1 was the first one, which is used
    EXPECT_EQ(hostile.share(number, 1), Errc::invalid_argument) << number;
  }
  uint32_t theirs = 0;
  for (int i = 0; i < 20; ++i) theirs = foreign.hand_over(1);
  EXPECT_EQ(hostile.share(theirs, 1), Errc::invalid_argument);
  EXPECT_EQ(foreign.share(theirs, 1), Errc::ok);
  EXPECT_EQ(foreign.share(theirs, 1), Errc::invalid_argument);
  // A client that ends with descriptors that wait, and with memory that is mapped.
  other.reset();
  EXPECT_TRUE(eventually([&] { return double_mapped() == mapped - least; }));
  EXPECT_TRUE(eventually([&] { return open_descriptors() < files; }));
  EXPECT_EQ(hostile.share(hostile.hand_over(1), 1), Errc::ok);
}

// The time limit of a copy is shorter than the unmapping of all that another client gives up takes.
TEST_F(DirectPieces, CopiesGoOnWhileManyPiecesAreUnmapped) {
  auto arena = memory::Arena::create(64 * mib);
  ASSERT_TRUE(arena);
  const auto lease = (*arena)->lease(4096);
  ASSERT_TRUE(lease);
  auto devices = memory::cuda::Devices::open(**arena, {.limit = std::chrono::milliseconds(300)});
  ASSERT_TRUE(devices) << devices.error().text;
  InPieces memory({2 * mib});
  const auto own = piece({.device = 0, .begin = memory.address(), .size = least})->descriptor();
  ASSERT_TRUE(own);
  const auto map = [&](size_t count) {
    std::promise<std::shared_ptr<memory::cuda::Mapped>> mapped;
    const memory::cuda::Pieces::Piece one{own->get(), least};
    (*devices)->map({.device = *driver().name_of(0), .pieces = std::vector(count, one), .platform = platform()},
                    [&](auto outcome) { mapped.set_value(outcome ? *outcome : nullptr); });
    return mapped.get_future().get();
  };
  auto used = map(1);
  ASSERT_TRUE(used);
  const auto copy = [&] {
    auto ended = std::make_shared<std::promise<memory::cuda::CopyEnd>>();
    used->copy({.host = lease->data(), .size = 4096, .ended = [ended](auto how) { ended->set_value(how); }});
    return ended->get_future();
  };
  std::vector<std::shared_ptr<memory::cuda::Mapped>> many(8);
  for (auto& one : many) ASSERT_TRUE(one = map(64));
  auto held = std::make_shared<int>(0);
  const std::weak_ptr<int> kept = held;
  for (const auto& one : many) one->hold(held);
  held.reset();
  double_delay(100'000);
  auto flying = copy();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  double_slow("cuMemUnmap", 2000);
  many.clear();  // 512 times 2 ms
  EXPECT_FALSE(kept.expired());
  double_delay(50);
  EXPECT_EQ(flying.get(), memory::cuda::CopyEnd::done);
  size_t copies = 0;
  for (; !kept.expired(); ++copies) ASSERT_EQ(copy().get(), memory::cuda::CopyEnd::done);
  EXPECT_GE(copies, 3u);
  EXPECT_EQ(double_mapped() - before.in_driver, least);  // what was held ends behind the last unmapping
  EXPECT_EQ((*devices)->lost(), 0u);
  used.reset();
  EXPECT_TRUE((*devices)->stop());
}

// More descriptors at a time than the server lets one user hand over.
TEST_F(DirectPieces, ClientsThatStartTogetherAllGoDirect) {
  constexpr size_t pieces = 100, count = 4;
  InPieces memory(std::vector<size_t>(pieces, least));
  const auto bytes = random_bytes(mib, 1);
  ASSERT_TRUE(http().put("bucket", "key", bytes));
  std::vector<Client> clients;
  for (size_t i = 0; i < count; ++i) clients.push_back(local());
  double_slow("cuMemImportFromShareableHandle", 100);
  std::vector<std::future<DevicePath>> ways;
  for (size_t i = 0; i < count; ++i) {
    ways.push_back(std::async(std::launch::async, [&, i] {
      const Buffer window = *clients[i].register_memory(memory.all());
      const auto got = clients[i].get("bucket", "key", window.slice(i * least, mib));
      EXPECT_TRUE(got) << got.error().message;
      EXPECT_EQ(got->transfer.fell_back_reason, "");
      return got->transfer.device_path;
    }));
  }
  for (auto& way : ways) EXPECT_EQ(way.get(), DevicePath::direct);
  for (size_t i = 0; i < count; ++i) EXPECT_TRUE(same(memory.bytes(i * least, mib), bytes));
}

}  // namespace
}  // namespace verbena::matrix
