// What `verbena doctor` looks at beside the machine (admin/doctor.h): what systemd made of the service, and who answers
// at its ports.
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

// What systemd says of the service, explained; explain_unit() of what `systemctl show` printed.
Findings check_systemd(const MachineRoots& roots);
Findings explain_unit(const std::string& properties_text);
// `endpoint`: "http://host:port", whose server may answer; `native`: "host:port".
Findings check_ports(const std::string& endpoint, const std::string& native);

// Of a server's answer; nullopt: it has none. What this program does not know as sound counts as a failure.
std::optional<Findings> findings_of(const nlohmann::json& answer);
// On standard output, and the exit code for them. They may be anybody's: no text steers a terminal.
int put_findings(const Findings& findings, bool json);

}  // namespace verbena::cli
