#include "native/taken_lease.h"

#include <algorithm>
#include <utility>

#include "native/endpoint.h"

namespace verbena::native {
namespace {

std::chrono::milliseconds time_of(wire::LeaseWish wish) {
  return std::min(std::chrono::milliseconds(wish.milliseconds), Leases::longest);
}

}  // namespace

Leases* leases_of(Op& op) {
  SessionStream& stream = *op.stream;
  const std::shared_ptr<LeaseBook>& book = op.endpoint->lease_book();
  if (stream.closed || book->limits().are_off()) return nullptr;
  if (stream.leases == nullptr) {
    stream.leases = std::make_unique<Leases>(book, account_of(op));
  }
  return stream.leases.get();
}

void TakenLease::begin(Op& op, wire::LeaseWish wish) {
  op_ = &op;
  wish_ = wish;
  id_ = 0;
  if (wish.milliseconds == 0) return;
  Leases* const leases = leases_of(op);
  if (leases != nullptr) id_ = leases->begin(wish.joins, deadline_in(time_of(wish) + std::chrono::minutes(1)));
}

bool TakenLease::hold(const s3::BucketAccessPtr& bucket, std::string_view key,
                      std::shared_ptr<store::ObjectReader> object, bool in_memory) {
  return leases() != nullptr && leases()->add(id_, bucket, key, std::move(object), in_memory);
}

uint64_t TakenLease::finish(bool answered) {
  const uint64_t id = std::exchange(id_, 0);
  if (id == 0 || leases() == nullptr) return 0;
  if (!answered) {
    leases()->leave(id);
    return 0;
  }
  return leases()->keep_until(id, deadline_in(time_of(wish_))) ? id : 0;
}

}  // namespace verbena::native
