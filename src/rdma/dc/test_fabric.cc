#include "rdma/dc/test_fabric.h"

#include <arpa/inet.h>
#include <fmt/core.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>
#include <mutex>
#include <set>

#include "base/bytes.h"
#include "rdma/rc/test_device.h"

namespace verbena::rdma::dc::test {
namespace {

Fabric* the_fabric = nullptr;

struct DcDevice : ibv_device {
  size_t host = 0;
};
struct DcContext : ibv_context {
  size_t host = 0;
  size_t children = 0;
};
struct DcDomain : ibv_pd {
  size_t children = 0;
};
struct DcRegion : ibv_mr {};
struct DcChannel : ibv_comp_channel {
  size_t children = 0;
};
struct DcQueue : ibv_cq {
  DcChannel* events = nullptr;
  std::deque<ibv_wc> done;
  bool armed = false;
  size_t children = 0;
};
struct DcHandle : ibv_ah {
  ibv_ah_attr attr{};
};

struct Operation {
  uint64_t id = 0;
  bool write = false, complete = false;
  uint64_t remote = 0;
  uint32_t remote_key = 0, local_key = 0;
  std::byte* local = nullptr;
  size_t size = 0;
  ibv_ah* path = nullptr;
  ibv_ah_attr address{};  // copied from the path when it is posted, as hardware does
  uint32_t target = 0;
  uint64_t key = 0;
};

struct DcPair;
struct DcMlx5 : mlx5dv_qp_ex {
  DcPair* pair = nullptr;
};
struct DcPair : ibv_qp_ex {
  DcMlx5 mlx5{};
  DcQueue* queue = nullptr;
  DcDomain* domain = nullptr;
  ibv_qp_state now = IBV_QPS_RESET;
  Operation building;
};

DcPair& pair_of(ibv_qp* pair) { return static_cast<DcPair&>(*reinterpret_cast<ibv_qp_ex*>(pair)); }
DcPair& pair_of(ibv_qp_ex* pair) { return static_cast<DcPair&>(*pair); }

}  // namespace

struct Fabric::State {
  struct Held {
    DcPair* pair;
    Operation operation;
  };
  std::recursive_mutex mutex;
  Verbs verbs{};
  std::vector<std::unique_ptr<DcDevice>> devices;
  std::set<DcRegion*> regions;
  std::set<DcPair*> pairs;
  std::set<ibv_ah*> paths;
  std::deque<Held> held;
  std::vector<std::jthread> late;
  size_t others = 0;  // contexts, domains, channels, queues
  uint32_t last_key = 100, last_number = 300;

