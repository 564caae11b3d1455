#include "admin/doctor.h"

#include <algorithm>
#include <iterator>

namespace verbena::admin {

std::string_view to_string(Health health) {
  switch (health) {
    case Health::ok:
      return "ok";
    case Health::warn:
      return "warn";
    case Health::fail:
      return "fail";
  }
  return "?";
}

void append(Findings& to, Findings more) { std::ranges::move(more, std::back_inserter(to)); }

Findings examine_machine(const MachineRoots& roots, const ArenaUse& arena, bool fabrics) {
  Findings findings;
  if (fabrics) {
    findings = check_providers(fabric::ofi::discover());
    append(findings, judge_dc(rdma::dc::look_at_devices(rdma::dc::load_verbs())));
  } else {
    findings.push_back({Health::ok, "fabric", "RDMA is off (rdma.enabled)", {}});
  }
  append(findings, check_devices(roots));
  append(findings, check_encryption(roots));
  append(findings, check_firewall(roots));
  append(findings, check_limits());
  append(findings, check_memory(roots, arena));
  append(findings, check_pmem_devices(roots));
  append(findings, check_io_uring(roots));
  append(findings, check_kernel(roots));
  append(findings, check_clock(roots));
  return findings;
}

Findings examine_server(const ServerPlaces& places) {
  const MachineRoots roots;
  Findings findings;
  if (!places.data.empty()) {
    findings.push_back(check_disk("disk of the data", places.data));
    append(findings, check_file_system(roots, places.data));
  }
  if (!places.device.empty()) findings.push_back(check_device(places.device));
  if (!places.pmem.empty()) findings.push_back(check_pmem(places.pmem));
  if (!places.access_log.empty()) findings.push_back(check_disk("disk of the access log", places.access_log));
  append(findings, check_open_files(roots));
  append(findings, check_sealing(places.config));
  append(findings, examine_machine(roots, places.arena, places.config.rdma.enabled));
  return findings;
}

}  // namespace verbena::admin
