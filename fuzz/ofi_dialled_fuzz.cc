// The owner of a token, dialled by the server over libfabric's tcp, answers with any bytes while a window is written or
// read. libfabric itself is not instrumented (ofi_listener_fuzz.cc). Input: [how][bytes]; bit 0 of `how`: a proper
// answer to the connection request comes first, bit 1: of the other byte order, bit 2: the window is read, else
// written.
#include <sys/socket.h>

#include <boost/asio/co_spawn.hpp>

#include <cstdlib>
#include <optional>

#include "base/core.h"
#include "base/log.h"
#include "fabric/ofi/hostile.h"
#include "fabric/ofi/port.h"

using namespace verbena;  // NOLINT: a fuzzer's main file

extern "C" int __lsan_is_turned_off() { return 1; }  // memory that libfabric keeps until the end is not a leak of ours

namespace {

// A core without a thread: each input runs it by hand.
struct Dialler {
  Dialler() {
    log::set_level(log::Level::error);
    fabric::ofi::Options options;
    options.provider = "tcp";
    options.dial_only = true;
    fabric = std::move(*fabric::ofi::OfiCoreFabric::open(core, *arena, options));
    lease = std::move(*arena->lease(4096));
  }
  void turn() {
    fabric->poll();
    core.io().restart();
    core.io().poll();
  }
  std::unique_ptr<memory::Arena> arena = std::move(*memory::Arena::create(32 * MiB));
  Core core{Core::Options{}};
  std::unique_ptr<fabric::ofi::OfiCoreFabric> fabric;
  std::optional<memory::Lease> lease;
  fabric::ofi::testing::HostileListener owner;
};

Dialler& dialler() {
  static auto& one = *new Dialler;  // libfabric's own destructors run at exit
  return one;
}

Task<bool> move(fabric::Window* window, MutableBytes bytes, bool read) {
  const auto deadline = deadline_in(std::chrono::milliseconds(20));
  if (read) co_return (co_await window->read(bytes, 0, deadline)).has_value();
  co_return (co_await window->write(bytes, 0, deadline)).has_value();
}

void answer(Fd fd, const uint8_t* data, size_t size) {
  const linger at_once{1, 0};
  setsockopt(fd.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  std::vector<std::byte> bytes;
  if ((data[0] & 1) != 0) bytes = fabric::ofi::testing::hello(false, 8, (data[0] & 2) != 0 ? uint64_t{1} << 56 : 1);
  static_cast<void>(::send(fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT));
  for (int i = 0; i < 6; ++i) dialler().turn();
  static_cast<void>(::send(fd.get(), data + 1, size - 1, MSG_NOSIGNAL | MSG_DONTWAIT));
  for (int i = 0; i < 6; ++i) dialler().turn();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 1 || size > 100'000) return 0;
  if (!fabric::ofi::checks_peers()) return 0;  // it would only find known faults
  Dialler& server = dialler();
  const bool read = (data[0] & 4) != 0;
  auto window = server.fabric->open_window(server.owner.name(), {0, 4096, 1},
                                           read ? fabric::Access::server_reads : fabric::Access::server_writes);
  if (!window) std::abort();
  bool over = false;
  boost::asio::co_spawn(server.core.io(), move(window->get(), MutableBytes(server.lease->data(), 4096), read),
                        [&over](std::exception_ptr, bool) { over = true; });
  // A broken connection is opened again until the operation's deadline.
  for (bool answered = false; !over;) {
    server.turn();
    if (Fd fd = server.owner.accept(0); fd && !answered) {
      answer(std::move(fd), data, size);
      answered = true;
    }
  }
  window->reset();
  server.turn();
  return 0;
}
