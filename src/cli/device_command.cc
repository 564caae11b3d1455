// `verbena device`: makes a block device ready for data.device, or a device-dax node for data.pmem, and shows one.
#include <fmt/core.h>
#include <CLI/CLI.hpp>

#include <cstdio>
#include <memory>

#include "base/log.h"
#include "cli/exit_code.h"
#include "cli/server_command.h"
#include "store/local/block_device.h"
#include "store/local/dax_node.h"
#include "store/local/device_volumes.h"

namespace verbena::cli {
namespace {

using namespace store::local;

struct DeviceFlags {
  std::string device;
  bool force = false;
};

constexpr const char* held_log = "a store has not given the log back: it is running, or was not stopped in order";

int device_failed(const std::string& sentence) {
  std::fprintf(stderr, "verbena: %s\n", log::printable(sentence, 4096).c_str());
  return exit_failure;
}

void print_device(const Superblock& facts) {
  fmt::print("id         {}\n", to_text(facts.id));
  fmt::print("store      {}\n", facts.owned() ? to_text(facts.owner) : "none yet");
  fmt::print("generation {}\n", facts.generation);
  fmt::print("space      {}, {} extents of {}\n", format_size(facts.extents * facts.extent_size), facts.extents,
             format_size(facts.extent_size));
}

void print_node(const DaxFormat& found) {
  fmt::print("memory     {}, {}\n", format_size(found.facts.size), found.facts.kept);
  if (found.facts.bad_bytes != 0) fmt::print("bad blocks {}\n", format_size(found.facts.bad_bytes));
  fmt::print("log        {}\n", found.log_size == 0 ? "none yet" : format_size(found.log_size));
}

int format_it(const DeviceFlags& flags) {
  std::string trouble;
  if (is_dax_node(flags.device)) {
    const auto found = format_dax_node(flags.device, pmem_log_size, flags.force, trouble);
    if (!found) return device_failed(trouble);
    print_node(*found);
    if (found->is_kept) fmt::print("kept       the log that was there: only the page before it was written again\n");
    if (found->is_held) fmt::print("{} {}\n", found->is_kept ? "held      " : "before    ", held_log);
    return exit_ok;
  }
  auto file = open_block_device(flags.device, DeviceUse::own, trouble);
  if (!file) return device_failed(trouble);
  const auto stat = (*file)->stat();
  if (stat && stat->size < formatted_size_min) {
    return device_failed(flags.device + " has " + format_size(stat->size) + ", and a store needs at least " +
                         format_size(formatted_size_min));
  }
  if (!flags.force) {
    const std::string found = what_occupies(**file);
    if (!found.empty()) {
      return device_failed(flags.device + " " + found +
                           ". Nothing was changed. --force makes it empty: all of it is lost");
    }
  }
  const auto facts = format_device(**file);
  if (!facts) return device_failed(flags.device + ": " + describe(facts.error()));
  (*file)->read_partitions_again();
  print_device(*facts);
  return exit_ok;
}

int show_it(const DeviceFlags& flags) {
  std::string trouble;
  if (is_dax_node(flags.device)) {
    const auto found = look_at_dax_node(flags.device, trouble);
    if (!found) return device_failed(trouble);
    print_node(*found);
    if (found->log_size != 0 && found->is_held) fmt::print("held       {}\n", held_log);
    return exit_ok;
  }
  auto file = open_block_device(flags.device, DeviceUse::look, trouble);
  if (!file) return device_failed(trouble);
  const auto others = (*file)->foreign_contents();
  auto opened = DeviceVolumes::open(flags.device, std::move(*file), trouble);
  if (!opened) return device_failed(trouble.empty() ? describe(opened.error()) : trouble);
  print_device((*opened)->superblock());
  fmt::print("volumes    {}\n", (*opened)->volumes());
  if ((*opened)->begin_overwritten()) fmt::print("begin      overwritten by another program: no server starts\n");
  for (const std::string& defect : (*opened)->defects()) fmt::print("defect     {}\n", defect);
  if (others && !others->empty()) fmt::print("others     {}\n", log::printable(*others));
  return exit_ok;
}

}  // namespace

void add_device_command(CLI::App& app, int& exit_code) {
  auto* command =
      app.add_subcommand("device",
                         "Devices without a file system: block devices for objects' bytes (data.device), device-dax "
                         "nodes of persistent memory (data.pmem)");
  command->require_subcommand(1);
  auto flags = std::make_shared<DeviceFlags>();
  auto* format = command->add_subcommand("format", "Make a device ready for a new store");
  format->add_option("DEVICE", flags->device, "a disk, a partition or a namespace: /dev/nvme1n1; a node: /dev/dax0.0")
      ->required();
  format->add_flag("--force", flags->force, "also if it holds data: all of it is lost");
  format->footer(
      "Refuses a device that is mounted or in use, and without --force one that holds a file system, a partition "
      "table, part of a RAID or volume group, an encrypted device, a store, or any bytes in its first 8 MiB or its "
      "last 4 MiB. Of a device-dax node it takes the first 256 MiB and 4 KiB (of one with an alignment of 2 MiB, 258 "
      "MiB "
      "are needed), and refuses without --force one that has any bytes but zeros there. If only the node's own first "
      "page is lost, and the log behind it is whole, it writes that page again without --force and leaves the log as "
      "it is.");
  format->callback([flags, &exit_code] { exit_code = format_it(*flags); });
  auto* show = command->add_subcommand("show", "Print what a formatted device holds; changes nothing");
  show->add_option("DEVICE", flags->device, "a formatted device")->required();
  show->callback([flags, &exit_code] { exit_code = show_it(*flags); });
}

}  // namespace verbena::cli
