// A double of an RDMA device between processes of one host, for LD_PRELOAD: reliable connections, regions, WRITE, READ
// and WRITE with an immediate value, by process_vm_writev(2) and process_vm_readv(2). $VERBS_DOUBLE: the file that its
// users share. Operations complete while they are posted, or fail as a device's do.
#include <infiniband/verbs.h>

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#undef ibv_get_device_list
#undef ibv_query_port
#undef ibv_reg_mr
#define EXPORTED extern "C" __attribute__((visibility("default")))

namespace {

constexpr uint32_t table_magic = 0x76646231;
constexpr size_t pairs_max = 2048, regions_max = 4096, queue_max = 16;
constexpr int patience_ms = 500;  // for a peer that has not connected yet: a device sends again as long

struct Arrival {
  uint64_t id = 0;
  uint32_t status = 0, immediate = 0, bytes = 0;
};

// A queue of a size that is known, in memory that processes share.
template <class T>
struct Queue {
  T items[queue_max];
  uint32_t count = 0;
  bool add(const T& one) {
    if (count == queue_max) return false;
    items[count++] = one;
    return true;
  }
  T take() {
    const T first = items[0];
    std::copy(items + 1, items + count, items);
    --count;
    return first;
  }
};

struct SharedPair {
  uint32_t number = 0;  // 0: free
  int process = 0;
  uint64_t domain = 0;
  uint32_t state = 0, access = 0, peer = 0, expected = 0, own = 0;  // the two packet sequence numbers
  uint64_t channel = 0;                                             // 0: none
  Queue<uint64_t> receives;
  Queue<Arrival> arrivals;
};

struct SharedRegion {
  uint32_t key = 0;  // 0: free
  int process = 0;
  uint64_t domain = 0, address = 0, size = 0;
  uint32_t access = 0;
};

struct Table {
  uint32_t magic = 0;
  pthread_mutex_t mutex;
  uint32_t last_number = 0x100, last_key = 0x1000;
  uint64_t last_id = 0;
  SharedPair pairs[pairs_max];
  SharedRegion regions[regions_max];
};

std::string table_path() {
  const char* const path = getenv("VERBS_DOUBLE");
  return path != nullptr ? path : "";
}

Table* open_table() {
  const int file = open(table_path().c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (file < 0 || flock(file, LOCK_EX) != 0 || ftruncate(file, sizeof(Table)) != 0) return nullptr;
  void* const mapped = mmap(nullptr, sizeof(Table), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  auto* const table = mapped == MAP_FAILED ? nullptr : static_cast<Table*>(mapped);
  if (table != nullptr && table->magic != table_magic) {
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&table->mutex, &attributes);
    table->last_number = 0x100;
    table->last_key = 0x1000;
    table->magic = table_magic;
  }
  flock(file, LOCK_UN);  // the mapping keeps what the descriptor locks
  close(file);
  return table;
}

Table& table() {
  static Table* const opened = open_table();
  if (opened == nullptr) abort();
  return *opened;
}

class Locked {
 public:
  Locked() {
    if (pthread_mutex_lock(&table().mutex) == EOWNERDEAD) pthread_mutex_consistent(&table().mutex);
  }
  ~Locked() { pthread_mutex_unlock(&table().mutex); }
  Locked(const Locked&) = delete;
};

struct Device {
  ibv_device base{};
};
struct Domain {
  ibv_pd base{};
  uint64_t id = 0;
};
struct Region {
  ibv_mr base{};
  SharedRegion* shared = nullptr;
};
struct Channel {
  ibv_comp_channel base{};
  uint64_t id = 0;
  ibv_cq* queue = nullptr;
};
struct Pair {
  ibv_qp base{};
  SharedPair* shared = nullptr;
};
struct CompletionQueue {
  ibv_cq base{};
  std::mutex mutex;
  std::deque<ibv_wc> done;
  std::vector<Pair*> pairs;
};

Device the_device;

std::string channel_path(uint64_t id) { return table_path() + ".channel" + std::to_string(id); }

void wake(uint64_t channel) {
  if (channel == 0) return;
  const int file = open(channel_path(channel).c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC);
  if (file < 0) return;
  static_cast<void>(!write(file, "", 1));
  close(file);
}

SharedPair* find_pair(uint32_t number) {
  auto& all = table().pairs;
  const auto found = std::find_if(all, all + pairs_max, [&](const SharedPair& one) { return one.number == number; });
  return found == all + pairs_max ? nullptr : found;
}

SharedRegion* find_region(uint32_t key) {
  auto& all = table().regions;
  const auto found = std::find_if(all, all + regions_max, [&](const SharedRegion& one) { return one.key == key; });
  return found == all + regions_max ? nullptr : found;
}

void break_pair(SharedPair& pair) {
  if (pair.state == IBV_QPS_ERR) return;
  pair.state = IBV_QPS_ERR;
  while (pair.receives.count > 0) pair.arrivals.add({.id = pair.receives.take(), .status = IBV_WC_WR_FLUSH_ERR});
  wake(pair.channel);
}

bool lies_in(const SharedRegion& region, uint64_t address, uint64_t size) {
  return address >= region.address && address - region.address <= region.size &&
         size <= region.size - (address - region.address);
}

bool move_bytes(int process, uint64_t there, const ibv_sge& here, bool write) {
  for (uint64_t done = 0; done < here.length;) {
    iovec local{reinterpret_cast<void*>(here.addr + done), here.length - done};
    iovec remote{reinterpret_cast<void*>(there + done), here.length - done};
    const ssize_t moved = write ? process_vm_writev(process, &local, 1, &remote, 1, 0)
                                : process_vm_readv(process, &local, 1, &remote, 1, 0);
    if (moved <= 0) return false;
    done += static_cast<uint64_t>(moved);
  }
  return true;
}

// What ends an operation at the side that began it, and breaks both ends.
ibv_wc_status run_connected(SharedPair& own, SharedPair& peer, const ibv_send_wr& request) {
  const ibv_sge& here = request.sg_list[0];
  const SharedRegion* const local = find_region(here.lkey);
  const bool reads = request.opcode == IBV_WR_RDMA_READ;
  if (local == nullptr || local->process != getpid() || !lies_in(*local, here.addr, here.length)) {
    return IBV_WC_LOC_PROT_ERR;
  }
  const uint32_t right = reads ? IBV_ACCESS_REMOTE_READ : IBV_ACCESS_REMOTE_WRITE;
  const SharedRegion* const remote = find_region(request.wr.rdma.rkey);
  const uint64_t there = request.wr.rdma.remote_addr;
  const bool allowed = remote != nullptr && remote->process == peer.process && remote->domain == peer.domain &&
                       (remote->access & peer.access & right) != 0 && lies_in(*remote, there, here.length);
  if (!allowed) return reads && (peer.access & right) == 0 ? IBV_WC_REM_INV_REQ_ERR : IBV_WC_REM_ACCESS_ERR;
  const bool tells = request.opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
  if (tells && peer.receives.count == 0) return IBV_WC_RNR_RETRY_EXC_ERR;
  if (!move_bytes(peer.process, there, here, !reads)) return IBV_WC_RETRY_EXC_ERR;
  if (tells) {
    peer.arrivals.add({peer.receives.take(), IBV_WC_SUCCESS, request.imm_data, here.length});
    wake(peer.channel);
  }
  static_cast<void>(own);
  return IBV_WC_SUCCESS;
}

ibv_wc_status run_operation(SharedPair& own, const ibv_send_wr& request) {
  for (int waited = 0; waited < patience_ms; ++waited) {
    {
      const Locked lock;
      if (own.state != IBV_QPS_RTS) return IBV_WC_WR_FLUSH_ERR;
      SharedPair* const peer = find_pair(own.peer);
      if (peer == nullptr || peer->state == IBV_QPS_ERR || kill(peer->process, 0) != 0) break;
      if (peer->state >= IBV_QPS_RTR) {
        if (peer->peer != own.number || peer->expected != own.own) break;
        const ibv_wc_status status = run_connected(own, *peer, request);
        if (status != IBV_WC_SUCCESS && status != IBV_WC_LOC_PROT_ERR) break_pair(*peer);
        if (status != IBV_WC_SUCCESS) break_pair(own);
        return status;
      }
    }
    usleep(1000);
  }
  const Locked lock;
  break_pair(own);
  return IBV_WC_RETRY_EXC_ERR;
}

Pair* pair_of(ibv_qp* pair) { return reinterpret_cast<Pair*>(pair); }
CompletionQueue* queue_of(ibv_cq* queue) { return reinterpret_cast<CompletionQueue*>(queue); }

int post_send(ibv_qp* base, ibv_send_wr* request, ibv_send_wr** bad) {
  SharedPair& own = *pair_of(base)->shared;
  for (; request != nullptr; request = request->next) {
    if (request->num_sge != 1 || own.state < IBV_QPS_RTS) {
      *bad = request;
      return EINVAL;
    }
    ibv_wc done{};
    done.wr_id = request->wr_id;
    done.status = run_operation(own, *request);
    done.opcode = request->opcode == IBV_WR_RDMA_READ ? IBV_WC_RDMA_READ : IBV_WC_RDMA_WRITE;
    done.qp_num = base->qp_num;
    CompletionQueue& queue = *queue_of(base->send_cq);
    const std::lock_guard lock(queue.mutex);
    queue.done.push_back(done);
    wake(own.channel);
  }
  return 0;
}

int post_recv(ibv_qp* base, ibv_recv_wr* request, ibv_recv_wr** bad) {
  const Locked lock;
  for (; request != nullptr; request = request->next) {
    if (pair_of(base)->shared->receives.add(request->wr_id)) continue;
    *bad = request;
    return ENOMEM;
  }
  return 0;
}

int poll_cq(ibv_cq* base, int wanted, ibv_wc* into) {
  CompletionQueue& queue = *queue_of(base);
  const std::lock_guard lock(queue.mutex);
  {
    const Locked shared;
    for (Pair* const pair : queue.pairs) {
      while (pair->shared->arrivals.count > 0) {
        const Arrival one = pair->shared->arrivals.take();
        ibv_wc done{};
        done.wr_id = one.id;
        done.status = static_cast<ibv_wc_status>(one.status);
        done.opcode = IBV_WC_RECV_RDMA_WITH_IMM;
        done.imm_data = one.immediate;
        done.byte_len = one.bytes;
        done.qp_num = pair->base.qp_num;
        queue.done.push_back(done);
      }
    }
  }
  int count = 0;
  for (; count < wanted && !queue.done.empty(); ++count) {
    into[count] = queue.done.front();
    queue.done.pop_front();
  }
  return count;
}

// Wakes that come before it was armed are kept.
int req_notify_cq(ibv_cq*, int) { return 0; }

}  // namespace

EXPORTED ibv_device** ibv_get_device_list(int* count) {
  auto** const list = static_cast<ibv_device**>(calloc(2, sizeof(ibv_device*)));
  strncpy(the_device.base.name, "double0", sizeof the_device.base.name - 1);
  list[0] = &the_device.base;
  if (count != nullptr) *count = 1;
  return list;
}
EXPORTED void ibv_free_device_list(ibv_device** list) { free(list); }
EXPORTED const char* ibv_get_device_name(ibv_device* device) { return device->name; }

EXPORTED ibv_context* ibv_open_device(ibv_device* device) {
  auto* const context = new ibv_context{};
  context->device = device;
  context->ops.poll_cq = poll_cq;
  context->ops.req_notify_cq = req_notify_cq;
  context->ops.post_send = post_send;
  context->ops.post_recv = post_recv;
  return context;
}
EXPORTED int ibv_close_device(ibv_context* context) {
  delete context;
  return 0;
}

EXPORTED int ibv_query_port(ibv_context*, uint8_t, _compat_ibv_port_attr* into) {
  auto& port = *reinterpret_cast<ibv_port_attr*>(into);
  port.state = IBV_PORT_ACTIVE;
  port.active_mtu = IBV_MTU_1024;
  port.gid_tbl_len = 1;
  return 0;
}

// ::ffff:127.0.0.1
EXPORTED ssize_t _ibv_query_gid_table(ibv_context*, ibv_gid_entry* entries, size_t, uint32_t, size_t) {
  entries[0] = {};
  const uint8_t raw[16] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127, 0, 0, 1};
  memcpy(entries[0].gid.raw, raw, sizeof raw);
  entries[0].port_num = 1;
  entries[0].gid_type = IBV_GID_TYPE_ROCE_V2;
  return 1;
}

