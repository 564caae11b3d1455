#include "store/local/version_file.h"

#include <charconv>

namespace verbena::store::local {
namespace {

// 1: no versions. 4 keeps usage with each change, 5 events, which an older program would not. 6: volumes keep free
// space, which an older program would never free. 7: objects may have an end, which an older program would not keep.
// Each version reads all earlier formats, and opening a directory converts it.
// 8 is written only where there is persistent memory: an older program would not bring back what is in its log. 9 is
// written only where the volumes are on a device, with or without persistent memory: an older program would look for
// them in the directory.
constexpr int format_number = 7, format_with_pmem = 8, format_on_device = 9;
constexpr std::string_view version_head = "verbena local store, format ";

}  // namespace

std::string version_text(const std::optional<DeviceBond>& bond, bool has_pmem) {
  const int number = bond ? format_on_device : has_pmem ? format_with_pmem : format_number;
  return std::string(version_head) + std::to_string(number) + "\n" + (bond ? to_text(*bond) : "");
}

Result<void> check_version(std::string_view text) {
  int number = 0;
  if (!text.starts_with(version_head)) return fail(Errc::malformed, "store: VERSION file");
  text.remove_prefix(version_head.size());
  auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (ec != std::errc() || number < 1) return fail(Errc::malformed, "store: VERSION file");
  if (number > format_on_device)
    return fail(Errc::unsupported, "store: the directory's format is newer than this program");
  return {};
}

}  // namespace verbena::store::local
