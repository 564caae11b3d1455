#include "rxm_peer.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <rdma/rdma_verbs.h>

#include <chrono>
#include <cstring>
#include <thread>

namespace verbena::vm {
namespace {

constexpr size_t buffer_size = 64 * KiB;
constexpr int listener_limit_ms = 20'000;

ibv_qp_init_attr queue_pair() {
  ibv_qp_init_attr attr{};
  attr.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = 0};
  attr.qp_type = IBV_QPT_RC;
  attr.sq_sig_all = 1;
  return attr;
}

rdma_conn_param parameters(Bytes data) {
  rdma_conn_param param{};
  param.private_data = data.data();
  param.private_data_len = static_cast<uint8_t>(data.size());
  param.responder_resources = param.initiator_depth = 1;
  param.retry_count = 7;
  param.rnr_retry_count = 7;  // without end: the waiting side checks the clock
  return param;
}

sockaddr_in address_of(const std::string& ip, uint16_t port) {
  sockaddr_in in{};
  in.sin_family = AF_INET;
  in.sin_port = htons(port);
  ::inet_pton(AF_INET, ip.c_str(), &in.sin_addr);
  return in;
}

}  // namespace

namespace rxm {

std::vector<std::byte> packet(const Header& header, Bytes payload) {
  std::vector<std::byte> out(sizeof header);
  std::memcpy(out.data(), &header, sizeof header);
  out.insert(out.end(), payload.begin(), payload.end());
  return out;
}

std::vector<std::byte> private_data(uint8_t claimed_size, Bytes data) {
  std::vector<std::byte> out{static_cast<std::byte>(claimed_size)};
  out.insert(out.end(), data.begin(), data.end());
  return out;
}

}  // namespace rxm

std::unique_ptr<RxmConnection> RxmConnection::call(const std::string& from, const std::string& to, uint16_t port,
                                                   Bytes private_data) {
  sockaddr_in source = address_of(from, 0), destination = address_of(to, port);
  rdma_addrinfo info{};
  info.ai_family = AF_INET;
  info.ai_qp_type = IBV_QPT_RC;
  info.ai_port_space = RDMA_PS_TCP;
  info.ai_src_addr = reinterpret_cast<sockaddr*>(&source);
  info.ai_src_len = sizeof source;
  info.ai_dst_addr = reinterpret_cast<sockaddr*>(&destination);
  info.ai_dst_len = sizeof destination;
  rdma_cm_id* made = nullptr;
  auto attr = queue_pair();
  if (rdma_create_ep(&made, &info, nullptr, &attr) != 0) return nullptr;
  CmId id(made);
  auto param = parameters(private_data);
  if (rdma_connect(id.get(), &param) != 0) return nullptr;
  uint64_t connection = 0;  // the answer's first field, after a byte with its size
  if (id->event != nullptr && id->event->param.conn.private_data_len > sizeof connection) {
    std::memcpy(&connection, static_cast<const std::byte*>(id->event->param.conn.private_data) + 1, sizeof connection);
  }
  return std::make_unique<RxmConnection>(std::move(id), connection);
}

RxmConnection::RxmConnection(CmId id, uint64_t connection)
    : id_(std::move(id)), connection_(connection), buffer_(buffer_size) {
  region_ = rdma_reg_msgs(id_.get(), buffer_.data(), buffer_.size());
}

RxmConnection::~RxmConnection() {
  rdma_disconnect(id_.get());
  if (region_ != nullptr) rdma_dereg_mr(region_);
}

bool RxmConnection::send(Bytes packet, As as, int limit_ms) {
  if (region_ == nullptr || packet.size() > buffer_.size()) return false;
  std::copy(packet.begin(), packet.end(), buffer_.begin());
  ibv_sge piece{reinterpret_cast<uint64_t>(buffer_.data()), static_cast<uint32_t>(packet.size()), region_->lkey};
  ibv_send_wr work{}, *bad = nullptr;
  work.sg_list = &piece;
  work.num_sge = packet.empty() ? 0 : 1;
  work.opcode = as == As::send                  ? IBV_WR_SEND
                : as == As::send_with_immediate ? IBV_WR_SEND_WITH_IMM
                                                : IBV_WR_RDMA_WRITE_WITH_IMM;
  work.imm_data = 0x12345678;
  work.wr.rdma = {.remote_addr = 0, .rkey = 0};
  if (ibv_post_send(id_->qp, &work, &bad) != 0) return false;
  const auto limit = std::chrono::steady_clock::now() + std::chrono::milliseconds(limit_ms);
  while (std::chrono::steady_clock::now() < limit) {
    ibv_wc done{};
    const int n = ibv_poll_cq(id_->send_cq, 1, &done);
    if (n != 0) return n == 1 && done.status == IBV_WC_SUCCESS;
    std::this_thread::yield();
  }
  return false;
}

RxmListener::RxmListener(const std::string& address, std::vector<std::byte> accept_data)
    : accept_data_(std::move(accept_data)), memory_(buffer_size) {
  sockaddr_in source = address_of(address, 0);
  rdma_addrinfo info{};
  info.ai_flags = RAI_PASSIVE;
  info.ai_family = AF_INET;
  info.ai_qp_type = IBV_QPT_RC;
  info.ai_port_space = RDMA_PS_TCP;
  info.ai_src_addr = reinterpret_cast<sockaddr*>(&source);
  info.ai_src_len = sizeof source;
  rdma_cm_id* made = nullptr;
  auto attr = queue_pair();
  if (rdma_create_ep(&made, &info, nullptr, &attr) != 0) return;
  id_.reset(made);
  region_ = rdma_reg_write(id_.get(), memory_.data(), memory_.size());
  if (region_ != nullptr && rdma_listen(id_.get(), 16) == 0) port_ = ntohs(rdma_get_src_port(id_.get()));
}

RxmListener::~RxmListener() {
  if (region_ != nullptr) rdma_dereg_mr(region_);
}

std::unique_ptr<RxmConnection> RxmListener::accept() {
  pollfd entry{id_->channel->fd, POLLIN, 0};
  rdma_cm_id* called = nullptr;
  if (::poll(&entry, 1, listener_limit_ms) != 1 || rdma_get_request(id_.get(), &called) != 0) return nullptr;
  CmId id(called);
  auto param = parameters(accept_data_);
  if (rdma_accept(id.get(), &param) != 0) return nullptr;
  return std::make_unique<RxmConnection>(std::move(id), 0);
}

}  // namespace verbena::vm
