// `verbena doctor`: the machine's properties, what is missing, and the command that adds it.
#include <fmt/core.h>
#include <CLI/CLI.hpp>

#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/aws_profile.h"
#include "cli/commands.h"
#include "cli/config_file.h"
#include "cli/doctor.h"
#include "cli/exit_code.h"
#include "cli/watch_terminal.h"

namespace verbena::cli {
namespace {

struct DoctorArguments {
  std::string endpoint, native, data, device, config;
  bool json = false, systemd = false;
};

int run_doctor(const DoctorArguments& arguments) {
  std::string endpoint = arguments.endpoint.empty() ? aws_settings("").endpoint : arguments.endpoint;
  if (endpoint.empty()) endpoint = "http://127.0.0.1:9000";
  const MachineRoots roots;
  Findings findings;
  if (!arguments.config.empty()) {
    const auto config = read_config_file(arguments.config);
    if (!config) {
      std::fprintf(stderr, "verbena: %s\n", config.error().text.c_str());
      return config.error().exit_code;
    }
    append(findings, admin::check_sealing(*config));
  }
  if (arguments.systemd) append(findings, check_systemd(roots));
  if (!arguments.data.empty()) {
    findings.push_back(admin::check_disk("disk of the data", arguments.data));
    append(findings, admin::check_file_system(roots, arguments.data));
  }
  if (!arguments.device.empty()) findings.push_back(admin::check_device(arguments.device));
  append(findings, admin::examine_machine(roots));
  append(findings, admin::check_gpus(roots));
  append(findings, check_ports(endpoint, arguments.native));
  return put_findings(findings, arguments.json);
}

}  // namespace

int put_findings(const Findings& findings, bool json) {
  size_t warnings = 0, failures = 0;
  for (const Finding& finding : findings) {
    if (finding.health == Health::warn) ++warnings;
    if (finding.health == Health::fail) ++failures;
    if (json) {
      const nlohmann::ordered_json line{{"health", to_string(finding.health)},
                                        {"subject", finding.subject},
                                        {"found", finding.found},
                                        {"mend", finding.mend},
                                        {"command", finding.command}};
      fmt::print("{}\n", line.dump(-1, ' ', true, nlohmann::ordered_json::error_handler_t::replace));
      continue;
    }
    fmt::print("{:<5} {}: {}\n", to_string(finding.health), shown(finding.subject), shown(finding.found));
    if (!finding.mend.empty()) fmt::print("      -> {}\n", shown(finding.mend));
  }
  if (!json) {
    fmt::print("\n{} of {} checks ok, {} warnings, {} failures\n", findings.size() - warnings - failures,
               findings.size(), warnings, failures);
  }
  return failures == 0 ? exit_ok : exit_failure;
}

void add_doctor_command(CLI::App& app, int& exit_code) {
  CLI::App* command =
      app.add_subcommand("doctor", "Check this machine: what helps, what is missing, and the command that adds it");
  auto arguments = std::make_shared<DoctorArguments>();
  command->add_option("--endpoint", arguments->endpoint, "S3 endpoint to check (http://127.0.0.1:9000)")
      ->type_name("URL");
  command->add_option("--native", arguments->native, "native door to check")->type_name("HOST:PORT");
  command->add_option("--data", arguments->data, "data directory to check: its disk's space and its file system")
      ->type_name("DIRECTORY");
  command->add_option("--device", arguments->device, "block device to check for objects' bytes (data.device)")
      ->type_name("DEVICE");
  command
      ->add_option("--config", arguments->config,
                   "configuration file to check: what it encrypts, and which payload leaves the host in the clear")
      ->type_name("FILE");
  command->add_flag("--json", arguments->json, "one JSON object per finding");
  command->add_flag("--systemd", arguments->systemd,
                    "also explain the systemd service: its state and its unit's settings");
  command->footer("Exit code 0 unless a check fails; warnings name possible improvements.");
  command->callback([arguments, &exit_code] { exit_code = run_doctor(*arguments); });
}

}  // namespace verbena::cli
