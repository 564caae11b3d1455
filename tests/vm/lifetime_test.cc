// Once the server has answered or given up, nothing of that request touches the window any more, however late the link
// delivers. Runs in the virtual machine only: it makes the link between the two devices slow and lossy (as root).
#include <gtest/gtest.h>

#include <cstdlib>
#include <random>

#include "fabric/ofi/testing.h"

namespace verbena::fabric::ofi {
namespace {

using std::chrono::milliseconds;
using testing::TestClient;
using testing::TestServer;

constexpr std::byte reused{0xa5};
constexpr size_t piece = 32 * KiB;
constexpr size_t pieces = 16;
constexpr auto latest_packet = milliseconds(120);  // how long the link below keeps one

Options options_at(const char* address) {
  Options options = testing::test_options();
  options.bind_address = address;
  return options;
}

class LateLink {
 public:
  explicit LateLink(const std::string& netem) {
    for (const char* end : {"v0", "v1"})
      run(std::string("tc qdisc replace dev ") + end + " root netem limit 100000 " + netem);
  }
  ~LateLink() {
    for (const char* end : {"v0", "v1"}) run(std::string("tc qdisc del dev ") + end + " root");
  }

 private:
  static void run(const std::string& command) { EXPECT_EQ(std::system(command.c_str()), 0) << command; }
};

Task<Result<void>> write_once(Window* window, Bytes from, uint64_t at, milliseconds limit) {
  co_return co_await window->write(from, at, deadline_in(limit));
}

// Lends memory, has it written with deadlines that expire during the transfer, and reuses the memory as soon as each
// operation has been answered. The region stays registered and the owner's connection open, so only the server can keep
// late packets away.
class Lifetime : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(server.fabric) << describe(server.error); }

  // Writes all pieces at once; returns how many were given up. Each is reused once answered.
  size_t write_pieces(Window* window, MutableBytes memory, Bytes from, milliseconds limit) {
    std::vector<std::future<Result<void>>> writes;
    for (size_t i = 0; i < pieces; ++i) {
      writes.push_back(server.spawn(write_once(window, from, i * piece, limit)));
    }
    size_t given_up = 0;
    for (size_t i = 0; i < pieces; ++i) {
      if (!writes[i].get()) ++given_up;
      std::fill_n(memory.begin() + static_cast<ptrdiff_t>(i * piece), piece, reused);
    }
    return given_up;
  }

  TestServer server{options_at("10.77.0.1")};
};

TEST_F(Lifetime, NothingLandsInAWindowAfterTheServerAnsweredOrGaveUp) {
  TestClient client(nullptr, options_at("10.77.0.2"));
  std::vector<std::byte> memory(piece * pieces, reused);
  const auto lent = std::move(*client.link->lend(memory, Access::server_writes));
  const auto lease = server.lease(piece, std::byte{7});
  auto window = server.call(
      [&] { return server.fabric->open_window(client.link->address(), lent->descriptor(), Access::server_writes); });
  ASSERT_TRUE(window);
  size_t answered = 0, given_up = 0;
  for (int round = 0; round < 6; ++round) {
    // Connects again, while the link is fast.
    ASSERT_TRUE(server.spawn(write_once(window->get(), Bytes(lease.data(), 1), 0, std::chrono::seconds(20))).get());
    memory[0] = reused;
    // The first round succeeds; the deadlines of the others expire before, during and between the retries.
    const LateLink link(round == 0 ? "delay 80ms" : "delay 80ms loss 2%");
    const auto limit = milliseconds(round == 0 ? 20'000 : 60 * round);
    const size_t failed = write_pieces(window->get(), memory, lease.bytes(), limit);
    given_up += failed;
    answered += pieces - failed;
    std::this_thread::sleep_for(2 * latest_packet);
    ASSERT_EQ(std::count(memory.begin(), memory.end(), reused), static_cast<ptrdiff_t>(memory.size()))
        << "late bytes landed in round " << round << ", " << failed << " of its writes were given up";
  }
  EXPECT_GE(answered, pieces) << "the link was too slow to complete anything";
  EXPECT_GE(given_up, pieces) << "no deadline fell into a transfer";
  server.call([&] { window->reset(); });
}

}  // namespace
}  // namespace verbena::fabric::ofi
