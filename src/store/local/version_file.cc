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

// The last line may lack its end: the file may have been restored by hand.
Result<VersionFile> parse_version(std::string_view text) {
  const auto malformed = fail(Errc::malformed, "store: VERSION file");
  int number = 0;
  if (!text.starts_with(version_head)) return malformed;
  text.remove_prefix(version_head.size());
  const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (ec != std::errc() || number < 1) return malformed;
  if (number > format_on_device) {
    return fail(Errc::unsupported, "store: the directory's format is newer than this program");
  }
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  if (!text.empty() && !text.starts_with('\n')) return malformed;
  std::string line(text.substr(text.empty() ? 0 : 1));
  if (number != format_on_device) return line.empty() ? VersionFile{} : Result<VersionFile>(malformed);
  if (!line.ends_with('\n')) line += '\n';
  const auto bond = parse_bond(line);
  return VersionFile{.bond = bond, .cut = !bond};
}

}  // namespace verbena::store::local
