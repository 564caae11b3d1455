// A peer of `verbs;ofi_rxm` with its own implementation of rxm's protocol over librdmacm and libibverbs, so that it can
// send what libfabric never would: headers that lie, truncated packets, arbitrary connection requests.
#pragma once

#include <rdma/rdma_cma.h>

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/bytes.h"

namespace verbena::vm {

namespace rxm {

// As in libfabric 2.1's rxm.h and ofi_proto.h.
enum Type : uint8_t { eager, segment, rendezvous, read_done, atomic, atomic_response, credit, write_data, write_done };
enum Op : uint8_t { message, tagged, atomic_add = 6, atomic_fetch, atomic_compare };
constexpr uint8_t control_version = 4, op_version = 2;
constexpr size_t eager_max = 16384;

struct Header {
  uint8_t version = control_version;
  uint8_t type = eager;
  uint16_t segment_size = 0;
  uint32_t segment_number = 0;
  uint64_t connection = 0;
  uint64_t message = 0;
  uint64_t control_data = 0;
  uint8_t op_version = rxm::op_version;
  uint8_t receive_index = 0;
  uint8_t op = rxm::message;
  uint8_t op_data = 0;
  uint32_t flags = 0;
  uint64_t size = 0;
  uint64_t data = 0;
  uint64_t tag = 0;  // of atomics: data type, operation and count in its first bytes
};
static_assert(sizeof(Header) == 64);

// The contents of a connection request, after a byte with its size.
struct Connect {
  uint8_t version = 1;
  uint8_t endianness = 2;  // little
  uint8_t control_version = rxm::control_version;
  uint8_t op_version = 3;
  uint16_t port = 0;  // of the caller's own listener: with its address, the caller's identity
  uint8_t flow_control = 2;
  uint8_t padding = 0;
  uint32_t eager_limit = eager_max;
  uint32_t receives = 128;
  uint64_t connection = 0;
};
static_assert(sizeof(Connect) == 24);

struct Accept {
  uint64_t connection = 0;
  uint32_t receives = 128;
  uint8_t flow_control = 2;
  std::array<uint8_t, 3> padding{};
};

std::vector<std::byte> packet(const Header& header, Bytes payload = {});
std::vector<std::byte> private_data(uint8_t claimed_size, Bytes data);

}  // namespace rxm

struct CmIdDeleter {
  void operator()(rdma_cm_id* id) const { rdma_destroy_ep(id); }
};
using CmId = std::unique_ptr<rdma_cm_id, CmIdDeleter>;

// A connection, as its calling or its called side.
class RxmConnection {
 public:
  // Null: refused, or no answer.
  static std::unique_ptr<RxmConnection> call(const std::string& from, const std::string& to, uint16_t port,
                                             Bytes private_data);
  RxmConnection(CmId id, uint64_t connection);
  ~RxmConnection();
  RxmConnection(const RxmConnection&) = delete;

  // The other side's index of this connection.
  uint64_t connection() const { return connection_; }

  enum class As { send, send_with_immediate, empty_write_with_immediate };
  // False: not accepted in time, or the connection broke. A peer without a receive for it makes the sender wait.
  bool send(Bytes packet, As as = As::send, int limit_ms = 5000);

 private:
  CmId id_;
  uint64_t connection_;
  std::vector<std::byte> buffer_;
  ibv_mr* region_ = nullptr;
};

// Accepts every call.
class RxmListener {
 public:
  RxmListener(const std::string& address, std::vector<std::byte> accept_data);
  ~RxmListener();
  RxmListener(const RxmListener&) = delete;
  uint16_t port() const { return port_; }
  // Memory that every caller may write to.
  std::vector<std::byte>& memory() { return memory_; }
  uint64_t key() const { return region_->rkey; }
  // Waits for the next one.
  std::unique_ptr<RxmConnection> accept();

 private:
  CmId id_;
  uint16_t port_ = 0;
  std::vector<std::byte> accept_data_;
  std::vector<std::byte> memory_;
  ibv_mr* region_ = nullptr;
};

}  // namespace verbena::vm
