// libibverbs. Sources: rdma-core's manual pages ibv_modify_qp(3), ibv_get_cq_event(3).
#include <arpa/inet.h>
#include <fcntl.h>
#include <infiniband/verbs.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "rdma/rc/device.h"
#include "rdma/rc/ibv_port.h"

namespace verbena::rdma::rc {
namespace {

constexpr int receive_queue = 2;
constexpr uint8_t not_ready_timer = 12;  // 0.64 ms

struct IbvDeleter {
  void operator()(ibv_pd* p) const { ibv_dealloc_pd(p); }
  void operator()(ibv_mr* p) const { ibv_dereg_mr(p); }
  void operator()(ibv_comp_channel* p) const { ibv_destroy_comp_channel(p); }
  void operator()(ibv_cq* p) const { ibv_destroy_cq(p); }
  void operator()(ibv_qp* p) const { ibv_destroy_qp(p); }
};
template <class T>
using IbvPtr = std::unique_ptr<T, IbvDeleter>;

std::unexpected<Error> ibv_failed(const char* what, int error) { return fail(Errc::unsupported, what, error); }

class IbvRegion final : public Region {
 public:
  explicit IbvRegion(IbvPtr<ibv_mr> region) : region_(std::move(region)) {}
  uint32_t local_key() const override { return region_->lkey; }
  uint32_t remote_key() const override { return region_->rkey; }

 private:
  IbvPtr<ibv_mr> region_;
};

class IbvQueuePair final : public QueuePair {
 public:
  static Result<std::unique_ptr<QueuePair>> make(const OpenPort& port, ibv_pd* domain, bool remote_write);
  uint32_t number() const override { return pair_->qp_num; }
  Result<Gid> connect(const Peer& peer, uint32_t own_sequence) override;
  Result<void> post_write(uint64_t id, Bytes from, uint32_t local_key, Remote to,
                          std::optional<uint32_t> immediate) override {
    return post(id, const_cast<std::byte*>(from.data()), from.size(), local_key, to,
                immediate ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_WRITE, immediate.value_or(0));
  }
  Result<void> post_read(uint64_t id, MutableBytes into, uint32_t local_key, Remote from) override {
    return post(id, into.data(), into.size(), local_key, from, IBV_WR_RDMA_READ, 0);
  }
  Result<void> post_receive(uint64_t id) override;
  size_t poll(std::span<Completion> into) override;
  int events() const override { return channel_->fd; }
  Result<void> arm() override;

 private:
  explicit IbvQueuePair(const OpenPort& port) : port_(port) {}
  Result<void> post(uint64_t id, std::byte* local, size_t size, uint32_t local_key, Remote remote, ibv_wr_opcode code,
                    uint32_t immediate);