  static bool local_is_sound(const Operation& one, const DcPair& pair);
  static int status_of(const Operation& one, const DcPair& pair);
  static std::byte* place_of(const Operation& one);
  void complete(DcPair& pair, const Operation& one);
  void land_late(const DcPair& pair);
};

namespace {

using State = Fabric::State;
Fabric& fabric() { return *the_fabric; }
State* state = nullptr;

std::unique_lock<std::recursive_mutex> locked() { return std::unique_lock(state->mutex); }

// The end of an object that others may not refer to any more.
template <class T>
int end(T* object, size_t children) {
  if (children != 0) ++fabric().lies;
  --state->others;
  delete object;
  return 0;
}

template <class T>
T* begin(T made) {
  if (fabric().is_gone) {
    errno = EIO;
    return nullptr;
  }
  ++state->others;
  return new T(std::move(made));
}

ibv_device** get_device_list(int* count) {
  const auto lock = locked();
  state->devices.clear();
  for (size_t i = 0; i < fabric().hosts.size() && !fabric().is_gone; ++i) {
    state->devices.push_back(std::make_unique<DcDevice>());
    state->devices.back()->host = i;
  }
  auto* const list = new ibv_device*[state->devices.size() + 1]();
  for (size_t i = 0; i < state->devices.size(); ++i) list[i] = state->devices[i].get();
  *count = static_cast<int>(state->devices.size());
  return list;
}
void free_device_list(ibv_device** list) { delete[] list; }
const Fabric::Host& host_of(const ibv_device* device) {
  return fabric().hosts[static_cast<const DcDevice*>(device)->host];
}
const Fabric::Host& host_of(const ibv_context* context) {
  return fabric().hosts[static_cast<const DcContext*>(context)->host];
}
const char* get_device_name(ibv_device* device) { return host_of(device).name.c_str(); }
bool is_supported(ibv_device* device) { return host_of(device).mlx5; }

ibv_context* open_device(ibv_device* device) {
  const auto lock = locked();
  DcContext made{};
  made.host = static_cast<DcDevice*>(device)->host;
  if (!host_of(device).opens) {
    errno = EBUSY;
    return nullptr;
  }
  ++fabric().devices_opened;
  return begin(made);
}
int close_device(ibv_context* context) {
  const auto lock = locked();
  auto* const one = static_cast<DcContext*>(context);
  return end(one, one->children);
}

int query_port(ibv_context* context, uint8_t, ibv_port_attr* into) {
  const auto lock = locked();
  ++fabric().ports_read;
  if (fabric().is_gone) return EIO;
  const Fabric::Host& host = host_of(context);
  into->state = host.active ? IBV_PORT_ACTIVE : IBV_PORT_DOWN;
  into->active_mtu = host.mtu;
  into->link_layer = host.ethernet ? IBV_LINK_LAYER_ETHERNET : IBV_LINK_LAYER_INFINIBAND;
  into->gid_tbl_len = static_cast<int>(host.addresses.size());
  into->pkey_tbl_len = static_cast<uint16_t>(host.partitions.size());
  into->lid = host.lid;
  into->lmc = host.lid_bits;
  into->flags = host.needs_gid ? IBV_QPF_GRH_REQUIRED : 0;
  return 0;
}
ssize_t query_gid_table(ibv_context* context, ibv_gid_entry* into, size_t entries_max) {
  const Fabric::Host& host = host_of(context);
  const size_t count = std::min(entries_max, host.addresses.size());
  for (size_t i = 0; i < count; ++i) {
    const rc::Gid gid = gid_of(host.addresses[i]);
    std::memcpy(into[i].gid.raw, gid.data(), gid.size());
    into[i].gid_index = static_cast<uint32_t>(i);
    into[i].port_num = 1;
    into[i].gid_type = IBV_GID_TYPE_ROCE_V2;
  }
  return static_cast<ssize_t>(count);
}
int query_pkey(ibv_context* context, uint8_t, int index, __be16* into) {
  const auto& table = host_of(context).partitions;
  if (static_cast<size_t>(index) >= table.size()) return EINVAL;
  *into = htons(table[static_cast<size_t>(index)]);
  return 0;
}

ibv_pd* alloc_pd(ibv_context* context) {
  const auto lock = locked();
  DcDomain made{};
  made.context = context;
  auto* const one = begin(made);
  if (one != nullptr) ++static_cast<DcContext*>(context)->children;
  return one;
}
int dealloc_pd(ibv_pd* domain) {
  const auto lock = locked();
  auto* const one = static_cast<DcDomain*>(domain);
  --static_cast<DcContext*>(one->context)->children;
  return end(one, one->children);
}

ibv_mr* reg_mr(ibv_pd* domain, void* memory, size_t size, int access) {
  const auto lock = locked();
  if (access != IBV_ACCESS_LOCAL_WRITE) ++fabric().lies;  // no client reaches the server's memory
  DcRegion made{};
  made.pd = domain;
  made.addr = memory;
  made.length = size;
  made.lkey = made.rkey = ++state->last_key;
  auto* const one = begin(made);
  if (one == nullptr) return nullptr;
  ++static_cast<DcDomain*>(domain)->children;
  state->regions.insert(one);
  fabric().regions_max = std::max(fabric().regions_max, state->regions.size());
  return one;
}
int dereg_mr(ibv_mr* region) {
  const auto lock = locked();
  auto* const one = static_cast<DcRegion*>(region);
  --static_cast<DcDomain*>(one->pd)->children;
  state->regions.erase(one);
  if (fabric().region_ended_in == std::thread::id()) fabric().region_ended_in = std::this_thread::get_id();
  return end(one, 0);
}

ibv_comp_channel* create_comp_channel(ibv_context* context) {
  const auto lock = locked();
  DcChannel made{};
  made.context = context;
  made.fd = eventfd(0, EFD_CLOEXEC);
  auto* const one = begin(made);
  if (one == nullptr) close(made.fd);
  if (one != nullptr) ++static_cast<DcContext*>(context)->children;
  return one;
}
int destroy_comp_channel(ibv_comp_channel* channel) {
  const auto lock = locked();
  auto* const one = static_cast<DcChannel*>(channel);
  --static_cast<DcContext*>(one->context)->children;
  close(one->fd);
  return end(one, one->children);
}

ibv_cq* create_cq(ibv_context*, int, void*, ibv_comp_channel* channel, int) {
  const auto lock = locked();
  DcQueue made{};
  made.events = static_cast<DcChannel*>(channel);
  auto* const one = begin(std::move(made));
  if (one != nullptr) ++one->events->children;
  return one;
}
int destroy_cq(ibv_cq* queue) {
  const auto lock = locked();
  auto* const one = static_cast<DcQueue*>(queue);
  --one->events->children;
  return end(one, one->children);
}
int get_cq_event(ibv_comp_channel* channel, ibv_cq** queue, void**) {
  uint64_t count = 0;
  *queue = nullptr;
  return read(channel->fd, &count, sizeof count) == sizeof count ? 0 : -1;
}
void ack_cq_events(ibv_cq*, unsigned) {}

void tell(DcQueue& queue) {
  if (!queue.armed || queue.done.empty()) return;
  queue.armed = false;
  const uint64_t count = 1;
  static_cast<void>(!write(queue.events->fd, &count, sizeof count));
}
// As hardware: only completions after it make an event.
int req_notify_cq(ibv_cq* queue, int) {
  const auto lock = locked();
  if (fabric().is_gone) return EIO;
  static_cast<DcQueue*>(queue)->armed = true;
  return 0;
}
int poll_cq(ibv_cq* queue, int entries, ibv_wc* into) {
  const auto lock = locked();
  auto& done = static_cast<DcQueue*>(queue)->done;
  int count = 0;
  for (; count < entries && !done.empty(); ++count) {
    into[count] = done.front();
    done.pop_front();
  }
  return count;
}

// The setters of a queue pair's operations.
void wr_start(ibv_qp_ex* pair) { pair_of(pair).building = {}; }
void wr_rdma_write(ibv_qp_ex* pair, uint32_t key, uint64_t address) {
  Operation& one = pair_of(pair).building;
  one.write = true;
  one.remote_key = key;
  one.remote = address;
  one.id = pair->wr_id;
  one.complete = (pair->wr_flags & IBV_SEND_SIGNALED) != 0;
}
void wr_rdma_read(ibv_qp_ex* pair, uint32_t key, uint64_t address) {
  wr_rdma_write(pair, key, address);
  pair_of(pair).building.write = false;
}
void wr_set_dc_addr(mlx5dv_qp_ex* pair, ibv_ah* path, uint32_t target, uint64_t key) {
  Operation& one = static_cast<DcMlx5*>(pair)->pair->building;
  one.path = path;
  one.target = target;
  one.key = key;
}
void wr_set_sge(ibv_qp_ex* pair, uint32_t key, uint64_t address, uint32_t size) {
  Operation& one = pair_of(pair).building;
  one.local_key = key;
  one.local = reinterpret_cast<std::byte*>(address);
  one.size = size;
}
int wr_complete(ibv_qp_ex* of) {
  const auto lock = locked();
  DcPair& pair = pair_of(of);
  Operation one = pair.building;
  if (fabric().is_gone) return EIO;
  if (fabric().post_error != 0) return fabric().post_error;
  if (pair.now != IBV_QPS_RTS || !one.complete || !state->paths.contains(one.path)) {
    ++fabric().lies;
    return EINVAL;
  }
  one.address = static_cast<DcHandle*>(one.path)->attr;
  if (fabric().holds) {
    state->held.push_back({&pair, one});
  } else {
    state->complete(pair, one);
  }
  return 0;
}

ibv_qp* create_qp(ibv_context* context, ibv_qp_init_attr_ex* attr, mlx5dv_qp_init_attr* mlx5) {
  const auto lock = locked();
  errno = fabric().is_gone ? EIO : fabric().make_error != 0 ? fabric().make_error : EOPNOTSUPP;
  if (fabric().is_gone || fabric().make_error != 0 || !host_of(context).has_dc) return nullptr;
  constexpr auto operations = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_READ;
  const bool sound = attr->qp_type == IBV_QPT_DRIVER && attr->srq == nullptr && attr->cap.max_recv_wr == 0 &&
                     attr->comp_mask == (IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) &&
                     (attr->send_ops_flags & operations) == operations &&
                     mlx5->comp_mask == MLX5DV_QP_INIT_ATTR_MASK_DC &&
                     mlx5->dc_init_attr.dc_type == MLX5DV_DCTYPE_DCI && attr->send_cq != nullptr;
  if (!sound) {
    ++fabric().lies;
    errno = EINVAL;
    return nullptr;
  }
  auto* const made = new DcPair{};
  made->qp_base.context = context;
  made->qp_base.qp_num = ++state->last_number;
  made->queue = static_cast<DcQueue*>(attr->send_cq);
  made->domain = static_cast<DcDomain*>(attr->pd);
  ++made->queue->children;
  ++made->domain->children;
  made->wr_start = wr_start;
  made->wr_rdma_write = wr_rdma_write;
  made->wr_rdma_read = wr_rdma_read;
  made->wr_set_sge = wr_set_sge;
  made->wr_complete = wr_complete;
  made->mlx5.wr_set_dc_addr = wr_set_dc_addr;
  made->mlx5.pair = made;
  state->pairs.insert(made);
  ++fabric().initiators_made;
  fabric().initiators_max = std::max(fabric().initiators_max, state->pairs.size());
  return &made->qp_base;
}
ibv_qp_ex* qp_to_qp_ex(ibv_qp* pair) { return &pair_of(pair); }
mlx5dv_qp_ex* qp_ex_from_ibv_qp_ex(ibv_qp_ex* pair) { return &pair_of(pair).mlx5; }

// The transitions and attributes that the kernel takes, and no others (modify_dci_qp_is_ok).
int modify_qp(ibv_qp* of, ibv_qp_attr* attr, int mask) {
  const auto lock = locked();
  if (fabric().is_gone) return EIO;
  DcPair& pair = pair_of(of);
  const Fabric::Host& host = host_of(of->context);
  const auto is = [&](ibv_qp_state from, ibv_qp_state to, int attributes) {
    return pair.now == from && attr->qp_state == to && mask == (IBV_QP_STATE | attributes);
  };
  const bool sound = (is(IBV_QPS_RESET, IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT) && attr->port_num == 1 &&
                      attr->pkey_index < host.partitions.size()) ||
                     (is(IBV_QPS_INIT, IBV_QPS_RTR, IBV_QP_PATH_MTU) && attr->path_mtu == host.mtu) ||
                     is(IBV_QPS_RTR, IBV_QPS_RTS,
                        IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_SQ_PSN);
  if (!sound) {
    ++fabric().lies;
    return EINVAL;
  }
  pair.now = attr->qp_state;
  return 0;
}
int destroy_qp(ibv_qp* of) {
  const auto lock = locked();
  DcPair* const pair = &pair_of(of);
  if (fabric().lands_late.count() != 0) state->land_late(*pair);
  std::erase_if(state->held, [&](const auto& one) { return one.pair == pair; });
  --pair->queue->children;
  --pair->domain->children;
  state->pairs.erase(pair);
  delete pair;
  return 0;
}

ibv_ah* create_ah(ibv_pd* domain, ibv_ah_attr* attr) {
  const auto lock = locked();
  ++fabric().paths_asked;
  errno = fabric().is_gone ? EIO : fabric().path_error;
  if (errno != 0) return nullptr;
  const Fabric::Host& host = host_of(domain->context);
  const bool sound = attr->port_num == 1 && (attr->is_global != 0 || !host.ethernet) &&
                     (attr->dlid != 0) != host.ethernet && attr->grh.sgid_index < host.addresses.size();
  if (!sound || (host.needs_gid && attr->is_global == 0)) ++fabric().lies;
  if (!host.ethernet && attr->is_global != 0) ++fabric().routed;
  auto* const made = new DcHandle{};
  made->pd = domain;
  made->attr = *attr;
  ++static_cast<DcDomain*>(domain)->children;
  ++fabric().paths_made;
  state->paths.insert(made);
  return made;
}
int destroy_ah(ibv_ah* path) {
  const auto lock = locked();
  --static_cast<DcDomain*>(path->pd)->children;
  state->paths.erase(path);
  delete static_cast<DcHandle*>(path);
  return 0;
}

}  // namespace

bool State::local_is_sound(const Operation& one, const DcPair& pair) {
  return std::ranges::any_of(state->regions, [&](const DcRegion* region) {
    const auto* const begin = static_cast<const std::byte*>(region->addr);
    return region->lkey == one.local_key && region->pd == pair.domain && one.local >= begin &&
           one.local + one.size <= begin + region->length;
  });
}

// Where it lands. Null: its client's device refuses it.
std::byte* State::place_of(const Operation& one) {
  const auto client = fabric().clients.find(one.target);
  if (client == fabric().clients.end() || one.key != client->second.key) return nullptr;
  const auto lent = client->second.lent.find(one.remote_key);
  if (lent == client->second.lent.end()) return nullptr;
  const uint64_t begin = reinterpret_cast<uintptr_t>(lent->second.memory.data()), size = lent->second.memory.size();
  const bool inside = one.remote >= begin && one.remote - begin <= size && one.size <= size - (one.remote - begin);
  if (!inside || !(one.write ? lent->second.writable : lent->second.readable)) return nullptr;
  return lent->second.memory.data() + (one.remote - begin);
}

// What was sent before has left the server's memory.
void State::land_late(const DcPair& pair) {
  for (const Held& one : held) {
    std::byte* const place = one.pair == &pair && one.operation.write ? place_of(one.operation) : nullptr;
    if (place == nullptr) continue;
    const std::vector<std::byte> sent(one.operation.local, one.operation.local + one.operation.size);
    late.emplace_back([sent, place, after = fabric().lands_late] {
      std::this_thread::sleep_for(after);
      std::memcpy(place, sent.data(), sent.size());
    });
  }
}

// As the device reports it. Bytes move if it is a success.
int State::status_of(const Operation& one, const DcPair& pair) {
  if (pair.now == IBV_QPS_ERR) return IBV_WC_WR_FLUSH_ERR;
  if (fabric().fail_status != 0) return fabric().fail_status;
  if (!local_is_sound(one, pair)) return IBV_WC_LOC_PROT_ERR;
  const auto found = fabric().clients.find(one.target);
  if (found == fabric().clients.end()) return IBV_WC_RETRY_EXC_ERR;
  const Fabric::Client& client = found->second;
  const rc::Gid gid = gid_of(client.address);
  const bool same_gid = std::memcmp(one.address.grh.dgid.raw, gid.data(), gid.size()) == 0;
  if (one.address.dlid != 0 ? one.address.dlid != client.lid : !same_gid) return IBV_WC_RETRY_EXC_ERR;
  std::byte* const place = place_of(one);
  if (place == nullptr) return IBV_WC_REM_ACCESS_ERR;
  if (one.write) std::memcpy(place, one.local, one.size);
  if (!one.write) std::memcpy(one.local, place, one.size);
  return IBV_WC_SUCCESS;
}

void State::complete(DcPair& pair, const Operation& one) {
  ibv_wc done{};
  done.wr_id = one.id;
  done.status = static_cast<ibv_wc_status>(status_of(one, pair));
  if (done.status != IBV_WC_SUCCESS) pair.now = IBV_QPS_ERR;
  pair.queue->done.push_back(done);
  tell(*pair.queue);
}

Fabric::Fabric() : state_(std::make_unique<State>()) {
  the_fabric = this;
  state = state_.get();
  state_->verbs = {get_device_list, free_device_list,     get_device_name,
                   open_device,     close_device,         {query_port, query_gid_table, query_pkey},
                   alloc_pd,        dealloc_pd,           reg_mr,
                   dereg_mr,        create_comp_channel,  destroy_comp_channel,
                   create_cq,       destroy_cq,           get_cq_event,
                   ack_cq_events,   req_notify_cq,        poll_cq,
                   modify_qp,       destroy_qp,           qp_to_qp_ex,
                   create_ah,       destroy_ah,           is_supported,
                   create_qp,       qp_ex_from_ibv_qp_ex, nullptr};
}

Fabric::~Fabric() {
  state_->late.clear();  // what was late has landed
  the_fabric = nullptr;
  state = nullptr;
}

const Verbs& Fabric::verbs() const { return state_->verbs; }

void Fabric::release() {
  const auto lock = locked();
  while (!state_->held.empty()) {
    const State::Held one = state_->held.front();
    state_->held.pop_front();
    if (!is_gone) state_->complete(*one.pair, one.operation);
  }
}

size_t Fabric::held() {
  const auto lock = locked();
  return state_->held.size();
}

size_t Fabric::initiators() {
  const auto lock = locked();
  return state_->pairs.size();
}

size_t Fabric::objects() {
  const auto lock = locked();
  return state_->others + state_->pairs.size() + state_->paths.size();
}

rc::Gid gid_of(const std::string& address) { return rc::test::Fabric::gid_of(address); }

std::string descriptor(uint64_t address, uint64_t size, uint32_t key, uint32_t target, const std::string& gid_address,
                       uint16_t lid) {
  const bool has_gid = !gid_address.empty();
  return fmt::format("{:016x}:{:08x}:{:08x}:{:04x}:{:06x}:{:d}:{}", address, size, key, lid, target, has_gid,
                     to_hex(has_gid ? gid_of(gid_address) : rc::Gid{}));
}

}  // namespace verbena::rdma::dc::test
