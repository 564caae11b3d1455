// A plain value that is wiped when destroyed: a key, or a state that stands for one.
#pragma once

#include <openssl/crypto.h>

#include <type_traits>

namespace verbena {

template <class T>
  requires std::is_trivially_copyable_v<T>
class Wiped {
 public:
  explicit Wiped(const auto& from) : value_(from) {}
  Wiped(const Wiped&) = default;
  Wiped& operator=(const Wiped&) = default;
  ~Wiped() { OPENSSL_cleanse(&value_, sizeof value_); }
  const T& operator*() const { return value_; }
  const T* operator->() const { return &value_; }

 private:
  T value_;
};

}  // namespace verbena
