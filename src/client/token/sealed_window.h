// The memory that a sealed token lends in place of the caller's: only sealed bytes are ever in it. With a key of its
// own, for one request.
#pragma once

#include <memory>
#include <string>

#include "fabric/sealed/transfer.h"

namespace verbena::client {

class SealedWindow {
 public:
  // For `length` bytes of the caller, at most fabric::sealed::transfer_size_max.
  explicit SealedWindow(size_t length);
  SealedWindow(const SealedWindow&) = delete;

  MutableBytes memory() const { return {memory_.get(), size_}; }  // to be lent
  std::string header() const;                                     // for the request: a secret

  // Of a PUT, when the memory is lent as `lent`, before the request.
  void seal(Bytes from, const fabric::WindowDescriptor& lent);
  // Of a GET, when the loan has ended, so that nothing can change the memory any more. Each record is opened where it
  // is, and copied into the caller's memory once its tag was right. False: what came was changed on its way; then
  // `into` has only bytes whose tags were right.
  [[nodiscard]] bool open(MutableBytes into, const fabric::sealed::Salt& salt, const fabric::WindowDescriptor& lent);

 private:
  MutableBytes trailer_of(size_t length) const;  // the tags of `length` bytes

  fabric::ConnectionKey key_;
  size_t size_;
  std::unique_ptr<std::byte[]> memory_;
};

}  // namespace verbena::client
