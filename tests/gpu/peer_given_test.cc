// Windows with a dma-buf that their owner has exported: RDMA devices are given that one, and none of the driver's.
#include <fcntl.h>
#include <rdma/fi_errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/fd.h"
#include "peer_world.h"
#include "verbena/verbena.h"

namespace verbena::matrix {
namespace {

unsigned exports() { return double_calls("cuMemGetHandleForAddressRange"); }

DeviceBuffer with(DeviceBuffer window, const Fd& dma_buf, uint64_t offset) {
  window.dma_buf = DmaBuf{dma_buf.get(), offset};
  return window;
}

TEST_F(Peer, TheDmaBufOfAWindowsOwnerIsWhatRdmaDevicesAreGiven) {
  constexpr size_t whole = 3 * mib, at = 77'777, size = mib + 5;
  OnDevice memory(whole);
  for (const Way& way : {native, token}) {
    SCOPED_TRACE(way.name());
    const Client c = client(way);
    const auto before = random_bytes(whole, 1), bytes = random_bytes(size, 2);
    memory.set(before);
    ASSERT_TRUE(http().put("bucket", "key", bytes));
    Fd dma_buf(double_dma_buf(memory.address()));
    const Buffer window = *c.register_memory(with(memory.part(at, size), dma_buf, at));
    dma_buf = Fd();  // it is the window's now
    const unsigned exported = exports(), given = nic_dma_bufs();
    const auto got = c.get("bucket", "key", window);
    ASSERT_TRUE(got) << got.error().message;
    EXPECT_EQ(got->transfer.device_path, DevicePath::peer) << got->transfer.fell_back_reason;
    auto wanted = before;
    std::ranges::copy(bytes, wanted.begin() + at);
    EXPECT_TRUE(same(memory.bytes(0, whole), wanted)) << "and nothing beside the window";
    const auto part = c.put("bucket", "part", window.slice(1001, 5000));
    ASSERT_TRUE(part) << part.error().message;
    EXPECT_EQ(part->transfer.device_path, DevicePath::peer) << part->transfer.fell_back_reason;
    EXPECT_TRUE(same(stored("part", 5000), std::span(bytes).subspan(1001, 5000)));
    EXPECT_EQ(exports(), exported);
    EXPECT_GE(nic_dma_bufs(), given + 2);
  }
}

// The client cannot tell whose memory it is: what its owner says counts.
TEST_F(Peer, BytesEndInTheDmaBufThatWasGiven) {
  OnDevice named(mib), other(2 * mib);
  const auto bytes = random_bytes(mib, 3);
  ASSERT_TRUE(http().put("bucket", "key", bytes));
  const Client c = client(native);
  const Fd dma_buf(double_dma_buf(other.address()));
  const Buffer window = *c.register_memory(with(named.all(), dma_buf, mib));
  const auto got = c.get("bucket", "key", window);
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_TRUE(same(other.bytes(mib, mib), bytes));
  EXPECT_TRUE(same(named.bytes(0, mib), std::vector<std::byte>(mib)));
}

TEST_F(Peer, AWindowThatIsNotInsideItsDmaBufIsNotTaken) {
  OnDevice memory(mib), smaller(64 * 1024);
  const Client c = client(native);
  const auto refused = [&](const DeviceBuffer& window, const char* why) {
    const auto made = c.register_memory(window);
    ASSERT_FALSE(made);
    EXPECT_EQ(made.error().code, ErrorCode::invalid_argument);
    EXPECT_NE(made.error().message.find(why), std::string::npos) << made.error().message;
  };
  const Fd dma_buf(double_dma_buf(memory.address())), other(double_dma_buf(smaller.address()));
  ASSERT_TRUE(c.register_memory(with(memory.part(5, mib - 5), dma_buf, 5)));
  refused(with(memory.all(), other, 0), "65536 bytes");
  refused(with(memory.all(), dma_buf, 1), "1048576 bytes");
  refused(with(memory.part(0, 1), dma_buf, mib), "beyond its dma-buf");
  refused(with(memory.part(0, 1), dma_buf, mib + 1), "beyond its dma-buf");
  refused(with(memory.all(), dma_buf, ~uint64_t{0}), "beyond its dma-buf");
  refused(with(memory.all(), Fd(), 0), "not open");
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const Fd reads(ends[0]), writes(ends[1]);
  refused(with(memory.all(), reads, 0), "which has 0 bytes");
}

// As the kernel refuses a descriptor of something else.
TEST_F(Peer, WhatIsNoDmaBufIsStagedAndOtherWindowsInThatMemoryAreNot) {
  OnDevice memory(mib);
  const Fd made(::memfd_create("no-dma-buf", MFD_CLOEXEC));
  ASSERT_EQ(::ftruncate(made.get(), mib), 0);
  const Fd file(::open(("/proc/self/fd/" + std::to_string(made.get())).c_str(), O_RDONLY | O_CLOEXEC));
  const Client c = client(native);
  const auto bytes = random_bytes(mib, 4);
  ASSERT_TRUE(http().put("bucket", "key", bytes));
  const Buffer window = *c.register_memory(with(memory.all(), file, 0));
  for (int turn = 0; turn < 2; ++turn) {
    memory.set(std::vector<std::byte>(mib));
    const auto got = c.get("bucket", "key", window);
    ASSERT_TRUE(got) << got.error().message;
    EXPECT_EQ(got->transfer.device_path, DevicePath::staged);
    EXPECT_TRUE(got->transfer.fell_back_reason.starts_with("peer: ")) << got->transfer.fell_back_reason;
    EXPECT_TRUE(same(memory.bytes(0, mib), bytes));
  }
  moves(c, memory, DevicePath::peer);
}

// It was registered by its address, where other memory than the dma-buf's may be.
TEST_F(Peer, WhatIsGivenAsADmaBufIsNotLookedForAtTheAddress) {
  ::setenv("TEST_VERBENA_PEER_MODULE", "1", 1);
  OnDevice memory(mib);
  ASSERT_TRUE(http().put("bucket", "key", random_bytes(mib, 7)));
  const Client c = client(native);
  const Fd made(::memfd_create("no-dma-buf", MFD_CLOEXEC));
  ASSERT_EQ(::ftruncate(made.get(), mib), 0);
  const Fd none(::open(("/proc/self/fd/" + std::to_string(made.get())).c_str(), O_RDONLY | O_CLOEXEC));
  const Fd refused(double_dma_buf(memory.address()));
  const unsigned before = nic_by_address();
  for (const Fd* given : {&none, &refused}) {
    nic_refuses(given == &refused ? FI_EOPNOTSUPP : 0);
    const auto got = c.get("bucket", "key", *c.register_memory(with(memory.all(), *given, 0)));
    ASSERT_TRUE(got) << got.error().message;
    EXPECT_EQ(got->transfer.device_path, DevicePath::staged);
    EXPECT_TRUE(got->transfer.fell_back_reason.starts_with("peer: ")) << got->transfer.fell_back_reason;
  }
  EXPECT_EQ(nic_by_address(), before);
  moves(c, memory, DevicePath::peer);
  EXPECT_EQ(nic_by_address(), before + 2) << "of a window without a dma-buf of its own";
}

TEST_F(Peer, FreedMemoryIsNotServedByADmaBufThatKeepsIt) {
  ASSERT_TRUE(http().put("bucket", "key", random_bytes(1000, 5)));
  OnDevice memory(mib);
  const Client c = client(native);
  const Fd dma_buf(double_dma_buf(memory.address()));
  const Buffer window = *c.register_memory(with(memory.all(), dma_buf, 0));
  ASSERT_TRUE(c.get("bucket", "key", window));
  memory.free();
  const auto freed = c.get("bucket", "key", window);
  ASSERT_FALSE(freed);
  EXPECT_EQ(freed.error().code, ErrorCode::invalid_argument);
}

// C: a caller of an older header has no dma-buf, whatever lies behind its structure.
TEST_F(Peer, CCallersGiveADmaBufToo) {
  OnDevice memory(2 * mib);
  const auto bytes = random_bytes(1000, 6);
  ASSERT_TRUE(http().put("bucket", "key", bytes));
  const std::string http = world.server.http(), door = world.server.native();
  verbena_options options{};
  options.struct_size = sizeof options;
  options.endpoint = http.c_str();
  options.native_endpoint = door.c_str();
  options.access_key = server::TestServer::access_key;
  options.secret_key = server::TestServer::secret_key;
  options.via = "native";
  options.provider = "verbs";
  verbena_client* c = nullptr;
  ASSERT_EQ(verbena_connect(&options, &c), VERBENA_OK) << verbena_last_error();
  const Fd dma_buf(double_dma_buf(memory.address()));
  verbena_device_memory given{};
  given.struct_size = sizeof given;
  given.kind = static_cast<int>(kind());
  given.any_device = 1;
  given.address = memory.address() + mib;
  given.size = mib;
  given.has_dmabuf = 1;
  given.dmabuf_fd = dma_buf.get();
  given.dmabuf_offset = mib;
  const auto moved = [&] {
    verbena_buffer* window = nullptr;
    EXPECT_EQ(verbena_register_device(c, &given, &window), VERBENA_OK) << verbena_last_error();
    verbena_transfer transfer{};
    transfer.struct_size = sizeof transfer;
    EXPECT_EQ(verbena_get(c, "bucket", "key", window, 0, mib, nullptr, nullptr, nullptr, &transfer), VERBENA_OK)
        << verbena_last_error();
    EXPECT_STREQ(transfer.device_path, "peer");
    verbena_buffer_free(window);
    EXPECT_TRUE(same(memory.bytes(mib, 1000), bytes));
    double_poke(memory.address() + mib, std::vector<std::byte>(1000).data(), 1000);
  };
  const unsigned exported = exports();
  moved();
  EXPECT_EQ(exports(), exported);
  given.struct_size = offsetof(verbena_device_memory, has_dmabuf);
  given.dmabuf_fd = -1;
  moved();
  EXPECT_GT(exports(), exported);
  given.struct_size = sizeof given;
  verbena_buffer* none = nullptr;
  EXPECT_EQ(verbena_register_device(c, &given, &none), VERBENA_INVALID_ARGUMENT);
  verbena_close(c);
}

}  // namespace
}  // namespace verbena::matrix
