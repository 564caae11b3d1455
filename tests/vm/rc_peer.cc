// The client's end of a reliable connection for rc_test.py, on libibverbs alone: rc_peer DEVICE ADDRESS BYTES. It tells
// its end, then obeys lines of its input, with one line of output for each:
//   connect QUEUE_PAIR SEQUENCE GID    (hexadecimal)
//   fill SEED                          its memory, with 32-bit words: SEED, SEED + 1, ... (hexadecimal)
//   write ADDRESS KEY COOKIE BYTES     RDMA WRITE of its memory with the cookie: "ok" or the failed status
//   await                              the immediate value of the server's last write
//   sum                                CRC32 of its memory
#include <arpa/inet.h>
#include <infiniband/verbs.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr uint32_t own_sequence = 0x0a1b2c;
constexpr std::chrono::seconds patience{20};

[[noreturn]] void give_up(const char* what) {
  std::perror(what);
  std::exit(2);
}

struct Pair {
  ibv_context* context = nullptr;
  ibv_pd* domain = nullptr;
  ibv_cq* completions = nullptr;
  ibv_qp* queue_pair = nullptr;
  ibv_mr* region = nullptr;
  uint8_t gid_index = 0;
  ibv_gid gid{};
  ibv_mtu mtu = IBV_MTU_1024;
  std::vector<unsigned char> memory;
};

void open_device(Pair& pair, const std::string& name) {
  int count = 0;
  ibv_device** const list = ibv_get_device_list(&count);
  for (int i = 0; i < count; ++i) {
    if (name == ibv_get_device_name(list[i])) pair.context = ibv_open_device(list[i]);
  }
  if (pair.context == nullptr) give_up("ibv_open_device");
  ibv_free_device_list(list);
  ibv_port_attr port{};
  if (ibv_query_port(pair.context, 1, &port) != 0) give_up("ibv_query_port");
  pair.mtu = port.active_mtu;
}

void choose_gid(Pair& pair, const char* address) {
  std::vector<ibv_gid_entry> entries(1024);
  const auto count = ibv_query_gid_table(pair.context, entries.data(), entries.size(), 0);
  in_addr wanted{};
  inet_pton(AF_INET, address, &wanted);
  for (ssize_t i = 0; i < count; ++i) {
    const ibv_gid_entry& one = entries[static_cast<size_t>(i)];
    if (one.gid_type != IBV_GID_TYPE_ROCE_V2 || std::memcmp(one.gid.raw + 12, &wanted, 4) != 0) continue;
    pair.gid = one.gid;
    pair.gid_index = static_cast<uint8_t>(one.gid_index);
    return;
  }
  give_up("no such GID");
}

void make(Pair& pair) {
  pair.domain = ibv_alloc_pd(pair.context);
  pair.completions = ibv_create_cq(pair.context, 16, nullptr, nullptr, 0);
  ibv_qp_init_attr wanted{};
  wanted.send_cq = wanted.recv_cq = pair.completions;
  wanted.cap = {.max_send_wr = 8, .max_recv_wr = 8, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = 0};
  wanted.qp_type = IBV_QPT_RC;
  pair.queue_pair = ibv_create_qp(pair.domain, &wanted);
  if (pair.queue_pair == nullptr) give_up("ibv_create_qp");
  const int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
  pair.region = ibv_reg_mr(pair.domain, pair.memory.data(), pair.memory.size(), access);
  if (pair.region == nullptr) give_up("ibv_reg_mr");
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_INIT;
  attr.port_num = 1;
  attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
  if (ibv_modify_qp(pair.queue_pair, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) !=
      0) {
    give_up("INIT");
  }
  ibv_recv_wr receive{}, *bad = nullptr;
  if (ibv_post_recv(pair.queue_pair, &receive, &bad) != 0) give_up("ibv_post_recv");
}

