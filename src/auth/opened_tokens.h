// A cache of decrypted session tokens, so that they need not be decrypted for each request. Internal to auth/.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>

#include "auth/auth.h"
#include "base/bytes.h"

namespace verbena::auth {

// One cache per thread, so that no look-up takes a lock. Bounded, for each account and in total: an account with very
// many sessions loses its least recently used entries, and pays for decrypting them again.
class OpenedTokens {
 public:
  static constexpr size_t tokens_max = 256, account_max = 64;

  // Null: unknown, or from before a change of keys or rights. `store` and `generation` identify the credentials' state.
  AccessKeyPtr find(uint64_t store, uint64_t generation, std::string_view token);
  // Adds a valid token.
  void put(uint64_t store, uint64_t generation, std::string_view token, AccessKeyPtr key);
  size_t size() const { return by_token_.size(); }

 private:
  struct Opened {
    std::string token;
    AccessKeyPtr key;
  };
  using OfAccount = std::list<Opened>;  // most recently used first
  struct Place {
    OfAccount* list = nullptr;
    OfAccount::iterator at;
  };
  // The end of a token is the output of a secret key: a client cannot choose its hash.
  struct EndHash {
    size_t operator()(std::string_view token) const {
      return std::hash<std::string_view>()(token.substr(token.size() - std::min<size_t>(token.size(), 16)));
    }
  };
  struct Equal {
    bool operator()(std::string_view a, std::string_view b) const {
      return equal_constant_time(as_bytes(a), as_bytes(b));
    }
  };
  void forget_oldest(OfAccount& list);

  uint64_t store_ = 0, generation_ = 0;  // of all entries
  std::map<std::string, OfAccount, std::less<>> accounts_;
  std::unordered_map<std::string_view, Place, EndHash, Equal> by_token_;
};

}  // namespace verbena::auth
