// A DC initiator: a queue pair that connects by itself, with each operation, to the DC target which that names. It
// serves one client at a time. A failed operation ends it; another is made then.
#pragma once

#include <functional>
#include <memory>

#include "rdma/dc/verbs.h"

namespace verbena::rdma::dc {

// An object of the table's: ended by its call. The table outlives it.
template <class T>
using Handle = std::unique_ptr<T, int (*)(T*)>;

// Where an initiator's objects come from.
struct Origin {
  const Verbs& verbs;
  std::shared_ptr<rc::OpenPort> port;
  std::shared_ptr<ibv_pd> domain;
};

// The way to a client's port: an address handle. Kept by what posts along it.
using Path = std::shared_ptr<ibv_ah>;

struct Target {
  Path path;
  uint32_t number = 0;  // of the DC target: 24 bits
};

// The DC access key that cuObject's clients give to their targets; a descriptor does not tell it.
inline constexpr uint64_t access_key = 0xffeeddcc;

class Initiator final : public rc::QueuePair {
 public:
  // unsupported: the device has no such queue pairs, or none is left (`sys`).
  static Result<std::unique_ptr<Initiator>> make(const Origin& origin);
  // Whether the device has them at all: makes one and ends it. Its port need not be active.
  static Result<void> probe(const Origin& origin);

  // What it posts from then on goes there.
  void aim(Target target) { target_ = std::move(target); }
  // False: the device has refused an operation.
  bool is_sound() const { return sound_; }
  // Its partition and its MTU are the port's.
  bool suits(const rc::PortState& port) const {
    return made_for_->partition == port.partition && made_for_->mtu == port.mtu;
  }

  uint32_t number() const override { return pair_->qp_num; }
  Result<rc::Gid> connect(const rc::Peer& peer, uint32_t own_sequence) override;  // unsupported
  Result<void> post_write(uint64_t id, Bytes from, uint32_t local_key, Remote to,
                          std::optional<uint32_t> immediate) override;  // unsupported: an immediate value
  Result<void> post_read(uint64_t id, MutableBytes into, uint32_t local_key, Remote from) override;
  Result<void> post_receive(uint64_t id) override;  // unsupported
  size_t poll(std::span<rc::Completion> into) override;
  int events() const override { return channel_->fd; }
  Result<void> arm() override;

 private:
  explicit Initiator(const Origin& origin);
  Result<void> make_queues();
  Result<void> bring_up();
  template <class Build>
  Result<void> post(uint64_t id, const std::byte* local, size_t size, uint32_t local_key, Build build);

  Origin origin_;
  Target target_;
  bool sound_ = true;
  rc::PortStatePtr made_for_;
  Handle<ibv_comp_channel> channel_;  // destroyed after those below
  Handle<ibv_cq> completions_;
  Handle<ibv_qp> pair_;
  ibv_qp_ex* extended_ = nullptr;  // of pair_
  mlx5dv_qp_ex* mlx5_ = nullptr;   // likewise
};

}  // namespace verbena::rdma::dc
