// The C API's MATCH.
#include <numeric>

#include "client/c/c_api.h"

namespace {

using namespace verbena::c_api;
using verbena::ErrorCode;
using verbena::Outcome;
using verbena::client::fault;

void fill_keys(const verbena_match_request& request, const verbena::MatchList& list, size_t first) {
  for (const verbena::MatchRun& run : list.runs) {
    if (request.sizes != nullptr) std::fill_n(request.sizes + first, run.count, run.size);
    if (request.places != nullptr) {
      std::fill_n(request.places + first, run.count, static_cast<unsigned char>(run.place));
    }
    first += run.count;
  }
}

Outcome<> check_request(const verbena_match_request& request) {
  if (request.bucket == nullptr || request.hashes == nullptr || request.counts == nullptr ||
      request.leading == nullptr || request.codes == nullptr) {
    return null_argument();
  }
  if (request.lists == 0 || request.lists > verbena::match_keys_max) {
    return fault(ErrorCode::invalid_argument, "match: 1 to 65536 lists");
  }
  return {};
}

}  // namespace

extern "C" {

int verbena_match(verbena_client* client, verbena_match_request* given, verbena_transfer* transfer) {
  return guarded([&]() -> Outcome<> {
    if (client == nullptr || given == nullptr) return null_argument();
    OUT_TRY(fillable(transfer));
    OUT_ASSIGN(verbena_match_request request, known(given));
    OUT_TRY(check_request(request));
    verbena::MatchOptions options;
    options.sizes = request.sizes != nullptr;
    options.places = request.places != nullptr;
    constexpr uint64_t longest_ms = 0xffffffff;
    options.lease = std::chrono::milliseconds(std::min(request.lease_ms, longest_ms));
    options.join = request.join;
    const std::span hashes(static_cast<const std::byte*>(request.hashes), request.hashes_size);
    const std::span counts(request.counts, request.lists);
    OUT_ASSIGN(const auto matched,
               client->client.match(request.bucket, text(request.name_space), hashes, request.width, counts, options));
    size_t first = 0;
    for (size_t i = 0; i < counts.size(); first += counts[i], ++i) {
      const verbena::MatchList& list = matched.lists[i];
      request.leading[i] = list.leading;
      request.codes[i] = list.ended ? static_cast<int>(*list.ended) : VERBENA_OK;
      fill_keys(request, list, first);
    }
    request.lease = matched.lease;
    give(given, request);
    fill(transfer, matched.transfer);
    return {};
  });
}

}  // extern "C"
