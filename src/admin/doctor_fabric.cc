// Checks of the fabric's providers.
#include <fmt/core.h>

#include <cstring>

#include "admin/doctor.h"

namespace verbena::admin {

Findings check_providers(const std::vector<fabric::ofi::ProviderInfo>& providers) {
  Findings out;
  bool any = false, hardware = false;
  for (const auto& info : providers) {
    any = any || info.usable;
    hardware = hardware || (info.usable && info.provider != "tcp");
    out.push_back({Health::ok,
                   "provider " + info.provider,
                   fmt::format("{}{}{}", info.domain.empty() ? info.fabric : info.domain,
                               info.address.empty() ? "" : ", " + info.address, info.usable ? "" : " (not used)"),
                   {}});
  }
  if (!any) {
    out.push_back({Health::fail, "providers", "libfabric has none that Verbena can use",
                   "is a network interface up? `fi_info` lists what libfabric sees; ./dev setup builds libfabric"});
  } else if (!hardware) {
    out.push_back({Health::ok, "fabric", "tcp between hosts (software), shared memory on this host",
                   "for RDMA between hosts a device with the verbs, efa or cxi provider is needed"});
  }
  return out;
}

Findings judge_dc(const std::vector<rdma::dc::DeviceSupport>& devices) {
  using rdma::dc::Support;
  Findings out;
  for (const auto& [device, support, error] : devices) {
    Finding finding{Health::ok, "DC of " + device, "dynamically connected queue pairs: ", {}};
    if (support == Support::present) {
      finding.found += "present; rdma.token_provider dc serves cuObject's descriptors by them (untried on hardware)";
    } else if (support == Support::absent) {
      finding.found += "absent; cuObject's descriptors are declined";
    } else if (error == 0) {
      finding.found += "cannot be told without libmlx5.so.1";
      finding.mend = "for a ConnectX the package ibverbs-providers is needed";
    } else {
      finding.found += std::string("cannot be told: ") + std::strerror(error);
    }
    out.push_back(std::move(finding));
  }
  return out;
}

}  // namespace verbena::admin
