#include "fabric/local/parcel.h"

#include "fabric/local/client_memory.h"
#include "fabric/local/disposer.h"

namespace verbena::fabric::local {
namespace {

Budget& waiting() {
  static Budget budget(Parcel::descriptors_max);
  return budget;
}

}  // namespace

void dispose_all(std::vector<Fd> descriptors) {
  for (Fd& descriptor : descriptors) dispose(std::move(descriptor));
}

Result<std::shared_ptr<const Parcel>> Parcel::keep(std::vector<Fd> descriptors) {
  if (waiting().take(descriptors.size())) return std::shared_ptr<const Parcel>(new Parcel(std::move(descriptors)));
  dispose_all(std::move(descriptors));
  return fail(Errc::slow_down, "local: too many descriptors wait");
}

Parcel::~Parcel() {
  const size_t count = descriptors_.size();
  dispose_all(std::move(descriptors_));
  waiting().give(count);
}

std::vector<int> Parcel::descriptors() const {
  std::vector<int> all;
  for (const Fd& descriptor : descriptors_) all.push_back(descriptor.get());
  return all;
}

}  // namespace verbena::fabric::local
