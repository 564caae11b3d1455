// One master key: what it derives, and texts that are encrypted under it ("sealed"; the format is in keyring.h).
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/aead.h"
#include "base/bytes.h"
#include "base/result.h"
#include "base/secret.h"

namespace verbena::auth {

struct MasterKey {
  static constexpr size_t id_size = 8;
  using Id = std::array<std::byte, id_size>;

  uint32_t version = 0;
  Secret key;
  Id id{};  // derived from the key, so that no other key has the id of a lost one

  MasterKey(uint32_t v, Secret k);
  Secret derived(std::string_view purpose) const;
  std::string seal(Bytes plain, std::string_view context) const;
  // corrupt_object: changed, or sealed for another context.
  Result<Secret> unseal(Bytes sealed, std::string_view context) const;

 private:
  Aead aead(Bytes first_half) const;
};

// The id of the key that a text is sealed under; nullopt: not a sealed text.
std::optional<MasterKey::Id> sealing_id(Bytes sealed);

using MasterKeys = std::vector<std::shared_ptr<const MasterKey>>;  // ascending versions

}  // namespace verbena::auth
