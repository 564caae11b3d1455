// The encryption of an append to an object that is stored encrypted (sealed_object.h): which key, and which attributes
// are stored with the object. s3/objects/encryption.h says where the keys come from.
#pragma once

#include <span>

#include "base/secret.h"
#include "store/sealed_object.h"
#include "store/store.h"

namespace verbena::store {

// The encryption of one append. Thread-safe: judges call it on their engine's threads, perhaps more than once. An
// object is identified by its attributes.
class AppendSeal {
 public:
  virtual ~AppendSeal() = default;
  // Checks that the append uses the object's encryption: encryption_type_mismatch; encryption_key_wrong.
  virtual Result<void> check(const Attributes& object) const = 0;
  // Attributes for an object that the append creates: a key of its own, wrapped. The same at each call.
  virtual const Attributes& fresh() const = 0;
  // The key that encrypts the object's parts.
  virtual Result<Secret> object_key(const Attributes& object) const = 0;
  // Checks that `parts` is the list the object was last stored with: corrupt_object.
  virtual Result<void> verify(const Attributes& object, std::span<const NumberedPart> parts) const = 0;
  // The attributes that the object must be stored with when these are its parts.
  virtual Attributes manifest(std::span<const NumberedPart> parts) const = 0;
  virtual memory::Arena& arena() const = 0;
};

}  // namespace verbena::store
