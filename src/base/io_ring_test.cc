#include "base/io_ring.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <thread>

#include "base/metrics.h"

namespace verbena {
namespace {

namespace asio = boost::asio;

struct Pipe {
  Pipe() { EXPECT_EQ(::pipe2(ends, O_CLOEXEC), 0); }
  Pipe(const Pipe&) = delete;
  ~Pipe() {
    ::close(ends[0]);
    ::close(ends[1]);
  }
  void write(std::string_view text) const {
    EXPECT_EQ(::write(ends[1], text.data(), text.size()), static_cast<ssize_t>(text.size()));
  }
  int from() const { return ends[0]; }
  int ends[2] = {-1, -1};
};

// Memory in whole pages, like the arena's: O_DIRECT requires that.
struct Pages {
  explicit Pages(size_t size)
      : bytes(
            static_cast<std::byte*>(::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)),
            size) {}
  Pages(const Pages&) = delete;
  ~Pages() { ::munmap(bytes.data(), bytes.size()); }
  std::string text(size_t n, size_t from = 0) const { return std::string(as_text(Bytes(bytes).subspan(from, n))); }
  MutableBytes bytes;
};

struct TemporaryFile {
  explicit TemporaryFile(const std::string& content) {
    std::string name = (std::filesystem::temp_directory_path() / "verbena-ring-XXXXXX").string();
    fd = ::mkostemp(name.data(), O_CLOEXEC);
    EXPECT_EQ(::write(fd, content.data(), content.size()), static_cast<ssize_t>(content.size()));
    ::unlink(name.c_str());
  }
  TemporaryFile(const TemporaryFile&) = delete;
  ~TemporaryFile() { ::close(fd); }
  int fd = -1;
};

Task<> read_into(IoRing& ring, int fd, MutableBytes into, uint64_t offset, std::optional<int>& result) {
  result = co_await ring.read(fd, into, offset);
}

class Rings : public testing::Test {
 protected:
  void open(const IoRing::Options& options) {
    auto opened = IoRing::open(*loop, options);
    if (!opened) GTEST_SKIP() << "this machine has no io_uring: " << describe(opened.error());
    ring = *opened;
  }
  void SetUp() override { loop.emplace(1); }
  void start(int fd, MutableBytes into, uint64_t offset, std::optional<int>& result) {
    asio::co_spawn(*loop, read_into(*ring, fd, into, offset, result), asio::detached);
  }
  void turn() {
    loop->restart();
    loop->poll();
  }
  void run() {
    loop->restart();
    loop->run();
  }

  Pages pages{64 * KiB};
  std::optional<asio::io_context> loop;
  IoRing* ring = nullptr;
};

TEST_F(Rings, BelongToTheirLoop) {
  open({});
  if (ring == nullptr) return;
  asio::io_context other(1);
  EXPECT_EQ(IoRing::of(loop->get_executor()), ring);
  EXPECT_EQ(IoRing::of(other.get_executor()), nullptr);
  const auto second = IoRing::open(*loop, {});
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, Errc::invalid_argument);
}

TEST_F(Rings, ReadIntoRegisteredMemoryAndElsewhere) {
  open({.memory = pages.bytes.first(32 * KiB)});
  if (ring == nullptr) return;
  const TemporaryFile file(std::string(4096, 'a') + std::string(4096, 'b'));
  std::optional<int> inside, across, outside;
  start(file.fd, pages.bytes.subspan(4096, 4096), 4096, inside);
  start(file.fd, pages.bytes.subspan(28 * KiB, 8192), 0, across);
  start(file.fd, pages.bytes.subspan(40 * KiB, 4096), 4096, outside);
  run();
  EXPECT_EQ(inside, 4096);
  EXPECT_EQ(across, 8192);
  EXPECT_EQ(outside, 4096);
  EXPECT_EQ(pages.text(4096, 4096), std::string(4096, 'b'));
  EXPECT_EQ(pages.text(8192, 28 * KiB), std::string(4096, 'a') + std::string(4096, 'b'));
  EXPECT_EQ(pages.text(4096, 40 * KiB), std::string(4096, 'b'));
}

Task<> write_from(IoRing& ring, int fd, Bytes from, uint64_t offset, std::optional<int>& result) {
  result = co_await ring.write(fd, from, offset);
}

