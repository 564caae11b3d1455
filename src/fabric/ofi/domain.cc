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
  fid_mr* region = nullptr;
  int ret = -FI_ENOKEY;
  // A random key may collide with one in use.
  for (int i = 0; i < key_attempts_max && ret == -FI_ENOKEY; ++i) {
    ret = fi_mr_reg(domain_.get(), memory.data(), memory.size(), access, 0, random_key(), 0, &region, nullptr);
  }
  if (ret != 0) return fi_fail(Errc::io_error, failure, ret);
  return FidPtr<fid_mr>(region);
}

Result<FidPtr<fid_mr>> Domain::register_landing(MutableBytes memory) {
  return register_region(memory, FI_READ, "fi_mr_reg of the memory that a read lands in");
}

Result<Domain::Remote> Domain::register_remote(MutableBytes memory, uint64_t access) {
  Remote remote;
  VB_ASSIGN(remote.region, register_region(memory, access, "fi_mr_reg of a window"));
  remote.key = fi_mr_key(remote.region.get());
  if (remote.key == FI_KEY_NOTAVAIL) return fail(Errc::unsupported, "provider keys are longer than 8 bytes");
  const bool virtual_addresses = (info_->domain_attr->mr_mode & FI_MR_VIRT_ADDR) != 0;
  remote.base = virtual_addresses ? reinterpret_cast<uint64_t>(memory.data()) : 0;
  return remote;
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
