// `verbena fsck DIR`: reports what a store has lost. Changes nothing.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/log.h"
#include "cli/exit_code.h"
#include "cli/server_command.h"
#include "store/local/fsck.h"

namespace verbena::cli {
namespace {

using store::local::FsckReport;

struct FsckFlags {
  std::string directory, device;
  bool json = false;
  bool index_only = false;
};

nlohmann::json to_json(const FsckReport& report) {
  using Json = nlohmann::json;
  Json lost = Json::array();
  for (const auto& loss : report.lost) lost.push_back({{"name", loss.name}, {"why", loss.why}});
  return {{"sound", !report.damaged()},
          {"index", report.index},
          {"device", report.device},
          {"refusals", report.refusals},
          {"lost", lost},
          {"lost_count", report.lost_count},
          {"changes_behind_damage", report.changes_behind_damage},
          {"torn_end", report.torn_end},
          {"has_pmem_log", report.has_pmem_log},
          {"buckets", report.buckets},
          {"objects", report.objects},
          {"old_versions", report.old_versions},
          {"parts", report.parts},
          {"bytes", report.bytes},
          {"orphan_extents", report.orphan_extents},
          {"orphan_bytes", report.orphan_bytes}};
}

void print(const FsckReport& report) {
  for (const auto& sentence : report.index) std::printf("index: %s\n", log::printable(sentence, 4096).c_str());
  for (const auto& sentence : report.device) {
    std::printf("device: %s. Nothing is lost.\n", log::printable(sentence, 4096).c_str());
  }
  for (const auto& sentence : report.refusals) {
    std::printf("device: %s. A server does not start.\n", log::printable(sentence, 4096).c_str());
  }
  for (const auto& loss : report.lost) {
    std::printf("lost: %s: %s\n", log::printable(loss.name).c_str(), log::printable(loss.why).c_str());
  }
  if (report.lost_count > report.lost.size()) {
    std::printf("lost: and %llu more\n", static_cast<unsigned long long>(report.lost_count - report.lost.size()));
  }
  if (report.changes_behind_damage != 0) {
    std::printf("The log has %llu changes behind its damage. A server with --accept-data-loss keeps them.\n",
                static_cast<unsigned long long>(report.changes_behind_damage));
  }
  if (report.torn_end)
    std::printf("The log ends in changes that were never acknowledged as durable. Nothing is lost.\n");
  if (report.has_pmem_log) {
    std::printf("Newer objects may be in the log on persistent memory (data.pmem), which was not read.\n");
  }
  std::printf("%llu buckets, %llu objects, %llu older versions, %llu parts of uploads: %s\n",
              static_cast<unsigned long long>(report.buckets), static_cast<unsigned long long>(report.objects),
              static_cast<unsigned long long>(report.old_versions), static_cast<unsigned long long>(report.parts),
              format_size(report.bytes).c_str());
  if (report.orphan_extents != 0) {
    std::printf("%llu extents (%s) belong to no object. That costs space; nothing is lost.\n",
                static_cast<unsigned long long>(report.orphan_extents), format_size(report.orphan_bytes).c_str());
  }
  std::printf(report.damaged() ? "DAMAGED: %llu objects cannot be read whole.\n" : "sound\n",
              static_cast<unsigned long long>(report.lost_count));
}

int check(const FsckFlags& flags) {
  log::set_level(log::Level::error);  // findings are in the report
  std::string trouble;
  const auto report = store::local::fsck({.directory = flags.directory,
                                          .fs = nullptr,
                                          .read_data = !flags.index_only,
                                          .device = flags.device,
                                          .trouble = &trouble});
  if (!report) {
    const std::string why = !trouble.empty() ? trouble
                            : report.error() == Errc::service_unavailable
                                ? "a server has it open; stop the server first"
                            : report.error() == Errc::not_found ? "there is no store"
                                                                : describe(report.error());
    std::fprintf(stderr, "verbena: %s: %s\n", flags.directory.c_str(), why.c_str());
    if (!trouble.empty()) return report.error() == Errc::corrupt_object ? exit_damaged : exit_failure;
    return report.error() == Errc::not_found ? exit_not_found : exit_failure;
  }
  if (flags.json) {
    // A key may be invalid UTF-8.
    const auto text = to_json(*report).dump(2, ' ', false, nlohmann::json::error_handler_t::replace);
    std::printf("%s\n", text.c_str());
  } else {
    print(*report);
  }
  return report->damaged() ? exit_damaged : exit_ok;
}

}  // namespace

void add_fsck_command(CLI::App& app, int& exit_code) {
  auto* command = app.add_subcommand("fsck", "Check the directory of a stopped server for damage; changes nothing");
  auto flags = std::make_shared<FsckFlags>();
  command->add_option("DIR", flags->directory, "the server's data directory")->required();
  command->add_option("--device", flags->device, "the block device that has the objects' bytes (data.device)")
      ->type_name("DEVICE");
  command->add_flag("--json", flags->json, "the report as JSON");
  command->add_flag("--index-only", flags->index_only, "do not read the objects' bytes in volumes");
  command->footer(
      "Reads the index's files, all records and all bytes against their checksums. Needs no free space.\n"
      "Exit codes: 0 sound; 7 damaged, or a server refuses to start; 1 not checked (a server has it open, or it cannot "
      "be read); 3 no store there.");
  command->callback([flags, &exit_code] { exit_code = check(*flags); });
}

}  // namespace verbena::cli
