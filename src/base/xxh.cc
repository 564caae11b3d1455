#include "base/xxh.h"

// The header contains all of xxHash: compiled in here, it needs no library at run time.
#define XXH_INLINE_ALL
#include <xxhash.h>

namespace verbena {

struct XxHash::State {
  XXH64_state_t short_form;  // of xxhash64
  XXH3_state_t long_form;    // of the other two
};

bool XxHash::makes(Algorithm algorithm) {
  return algorithm == Algorithm::xxhash64 || algorithm == Algorithm::xxhash3 || algorithm == Algorithm::xxhash128;
}

XxHash::XxHash(Algorithm algorithm) : algorithm_(algorithm), state_(std::make_unique<State>()) {
  switch (algorithm_) {
    case Algorithm::xxhash64:
      XXH64_reset(&state_->short_form, 0);
      break;
    case Algorithm::xxhash3:
      XXH3_64bits_reset(&state_->long_form);
      break;
    default:
      XXH3_128bits_reset(&state_->long_form);
  }
}

XxHash::~XxHash() = default;

// These fail only for null pointers, which an empty range may have.
void XxHash::update(Bytes data) {
  if (data.empty()) return;
  switch (algorithm_) {
    case Algorithm::xxhash64:
      (void)XXH64_update(&state_->short_form, data.data(), data.size());
      break;
    case Algorithm::xxhash3:
      (void)XXH3_64bits_update(&state_->long_form, data.data(), data.size());
      break;
    default:
      (void)XXH3_128bits_update(&state_->long_form, data.data(), data.size());
  }
}

std::string XxHash::finish() const {
  if (algorithm_ == Algorithm::xxhash128) {
    XXH128_canonical_t raw;
    XXH128_canonicalFromHash(&raw, XXH3_128bits_digest(&state_->long_form));
    return std::string(reinterpret_cast<const char*>(raw.digest), sizeof raw.digest);
  }
  XXH64_canonical_t raw;
  XXH64_canonicalFromHash(&raw, algorithm_ == Algorithm::xxhash64 ? XXH64_digest(&state_->short_form)
                                                                  : XXH3_64bits_digest(&state_->long_form));
  return std::string(reinterpret_cast<const char*>(raw.digest), sizeof raw.digest);
}

}  // namespace verbena
