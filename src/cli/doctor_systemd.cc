// `verbena doctor --systemd`: the service's settings in systemd, and their effect on Verbena.
#include <fmt/core.h>

#include <map>

#include "cli/child.h"
#include "cli/doctor.h"

namespace verbena::cli {
namespace {

constexpr const char* unit = "verbena.service";
constexpr std::chrono::seconds systemctl_max{10};

using Properties = std::map<std::string, std::string, std::less<>>;

// `systemctl show` prints Name=value lines.
Properties parse_properties(const std::string& text) {
  Properties out;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string line = text.substr(at, end - at);
    if (const size_t equals = line.find('='); equals != std::string::npos)
      out[line.substr(0, equals)] = line.substr(equals + 1);
    at = end + 1;
  }
  return out;
}

std::string value_of(const Properties& properties, std::string_view name) {
  const auto it = properties.find(name);
  return it == properties.end() ? "" : it->second;
}

Finding check_state(const Properties& properties) {
  const std::string state = value_of(properties, "ActiveState"), result = value_of(properties, "Result");
  const std::string code = value_of(properties, "ExecMainStatus"), pid = value_of(properties, "MainPID");
  Finding out{Health::ok, "unit state", state + " (" + value_of(properties, "SubState") + ")", {}};
  if (state == "active") {
    out.found += ", process " + pid;
  } else if (state == "failed") {
    out.health = Health::fail;
    out.found += fmt::format(", {}, exit code {}", result, code);
    out.mend = code == "2" ? "the configuration is wrong, and systemd does not restart the server: journalctl -u "
                             "verbena -n 5, then verbena config --check /etc/verbena/verbena.yaml"
               : result == "watchdog"
                   ? "a core did not answer within the watchdog's time: journalctl -u verbena, coredumpctl info verbena"
                   : "journalctl -u verbena -n 20 says why";
  } else {
    out.health = Health::warn;
    out.mend = "systemctl enable --now verbena";
  }
  return out;
}

// Checks a setting with one right value.
Finding check_setting(const Properties& properties, const char* name, std::string_view wanted, const char* why) {
  const std::string have = value_of(properties, name);
  if (have == wanted) return {Health::ok, std::string("unit ") + name, have + ": " + why, {}};
  return {Health::warn, std::string("unit ") + name, fmt::format("{} instead of {}: {}", have, wanted, why),
          fmt::format("an override changes it: systemctl cat verbena, systemctl edit verbena")};
}

Finding check_watchdog(const Properties& properties) {
  const std::string interval = value_of(properties, "WatchdogUSec");
  const bool off = interval.empty() || interval == "0" || interval == "infinity";
  return {off ? Health::warn : Health::ok, "unit WatchdogUSec",
          off ? "off: a core that hangs stays"
              : interval + ": every core answers three times in that time, or systemd restarts the server",
          off ? "systemctl edit verbena: [Service] WatchdogSec=30" : ""};
}

}  // namespace

Findings explain_unit(const std::string& properties_text) {
  const Properties properties = parse_properties(properties_text);
  if (value_of(properties, "LoadState") != "loaded") {
    return {{Health::warn, "unit", fmt::format("systemd knows no {}", unit),
             "install the package verbena, or `cmake --install build` and then: systemd-sysusers; systemd-tmpfiles "
             "--create; systemctl daemon-reload"}};
  }
  Findings out{check_state(properties)};
  out.push_back(check_setting(properties, "Type", "notify", "the unit is started when the doors are open"));
  out.push_back(check_watchdog(properties));
  out.push_back(check_setting(properties, "LimitMEMLOCK", "infinity", "RDMA locks the memory that it registers"));
  out.push_back(check_setting(properties, "PrivateDevices", "no", "RDMA devices are files in /dev/infiniband"));
  out.push_back(check_setting(properties, "User", "verbena", "the data belongs to this user"));
  if (value_of(properties, "NeedDaemonReload") == "yes") {
    out.push_back({Health::warn, "unit file", "changed since systemd read it", "systemctl daemon-reload"});
  }
  return out;
}

Findings check_systemd(const MachineRoots& roots) {
  std::error_code ec;
  if (!std::filesystem::exists(roots.run / "systemd/system", ec)) {
    return {{Health::warn, "systemd", "this machine was not started by it (a container?)",
             "start the server directly: verbena server DIR --config /etc/verbena/verbena.yaml"}};
  }
  auto systemctl = Child::start({"/usr/bin/systemctl", "show", unit, "--no-pager"}, {});
  if (!systemctl) return {{Health::fail, "systemd", systemctl.error(), {}}};
  const auto never = [](const std::string&) { return false; };
  (*systemctl)->read_until(never, systemctl_max);
  if ((*systemctl)->wait(systemctl_max) != 0) {
    return {{Health::fail, "systemd", "systemctl show verbena.service failed", "systemctl status"}};
  }
  return explain_unit((*systemctl)->output());
}

}  // namespace verbena::cli
