// `verbena doctor`: what this machine has, what is missing, and the command that mends it.
#include <fmt/core.h>
#include <CLI/CLI.hpp>

#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/aws_profile.h"
#include "cli/commands.h"
#include "cli/doctor.h"
#include "cli/exit_code.h"

namespace verbena::cli {

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

namespace {

struct DoctorArguments {
  std::string endpoint, native;
  bool json = false, systemd = false;
};

void append(Findings& to, Findings more) { std::ranges::move(more, std::back_inserter(to)); }

int run_doctor(const DoctorArguments& arguments) {
  std::string endpoint = arguments.endpoint.empty() ? aws_settings("").endpoint : arguments.endpoint;
  if (endpoint.empty()) endpoint = "http://127.0.0.1:9000";
  const MachineRoots roots;
  Findings findings;
  if (arguments.systemd) append(findings, check_systemd(roots));
  append(findings, check_providers(fabric::ofi::discover()));
  append(findings, check_devices(roots));
  append(findings, check_firewall(roots));
  append(findings, check_limits());
  append(findings, check_memory(roots));
  append(findings, check_io_uring(roots));
  append(findings, check_ports(endpoint, arguments.native));

  size_t warnings = 0, failures = 0;
  for (const Finding& finding : findings) {
    if (finding.health == Health::warn) ++warnings;
    if (finding.health == Health::fail) ++failures;
    if (arguments.json) {
      const nlohmann::ordered_json json{{"health", to_string(finding.health)},
                                        {"subject", finding.subject},
                                        {"found", finding.found},
                                        {"mend", finding.mend}};
      fmt::print("{}\n", json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
      continue;
    }
    fmt::print("{:<5} {}: {}\n", to_string(finding.health), finding.subject, finding.found);
    if (!finding.mend.empty()) fmt::print("      -> {}\n", finding.mend);
  }
  if (!arguments.json) {
    fmt::print("\n{} of {} checks ok, {} warnings, {} failures\n", findings.size() - warnings - failures,
               findings.size(), warnings, failures);
  }
  return failures == 0 ? exit_ok : exit_failure;
}

}  // namespace

void add_doctor_command(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand("doctor", "Look at this machine and say what helps and what is missing");
  auto arguments = std::make_shared<DoctorArguments>();
  command->add_option("--endpoint", arguments->endpoint, "S3 endpoint to look for (http://127.0.0.1:9000)")
      ->type_name("URL");
  command->add_option("--native", arguments->native, "native door to look for")->type_name("HOST:PORT");
  command->add_flag("--json", arguments->json, "one JSON object per finding");
  command->add_flag("--systemd", arguments->systemd, "first explain the service: its state and its unit's settings");
  command->footer("Exit code 0 unless a check fails; warnings name what would make things better.");
  command->callback([arguments, &exit_code] { exit_code = run_doctor(*arguments); });
}

}  // namespace verbena::cli
