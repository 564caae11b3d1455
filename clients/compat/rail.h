// A device (libfabric domain) with a passive endpoint, whose name goes into tokens. On `tcp` each registration gets one
// of its own with its first token: a write looks its key up when it begins, so only the end of its connection keeps the
// rest of it out, and that must not end the transfers of others.
#pragma once

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>

#include <chrono>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace verbena::compat {

class DeviceExport;

struct FabricFault : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct CloseFid {
  template <class T>
  void operator()(T* fid) const {
    fi_close(&fid->fid);
  }
};
template <class T>
using Fid = std::unique_ptr<T, CloseFid>;

struct FreeInfo {
  void operator()(fi_info* info) const { fi_freeinfo(info); }
};
using Info = std::unique_ptr<fi_info, FreeInfo>;

struct NamedEndpoint {
  Fid<fid_ep> endpoint;
  std::string name;  // in hexadecimal
};

struct Region {
  Fid<fid_mr> registration;
  uint64_t base = 0;
  uint64_t key = 0;
  NamedEndpoint own;  // of this region alone, with `tcp`, from its first token on. Closed before the registration
};

class Rail {
 public:
  explicit Rail(const fi_info& described);
  // Both directions.
  Region pin(void* memory, size_t size);
  // The same of a GPU's, whose address `memory` is.
  Region pin_device(void* memory, size_t size, const DeviceExport& from);
  // Afterwards nothing reaches the memory, not even the rest of a write that had begun.
  void unpin(Region region);
  // Makes progress as far as it can now. Returns the descriptor that is readable when there is more to do; -1: call
  // again soon, no descriptor tells.
  int progress();
  // May open an endpoint; where that fails, the rail is passed over.
  std::string token(Region& region, uint64_t offset, uint64_t size);
  // Whether a token names an endpoint of this rail, or one that it had.
  bool minted(std::string_view token) const;
  bool healthy() const { return std::chrono::steady_clock::now() >= passed_over_until_; }
  void pass_over() { passed_over_until_ = std::chrono::steady_clock::now() + std::chrono::seconds(10); }

 private:
  NamedEndpoint open_endpoint();
  Region region_of(fid_mr* made, void* memory) const;
  bool take_completions();
  bool is_tcp() const;
  const NamedEndpoint& endpoint_of(Region& region);

  Info info_;
  Fid<fid_fabric> fabric_;
  Fid<fid_domain> domain_;
  Fid<fid_av> addresses_;
  Fid<fid_cq> queue_;
  int readable_ = -1;       // the queue's descriptor, and of what moves bytes without a completion
  NamedEndpoint endpoint_;  // of all regions; with `tcp` the first token's region takes it
  std::string first_name_;
  std::chrono::steady_clock::time_point passed_over_until_;
};

// What the environment and `devices` (separated by commas; empty: all) select. Throws FabricFault if that is nothing.
std::vector<std::unique_ptr<Rail>> open_rails(const std::string& devices);

}  // namespace verbena::compat
