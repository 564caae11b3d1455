// `verbena rados`: administration of a store in a Ceph cluster. Needs no server. The implementation is in rados/.
#include <CLI/CLI.hpp>
#include <cstdio>

#include "cli/exit_code.h"
#include "cli/hand_over.h"
#include "cli/rados_engine.h"
#include "cli/run_program.h"
#include "cli/server_command.h"

namespace verbena::cli {
namespace {

using Run = int (*RadosEngine::*)(const RadosFlags& flags);

int run_or_hand_over(const Program& program, Run run, const RadosFlags& flags) {
  if (program.rados != nullptr) return (program.rados->*run)(flags);
  std::fprintf(stderr, "verbena: %s\n", hand_over_to_rados(program.arguments).c_str());
  return exit_failure;
}

}  // namespace

void add_rados_command(CLI::App& app, int& exit_code, const Program& program) {
  auto* command = app.add_subcommand(
      "rados", "a store in a Ceph cluster: make its pools, look how it is, fill it, copy it (package verbena-rados)");
  command->require_subcommand(1);
  auto flags = std::make_shared<RadosFlags>();
  const auto add = [&](const char* name, const char* help, Run run) {
    auto* sub = command->add_subcommand(name, help);
    sub->add_option("--config", flags->config_path, "the server's YAML file")->type_name("FILE");
    sub->add_option("--set", flags->set, "set one configuration key, above file and environment")
        ->type_name("KEY=VALUE");
    sub->callback([flags, run, program, &exit_code] { exit_code = run_or_hand_over(program, run, *flags); });
    return sub;
  };
  auto* made = add("init", "make the pools that are not there", &RadosEngine::init);
  made->add_option("--pg", flags->placement_groups, "placement groups of each pool (default 32)")
      ->check(CLI::Range(1, 32768));
  made->add_option("--copies", flags->copies, "of the index, and of the bytes without --erasure (default 3)")
      ->check(CLI::Range(1, 10));
  made->add_option("--erasure", flags->erasure, "the bytes erasure-coded: K data and M code shards")->type_name("K+M");
  made->add_option("--failure-domain", flags->failure_domain,
                   "what no two copies or shards lie in: host (default), osd, rack, ...")
      ->type_name("TYPE");
  auto* status =
      add("status", "the cluster, its pools, servers, buckets and what waits to be removed", &RadosEngine::status);
  status->add_flag("--json", flags->json, "the report as JSON");
  auto* check = add("fsck", "look for objects without bytes and bytes without objects", &RadosEngine::check);
  check->add_flag("--json", flags->json, "the report as JSON");
  check->add_flag("--repair", flags->repair, "remove what belongs to nobody; without it nothing is changed");
  check->footer(
      "Reads every row and the name of every stripe. --repair removes what servers that are gone have written and no\n"
      "row names; servers may run meanwhile. Where one that is silent wrote it, it is waited for half a minute.\n"
      "Exit codes: 0 sound; 7 damaged; 1 not checked.");
  auto* brought = add("import", "bring the buckets and accounts of a stopped server's directory into the cluster",
                      &RadosEngine::import_directory);
  brought->add_option("DIR", flags->directory, "the server's data directory")->required();
  brought->footer(
      "Objects keep their versions with ids and times, metadata, tags, locks and encryption; buckets their\n"
      "configuration; uploads under way go on. Events that wait and tokens of renames are left. No server may run "
      "over\n"
      "the cluster's store or over DIR. Begun and broken off, it goes on where it was. Bytes are verified on the way.\n"
      "The servers need DIR's master keys (DIR/master.keys) and root keys.\n"
      "Exit codes: 0 done; 1 not done; 3 no store in DIR.");
  auto* taken = add("export", "write what is in the cluster as a data directory of a server by itself",
                    &RadosEngine::export_directory);
  taken->add_option("DIR", flags->directory, "made; must be empty if it is there")->required();
  taken->footer(
      "The way back of `import`, with the same rules. It is written as DIR.partial, which gets its name when all is\n"
      "there; begun and broken off, it goes on where it was. Copy master.keys of a server into it.\n"
      "Exit codes: 0 done; 1 not done.");
}

}  // namespace verbena::cli
