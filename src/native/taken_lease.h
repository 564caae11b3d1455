// A lease that a request takes of what it finds: begun before that is looked for, named by the answer.
#pragma once

#include <string_view>

#include "native/leases.h"
#include "native/op.h"
#include "native/wire/match.h"

namespace verbena::native {

// Of the request's stream. Null: the stream is closed, or the server gives no leases.
Leases* leases_of(Op& op);

class TakenLease {
 public:
  // Until the answer is ready the lease lasts longer than any of it takes.
  void begin(Op& op, wire::LeaseWish wish);
  bool is_on() const { return id_ != 0; }
  // `bucket` is its record from before the object was found: a later bucket of that name is not read by the lease.
  // False: there is no room, or the lease has ended.
  bool hold(const s3::BucketAccessPtr& bucket, std::string_view key, std::shared_ptr<store::ObjectReader> object,
            bool in_memory);
  // Its number for the client; 0: none. `answered`: false if the client will never learn of it.
  uint64_t finish(bool answered);

 private:
  Leases* leases() const { return op_->stream->leases.get(); }

  Op* op_ = nullptr;
  wire::LeaseWish wish_;
  uint64_t id_ = 0;
};

}  // namespace verbena::native
