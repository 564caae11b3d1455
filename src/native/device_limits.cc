#include "native/device_limits.h"

namespace verbena::native {

bool DeviceLimits::Party::take(const Limit& limit, uint64_t more) {
  const std::lock_guard lock(mutex);
  if (count >= limit.count || more > limit.bytes - bytes) return false;
  ++count;
  bytes += more;
  return true;
}

void DeviceLimits::Party::give(uint64_t less) {
  const std::lock_guard lock(mutex);
  --count;
  bytes -= less;
}

struct DeviceLimits::Held {
  std::shared_ptr<Party> party;
  uint64_t bytes;
  Held(std::shared_ptr<Party> of, uint64_t size) : party(std::move(of)), bytes(size) {}
  ~Held() { party->give(bytes); }
  Held(const Held&) = delete;
};

template <class Name>
std::shared_ptr<DeviceLimits::Party> DeviceLimits::find(Parties<Name>& among, const Name& name) {
  std::erase_if(among, [](const auto& party) { return party.second.expired(); });
  auto& known = among[name];
  auto party = known.lock();
  if (party == nullptr) known = party = std::make_shared<Party>();
  return party;
}

Result<DeviceLimits::Place> DeviceLimits::take(uint64_t session, const std::string& account, uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  auto of_session = find(sessions_, session);
  auto of_account = find(accounts_, account);
  if (!of_session->take(options_.session, bytes)) return fail(Errc::slow_down, "native: the session's GPU memory");
  auto first = std::make_shared<Held>(std::move(of_session), bytes);
  if (!of_account->take(options_.account, bytes)) return fail(Errc::slow_down, "native: the account's GPU memory");
  return std::make_shared<std::pair<std::shared_ptr<Held>, Held>>(std::piecewise_construct,
                                                                  std::forward_as_tuple(std::move(first)),
                                                                  std::forward_as_tuple(std::move(of_account), bytes));
}

}  // namespace verbena::native
