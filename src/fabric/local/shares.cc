#include "fabric/local/shares.h"

#include <charconv>
#include <string>
#include <vector>

#include "base/kernel_files.h"

namespace verbena::fabric::local {
namespace {

constexpr uint64_t mappings_default = 65'530;  // of the kernel, if it does not say

uint64_t kernel_mappings_max() {
  const std::string text = first_line("/proc/sys/vm/max_map_count");
  uint64_t most = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), most);
  return error == std::errc() && most != 0 ? most : mappings_default;
}

class Taken {
 public:
  Taken() = default;
  Taken(const Taken&) = delete;
  ~Taken() {
    for (const Share& share : shares_) share.from->give(share.amount);
  }
  void add(const Share& share) { shares_.push_back(share); }

 private:
  std::vector<Share> shares_;
};

}  // namespace

Result<std::shared_ptr<const void>> take_all(std::span<const Share> shares) {
  const auto taken = std::make_shared<Taken>();
  for (const Share& share : shares) {
    if (!share.from->take(share.amount)) return fail(Errc::slow_down, share.refusal);
    taken->add(share);
  }
  return taken;
}

std::shared_ptr<Budget> UserShares::of_user(uid_t user) {
  const std::lock_guard lock(mutex_);
  std::erase_if(known_, [](const auto& one) { return one.second.expired(); });
  auto& there = known_[user];
  auto budget = there.lock();
  if (budget == nullptr) there = budget = std::make_shared<Budget>(of_user_max_);
  return budget;
}

MappingLimits mapping_limits(uint64_t kernel_max) {
  const uint64_t all = kernel_max - kernel_max / 4;
  return {.all = all, .of_user = all - all / 4};
}

UserShares& mapping_shares() {
  static auto& shares = [] -> UserShares& {
    const MappingLimits limits = mapping_limits(kernel_mappings_max());
    return *new UserShares(limits.all, limits.of_user);  // never destroyed: the disposer outlives everything
  }();
  return shares;
}

}  // namespace verbena::fabric::local
