// A double of libfabric's verbs provider on a machine without an RDMA device: libfabric's own tcp moves the bytes under
// its name. Loaded before libfabric, it stands before two of its functions, and, in the tables of operations of what
// they return, before the registration of memory. It maps a dma-buf's descriptor and registers that mapping: so bytes
// reach the memory of the driver double as they would a GPU's, and not through the window's own addresses.
#include "nic.h"

#include <dlfcn.h>
#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string_view>

namespace {

constexpr const char* shown = "verbs;ofi_rxm";
constexpr const char* real_name = "tcp";

std::atomic<bool> offers{true}, knows_devices{false};
std::atomic<int> refusal{0};
std::atomic<unsigned> dma_bufs{0}, by_address{0}, registered{0};

// What was replaced, by the object that had it. All objects of a kind have the same table, and here the same other one.
struct Replaced {
  fi_ops_fabric* fabric = nullptr;
  fi_ops_domain* domain = nullptr;
  fi_ops_mr* mr = nullptr;
  fi_ops* fid = nullptr;
  void* mapped = nullptr;
  size_t mapped_size = 0;
};
std::mutex mutex;
std::map<const void*, Replaced>& replaced() {
  static auto* const all = new std::map<const void*, Replaced>;
  return *all;
}
Replaced of(const void* object) {
  const std::lock_guard lock(mutex);
  return replaced()[object];
}
void keep(const void* object, const Replaced& what) {
  const std::lock_guard lock(mutex);
  replaced()[object] = what;
}

template <class Fn>
Fn* next(const char* name) {
  return reinterpret_cast<Fn*>(::dlsym(RTLD_NEXT, name));
}

void rename(char*& name, const char* to) {
  std::free(name);
  name = ::strdup(to);
}

// As tcp knows it. The caller frees it.
fi_info* plain(const fi_info* info) {
  fi_info* const copy = ::fi_dupinfo(info);
  if (copy == nullptr) return nullptr;
  if (copy->fabric_attr->prov_name != nullptr) rename(copy->fabric_attr->prov_name, real_name);
  copy->caps &= ~FI_HMEM;
  copy->tx_attr->caps &= ~FI_HMEM;
  copy->rx_attr->caps &= ~FI_HMEM;
  copy->domain_attr->caps &= ~FI_HMEM;
  copy->domain_attr->mr_mode &= ~FI_MR_HMEM;
  return copy;
}

int close_region(fid* region) {
  const Replaced was = of(region);
  const int ret = was.fid->close(region);
  if (ret != 0) return ret;
  if (was.mapped != nullptr) ::munmap(was.mapped, was.mapped_size);
  --registered;
  return 0;
}

// Registers these bytes as memory at the device's `address`.
int add_region(fid* domain, const fi_mr_attr* attr, std::byte* bytes, size_t size, uint64_t address, Replaced kept,
               fid_mr** mr) {
  const iovec place{bytes, size};
  fi_mr_attr host{};
  host.mr_iov = &place;
  host.iov_count = 1;
  host.access = attr->access;
  host.requested_key = attr->requested_key;
  host.offset = reinterpret_cast<uint64_t>(bytes) - address;  // from a peer's addresses to those here
  const int ret = of(domain).mr->regattr(domain, &host, 0, mr);
  if (ret != 0) {
    if (kept.mapped != nullptr) ::munmap(kept.mapped, kept.mapped_size);
    return ret;
  }
  kept.fid = (*mr)->fid.ops;
  keep(&(*mr)->fid, kept);
  static fi_ops ops = *kept.fid;
  ops.close = close_region;
  (*mr)->fid.ops = &ops;
  ++registered;
  return 0;
}

int add_dma_buf(fid* domain, const fi_mr_attr* attr, fid_mr** mr) {
  if (refusal != 0) return -refusal;
  const fi_mr_dmabuf& given = *attr->dmabuf;
  const off_t first = ::lseek(given.fd, 0, SEEK_CUR);
  if (first < 0) return -FI_EBADF;
  const auto page = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  const uint64_t at = static_cast<uint64_t>(first) + given.offset, inside = at % page;
  Replaced kept;
  kept.mapped_size = given.len + inside;
  kept.mapped =
      ::mmap(nullptr, kept.mapped_size, PROT_READ | PROT_WRITE, MAP_SHARED, given.fd, static_cast<off_t>(at - inside));
  if (kept.mapped == MAP_FAILED) return -FI_EFAULT;
  const uint64_t address = reinterpret_cast<uint64_t>(given.base_addr) + given.offset;
  const int ret = add_region(domain, attr, static_cast<std::byte*>(kept.mapped) + inside, given.len, address, kept, mr);
  if (ret == 0) ++dma_bufs;
  return ret;
}

// As the kernel with NVIDIA's module: the driver finds the memory.
int add_by_address(fid* domain, const fi_mr_attr* attr, fid_mr** mr) {
  using Find = void*(uint64_t, size_t);
  auto* const find = reinterpret_cast<Find*>(::dlsym(RTLD_DEFAULT, "double_peer_bytes"));
  const char* const module = std::getenv("TEST_VERBENA_PEER_MODULE");
  const auto address = reinterpret_cast<uint64_t>(attr->mr_iov->iov_base);
  void* const bytes = find == nullptr ? nullptr : find(address, attr->mr_iov->iov_len);
  if (bytes == nullptr || module == nullptr || *module != '1') return -FI_EFAULT;
  const int ret = add_region(domain, attr, static_cast<std::byte*>(bytes), attr->mr_iov->iov_len, address, {}, mr);
  if (ret == 0) ++by_address;
  return ret;
}

// Whether that is the memory of the driver double (double.h), where its functions can be found: a program may have
// loaded it for itself.
bool is_its_memory(fi_hmem_iface iface) {
  using Platform = int();
  auto* const platform = reinterpret_cast<Platform*>(::dlsym(RTLD_DEFAULT, "double_platform"));
  return platform == nullptr || iface == (platform() == 2 ? FI_HMEM_ROCR : FI_HMEM_CUDA);
}

int regattr(fid* domain, const fi_mr_attr* attr, uint64_t flags, fid_mr** mr) {
  if (attr->iface != FI_HMEM_SYSTEM && !is_its_memory(attr->iface)) return -FI_EINVAL;
  if (attr->iface != FI_HMEM_SYSTEM && !knows_devices) return -FI_ENOSYS;
  return (flags & FI_MR_DMABUF) != 0 ? add_dma_buf(domain, attr, mr) : add_by_address(domain, attr, mr);
}

int open_endpoint(fid_domain* domain, fi_info* info, fid_ep** endpoint, void* context) {
  fi_info* const known = plain(info);
  const int ret = of(domain).domain->endpoint(domain, known, endpoint, context);
  ::fi_freeinfo(known);
  return ret;
}

int open_domain(fid_fabric* fabric, fi_info* info, fid_domain** domain, void* context) {
  fi_info* const known = plain(info);
  const int ret = of(fabric).fabric->domain(fabric, known, domain, context);
  ::fi_freeinfo(known);
  if (ret != 0) return ret;
  fid_domain* const made = *domain;
  keep(made, {.domain = made->ops, .mr = made->mr});
  static fi_ops_domain ops = *made->ops;
  ops.endpoint = open_endpoint;
  made->ops = &ops;
  static fi_ops_mr mr = *made->mr;
  mr.regattr = regattr;
  made->mr = &mr;
  return 0;
}

bool is_shown(const char* name) { return name != nullptr && std::string_view(name) == shown; }

}  // namespace

