// `verbena rados`: administration of a store in a Ceph cluster. Needs no server. The implementation is in rados/.
#include <CLI/CLI.hpp>
#include <cstdio>

#include "cli/exec_rados.h"
#include "cli/exit_code.h"
#include "cli/rados_engine.h"
#include "cli/run_program.h"
#include "cli/server_command.h"

namespace verbena::cli {
namespace {

using Run = int (*RadosEngine::*)(const RadosFlags& flags);

int run_or_exec(const Program& program, Run run, const RadosFlags& flags) {
  if (program.rados != nullptr) return (program.rados->*run)(flags);
  std::fprintf(stderr, "verbena: %s\n", exec_rados(program.arguments).c_str());
  return exit_failure;
}

}  // namespace

void add_rados_command(CLI::App& app, int& exit_code, const Program& program) {
  auto* command = app.add_subcommand(
      "rados",
      "Manage a store in a Ceph cluster: make its pools, show its state, check it, copy it (package verbena-rados)");
  command->require_subcommand(1);
  auto flags = std::make_shared<RadosFlags>();
  const auto add = [&](const char* name, const char* help, Run run) {
    auto* sub = command->add_subcommand(name, help);
    sub->add_option("--config", flags->config_path, "the server's YAML file")->type_name("FILE");
    sub->add_option("--set", flags->set, "set one configuration key, above file and environment")
        ->type_name("KEY=VALUE");
    sub->callback([flags, run, program, &exit_code] { exit_code = run_or_exec(program, run, *flags); });
    return sub;
  };
  auto* made = add("init", "make the pools that are missing", &RadosEngine::init);
  made->add_option("--pg", flags->placement_groups, "placement groups of each pool (default 32)")
      ->check(CLI::Range(1, 32768));
  made->add_option("--copies", flags->copies, "copies of the index, and of the bytes without --erasure (default 3)")
      ->check(CLI::Range(1, 10));
  made->add_option("--erasure", flags->erasure, "erasure-code the bytes: K data and M code shards")->type_name("K+M");
  made->add_option("--failure-domain", flags->failure_domain,
                   "where no two copies or shards may be: host (default), osd, rack, ...")
      ->type_name("TYPE");
  auto* status =
      add("status", "show the cluster, its pools, servers, buckets and what waits to be removed", &RadosEngine::status);
  status->add_flag("--json", flags->json, "the report as JSON");
  auto* check = add("fsck", "find objects without bytes and bytes without objects", &RadosEngine::check);
  check->add_flag("--json", flags->json, "the report as JSON");
  check->add_flag("--repair", flags->repair, "remove bytes that belong to no object; without it nothing is changed");
  check->footer(
      "Reads every row and the name of every stripe. --repair removes bytes that dead servers have written and no "
      "row\nnames; servers may run meanwhile. For bytes of a silent server it waits half a minute.\nExit codes: 0 "
      "sound; 7 damaged; 1 not checked.");
  auto* brought = add("import", "copy the buckets and accounts of a stopped server's directory into the cluster",
                      &RadosEngine::import_directory);
  brought->add_option("DIR", flags->directory, "the server's data directory")->required();
  brought->footer(
      "Objects keep their versions with ids and times, metadata, tags, locks and encryption; buckets their\n"
      "configuration; unfinished uploads can be continued. Waiting events and tokens of renames are not copied. No "
      "server may run\nover the cluster's store or over DIR. After an interruption, run it again: it goes on where it "
      "was. Bytes are\nverified on the way.\n"
      "The servers need DIR's master keys (DIR/master.keys) and root keys.\n"
      "Exit codes: 0 done; 1 not done; 3 no store in DIR.");
  auto* taken = add("export", "write the cluster's store as the data directory of a single server",
                    &RadosEngine::export_directory);
  taken->add_option("DIR", flags->directory, "made if missing; must be empty")->required();
  taken->footer(
      "The reverse of `import`, with the same rules. It writes DIR.partial, which gets its name when it is complete; "
      "after\nan interruption, run it again. Copy a server's master.keys into it.\n"
      "Exit codes: 0 done; 1 not done.");
}

}  // namespace verbena::cli
