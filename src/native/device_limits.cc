#include "native/device_limits.h"

namespace verbena::native {

bool DeviceLimits::Party::take(const Limit& limit, const Wish& more) {
  const std::lock_guard lock(mutex);
  if (count >= limit.count || more.bytes > limit.bytes - bytes) return false;
  if (more.pieces > limit.count * pieces_each - pieces) return false;
  ++count;
  pieces += more.pieces;
  bytes += more.bytes;
  return true;
}

void DeviceLimits::Party::give(const Wish& less) {
  const std::lock_guard lock(mutex);
  --count;
  pieces -= less.pieces;
  bytes -= less.bytes;
}

struct DeviceLimits::Held {
  std::shared_ptr<Party> party;
  Wish taken;
  Held(std::shared_ptr<Party> of, const Wish& wish) : party(std::move(of)), taken(wish) {}
  ~Held() { party->give(taken); }
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

Result<DeviceLimits::Place> DeviceLimits::take(uint64_t session, const std::string& account, const Wish& wish) {
  const std::lock_guard lock(mutex_);
  auto of_session = find(sessions_, session);
  auto of_account = find(accounts_, account);
  if (!of_session->take(options_.session, wish)) return fail(Errc::slow_down, "native: the session's GPU memory");
  auto first = std::make_shared<Held>(std::move(of_session), wish);
  if (!of_account->take(options_.account, wish)) return fail(Errc::slow_down, "native: the account's GPU memory");
  return std::make_shared<std::pair<std::shared_ptr<Held>, Held>>(std::piecewise_construct,
                                                                  std::forward_as_tuple(std::move(first)),
                                                                  std::forward_as_tuple(std::move(of_account), wish));
}

}  // namespace verbena::native
