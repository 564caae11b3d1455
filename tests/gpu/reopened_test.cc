// A client whose native door is closed at first, and the transfers of its GPU's memory once that door does not rest any
// more: it is they that open it.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <atomic>

#include "base/fd.h"
#include "direct_world.h"
#include "net/testing/scripted_server.h"

namespace verbena::matrix {
namespace {

class Reopened : public Direct {
 protected:
  // What the server's native door answers.
  std::string forwarded(const net::ScriptedRequest& request) {
    const std::string native = world.server.native();
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(static_cast<uint16_t>(std::stoi(native.substr(native.rfind(':') + 1))));
    const Fd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(::connect(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    const std::string all = request.head + "connection: close\r\n\r\n" + request.body;
    EXPECT_EQ(::send(socket.get(), all.data(), all.size(), MSG_NOSIGNAL), static_cast<ssize_t>(all.size()));
    std::string answer;
    char piece[4096];
    for (ssize_t n = 0; (n = ::recv(socket.get(), piece, sizeof piece, 0)) > 0;)
      answer.append(piece, static_cast<size_t>(n));
    return answer;
  }
  Client client_of_closed_door() {
    ClientOptions given = options(Via::automatic, "local");
    given.native_endpoint = "127.0.0.1:" + std::to_string(door_.port());
    return *Client::connect(given);
  }

  std::atomic<bool> is_open_{false};
  net::ScriptedServer door_{
      [this](const net::ScriptedRequest& request, int) { return is_open_ ? forwarded(request) : std::string(); }};
};

TEST_F(Reopened, TheFirstTransferAfterTheDoorsRestGoesByIt) {
  constexpr std::chrono::milliseconds more_than_the_rest{10'500};  // SessionDoor's is 10 s
  const auto bytes = random_bytes(mib, 1);
  ASSERT_TRUE(http().put("bucket", "key", bytes));
  OnDevice memory(mib);
  const Client getter = client_of_closed_door(), putter = client_of_closed_door(), batches = client_of_closed_door();
  const Buffer window = *getter.register_memory(memory.all());
  const auto closed = getter.get("bucket", "key", window);
  ASSERT_TRUE(closed) << closed.error().message;
  EXPECT_EQ(closed->transfer.device_path, DevicePath::staged);
  EXPECT_EQ(closed->transfer.door, Via::http);
  is_open_ = true;
  std::this_thread::sleep_for(more_than_the_rest);

  memory.set(std::vector<std::byte>(mib));
  const auto got = getter.get("bucket", "key", window);
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_EQ(got->transfer.device_path, DevicePath::direct) << got->transfer.fell_back_reason;
  EXPECT_TRUE(same(memory.bytes(0, mib), bytes));

  const auto put = putter.put("bucket", "back", window);
  ASSERT_TRUE(put) << put.error().message;
  EXPECT_EQ(put->transfer.device_path, DevicePath::direct) << put->transfer.fell_back_reason;
  EXPECT_TRUE(same(stored("back", mib), bytes));

  const BatchItem item{.bucket = "bucket", .key = "key", .size = mib};
  BatchResult result;
  const auto many = batches.get_many(std::span(&item, 1), std::span(&window, 1), std::span(&result, 1));
  ASSERT_TRUE(many) << many.error().message;
  EXPECT_FALSE(result.error);
  EXPECT_EQ(many->device_path, DevicePath::direct) << many->fell_back_reason;
}

}  // namespace
}  // namespace verbena::matrix
