// Arbitrary frames from a peer, to both ends of fabric/tcp, while windows come and go. Memory that is not lent at the
// moment, or was not requested, must not change. Input: a byte that selects the end, then steps of [what, size, that
// many bytes].
#include <sys/socket.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "fabric/tcp/arrivals.h"
#include "fabric/tcp/connection.h"
#include "fabric/tcp/link.h"

using namespace verbena::fabric;       // NOLINT: a fuzzer's main file
using namespace verbena::fabric::tcp;  // NOLINT
using verbena::Bytes;
using verbena::Fd;
using verbena::MutableBytes;

namespace {

constexpr size_t memory_size = 4096, message_size_max = 512;
constexpr std::byte untouched{0x5a};

struct Step {
  uint8_t what = 0;
  Bytes bytes;
};

class Steps {
 public:
  Steps(const uint8_t* data, size_t size) : rest_(reinterpret_cast<const std::byte*>(data), size) {}
  bool next(Step& step) {
    if (rest_.size() < 2) return false;
    const size_t size = std::min<size_t>(std::to_integer<size_t>(rest_[1]), rest_.size() - 2);
    step = {std::to_integer<uint8_t>(rest_[0]), rest_.subspan(2, size)};
    rest_ = rest_.subspan(2 + size);
    return true;
  }

 private:
  Bytes rest_;
};

struct Sockets {
  Sockets() {
    int fds[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds) != 0) __builtin_trap();
    ours = Fd(fds[0]);
    peer = Fd(fds[1]);
  }
  void say(Bytes bytes) { static_cast<void>(::send(peer.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL)); }
  void hear() {
    std::byte said[8192];
    while (::recv(peer.get(), said, sizeof said, MSG_DONTWAIT) > 0) {
    }
  }
  Fd ours, peer;
};

void check(const std::vector<std::byte>& memory, size_t from, size_t to) {
  for (size_t i = from; i < to; ++i) {
    if (memory[i] != untouched) __builtin_trap();
  }
}

// Reads of the server; the bytes around their memory are checked.
void fuzz_server(Steps steps) {
  Sockets sockets;
  auto shared = std::make_shared<PortShared>();
  shared->options.encrypt = false;
  shared->options.message_size_max = message_size_max;
  shared->scratch.resize(FrameReader::scratch_size(message_size_max));
  shared->on_message = [](PeerId, Bytes message) {
    if (message.empty() || message.size() > message_size_max) __builtin_trap();
  };
  auto connection = std::make_shared<Connection>(shared, 1, 1, std::move(sockets.ours));
  std::vector<std::byte> memory(memory_size, untouched);
  std::vector<std::unique_ptr<Transfer>> transfers;
  Step step;
  while (steps.next(step)) {
    switch (step.what % 4) {
      case 0:
        sockets.say(step.bytes);
        break;
      case 1:
        shared->messages_left = step.bytes.empty() ? SIZE_MAX : step.bytes.size();
        connection->progress();
        sockets.hear();
        break;
      case 2:
        if (transfers.size() < 8) {
          auto transfer = std::make_unique<Transfer>();
          transfer->into = memory.data() + 64 + 256 * transfers.size();
          transfer->size = 128;
          connection->start(*transfer, {.type = FrameType::read, .id = transfers.size()});
          transfers.push_back(std::move(transfer));
        }
        break;
      default:
        static_cast<void>(connection->send(Bytes(memory).first(1 + step.bytes.size()), {}));
    }
  }
  connection->progress();
  for (size_t i = 0; i < 8; ++i) {
    check(memory, 256 * i, 256 * i + 64);
    check(memory, 256 * i + 64 + 128, 256 * (i + 1));
  }
  connection->drop();
  for (const auto& transfer : transfers) {
    if (!transfer->done) __builtin_trap();
  }
}

// Windows of the client: withdrawn memory is refilled and must not change.
void fuzz_client(Steps steps) {
  Sockets sockets;
  TcpLink link(Stream(std::move(sockets.ours)), message_size_max);
  if (!link.open()) return;
  std::vector<std::byte> memory(memory_size, untouched);
  std::unique_ptr<Lent> written, read;
  Step step;
  while (steps.next(step)) {
    switch (step.what % 6) {
      case 0:
        sockets.say(step.bytes);
        break;
      case 1: {
        const auto polled = link.poll([](Bytes message) {
          if (message.empty() || message.size() > message_size_max) __builtin_trap();
        });
        sockets.hear();
        static_cast<void>(polled);
        break;
      }
      case 2:
        if (auto lent = link.lend(MutableBytes(memory).subspan(1024, 1024), Access::server_writes)) {
          written = std::move(*lent);
          // The fuzzer cannot guess the window's number: a write into it, with the bytes of the step.
          FrameHead head;
          const Frame frame{.type = FrameType::write,
                            .payload = static_cast<uint32_t>(1 + step.bytes.size()),
                            .id = written->descriptor().key,
                            .offset = step.bytes.size()};
          sockets.say(Bytes(head).first(encode(frame, head)));
        }
        break;
      case 3:
        written.reset();
        std::fill(memory.begin(), memory.end(), untouched);
        break;
      case 4:
        if (auto lent = link.lend(MutableBytes(memory).subspan(3072, 512), Access::server_reads)) {
          read = std::move(*lent);
          FrameHead head;
          const Frame frame{.type = FrameType::read, .id = read->descriptor().key, .size = 512, .operation = 1};
          sockets.say(Bytes(head).first(encode(frame, head)));
        }
        break;
      default:
        read.reset();
    }
    check(memory, 0, written ? 1024 : memory_size);
    check(memory, 2048, memory_size);
  }
}

// Frames before the key was proved.
void fuzz_arrival(Steps steps) {
  Sockets sockets;
  Options options;
  options.encrypt = false;
  Arrivals arrivals(options);
  sockaddr_storage address{};
  address.ss_family = AF_INET;
  arrivals.add(std::move(sockets.ours), 1, address);
  const Port::FindKey find_key = [](uint64_t session, ConnectionKey*) { return session % 2 == 0; };
  Step step;
  while (steps.next(step)) {
    sockets.say(step.bytes);
    if (arrivals.progress(1, find_key)) __builtin_trap();  // a proof cannot be guessed
    sockets.hear();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const Steps steps(data + 1, size - 1);
  switch (data[0] % 3) {
    case 0:
      fuzz_server(steps);
      break;
    case 1:
      fuzz_client(steps);
      break;
    default:
      fuzz_arrival(steps);
  }
  return 0;
}