void connect(Pair& pair, uint32_t number, uint32_t sequence, const std::string& gid) {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RTR;
  attr.path_mtu = pair.mtu;
  attr.dest_qp_num = number;
  attr.rq_psn = sequence;
  attr.max_dest_rd_atomic = 1;
  attr.min_rnr_timer = 12;
  attr.ah_attr.is_global = 1;
  attr.ah_attr.port_num = 1;
  attr.ah_attr.grh.sgid_index = pair.gid_index;
  attr.ah_attr.grh.hop_limit = 64;
  for (size_t i = 0; i < 16; ++i) {
    attr.ah_attr.grh.dgid.raw[i] = static_cast<uint8_t>(std::stoul(gid.substr(2 * i, 2), nullptr, 16));
  }
  if (ibv_modify_qp(pair.queue_pair, &attr,
                    IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                        IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) != 0) {
    give_up("RTR");
  }
  attr.qp_state = IBV_QPS_RTS;
  attr.timeout = 14;
  attr.retry_cnt = 7;
  attr.rnr_retry = 7;
  attr.sq_psn = own_sequence;
  attr.max_rd_atomic = 1;
  if (ibv_modify_qp(pair.queue_pair, &attr,
                    IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                        IBV_QP_MAX_QP_RD_ATOMIC) != 0) {
    give_up("RTS");
  }
}

bool take(Pair& pair, ibv_wc& done) {
  const auto end = std::chrono::steady_clock::now() + patience;
  while (std::chrono::steady_clock::now() < end) {
    if (ibv_poll_cq(pair.completions, 1, &done) > 0) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return false;
}

std::string write(Pair& pair, uint64_t address, uint32_t key, uint32_t cookie, size_t bytes) {
  ibv_sge piece{.addr = reinterpret_cast<uintptr_t>(pair.memory.data()),
                .length = static_cast<uint32_t>(bytes),
                .lkey = pair.region->lkey};
  ibv_send_wr request{}, *bad = nullptr;
  request.sg_list = &piece;
  request.num_sge = 1;
  request.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
  request.send_flags = IBV_SEND_SIGNALED;
  request.imm_data = htonl(cookie);
  request.wr.rdma.remote_addr = address;
  request.wr.rdma.rkey = key;
  if (ibv_post_send(pair.queue_pair, &request, &bad) != 0) return "not posted";
  ibv_wc done{};
  if (!take(pair, done)) return "no completion";
  return done.status == IBV_WC_SUCCESS ? "ok" : ibv_wc_status_str(done.status);
}

uint32_t sum(const std::vector<unsigned char>& bytes) {
  uint32_t value = 0xffffffff;
  for (const unsigned char b : bytes) {
    value ^= b;
    for (int i = 0; i < 8; ++i) value = value >> 1 ^ (0xedb88320 & -(value & 1));
  }
  return ~value;
}

std::string obey(Pair& pair, const std::string& line) {
  std::istringstream words(line);
  std::string what, gid;
  uint64_t a = 0, b = 0, c = 0;
  size_t bytes = 0;
  words >> what >> std::hex;
  if (what == "connect") {
    words >> a >> b >> gid;
    connect(pair, static_cast<uint32_t>(a), static_cast<uint32_t>(b), gid);
    return "ok";
  }
  if (what == "fill") {
    words >> a;
    for (size_t i = 0; i < pair.memory.size(); ++i) {
      pair.memory[i] = static_cast<unsigned char>((a + i / 4) >> (8 * (i % 4)));
    }
    return "ok";
  }
  if (what == "write") {
    words >> a >> b >> c >> std::dec >> bytes;
    return write(pair, a, static_cast<uint32_t>(b), static_cast<uint32_t>(c), bytes);
  }
  ibv_wc done{};
  char text[64];
  if (what == "await") {
    if (!take(pair, done) || done.status != IBV_WC_SUCCESS) return "failed";
    std::snprintf(text, sizeof text, "%08x", ntohl(done.imm_data));
    return text;
  }
  std::snprintf(text, sizeof text, "%08x", sum(pair.memory));
  return text;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  Pair pair;
  open_device(pair, argv[1]);
  choose_gid(pair, argv[2]);
  pair.memory.resize(std::stoul(argv[3]));
  make(pair);
  std::string gid;
  char digits[3];
  for (const uint8_t b : pair.gid.raw) {
    std::snprintf(digits, sizeof digits, "%02x", b);
    gid += digits;
  }
  std::cout << std::hex << pair.queue_pair->qp_num << ' ' << own_sequence << ' ' << gid << ' '
            << reinterpret_cast<uintptr_t>(pair.memory.data()) << ' ' << pair.region->rkey << std::endl;
  for (std::string line; std::getline(std::cin, line);) std::cout << obey(pair, line) << std::endl;
  return 0;
}