EXPORTED ibv_pd* ibv_alloc_pd(ibv_context* context) {
  auto* const domain = new Domain;
  domain->base.context = context;
  const Locked lock;
  domain->id = ++table().last_id;
  return &domain->base;
}
EXPORTED int ibv_dealloc_pd(ibv_pd* domain) {
  delete reinterpret_cast<Domain*>(domain);
  return 0;
}

EXPORTED ibv_mr* ibv_reg_mr(ibv_pd* domain, void* memory, size_t size, int access) {
  const Locked lock;
  SharedRegion* const shared = find_region(0);
  if (shared == nullptr) {
    errno = ENOMEM;
    return nullptr;
  }
  *shared = {++table().last_key,
             getpid(),
             reinterpret_cast<Domain*>(domain)->id,
             reinterpret_cast<uint64_t>(memory),
             size,
             static_cast<uint32_t>(access)};
  auto* const region = new Region;
  region->base.context = domain->context;
  region->base.pd = domain;
  region->base.addr = memory;
  region->base.length = size;
  region->base.lkey = region->base.rkey = shared->key;
  region->shared = shared;
  return &region->base;
}
EXPORTED ibv_mr* ibv_reg_mr_iova2(ibv_pd* domain, void* memory, size_t size, uint64_t, unsigned access) {
  return ibv_reg_mr(domain, memory, size, static_cast<int>(access));
}
EXPORTED int ibv_dereg_mr(ibv_mr* base) {
  auto* const region = reinterpret_cast<Region*>(base);
  const Locked lock;
  *region->shared = {};
  delete region;
  return 0;
}