TEST_F(Rings, WriteFromRegisteredMemoryAndElsewhere) {
  open({.memory = pages.bytes.first(32 * KiB)});
  if (ring == nullptr) return;
  const TemporaryFile file(std::string(16 * KiB, '-'));
  for (size_t i = 0; i < 48 * KiB; ++i) pages.bytes[i] = static_cast<std::byte>('a' + i / 4096);
  auto& writes = metrics::counter("verbena_disk_ring_writes_total", "");
  const uint64_t before = writes.value();
  std::optional<int> inside, across, outside, bad;
  asio::co_spawn(*loop, write_from(*ring, file.fd, pages.bytes.subspan(4096, 4096), 4096, inside), asio::detached);
  asio::co_spawn(*loop, write_from(*ring, file.fd, pages.bytes.subspan(28 * KiB, 8192), 8192, across), asio::detached);
  asio::co_spawn(*loop, write_from(*ring, file.fd, pages.bytes.subspan(40 * KiB, 100), 0, outside), asio::detached);
  asio::co_spawn(*loop, write_from(*ring, -1, pages.bytes.first(10), 0, bad), asio::detached);
  run();
  EXPECT_EQ(inside, 4096);
  EXPECT_EQ(across, 8192);
  EXPECT_EQ(outside, 100);
  EXPECT_EQ(bad, -EBADF);
  EXPECT_EQ(writes.value(), before + 4);
  std::string got(16 * KiB, ' ');
  EXPECT_EQ(::pread(file.fd, got.data(), got.size(), 0), static_cast<ssize_t>(got.size()));
  EXPECT_EQ(got, std::string(100, 'k') + std::string(3996, '-') + std::string(4096, 'b') + std::string(4096, 'h') +
                     std::string(4096, 'i'));
}

TEST_F(Rings, AnswerAsTheKernelDoesNotInTheOrderOfTheQuestions) {
  open({});
  if (ring == nullptr) return;
  const Pipe first, second;
  std::optional<int> one, two;
  start(first.from(), pages.bytes.first(16), 0, one);
  start(second.from(), pages.bytes.subspan(16, 16), 0, two);
  turn();
  EXPECT_FALSE(one || two);
  second.write("two");
  while (!two) loop->run_one();
  EXPECT_FALSE(one);
  EXPECT_EQ(*two, 3);
  EXPECT_EQ(pages.text(3, 16), "two");
  first.write("first");
  while (!one) loop->run_one();
  EXPECT_EQ(*one, 5);
  EXPECT_EQ(pages.text(5), "first");
}

TEST_F(Rings, TellShortReadsEndsAndErrors) {
  open({});
  if (ring == nullptr) return;
  const TemporaryFile file("hundred bytes, nearly");
  const int directory = ::open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  std::optional<int> some, end, bad, folder;
  start(file.fd, pages.bytes.first(4096), 0, some);
  start(file.fd, pages.bytes.subspan(4096, 4096), 8192, end);
  start(-1, pages.bytes.subspan(8192, 4096), 0, bad);
  start(directory, pages.bytes.subspan(12288, 4096), 0, folder);
  run();
  ::close(directory);
  EXPECT_EQ(some, 21);
  EXPECT_EQ(end, 0);
  EXPECT_EQ(bad, -EBADF);
  EXPECT_EQ(folder, -EISDIR);
}

TEST_F(Rings, TakeMoreThanFitsAndGiveWhatStartsTogetherToTheKernelAtOnce) {
  open({.depth = 4});
  if (ring == nullptr) return;
  auto& submissions = metrics::counter("verbena_disk_ring_submissions_total", "");
  const TemporaryFile file(std::string(64 * KiB, 'x'));
  std::vector<std::optional<int>> results(4);
  const uint64_t before = submissions.value();
  for (size_t i = 0; i < 4; ++i) start(file.fd, pages.bytes.subspan(i * 512, 512), i * 512, results[i]);
  run();
  EXPECT_EQ(submissions.value() - before, 1u);
  results.assign(100, std::nullopt);
  for (size_t i = 0; i < 100; ++i) start(file.fd, pages.bytes.subspan(i * 512, 512), i * 512, results[i]);
  run();
  for (const auto& result : results) EXPECT_EQ(result, 512);
  EXPECT_EQ(pages.text(100 * 512), std::string(100 * 512, 'x'));
}

// Owned by a coroutine while it waits, like a lease.
struct Owned {
  explicit Owned(bool& flag) : gone(flag) {}
  Owned(const Owned&) = delete;
  ~Owned() { gone = true; }
  bool& gone;
};

Task<> read_with(IoRing& ring, int fd, MutableBytes into, bool& gone, bool& told) {
  const Owned owned(gone);
  co_await ring.read(fd, into, 0);
  told = true;
}

TEST_F(Rings, CollectTheirReadsBeforeTheLoopIsGone) {
  open({.memory = pages.bytes});
  if (ring == nullptr) return;
  const Pipe pipe;
  bool gone = false, told = false;
  asio::co_spawn(*loop, read_with(*ring, pipe.from(), pages.bytes.first(16), gone, told), asio::detached);
  turn();
  EXPECT_FALSE(gone);
  loop.reset();
  EXPECT_TRUE(gone);
  EXPECT_FALSE(told);
  // The kernel does not write into the memory any more.
  std::memset(pages.bytes.data(), 'm', 16);
  pipe.write("late");
  EXPECT_EQ(pages.text(16), std::string(16, 'm'));
}