  const OpenPort& port_;
  IbvPtr<ibv_comp_channel> channel_;  // destroyed after those below
  IbvPtr<ibv_cq> completions_;
  IbvPtr<ibv_qp> pair_;
};

Result<std::unique_ptr<QueuePair>> IbvQueuePair::make(const OpenPort& port, ibv_pd* domain, bool remote_write) {
  std::unique_ptr<IbvQueuePair> made(new IbvQueuePair(port));
  made->channel_.reset(ibv_create_comp_channel(port.context()));
  if (!made->channel_) return ibv_failed("ibv_create_comp_channel", errno);
  const int flags = fcntl(made->channel_->fd, F_GETFL);
  if (fcntl(made->channel_->fd, F_SETFL, flags | O_NONBLOCK) != 0) return ibv_failed("fcntl", errno);
  made->completions_.reset(ibv_create_cq(port.context(), send_queue + receive_queue, nullptr, made->channel_.get(), 0));
  if (!made->completions_) return ibv_failed("ibv_create_cq", errno);
  ibv_qp_init_attr wanted{};
  wanted.send_cq = wanted.recv_cq = made->completions_.get();
  wanted.cap.max_send_wr = send_queue;
  wanted.cap.max_recv_wr = receive_queue;
  wanted.cap.max_send_sge = wanted.cap.max_recv_sge = 1;
  wanted.qp_type = IBV_QPT_RC;
  made->pair_.reset(ibv_create_qp(domain, &wanted));
  if (!made->pair_) return ibv_failed("ibv_create_qp", errno);
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_INIT;
  attr.pkey_index = port.state()->partition;
  attr.port_num = port.number();
  attr.qp_access_flags = remote_write ? IBV_ACCESS_REMOTE_WRITE : 0;
  const int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
  if (const int error = ibv_modify_qp(made->pair_.get(), &attr, mask)) return ibv_failed("ibv_modify_qp: INIT", error);
  return made;
}

Result<Gid> IbvQueuePair::connect(const Peer& peer, uint32_t own_sequence) {
  const PortStatePtr port = port_.state();
  const GidEntry& own = port->entry_for(peer.gid);
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RTR;
  attr.path_mtu = port->mtu;
  attr.dest_qp_num = peer.queue_pair;
  attr.rq_psn = peer.sequence;
  attr.max_dest_rd_atomic = 1;
  attr.min_rnr_timer = not_ready_timer;
  attr.ah_attr.is_global = 1;
  attr.ah_attr.port_num = port_.number();
  std::memcpy(attr.ah_attr.grh.dgid.raw, peer.gid.data(), peer.gid.size());
  attr.ah_attr.grh.sgid_index = static_cast<uint8_t>(own.index);
  attr.ah_attr.grh.hop_limit = hops;
  int mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
             IBV_QP_MIN_RNR_TIMER;
  if (const int error = ibv_modify_qp(pair_.get(), &attr, mask)) {
    return fail(Errc::rdma_transfer_failed, "ibv_modify_qp: RTR", error);
  }
  attr = {};
  attr.qp_state = IBV_QPS_RTS;
  attr.timeout = packet_timeout;
  attr.retry_cnt = retries;
  attr.rnr_retry = not_ready_retries;
  attr.sq_psn = own_sequence;
  attr.max_rd_atomic = reads_at_once;
  mask = IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC;
  if (const int error = ibv_modify_qp(pair_.get(), &attr, mask)) {
    return fail(Errc::rdma_transfer_failed, "ibv_modify_qp: RTS", error);
  }
  return own.gid;
}

Result<void> IbvQueuePair::post(uint64_t id, std::byte* local, size_t size, uint32_t local_key, Remote remote,
                                ibv_wr_opcode code, uint32_t immediate) {
  ibv_sge piece{};
  piece.addr = reinterpret_cast<uintptr_t>(local);
  piece.length = static_cast<uint32_t>(size);
  piece.lkey = local_key;
  ibv_send_wr request{};
  request.wr_id = id;
  request.sg_list = &piece;
  request.num_sge = 1;
  request.opcode = code;
  request.send_flags = IBV_SEND_SIGNALED;
  request.imm_data = htonl(immediate);
  request.wr.rdma.remote_addr = remote.address;
  request.wr.rdma.rkey = remote.key;
  ibv_send_wr* bad = nullptr;
  const int error = ibv_post_send(pair_.get(), &request, &bad);
  if (error != 0) return fail(Errc::rdma_transfer_failed, "ibv_post_send", error);
  return {};
}

Result<void> IbvQueuePair::post_receive(uint64_t id) {
  ibv_recv_wr request{};
  request.wr_id = id;
  ibv_recv_wr* bad = nullptr;
  const int error = ibv_post_recv(pair_.get(), &request, &bad);
  if (error != 0) return ibv_failed("ibv_post_recv", error);
  return {};
}

size_t IbvQueuePair::poll(std::span<Completion> into) {
  std::array<ibv_wc, 16> found;
  const int wanted = static_cast<int>(std::min(into.size(), found.size()));
  const int count = ibv_poll_cq(completions_.get(), wanted, found.data());
  for (int i = 0; i < count; ++i) {
    const ibv_wc& one = found[static_cast<size_t>(i)];
    Completion& told = into[static_cast<size_t>(i)] = {.id = one.wr_id, .status = one.status};
    if (one.status != IBV_WC_SUCCESS || one.opcode != IBV_WC_RECV_RDMA_WITH_IMM) continue;
    told.immediate = ntohl(one.imm_data);
    told.bytes = one.byte_len;
  }
  return count > 0 ? static_cast<size_t>(count) : 0;
}

Result<void> IbvQueuePair::arm() {
  ibv_cq* from = nullptr;
  void* context = nullptr;
  while (ibv_get_cq_event(channel_.get(), &from, &context) == 0) ibv_ack_cq_events(from, 1);
  const int error = ibv_req_notify_cq(completions_.get(), 0);
  if (error != 0) return ibv_failed("ibv_req_notify_cq", error);
  return {};
}

class IbvDomain final : public Domain {
 public:
  IbvDomain(std::shared_ptr<const OpenPort> port, IbvPtr<ibv_pd> domain)
      : port_(std::move(port)), domain_(std::move(domain)) {}
  Result<std::unique_ptr<Region>> add_memory(MutableBytes memory, bool remote_write) override {
    const int access = IBV_ACCESS_LOCAL_WRITE | (remote_write ? IBV_ACCESS_REMOTE_WRITE : 0);
    IbvPtr<ibv_mr> region(ibv_reg_mr(domain_.get(), memory.data(), memory.size(), access));
    if (!region) return ibv_failed("ibv_reg_mr (is the limit of locked memory too low?)", errno);
    return std::make_unique<IbvRegion>(std::move(region));
  }
  Result<std::unique_ptr<QueuePair>> add_queue_pair(bool remote_write) override {
    return IbvQueuePair::make(*port_, domain_.get(), remote_write);
  }