EXPORTED ibv_comp_channel* ibv_create_comp_channel(ibv_context* context) {
  auto* const channel = new Channel;
  channel->base.context = context;
  {
    const Locked lock;
    channel->id = ++table().last_id;
  }
  const std::string path = channel_path(channel->id);
  if (mkfifo(path.c_str(), 0600) != 0) abort();
  channel->base.fd = open(path.c_str(), O_RDWR | O_CLOEXEC);
  return &channel->base;
}
EXPORTED int ibv_destroy_comp_channel(ibv_comp_channel* base) {
  auto* const channel = reinterpret_cast<Channel*>(base);
  close(channel->base.fd);
  unlink(channel_path(channel->id).c_str());
  delete channel;
  return 0;
}
EXPORTED int ibv_get_cq_event(ibv_comp_channel* channel, ibv_cq** queue, void** context) {
  char byte = 0;
  if (read(channel->fd, &byte, 1) != 1) return -1;
  *queue = reinterpret_cast<Channel*>(channel)->queue;
  *context = nullptr;
  return 0;
}
EXPORTED void ibv_ack_cq_events(ibv_cq*, unsigned) {}

EXPORTED ibv_cq* ibv_create_cq(ibv_context* context, int, void*, ibv_comp_channel* channel, int) {
  auto* const queue = new CompletionQueue;
  queue->base.context = context;
  queue->base.channel = channel;
  if (channel != nullptr) reinterpret_cast<Channel*>(channel)->queue = &queue->base;
  return &queue->base;
}
EXPORTED int ibv_destroy_cq(ibv_cq* base) {
  delete queue_of(base);
  return 0;
}

