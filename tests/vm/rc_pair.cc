#include "rc_pair.h"

#include <arpa/inet.h>
#include <poll.h>

#include <cstdio>
#include <cstring>

namespace verbena::vm {

namespace {

constexpr int patience_ms = 20'000;

void open_device(RcDevice& device, const std::string& name) {
  int count = 0;
  ibv_device** const list = ibv_get_device_list(&count);
  for (int i = 0; i < count; ++i) {
    if (name == ibv_get_device_name(list[i])) device.context = ibv_open_device(list[i]);
  }
  if (device.context == nullptr) give_up("ibv_open_device");
  ibv_free_device_list(list);
  ibv_port_attr port{};
  if (ibv_query_port(device.context, 1, &port) != 0) give_up("ibv_query_port");
  device.mtu = port.active_mtu;
}

void choose_gid(RcDevice& device, const char* address) {
  std::vector<ibv_gid_entry> entries(1024);
  const auto count = ibv_query_gid_table(device.context, entries.data(), entries.size(), 0);
  in_addr wanted{};
  inet_pton(AF_INET, address, &wanted);
  for (ssize_t i = 0; i < count; ++i) {
    const ibv_gid_entry& one = entries[static_cast<size_t>(i)];
    if (one.gid_type != IBV_GID_TYPE_ROCE_V2 || std::memcmp(one.gid.raw + 12, &wanted, 4) != 0) continue;
    device.gid = one.gid;
    device.gid_index = static_cast<uint8_t>(one.gid_index);
    return;
  }
  give_up("no such GID");
}

std::string hex(const unsigned char* bytes, size_t count) {
  std::string out;
  char digits[3];
  for (size_t i = 0; i < count; ++i) {
    std::snprintf(digits, sizeof digits, "%02x", bytes[i]);
    out += digits;
  }
  return out;
}

}  // namespace

void give_up(const char* what) {
  std::perror(what);
  std::exit(2);
}

RcDevice::RcDevice(const std::string& name, const char* address, size_t bytes) : memory(bytes) {
  open_device(*this, name);
  choose_gid(*this, address);
  domain = ibv_alloc_pd(context);
  if (domain == nullptr) give_up("ibv_alloc_pd");
  channel = ibv_create_comp_channel(context);
  if (channel == nullptr) give_up("ibv_create_comp_channel");
  const int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
  region = ibv_reg_mr(domain, memory.data(), memory.size(), access);
  if (region == nullptr) give_up("ibv_reg_mr");
}

RcDevice::~RcDevice() {
  ibv_dereg_mr(region);
  ibv_destroy_comp_channel(channel);
  ibv_dealloc_pd(domain);
  ibv_close_device(context);
}

std::string RcDevice::gid_hex() const { return hex(gid.raw, sizeof gid.raw); }

RcPair::RcPair(RcDevice& device) : device_(device) {
  completions_ = ibv_create_cq(device.context, 16, nullptr, device.channel, 0);
  ibv_qp_init_attr wanted{};
  wanted.send_cq = wanted.recv_cq = completions_;
  wanted.cap = {.max_send_wr = 8, .max_recv_wr = 8, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = 0};
  wanted.qp_type = IBV_QPT_RC;
  queue_pair_ = ibv_create_qp(device.domain, &wanted);
  if (queue_pair_ == nullptr) give_up("ibv_create_qp");
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_INIT;
  attr.port_num = 1;
  attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
  if (ibv_modify_qp(queue_pair_, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) != 0) {
    give_up("INIT");
  }
  ibv_recv_wr receive{}, *bad = nullptr;
  if (ibv_post_recv(queue_pair_, &receive, &bad) != 0) give_up("ibv_post_recv");
}

RcPair::~RcPair() {
  ibv_destroy_qp(queue_pair_);
  ibv_destroy_cq(completions_);
}

std::string RcPair::token() const {
  const uint32_t n = number();
  const unsigned char little[] = {static_cast<unsigned char>(n), static_cast<unsigned char>(n >> 8),
                                  static_cast<unsigned char>(n >> 16), static_cast<unsigned char>(n >> 24)};
  return "01" + hex(little, sizeof little) + device_.gid_hex() + std::string(40, '0') + "010000";
}

void RcPair::connect(uint32_t number, uint32_t sequence, const std::string& gid) {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RTR;
  attr.path_mtu = device_.mtu;
  attr.dest_qp_num = number;
  attr.rq_psn = sequence;
  attr.max_dest_rd_atomic = 1;
  attr.min_rnr_timer = 12;
  attr.ah_attr.is_global = 1;
  attr.ah_attr.port_num = 1;
  attr.ah_attr.grh.sgid_index = device_.gid_index;
  attr.ah_attr.grh.hop_limit = 64;
  for (size_t i = 0; i < 16; ++i) {
    attr.ah_attr.grh.dgid.raw[i] = static_cast<uint8_t>(std::stoul(gid.substr(2 * i, 2), nullptr, 16));
  }
  if (ibv_modify_qp(queue_pair_, &attr,
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
  if (ibv_modify_qp(queue_pair_, &attr,
                    IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                        IBV_QP_MAX_QP_RD_ATOMIC) != 0) {
    give_up("RTS");
  }
}

bool RcPair::take(ibv_wc& done) {
  if (ibv_poll_cq(completions_, 1, &done) > 0) return true;
  for (;;) {
    if (ibv_req_notify_cq(completions_, 0) != 0) give_up("ibv_req_notify_cq");
    if (ibv_poll_cq(completions_, 1, &done) > 0) return true;  // before it was asked for
    pollfd entry{device_.channel->fd, POLLIN, 0};
    if (poll(&entry, 1, patience_ms) <= 0) return false;
    ibv_cq* from = nullptr;
    void* context = nullptr;
    if (ibv_get_cq_event(device_.channel, &from, &context) != 0) give_up("ibv_get_cq_event");
    ibv_ack_cq_events(from, 1);
    if (ibv_poll_cq(completions_, 1, &done) > 0) return true;
  }
}

std::string RcPair::write(uint64_t address, uint32_t key, uint32_t cookie, size_t bytes) {
  ibv_sge piece{.addr = reinterpret_cast<uintptr_t>(device_.memory.data()),
                .length = static_cast<uint32_t>(bytes),
                .lkey = device_.region->lkey};
  ibv_send_wr request{}, *bad = nullptr;
  request.sg_list = &piece;
  request.num_sge = 1;
  request.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
  request.send_flags = IBV_SEND_SIGNALED;
  request.imm_data = htonl(cookie);
  request.wr.rdma.remote_addr = address;
  request.wr.rdma.rkey = key;
  if (ibv_post_send(queue_pair_, &request, &bad) != 0) return "not posted";
  ibv_wc done{};
  if (!take(done)) return "no completion";
  return done.status == IBV_WC_SUCCESS ? "ok" : ibv_wc_status_str(done.status);
}

}  // namespace verbena::vm
