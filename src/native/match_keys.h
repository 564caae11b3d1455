// The arguments of a MATCH, and its keys as texts.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cache/key_run.h"
#include "memory/arena.h"
#include "native/op.h"
#include "native/wire/match.h"

namespace verbena::native {

// Copied out of the message.
struct MatchRequest {
  wire::Descriptor window;
  uint8_t details = 0, width = 0;
  uint32_t lease_ms = 0;
  uint64_t lease = 0;
  std::string prefix;
  std::vector<uint32_t> counts;
  std::vector<std::byte> keys;
};

// The keys of a request in their order, out of the message or piece by piece out of the client's window.
class MatchKeys {
 public:
  using Some = std::span<const std::string_view>;

  Result<void> open(Op& op);
  // Whether next() needs a fetch().
  bool must_fetch() const { return here_.empty() && window_ != nullptr; }
  Task<Result<void>> fetch();  // errors: the transfer
  // The next keys, at least one and at most `most`. Valid until the next call.
  Some next(size_t most);
  void skip(size_t keys);

  // Whether keys are a prefix and a hash, so that they have one length.
  bool are_packed() const { return request_->width != 0; }
  // Packed keys that next() returned.
  cache::KeyRun run(Some keys) const;

 private:
  static constexpr size_t piece_max = 64 * KiB;
  static constexpr size_t texts_max = 32 * KiB;  // of a group, unless a few keys are longer
  static constexpr size_t whole_keys_max = 16;   // of a group of whole keys

  void lay_out(size_t key_size, size_t group);

  Op* op_ = nullptr;
  const MatchRequest* request_ = nullptr;
  std::unique_ptr<fabric::Window> window_;
  memory::Lease lease_;
  Bytes here_;                     // keys that were not returned yet
  uint64_t at_ = 0, end_ = 0;      // of the window: bytes behind `here_`
  size_t stride_ = 0;              // bytes of texts_ for a key
  std::unique_ptr<char[]> texts_;  // each begins with the prefix
  std::vector<std::string_view> keys_;
};

}  // namespace verbena::native
