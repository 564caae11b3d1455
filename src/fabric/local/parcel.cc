#include "fabric/local/parcel.h"

#include <map>
#include <mutex>

#include "fabric/local/disposer.h"

namespace verbena::fabric::local {
namespace {

const std::shared_ptr<Budget>& of_process() {
  static const auto* const budget = new auto(std::make_shared<Budget>(Parcel::descriptors_max));
  return *budget;
}

std::shared_ptr<Budget> of_user(uid_t user) {
  static std::mutex mutex;
  static auto* const known = new std::map<uid_t, std::weak_ptr<Budget>>;
  const std::lock_guard lock(mutex);
  std::erase_if(*known, [](const auto& one) { return one.second.expired(); });
  auto& there = (*known)[user];
  auto budget = there.lock();
  if (budget == nullptr) there = budget = std::make_shared<Budget>(Parcel::of_user_max);
  return budget;
}

// What descriptors take of a budget; null: it has not so much.
std::shared_ptr<const void> taken(std::shared_ptr<Budget> budget, uint64_t count) {
  if (!budget->take(count)) return nullptr;
  Budget* const raw = budget.get();
  return {raw, [budget = std::move(budget), count](const void*) { budget->give(count); }};
}

}  // namespace

void dispose_all(std::vector<Fd> descriptors) {
  for (Fd& descriptor : descriptors) dispose(std::move(descriptor));
}

Parcel::Budgets Parcel::budgets_for(uid_t user) {
  return {.client = std::make_shared<Budget>(of_client_max), .user = of_user(user)};
}

Result<std::shared_ptr<const Parcel>> Parcel::keep(std::vector<Fd> descriptors, const Budgets& budgets) {
  std::vector<std::shared_ptr<const void>> places;
  for (const auto& budget : {budgets.client, budgets.user, of_process()}) {
    places.push_back(taken(budget, descriptors.size()));
    if (places.back() != nullptr) continue;
    dispose_all(std::move(descriptors));
    return fail(Errc::slow_down, "local: too many descriptors wait");
  }
  auto place = std::make_shared<decltype(places)>(std::move(places));
  return std::shared_ptr<const Parcel>(new Parcel(std::move(descriptors), std::move(place)));
}

Parcel::~Parcel() { dispose(std::move(descriptors_), std::move(place_)); }

std::vector<int> Parcel::descriptors() const {
  std::vector<int> all;
  for (const Fd& descriptor : descriptors_) all.push_back(descriptor.get());
  return all;
}

}  // namespace verbena::fabric::local
