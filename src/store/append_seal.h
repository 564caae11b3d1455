// What the store's logic asks when bytes are added to an object that lies encrypted (sealed_object.h): under which key,
// and what must be kept with the object. Whose the keys are is told in s3/objects/encryption.h.
#pragma once

#include <span>

#include "base/secret.h"
#include "store/sealed_object.h"
#include "store/store.h"

namespace verbena::store {

// The encryption of one append. Thread-safe: judges ask it on their engine's threads, perhaps more than once. An object
// is named by its attributes.
class AppendSeal {
 public:
  virtual ~AppendSeal() = default;
  // Whether the append is encrypted as the object is: encryption_type_mismatch; encryption_key_wrong.
  virtual Result<void> check(const Attributes& object) const = 0;
  // What an object gets that the append makes: a key of its own, wrapped. The same each time.
  virtual const Attributes& fresh() const = 0;
  // Under which its parts are sealed.
  virtual Result<Secret> object_key(const Attributes& object) const = 0;
  // Whether these are the parts that it was given last: corrupt_object.
  virtual Result<void> verify(const Attributes& object, std::span<const NumberedPart> parts) const = 0;
  // What it must get when these are its parts.
  virtual Attributes manifest(std::span<const NumberedPart> parts) const = 0;
  virtual memory::Arena& arena() const = 0;
};

}  // namespace verbena::store