TEST_F(Rings, DropWhatTheKernelNeverGotWithTheLoop) {
  open({});
  if (ring == nullptr) return;
  const Pipe pipe;
  bool gone = false, told = false;
  asio::co_spawn(*loop, read_with(*ring, pipe.from(), pages.bytes.first(16), gone, told), asio::detached);
  loop->poll_one();  // the coroutine starts; its read is queued
  loop.reset();
  EXPECT_TRUE(gone);
  EXPECT_FALSE(told);
}

TEST_F(Rings, ACancelledReaderKeepsItsMemoryUntilTheReadIsCollected) {
  open({});
  if (ring == nullptr) return;
  const Pipe pipe;
  bool gone = false, told = false;
  asio::cancellation_signal cancel;
  asio::co_spawn(*loop, read_with(*ring, pipe.from(), pages.bytes.first(16), gone, told),
                 asio::bind_cancellation_slot(cancel.slot(), asio::detached));
  turn();
  cancel.emit(asio::cancellation_type::terminal);
  turn();
  EXPECT_FALSE(gone);
  pipe.write("at last");
  run();
  EXPECT_TRUE(gone);
  EXPECT_EQ(pages.text(7), "at last");
}

TEST_F(Rings, AKernelWithoutThemIsUnsupportedAndSaysWhy) {
  const auto absent = [](unsigned, io_uring*, io_uring_params*) { return -ENOSYS; };
  const auto opened = IoRing::open(*loop, {.set_up = absent});
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, Errc::unsupported);
  EXPECT_EQ(opened.error().sys, ENOSYS);
  EXPECT_EQ(IoRing::of(loop->get_executor()), nullptr);
}

TEST_F(Rings, MemoryThatMayNotBeRegisteredIsReadIntoAsWell) {
  const auto refuse = [](io_uring*, const iovec*, unsigned) { return -ENOMEM; };
  open({.memory = pages.bytes, .register_buffers = refuse});
  if (ring == nullptr) return;
  EXPECT_FALSE(ring->registered());
  const TemporaryFile file(std::string(4096, 'a'));
  std::optional<int> result;
  start(file.fd, pages.bytes.first(4096), 0, result);
  run();
  EXPECT_EQ(result, 4096);
  EXPECT_EQ(pages.text(4096), std::string(4096, 'a'));
}

// By seccomp, like container runtimes.
bool forbid_io_uring_for_this_thread() {
  sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_io_uring_setup, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog filter{std::size(program), program};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

TEST_F(Rings, AreUnsupportedWhereSeccompForbidsThem) {
  std::optional<Error> error;
  bool forbidden = false;
  std::thread container([&] {
    forbidden = forbid_io_uring_for_this_thread();
    if (const auto opened = IoRing::open(*loop, {}); !opened) error = opened.error();
  });
  container.join();
  if (!forbidden) GTEST_SKIP() << "seccomp is not to be had here";
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code, Errc::unsupported);
  EXPECT_EQ(error->sys, EPERM);
}

Task<> read_twice(Core& core, IoRing& ring, const Pipe& pipe, MutableBytes into, std::atomic<int>& read) {
  for (int i = 0; i < 2; ++i) {
    co_await ring.read(pipe.from(), into, 0);
    ++read;
  }
  core.stop();
}

TEST(RingOfACore, IsServedWhetherTheCoreSpinsOrSleeps) {
  for (const auto spin : {std::chrono::microseconds(0), std::chrono::microseconds(10'000'000)}) {
    Pages pages(4096);
    Core core({.spin_for = spin});
    const auto ring = IoRing::open(core.io(), {.memory = pages.bytes});
    if (!ring) GTEST_SKIP() << "this machine has no io_uring: " << describe(ring.error());
    core.add(*ring);
    const Pipe pipe;
    std::atomic<int> read{0};
    asio::co_spawn(core.io(), read_twice(core, **ring, pipe, pages.bytes.first(1), read), asio::detached);
    std::thread thread([&core] { core.run(); });
    pipe.write("a");
    while (read == 0) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    pipe.write("b");
    thread.join();
    EXPECT_EQ(read, 2);
    EXPECT_EQ(pages.text(1), "b");
  }
}

TEST(RingOfACore, ReadsInFlightEndWithTheThreadAndTheCore) {
  Pages pages(4096);
  const Pipe pipe;
  bool gone = false, told = false;
  {
    Core core({});
    const auto ring = IoRing::open(core.io(), {.memory = pages.bytes});
    if (!ring) GTEST_SKIP() << "this machine has no io_uring: " << describe(ring.error());
    core.add(*ring);
    asio::co_spawn(core.io(), read_with(**ring, pipe.from(), pages.bytes.first(16), gone, told), asio::detached);
    std::atomic<bool> started{false};
    std::thread thread([&core] { core.run(); });
    asio::post(core.io(), [&] { asio::post(core.io(), [&] { started = true; }); });
    while (!started) std::this_thread::yield();
    core.stop();
    thread.join();
  }
  EXPECT_TRUE(gone);
  EXPECT_FALSE(told);
}

}  // namespace
}  // namespace verbena
