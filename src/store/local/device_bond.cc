#include "store/local/device_bond.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace verbena::store::local {
namespace {

constexpr std::string_view bond_head = "device ", bond_middle = " store ";
constexpr size_t id_digits = 2 * sizeof(DeviceId);
constexpr size_t bond_size = bond_head.size() + bond_middle.size() + 2 * id_digits + 1;

// Takes "NAME NUMBER\n" from the front.
std::optional<uint64_t> take_number(std::string_view& text, std::string_view name) {
  if (!text.starts_with(name)) return std::nullopt;
  text.remove_prefix(name.size());
  uint64_t number = 0;
  const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (ec != std::errc() || number >= device_number_max) return std::nullopt;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  if (!text.starts_with('\n')) return std::nullopt;
  text.remove_prefix(1);
  return number;
}

}  // namespace

std::string to_text(const DeviceBond& bond) {
  return std::string(bond_head) + to_text(bond.device) + std::string(bond_middle) + to_text(bond.store) + "\n";
}

std::optional<DeviceBond> parse_bond(std::string_view text) {
  if (text.size() != bond_size || !text.starts_with(bond_head) || !text.ends_with('\n')) return std::nullopt;
  text.remove_prefix(bond_head.size());
  const auto device = parse_device_id(text.substr(0, id_digits));
  text.remove_prefix(id_digits);
  if (!text.starts_with(bond_middle)) return std::nullopt;
  const auto store = parse_device_id(text.substr(bond_middle.size(), id_digits));
  if (!device || !store) return std::nullopt;
  return DeviceBond{*device, *store};
}

std::string encode(const DeviceRow& row) {
  return to_text(row.bond) + fmt::format("generation {}\nconfirmed {}\nchanges {}\nlost before {}\n", row.generation,
                                         row.confirmed, row.changes, row.lost_before);
}

Result<DeviceRow> decode_device_row(std::string_view text) {
  const auto bond = parse_bond(text.substr(0, bond_size));
  text.remove_prefix(std::min(text.size(), bond_size));
  const auto generation = take_number(text, "generation ");
  const auto confirmed = take_number(text, "confirmed ");
  const auto changes = take_number(text, "changes ");
  const auto lost_before = take_number(text, "lost before ");
  if (!bond || !generation || !confirmed || !changes || !lost_before || !text.empty()) {
    return fail(Errc::malformed, "store: record of the device");
  }
  return DeviceRow{*bond, *generation, *confirmed, *changes, *lost_before};
}

std::string why_apart(const DeviceRow& row, const Superblock& device_facts, uint64_t device_changes,
                      const std::string& index, const std::string& device) {
  if (device_facts.generation > row.generation) {
    return fmt::format("{} is older than {}: it is of generation {} of the store, and the device of {}", index, device,
                       row.generation, device_facts.generation);
  }
  if (device_changes > row.changes + 1) {
    return fmt::format("{} is older than {}: it knows {} changes of the table of volumes, and the device {}", index,
                       device, row.changes, device_changes);
  }
  if (device_facts.generation < row.confirmed) {
    return fmt::format("{} is older than {}: it is of generation {} of the store, and the index of {}", device, index,
                       device_facts.generation, row.confirmed);
  }
  if (device_changes < row.changes) {
    return fmt::format("{} is older than {}: it has {} changes of its table of volumes, and the index knows {}", device,
                       index, device_changes, row.changes);
  }
  return "";
}

}  // namespace verbena::store::local
