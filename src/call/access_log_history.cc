#include "call/access_log_history.h"

#include <fcntl.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <map>
#include <string_view>

#include "base/client_counts.h"
#include "base/fd.h"
#include "observe/request_watch.h"

namespace verbena::call {
namespace {

constexpr size_t callers_max = 1 << 16;  // distinct callers per account; later ones count as one
constexpr uint64_t kept_part = 8;        // the fraction of a removed file that is kept, at most

// A text field of the line. Client text cannot imitate one: a quotation mark in it is escaped by a backslash.
std::string_view field(std::string_view line, std::string_view name) {
  const size_t at = line.find(name);
  if (at == std::string_view::npos) return {};
  const std::string_view rest = line.substr(at + name.size());
  return rest.substr(0, rest.find('"'));
}

// The caller of a line: an account and, within it, the address; unauthenticated callers are one account.
struct LineCaller {
  std::string account, address;
};
LineCaller caller_of(std::string_view line) {
  LineCaller caller;
  caller.account = observe::account_of(field(line, "\"principal\":\""));
  if (caller.account.empty()) caller.address = client_of(field(line, "\"peer\":\""));
  return caller;
}

struct Part {
  uint64_t bytes = 0, taken = 0, most = 0;
};
struct Account {
  uint64_t bytes = 0;
  std::map<std::string, Part> addresses;
};

class Shares {
 public:
  void count(std::string_view line) {
    Account& account = account_of_line(line);
    account.bytes += line.size() + 1;
    part_of(account, line).bytes += line.size() + 1;
  }
  void share(uint64_t room) {
    std::vector<uint64_t> sizes;
    for (const auto& [name, account] : accounts_) sizes.push_back(account.bytes);
    const uint64_t most = share_of_room(sizes, room);
    for (auto& [name, account] : accounts_) {
      std::vector<uint64_t> parts;
      for (const auto& [address, part] : account.addresses) parts.push_back(part.bytes);
      const uint64_t each = share_of_room(parts, std::min(account.bytes, most));
      for (auto& [address, part] : account.addresses) part.most = each;
    }
  }
  // The newest lines of each caller are kept; older ones go.
  bool keeps(std::string_view line) {
    Part& part = part_of(account_of_line(line), line);
    part.taken += line.size() + 1;
    return part.bytes - part.taken < part.most && part.bytes - part.taken + line.size() + 1 <= part.most;
  }

 private:
  template <class T>
  static T& bounded(std::map<std::string, T>& map, const std::string& name) {
    if (const auto found = map.find(name); found != map.end()) return found->second;
    return map[map.size() < callers_max ? name : std::string("(others)")];
  }
  Account& account_of_line(std::string_view line) { return bounded(accounts_, caller_of(line).account); }
  static Part& part_of(Account& account, std::string_view line) {
    return bounded(account.addresses, caller_of(line).address);
  }

  std::map<std::string, Account> accounts_;
};

template <class F>
bool each_line(const std::string& path, F f) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return false;
  for (std::string line; std::getline(file, line);) f(std::string_view(line));
  return true;
}

uint64_t size_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  return file ? static_cast<uint64_t>(file.tellg()) : 0;
}

bool thin_out(const std::string& from, const std::string& to, uint64_t room, std::ios::openmode mode) {
  Shares shares;
  if (!each_line(from, [&](std::string_view line) { shares.count(line); })) return false;
  shares.share(room);
  // Readable only for users that may read the log itself.
  const Fd made(::open(to.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0640));
  std::ofstream out(to, std::ios::binary | mode);
  (void)each_line(from, [&](std::string_view line) {
    if (shares.keeps(line)) out << line << '\n';
  });
  out.flush();
  return out.good();
}

}  // namespace

std::string kept_path(const std::string& log) { return log + ".kept"; }

uint64_t share_of_room(std::vector<uint64_t> sizes, uint64_t room) {
  std::ranges::sort(sizes);
  uint64_t left = room;
  for (size_t i = 0; i < sizes.size(); ++i) {
    const uint64_t each = left / (sizes.size() - i);
    if (sizes[i] > each) return each;
    left -= sizes[i];
  }
  return sizes.empty() ? room : std::max(sizes.back(), left);
}

void keep_history(const std::string& oldest, const std::string& kept, uint64_t size_max) {
  const uint64_t size = size_of(oldest);
  if (size == 0) return;
  (void)thin_out(oldest, kept, size / kept_part, std::ios::app);
  if (size_of(kept) <= size_max) return;
  const std::string thinner = kept + ".new";
  if (thin_out(kept, thinner, size_max / 2, std::ios::trunc)) {
    std::rename(thinner.c_str(), kept.c_str());
  } else {
    std::remove(thinner.c_str());
  }
}

}  // namespace verbena::call
