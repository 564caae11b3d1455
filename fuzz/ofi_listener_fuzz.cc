// Bytes from an unauthenticated client at a listening endpoint of libfabric's tcp, whose windows it may try to reach.
// libfabric itself is not instrumented: only crashes are found, and what the sanitizer sees of memory that passes
// through libc. Input: [how][bytes]; bit 0 of `how`: a proper connection request comes first, bit 1: of the other byte
// order.
#include <sys/socket.h>

#include <cstdlib>

#include "fabric/ofi/hostile.h"
#include "fabric/ofi/ofi.h"

using namespace verbena;  // NOLINT: a fuzzer's main file

extern "C" int __lsan_is_turned_off() { return 1; }  // memory that libfabric keeps until the end is not a leak of ours

namespace {

struct Listener {
  Listener() {
    fabric::ofi::Options options;
    options.provider = "tcp";
    options.max_recv_wr = options.max_send_wr = 4;
    link = std::move(*fabric::ofi::connect(options, {}));
    writable = std::move(*link->lend(memory, fabric::Access::server_writes));
    readable = std::move(*link->lend(memory, fabric::Access::server_reads));
  }
  void poll(int times) {
    for (int i = 0; i < times; ++i) static_cast<void>(link->poll([](Bytes) {}));
  }
  std::unique_ptr<fabric::Link> link;
  std::vector<std::byte> memory = std::vector<std::byte>(4096);
  std::unique_ptr<fabric::Lent> writable, readable;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static auto& listener = *new Listener;  // libfabric's own destructors run at exit
  if (size < 1 || size > 100'000) return 0;
  if (!fabric::ofi::checks_peers()) return 0;  // it would only find known faults
  Fd fd = fabric::ofi::testing::connect_to(listener.link->address());
  if (!fd) std::abort();
  // Leaves no port in TIME_WAIT.
  const linger at_once{1, 0};
  setsockopt(fd.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  std::vector<std::byte> bytes;
  if ((data[0] & 1) != 0) bytes = fabric::ofi::testing::hello(true, 8, (data[0] & 2) != 0 ? uint64_t{1} << 56 : 1);
  fabric::ofi::testing::append(bytes, data + 1, size - 1);
  static_cast<void>(::send(fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT));
  listener.poll(12);
  fd = Fd();
  listener.poll(4);
  return 0;
}
