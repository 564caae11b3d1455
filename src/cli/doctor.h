// The checks of `verbena doctor` besides the machine's (admin/doctor.h): the service's settings in systemd, and the
// servers at its ports.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "admin/doctor.h"

namespace verbena::cli {

using admin::Finding;
using admin::Findings;
using admin::Health;
using admin::MachineRoots;

// Findings about the service in systemd: explain_unit() on the output of `systemctl show`.
Findings check_systemd(const MachineRoots& roots);
Findings explain_unit(const std::string& properties_text);
// `endpoint`: "http://host:port", where Verbena may be running; `native`: "host:port".
Findings check_ports(const std::string& endpoint, const std::string& native);

// Findings from a server's answer; nullopt: it has none. A status that this program does not know counts as a failure.
std::optional<Findings> findings_of(const nlohmann::json& answer);
// Prints them, and returns their exit code. They may come from an untrusted server: no text controls the terminal.
int put_findings(const Findings& findings, bool json);

}  // namespace verbena::cli
