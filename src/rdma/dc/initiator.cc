// Sources: rdma-core's manual pages mlx5dv_create_qp(3), mlx5dv_wr_post(3), ibv_wr_post(3); the transitions that the
// kernel's mlx5 driver takes from an initiator (drivers/infiniband/hw/mlx5/qp.c).
#include "rdma/dc/initiator.h"

#include <fcntl.h>

#include <algorithm>
#include <array>
#include <cerrno>

namespace verbena::rdma::dc {
namespace {

std::unexpected<Error> no_initiator(const char* what, int error) { return fail(Errc::unsupported, what, error); }

}  // namespace

Initiator::Initiator(const Origin& origin)
    : origin_(origin),
      channel_(nullptr, origin.verbs.destroy_comp_channel),
      completions_(nullptr, origin.verbs.destroy_cq),
      pair_(nullptr, origin.verbs.destroy_qp) {}

Result<std::unique_ptr<Initiator>> Initiator::make(const Origin& origin) {
  std::unique_ptr<Initiator> made(new Initiator(origin));
  VB_TRY(made->make_queues());
  VB_TRY(made->bring_up());
  return made;
}

Result<void> Initiator::probe(const Origin& origin) {
  Initiator made(origin);
  return made.make_queues();
}

Result<void> Initiator::make_queues() {
  const Verbs& verbs = origin_.verbs;
  ibv_context* const context = origin_.port->context();
  channel_.reset(verbs.create_comp_channel(context));
  if (!channel_) return no_initiator("ibv_create_comp_channel", errno);
  const int flags = fcntl(channel_->fd, F_GETFL);
  if (fcntl(channel_->fd, F_SETFL, flags | O_NONBLOCK) != 0) return no_initiator("fcntl", errno);
  completions_.reset(verbs.create_cq(context, rc::send_queue, nullptr, channel_.get(), 0));
  if (!completions_) return no_initiator("ibv_create_cq", errno);
  ibv_qp_init_attr_ex wanted{};
  wanted.qp_type = IBV_QPT_DRIVER;
  wanted.send_cq = wanted.recv_cq = completions_.get();
  wanted.cap.max_send_wr = rc::send_queue;
  wanted.cap.max_send_sge = 1;
  wanted.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  wanted.pd = origin_.domain.get();
  wanted.send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_READ;
  mlx5dv_qp_init_attr of_mlx5{};
  of_mlx5.comp_mask = MLX5DV_QP_INIT_ATTR_MASK_DC;
  of_mlx5.dc_init_attr.dc_type = MLX5DV_DCTYPE_DCI;
  pair_.reset(verbs.create_qp(context, &wanted, &of_mlx5));
  if (!pair_) return no_initiator("mlx5dv_create_qp", errno);
  extended_ = verbs.qp_to_qp_ex(pair_.get());
  mlx5_ = extended_ == nullptr ? nullptr : verbs.qp_ex_from_ibv_qp_ex(extended_);
  if (mlx5_ == nullptr) return no_initiator("mlx5dv_qp_ex_from_ibv_qp_ex", EOPNOTSUPP);
  return {};
}

// It has no peer yet, so these have no address: each operation brings its own.
Result<void> Initiator::bring_up() {
  made_for_ = origin_.port->state();
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_INIT;
  attr.pkey_index = made_for_->partition;
  attr.port_num = origin_.port->number();
  int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;
  if (const int error = origin_.verbs.modify_qp(pair_.get(), &attr, mask)) {
    return no_initiator("ibv_modify_qp: INIT", error);
  }
  attr = {};
  attr.qp_state = IBV_QPS_RTR;
  attr.path_mtu = made_for_->mtu;
  if (const int error = origin_.verbs.modify_qp(pair_.get(), &attr, IBV_QP_STATE | IBV_QP_PATH_MTU)) {
    return no_initiator("ibv_modify_qp: RTR", error);
  }
  attr = {};
  attr.qp_state = IBV_QPS_RTS;
  attr.timeout = rc::packet_timeout;
  attr.retry_cnt = rc::retries;
  attr.rnr_retry = rc::not_ready_retries;
  attr.max_rd_atomic = rc::reads_at_once;
  mask = IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC;
  if (const int error = origin_.verbs.modify_qp(pair_.get(), &attr, mask)) {
    return no_initiator("ibv_modify_qp: RTS", error);
  }
  return {};
}

Result<rc::Gid> Initiator::connect(const rc::Peer&, uint32_t) {
  return fail(Errc::unsupported, "a DC initiator connects by itself");
}

Result<void> Initiator::post_receive(uint64_t) { return fail(Errc::unsupported, "a DC initiator receives nothing"); }

template <class Build>
Result<void> Initiator::post(uint64_t id, const std::byte* local, size_t size, uint32_t local_key, Build build) {
  ibv_wr_start(extended_);
  extended_->wr_id = id;
  extended_->wr_flags = IBV_SEND_SIGNALED;
  build();
  mlx5dv_wr_set_dc_addr(mlx5_, target_.path.get(), target_.number, access_key);
  ibv_wr_set_sge(extended_, local_key, reinterpret_cast<uintptr_t>(local), static_cast<uint32_t>(size));
  const int error = ibv_wr_complete(extended_);
  if (error == 0) return {};
  sound_ = false;
  return fail(Errc::rdma_transfer_failed, "ibv_wr_complete", error);
}

Result<void> Initiator::post_write(uint64_t id, Bytes from, uint32_t local_key, Remote to,
                                   std::optional<uint32_t> immediate) {
  if (immediate) return fail(Errc::unsupported, "a DC target receives no messages");
  return post(id, from.data(), from.size(), local_key, [&] { ibv_wr_rdma_write(extended_, to.key, to.address); });
}

Result<void> Initiator::post_read(uint64_t id, MutableBytes into, uint32_t local_key, Remote from) {
  return post(id, into.data(), into.size(), local_key, [&] { ibv_wr_rdma_read(extended_, from.key, from.address); });
}

size_t Initiator::poll(std::span<rc::Completion> into) {
  std::array<ibv_wc, 16> found;
  const int wanted = static_cast<int>(std::min(into.size(), found.size()));
  const int count = origin_.verbs.poll_cq(completions_.get(), wanted, found.data());
  for (int i = 0; i < count; ++i) {
    const ibv_wc& one = found[static_cast<size_t>(i)];
    into[static_cast<size_t>(i)] = {.id = one.wr_id, .status = one.status};
  }
  return count > 0 ? static_cast<size_t>(count) : 0;
}

Result<void> Initiator::arm() {
  ibv_cq* from = nullptr;
  void* user = nullptr;
  while (origin_.verbs.get_cq_event(channel_.get(), &from, &user) == 0) origin_.verbs.ack_cq_events(from, 1);
  const int error = origin_.verbs.req_notify_cq(completions_.get(), 0);
  if (error != 0) return no_initiator("ibv_req_notify_cq", error);
  return {};
}

}  // namespace verbena::rdma::dc