 private:
  std::shared_ptr<const OpenPort> port_;
  IbvPtr<ibv_pd> domain_;
};

class IbvDevice final : public Device {
 public:
  explicit IbvDevice(std::shared_ptr<OpenPort> port) : port_(std::move(port)) {}
  std::string name() const override { return ibv_get_device_name(port_->context()->device); }
  Gid own_gid(const Gid& peer) const override { return port_->state()->entry_for(peer).gid; }
  Result<void> refresh() override {
    if (port_->read()) return {};
    return fail(Errc::unsupported, "the RDMA device's port is not active, or has lost its partition or its GIDs");
  }
  Result<std::unique_ptr<Domain>> add_domain() override {
    IbvPtr<ibv_pd> domain(ibv_alloc_pd(port_->context()));
    if (!domain) return ibv_failed("ibv_alloc_pd", errno);
    return std::make_unique<IbvDomain>(port_, std::move(domain));
  }

 private:
  std::shared_ptr<OpenPort> port_;
};

// nullptr: as read().
std::shared_ptr<OpenPort> open_port(ibv_device* device, const DeviceChoice& choice) {
  std::shared_ptr<ibv_context> context(ibv_open_device(device), [](ibv_context* of) {
    if (of != nullptr) ibv_close_device(of);
  });
  if (!context) return nullptr;
  auto opened = std::make_shared<OpenPort>(std::move(context), choice);
  return opened->read() ? opened : nullptr;
}

}  // namespace

Result<std::unique_ptr<Device>> open_ibv_device(const DeviceChoice& choice) {
  int count = 0;
  const std::unique_ptr<ibv_device*, decltype(&ibv_free_device_list)> list(ibv_get_device_list(&count),
                                                                           ibv_free_device_list);
  for (int i = 0; list != nullptr && i < count; ++i) {
    ibv_device* const device = list.get()[i];
    if (!choice.name.empty() && choice.name != ibv_get_device_name(device)) continue;
    if (auto opened = open_port(device, choice)) return std::make_unique<IbvDevice>(std::move(opened));
  }
  if (choice.pkey) return fail(Errc::unsupported, "no RDMA device with an active port in the partition of rdma.pkey");
  if (choice.vlan) return fail(Errc::unsupported, "no RDMA device with an active port and a GID of rdma.vlan");
  return fail(Errc::unsupported, "no RDMA device with an active port and the GID of rdma.gid_index");
}

}  // namespace verbena::rdma::rc