EXPORTED ibv_qp* ibv_create_qp(ibv_pd* domain, ibv_qp_init_attr* wanted) {
  CompletionQueue& queue = *queue_of(wanted->recv_cq);
  const std::lock_guard queue_lock(queue.mutex);
  const Locked lock;
  SharedPair* const shared = find_pair(0);
  if (shared == nullptr) {
    errno = ENOMEM;
    return nullptr;
  }
  *shared = {};
  shared->number = ++table().last_number;
  shared->process = getpid();
  shared->domain = reinterpret_cast<Domain*>(domain)->id;
  const auto* const channel = reinterpret_cast<Channel*>(queue.base.channel);
  shared->channel = channel != nullptr ? channel->id : 0;
  auto* const pair = new Pair;
  pair->base.context = domain->context;
  pair->base.pd = domain;
  pair->base.send_cq = wanted->send_cq;
  pair->base.recv_cq = wanted->recv_cq;
  pair->base.qp_num = shared->number;
  pair->base.qp_type = wanted->qp_type;
  pair->shared = shared;
  queue.pairs.push_back(pair);
  return &pair->base;
}

EXPORTED int ibv_modify_qp(ibv_qp* base, ibv_qp_attr* to, int mask) {
  const Locked lock;
  SharedPair& pair = *pair_of(base)->shared;
  if ((mask & IBV_QP_STATE) == 0 || pair.state == IBV_QPS_ERR) return EINVAL;
  if (mask & IBV_QP_ACCESS_FLAGS) pair.access = to->qp_access_flags;
  if (mask & IBV_QP_DEST_QPN) pair.peer = to->dest_qp_num;
  if (mask & IBV_QP_RQ_PSN) pair.expected = to->rq_psn;
  if (mask & IBV_QP_SQ_PSN) pair.own = to->sq_psn;
  pair.state = to->qp_state;
  return 0;
}

EXPORTED int ibv_destroy_qp(ibv_qp* base) {
  Pair* const pair = pair_of(base);
  CompletionQueue& queue = *queue_of(base->recv_cq);
  const std::lock_guard queue_lock(queue.mutex);
  std::erase(queue.pairs, pair);
  const Locked lock;
  *pair->shared = {};
  delete pair;
  return 0;
}
