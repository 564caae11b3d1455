#include "s3_http/request_rates.h"

#include "s3/access/quota.h"

namespace verbena::s3 {

Task<Result<void>> count_requests(Context& context, uint64_t requests) {
  if (!auth::rates_are_in_use()) co_return Result<void>();
  const BucketRequests one{context.bucket, requests};
  RateRefusal refusal;
  auto admitted = co_await admit_requests(context.service, context.caller(), std::span(&one, 1), refusal);
  if (!admitted && admitted.error() == Errc::slow_down) {
    context.error_headers.emplace_back("retry-after", std::to_string(refusal.wait_ns / 1'000'000'000 + 1));
  }
  co_return admitted;
}

}  // namespace verbena::s3
