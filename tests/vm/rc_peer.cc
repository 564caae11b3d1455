// The client's end of a reliable connection for rc_test.py, on libibverbs alone: rc_peer DEVICE ADDRESS BYTES. It tells
// its end, then obeys lines of its input, with one line of output for each:
//   connect QUEUE_PAIR SEQUENCE GID    (hexadecimal)
//   fill SEED                          its memory, with 32-bit words: SEED, SEED + 1, ... (hexadecimal)
//   write ADDRESS KEY COOKIE BYTES     RDMA WRITE of its memory with the cookie: "ok" or the failed status
//   await                              the immediate value of the server's last write
//   sum                                CRC32 of its memory
#include <arpa/inet.h>

#include <cstdint>
#include <cstdio>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

#include "rc_pair.h"

namespace {

using verbena::vm::RcDevice;
using verbena::vm::RcPair;

uint32_t sum(const std::vector<unsigned char>& bytes) {
  uint32_t value = 0xffffffff;
  for (const unsigned char b : bytes) {
    value ^= b;
    for (int i = 0; i < 8; ++i) value = value >> 1 ^ (0xedb88320 & -(value & 1));
  }
  return ~value;
}

std::string obey(RcDevice& device, RcPair& pair, const std::string& line) {
  std::istringstream words(line);
  std::string what, gid;
  uint64_t a = 0, b = 0, c = 0;
  size_t bytes = 0;
  words >> what >> std::hex;
  if (what == "connect") {
    words >> a >> b >> gid;
    pair.connect(static_cast<uint32_t>(a), static_cast<uint32_t>(b), gid);
    return "ok";
  }
  if (what == "fill") {
    words >> a;
    for (size_t i = 0; i < device.memory.size(); ++i) {
      device.memory[i] = static_cast<unsigned char>((a + i / 4) >> (8 * (i % 4)));
    }
    return "ok";
  }
  if (what == "write") {
    words >> a >> b >> c >> std::dec >> bytes;
    return pair.write(a, static_cast<uint32_t>(b), static_cast<uint32_t>(c), bytes);
  }
  ibv_wc done{};
  char text[64];
  if (what == "await") {
    if (!pair.take(done) || done.status != IBV_WC_SUCCESS) return "failed";
    std::snprintf(text, sizeof text, "%08x", ntohl(done.imm_data));
    return text;
  }
  std::snprintf(text, sizeof text, "%08x", sum(device.memory));
  return text;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  RcDevice device(argv[1], argv[2], std::stoul(argv[3]));
  RcPair pair(device);
  std::cout << std::hex << pair.number() << ' ' << RcPair::own_sequence << ' ' << device.gid_hex() << ' '
            << reinterpret_cast<uintptr_t>(device.memory.data()) << ' ' << device.region->rkey << std::endl;
  for (std::string line; std::getline(std::cin, line);) std::cout << obey(device, pair, line) << std::endl;
  return 0;
}