extern "C" {

int fi_getinfo(uint32_t version, const char* node, const char* service, uint64_t flags, const fi_info* hints,
               fi_info** info) {
  auto* const real = next<decltype(fi_getinfo)>("fi_getinfo");
  if (hints == nullptr || hints->fabric_attr == nullptr || !is_shown(hints->fabric_attr->prov_name)) {
    return real(version, node, service, flags, hints, info);
  }
  const bool devices = (hints->caps & FI_HMEM) != 0;
  if (devices && !offers) return -FI_ENODATA;
  fi_info* const known = plain(hints);
  const int ret = real(version, node, service, flags, known, info);
  ::fi_freeinfo(known);
  for (fi_info* one = ret == 0 ? *info : nullptr; one != nullptr; one = one->next) {
    if (std::string_view(one->fabric_attr->prov_name) != real_name) continue;
    rename(one->fabric_attr->prov_name, shown);
    one->domain_attr->mr_mode |= FI_MR_VIRT_ADDR;
    if (!devices) continue;
    one->caps |= FI_HMEM;
    one->domain_attr->mr_mode |= FI_MR_HMEM;
  }
  return ret;
}

int fi_fabric(fi_fabric_attr* attr, fid_fabric** fabric, void* context) {
  auto* const real = next<decltype(fi_fabric)>("fi_fabric");
  if (!is_shown(attr->prov_name)) return real(attr, fabric, context);
  fi_fabric_attr known = *attr;
  known.prov_name = ::strdup(real_name);
  const int ret = real(&known, fabric, context);
  std::free(known.prov_name);
  if (ret != 0) return ret;
  keep(*fabric, {.fabric = (*fabric)->ops});
  static fi_ops_fabric ops = *(*fabric)->ops;
  ops.domain = open_domain;
  (*fabric)->ops = &ops;
  return 0;
}

void nic_offers_device_memory(bool offered) { offers = offered; }
void nic_knows_devices(bool knows) { knows_devices = knows; }
void nic_refuses(int error) { refusal = error; }
unsigned nic_dma_bufs() { return dma_bufs; }
unsigned nic_by_address() { return by_address; }
unsigned nic_registered() { return registered; }
}
