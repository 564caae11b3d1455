#include "fabric/ofi/domain.h"

#include <algorithm>

#include "fabric/ofi/gid.h"

namespace verbena::fabric::ofi {
namespace {

// Some drivers silently truncate a registration larger than their max_mr_size. Slices of a size that all devices take
// avoid that; no lease crosses one, since leases are at most 4 MiB and aligned to their size class.
constexpr size_t slice_size = 1 * GiB;
constexpr int key_attempts_max = 16;

uint64_t random_key() {
  uint64_t key = 0;
  fill_random(std::as_writable_bytes(std::span(&key, 1)));
  return key;
}

// 0 and the region, or libfabric's error. A random key may collide with one in use.
template <class Register>
int with_random_key(FidPtr<fid_mr>& region, Register try_register) {
  fid_mr* made = nullptr;
  int ret = -FI_ENOKEY;
  for (int i = 0; i < key_attempts_max && ret == -FI_ENOKEY; ++i) ret = try_register(random_key(), &made);
  if (ret == 0) region.reset(made);
  return ret;
}

}  // namespace

Result<std::unique_ptr<Domain>> Domain::open(InfoPtr info) {
  std::unique_ptr<Domain> self(new Domain(std::move(info)));
  fid_fabric* fabric = nullptr;
  if (const int ret = fi_fabric(self->info_->fabric_attr, &fabric, nullptr)) {
    return fi_fail(Errc::io_error, "fi_fabric", ret);
  }
  self->fabric_.reset(fabric);
  fid_domain* domain = nullptr;
  if (const int ret = fi_domain(fabric, self->info_.get(), &domain, nullptr)) {
    return fi_fail(Errc::io_error, "fi_domain", ret);
  }
  self->domain_.reset(domain);
  if (self->info_->domain_attr->name != nullptr) self->iwarp_ = is_iwarp(self->info_->domain_attr->name);
  return self;
}

Result<void> Domain::register_local(MutableBytes memory) {
  local_ = memory;
  if (!needs_local_registration()) return {};
  const uint64_t access = FI_SEND | FI_RECV | FI_WRITE | (iwarp_ ? 0 : FI_READ);
  for (size_t at = 0; at < memory.size(); at += slice_size) {
    const size_t size = std::min(slice_size, memory.size() - at);
    VB_ASSIGN(auto region, register_region(memory.subspan(at, size), access,
                                           "fi_mr_reg of local memory (is RLIMIT_MEMLOCK large enough?)"));
    slices_.push_back(std::move(region));
  }
  return {};
}

void* Domain::descriptor(const void* p, size_t& contiguous) const {
  contiguous = SIZE_MAX;
  if (slices_.empty()) return nullptr;
  const size_t at = static_cast<size_t>(static_cast<const std::byte*>(p) - local_.data());
  contiguous = slice_size - at % slice_size;
  return fi_mr_desc(slices_[at / slice_size].get());
}

Result<FidPtr<fid_mr>> Domain::register_region(MutableBytes memory, uint64_t access, const char* failure) {
  FidPtr<fid_mr> region;
  const int ret = with_random_key(region, [&](uint64_t key, fid_mr** made) {
    return fi_mr_reg(domain_.get(), memory.data(), memory.size(), access, 0, key, 0, made, nullptr);
  });
  if (ret != 0) return fi_fail(Errc::io_error, failure, ret);
  return region;
}

Result<FidPtr<fid_mr>> Domain::register_landing(MutableBytes memory) {
  return register_region(memory, FI_READ, "fi_mr_reg of the memory that a read lands in");
}

Result<Domain::Remote> Domain::register_remote(MutableBytes memory, uint64_t access) {
  VB_ASSIGN(auto region, register_region(memory, access, "fi_mr_reg of a window"));
  return lent(std::move(region), reinterpret_cast<uint64_t>(memory.data()));
}

Result<Domain::Remote> Domain::lent(FidPtr<fid_mr> region, uint64_t address) const {
  Remote remote{.region = std::move(region)};
  remote.key = fi_mr_key(remote.region.get());
  if (remote.key == FI_KEY_NOTAVAIL) return fail(Errc::unsupported, "provider keys are longer than 8 bytes");
  const bool virtual_addresses = (info_->domain_attr->mr_mode & FI_MR_VIRT_ADDR) != 0;
  remote.base = virtual_addresses ? address : 0;
  return remote;
}

// As a dma-buf, else by its address. A libfabric that was built without CUDA or ROCm (Debian's, and that of ./dev
// setup) knows none of their memory. verbs needs to know nothing: the device reads and writes, and libfabric never
// copies. efa copies what the device cannot do, so there it must know.
Result<Domain::Remote> Domain::register_device(const PeerLoan& memory, uint64_t access) {
  if (!reaches_devices()) return fail(Errc::unsupported, "the provider registers no memory of devices");
  fi_mr_dmabuf dma_buf{};
  dma_buf.fd = memory.descriptor;
  dma_buf.offset = memory.address - memory.begin;
  dma_buf.len = memory.size;
  dma_buf.base_addr = reinterpret_cast<void*>(static_cast<uintptr_t>(memory.begin));
  const iovec place{reinterpret_cast<void*>(static_cast<uintptr_t>(memory.address)), memory.size};
  fi_mr_attr attr{};
  attr.iov_count = 1;
  attr.access = access;
  FidPtr<fid_mr> region;
  const auto once = [&](uint64_t flags) {
    return with_random_key(region, [&](uint64_t key, fid_mr** made) {
      attr.requested_key = key;
      return fi_mr_regattr(domain_.get(), &attr, flags, made);
    });
  };
  const auto as = [&](uint64_t flags) {
    attr.iface = memory.maker == DeviceMaker::amd ? FI_HMEM_ROCR : FI_HMEM_CUDA;
    attr.device.reserved = 0;
    if (memory.maker == DeviceMaker::nvidia) attr.device.cuda = memory.device;
    const int ret = once(flags);
    if (ret != -FI_ENOSYS || !provider().starts_with("verbs")) return ret;
    attr.iface = FI_HMEM_SYSTEM;
    attr.device.reserved = 0;
    return once(flags);
  };
  int ret = -FI_ENOSYS;
  if (memory.descriptor >= 0) {
    attr.dmabuf = &dma_buf;
    ret = as(FI_MR_DMABUF);
  }
  if (ret != 0 && memory.by_address) {
    attr.mr_iov = &place;
    ret = as(0);
  }
  if (ret != 0) return fi_fail(Errc::unsupported, "fi_mr_regattr of a GPU's memory", ret);
  return lent(std::move(region), memory.address);
}

Result<FidPtr<fid_av>> open_address_vector(const Domain& domain, size_t count) {
  fi_av_attr attr{};
  attr.type = domain.info().domain_attr->av_type == FI_AV_UNSPEC ? FI_AV_TABLE : domain.info().domain_attr->av_type;
  attr.count = count;
  fid_av* av = nullptr;
  if (const int ret = fi_av_open(domain.domain(), &attr, &av, nullptr)) {
    return fi_fail(Errc::io_error, "fi_av_open", ret);
  }
  return FidPtr<fid_av>(av);
}

Result<FidPtr<fid_cq>> open_completion_queue(const Domain& domain, size_t size, fi_cq_format format, bool with_wait) {
  int ret = 0;
  for (const auto wait : {FI_WAIT_FD, FI_WAIT_NONE}) {
    if (wait == FI_WAIT_FD && !with_wait) continue;
    fi_cq_attr attr{};
    attr.size = size;
    attr.format = format;
    attr.wait_obj = wait;
    fid_cq* cq = nullptr;
    ret = fi_cq_open(domain.domain(), &attr, &cq, nullptr);
    if (ret == 0) return FidPtr<fid_cq>(cq);
  }
  return fi_fail(Errc::io_error, "fi_cq_open", ret);
}

Result<std::string> endpoint_name(fid_ep* endpoint) {
  char name[512];
  size_t size = sizeof name;
  if (const int ret = fi_getname(&endpoint->fid, name, &size)) return fi_fail(Errc::io_error, "fi_getname", ret);
  return std::string(name, size);
}

int wait_descriptor(fid_cq* queue) {
  int fd = -1;
  return fi_control(&queue->fid, FI_GETWAIT, &fd) == 0 ? fd : -1;
}

}  // namespace verbena::fabric::ofi
