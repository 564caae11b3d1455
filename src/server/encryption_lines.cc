#include "server/encryption_lines.h"

#include "base/log.h"

namespace verbena::server {
namespace {

// Of a device with many ports, and IPsec policies for each.
constexpr size_t line_size_max = 4000;

}  // namespace

admin::Findings encryption_findings(const Config& config, std::string_view provider, const admin::MachineRoots& roots) {
  admin::Findings out = admin::check_sealing(config);
  if (out.empty()) return out;
  if (!rdma_may_be_sealed(config)) return out;
  if (provider.empty()) out.front().found += "; no RDMA device is open, so there is nothing to seal";
  append(out, admin::check_encryption(roots));
  return out;
}

std::string line_of(const admin::Finding& finding) {
  return log::printable(finding.subject + ": " + finding.found + (finding.mend.empty() ? "" : "; " + finding.mend),
                        line_size_max);
}

void tell_encryption(const Config& config, std::string_view provider) {
  for (const admin::Finding& finding : encryption_findings(config, provider)) {
    if (finding.health == admin::Health::ok) {
      log::info("{}", line_of(finding));
    } else {
      log::warn("{}", line_of(finding));
    }
  }
}

}  // namespace verbena::server
