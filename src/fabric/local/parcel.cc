#include "fabric/local/parcel.h"

#include "fabric/local/disposer.h"

namespace verbena::fabric::local {
namespace {

UserShares& descriptor_shares() {
  static auto& shares = *new UserShares(Parcel::descriptors_max, Parcel::of_user_max);
  return shares;
}

}  // namespace

void dispose_all(std::vector<Fd> descriptors) {
  for (Fd& descriptor : descriptors) dispose(std::move(descriptor));
}

Parcel::Budgets Parcel::budgets_for(uid_t user) {
  return {.client = std::make_shared<Budget>(of_client_max), .user = descriptor_shares().of_user(user)};
}

Result<std::shared_ptr<const Parcel>> Parcel::keep(std::vector<Fd> descriptors, const Budgets& budgets) {
  constexpr const char* refusal = "local: too many descriptors wait";
  const uint64_t count = descriptors.size();
  const Share shares[] = {
      {budgets.client, count, refusal}, {budgets.user, count, refusal}, {descriptor_shares().all(), count, refusal}};
  auto place = take_all(shares);
  if (!place) {
    dispose_all(std::move(descriptors));
    return std::unexpected(place.error());
  }
  return std::shared_ptr<const Parcel>(new Parcel(std::move(descriptors), std::move(*place)));
}

Parcel::~Parcel() { dispose(std::move(descriptors_), std::move(place_)); }

std::vector<int> Parcel::descriptors() const {
  std::vector<int> all;
  for (const Fd& descriptor : descriptors_) all.push_back(descriptor.get());
  return all;
}

}  // namespace verbena::fabric::local
