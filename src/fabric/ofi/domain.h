// A domain and its registrations. One per core on the server, one per Link on the client; FI_THREAD_DOMAIN: all of a
// domain is used by one thread at a time.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "fabric/device.h"
#include "fabric/ofi/fid.h"
#include "fabric/ofi/provider.h"

namespace verbena::fabric::ofi {

class Domain {
 public:
  static Result<std::unique_ptr<Domain>> open(InfoPtr info);

  const fi_info& info() const { return *info_; }
  fid_fabric* fabric() const { return fabric_.get(); }
  fid_domain* domain() const { return domain_.get(); }
  std::string_view provider() const { return provider_name(*info_); }
  std::string_view device() const { return domain_name(*info_); }
  bool is_tcp() const { return provider() == "tcp"; }
  bool needs_local_registration() const { return (info_->domain_attr->mr_mode & FI_MR_LOCAL) != 0; }

  // Registers with local rights only (send, receive, read, write: never FI_REMOTE_*), in slices, if the provider
  // requires registration at all. On iWARP without FI_READ, which there would make the memory writable by peers.
  Result<void> register_local(MutableBytes memory);
  // Descriptor for a local buffer; null if the provider needs none. `contiguous`: how many bytes from `p` on one
  // descriptor covers (an operation must not cross it).
  void* descriptor(const void* p, size_t& contiguous) const;

  // Registers for a peer's use with exactly `access` (FI_REMOTE_WRITE or FI_REMOTE_READ) under a random key if the
  // provider accepts one.
  struct Remote {
    FidPtr<fid_mr> region;
    uint64_t key = 0;
    uint64_t base = 0;  // a peer's address for the first byte
  };
  Result<Remote> register_remote(MutableBytes memory, uint64_t access);

  // It can register memory of devices: register_device() may still be refused for one.
  bool reaches_devices() const { return (info_->caps & FI_HMEM) != 0; }
  // The same for memory of a device, which no CPU can touch. unsupported: it is refused.
  Result<Remote> register_device(const PeerLoan& memory, uint64_t access);

  // The target of an RDMA READ on iWARP, whose protocol has the peer write there: memory of one operation, exposed only
  // while that lasts.
  Result<FidPtr<fid_mr>> register_landing(MutableBytes memory);

  bool iwarp() const { return iwarp_; }

 private:
  Result<Remote> lent(FidPtr<fid_mr> region, uint64_t address) const;
  // Under a random key. `failure` is the context of its error.
  Result<FidPtr<fid_mr>> register_region(MutableBytes memory, uint64_t access, const char* failure);
  explicit Domain(InfoPtr info) : info_(std::move(info)) {}

  InfoPtr info_;
  FidPtr<fid_fabric> fabric_;
  FidPtr<fid_domain> domain_;
  bool iwarp_ = false;
  MutableBytes local_;
  std::vector<FidPtr<fid_mr>> slices_;  // of local_, in order
};

// An address vector and a completion queue for one endpoint of `domain`.
Result<FidPtr<fid_av>> open_address_vector(const Domain& domain, size_t count);
// `with_wait`: tries FI_WAIT_FD first and does without if the provider refuses it.
Result<FidPtr<fid_cq>> open_completion_queue(const Domain& domain, size_t size, fi_cq_format format, bool with_wait);
// fi_getname() of an enabled endpoint.
Result<std::string> endpoint_name(fid_ep* endpoint);
// The descriptor to sleep on, or -1.
int wait_descriptor(fid_cq* queue);

}  // namespace verbena::fabric::ofi
